"""A headless Chromium whose page opens the camera, one size after the other."""

from __future__ import annotations

import contextlib
import http.server
import json
import queue
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("browser.html")
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--mute-audio",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--disable-dev-shm-usage", "--use-fake-ui-for-media-stream", "--autoplay-policy=no-user-gesture-required",
)  # fmt: skip


class Browser:
    """What the page is told, and what it answers."""

    def __init__(self) -> None:
        self.orders: queue.Queue[Any] = queue.Queue()
        self.answers: queue.Queue[Any] = queue.Queue()

    def look(self, label: str, size: tuple[int, int], frames: int, seconds: float) -> dict[str, Any]:
        """Has the page open the camera of this label, at about this size.

        Returns:
            ``label``, ``size`` and ``row``: RGBA of the middle row; or ``error``.
        """
        self.orders.put({"label": label, "size": size, "frames": frames})
        answer: dict[str, Any] = self.answers.get(timeout=seconds)
        return answer


@contextlib.contextmanager
def chromium(seconds: float) -> Iterator[Browser]:
    """Starts it; its first look waits until it is up, for so long at most."""
    browser = Browser()

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            self._answer(PAGE.read_bytes(), "text/html")

        def do_POST(self) -> None:
            seen = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if seen is not None:
                browser.answers.put(seen)
            try:
                order = browser.orders.get(timeout=seconds)
            except queue.Empty:
                order = None
            self._answer(json.dumps(order).encode(), "application/json")

        def _answer(self, body: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            # The browser may be gone by now.
            with contextlib.suppress(OSError):
                self.wfile.write(body)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    # No localhost lookups and no waiting at the end for a page that still asks.
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="page")
    thread.start()
    with tempfile.TemporaryDirectory() as profile:
        process = subprocess.Popen(
            ["chromium", *_FLAGS, f"--user-data-dir={profile}", f"http://127.0.0.1:{server.server_port}/"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={"HOME": profile, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        )  # fmt: skip
        try:
            yield browser
        finally:
            browser.orders.put(None)
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            server.shutdown()
            thread.join()
            server.server_close()
