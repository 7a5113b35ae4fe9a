"""A real headless Chromium, driven through the two pipes of its DevTools protocol: it needs no more."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--mute-audio",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--disable-dev-shm-usage", "--remote-debugging-pipe", "--hide-scrollbars", "--force-color-profile=srgb",
)  # fmt: skip


class Page:
    """One open page.

    Attributes:
        complaints: What it wrote to its console as warnings and errors, and exceptions that nobody caught.
    """

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "DOM", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Calls a method of the protocol; returns its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        while True:
            said = self._next()
            if said.get("id") == self._number:
                assert "error" not in said, f"{method}: {said['error']}"
                return said["result"]
            self._notice(said)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            block = os.read(self._from, 1 << 20)
            assert block, "Chromium has ended"
            self._buffer += block
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _notice(self, said: dict[str, Any]) -> None:
        params = said.get("params", {})
        if said.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif said.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("warning", "error"):
            self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")

    def show(self, width: int, height: int, dark: bool, scale: float = 1.0) -> None:
        """How large the window is, and whether the user likes it dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale,
                  mobile=width < 600)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url: str) -> None:
        """Goes to an address."""
        self.call("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """What a script gives; it may be a promise."""
        said = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in said, said["exceptionDetails"]
        return said["result"].get("value")

    def eventually(self, script: str, seconds: float = 30.0) -> Any:
        """Waits until a script gives something that is true; nothing else tells when a page is done."""
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(AssertionError):
                if value := self.run(script):
                    return value
            assert time.monotonic() < deadline, f"not within {seconds:g} s: {script}"
            time.sleep(0.1)

    def choose_file(self, selector: str, path: str) -> None:
        """Chooses a file in an input, as a person does."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[path])

    def drop_file(self, selector: str, path: str) -> None:
        """Drags a file onto an element and lets it go."""
        box = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{box}.scrollIntoView({{block: 'center'}})")
        place = self.run(
            f"(r => ({{x: r.x + r.width / 2, y: r.y + r.height / 2}}))({box}.getBoundingClientRect())"
        )
        data = {"items": [], "files": [path], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.call("Input.dispatchDragEvent", type=kind, data=data, **place)

    def press(self, key: str, code: str, modifiers: int = 0) -> None:
        """Presses a key and lets it go."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code, modifiers=modifiers,
                      windowsVirtualKeyCode=ord(key.upper()) if len(key) == 1 else {"Tab": 9}.get(key, 0))  # fmt: skip

    def picture(self, whole: bool = False) -> bytes:
        """A screenshot, PNG."""
        params: dict[str, Any] = {"format": "png"}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            params |= {"captureBeyondViewport": True, "clip": {**size, "scale": 1}}
        return base64.b64decode(self.call("Page.captureScreenshot", **params)["data"])


@contextlib.contextmanager
def chromium() -> Iterator[Page]:
    """Starts it, and ends it with everything it started."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # Chromium reads from descriptor 3 and writes to 4; a shell puts ours there, whatever their numbers are.
        line = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        process = subprocess.Popen(
            ["/bin/bash", "-c", line, "bash", PROGRAM or "chromium", *_FLAGS, f"--user-data-dir={profile}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            pass_fds=(theirs_in, theirs_out),
            env={"HOME": profile, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            yield Page(ours_out, ours_in)
        finally:
            os.close(ours_out)
            os.close(ours_in)
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
