"""OBS Studio on a screen that is only memory, with a scene of one source, as large as its canvas."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

SCREEN = (1080, 730)
"""OBS's window as it first opens. There is no window manager, so it lies at the upper left."""

_FPS = 4
# Drawn in software, and in an emulated machine each picture takes a second.

# OBS: scale to the inside of the bounds. From obs.h.
_BOUNDS_INSIDE = 2


def virtual_camera(device: str) -> dict[str, Any]:
    """The source *Video Capture Device (V4L2)*."""
    return _source("v4l2_input", {"device_id": device, "auto_reset": True, "buffering": False})


def media(url: str) -> dict[str, Any]:
    """The source *Media Source*, of MPEG-TS from the network, as docs/obs.md sets it up."""
    settings = {
        "is_local_file": False, "input": url, "input_format": "mpegts", "buffering_mb": 0, "reconnect_delay_sec": 1,
        "restart_on_activate": False,
    }  # fmt: skip
    return _source("ffmpeg_source", settings)


def _source(kind: str, settings: dict[str, Any]) -> dict[str, Any]:
    return {"id": kind, "versioned_id": kind, "name": "doppelcam", "enabled": True, "settings": settings}


class Screen:
    """An X server without a screen, whose pixels lie in a file.

    Attributes:
        display: What goes into ``DISPLAY``.
    """

    def __init__(self, folder: Path, size: tuple[int, int]) -> None:
        self._file = folder / "Xvfb_screen0"
        read, write = os.pipe()
        line = ["Xvfb", "-displayfd", str(write), "-screen", "0", f"{size[0]}x{size[1]}x24", "-fbdir", str(folder),
                "-nolisten", "tcp"]  # fmt: skip
        try:
            self._process = subprocess.Popen(
                line,
                pass_fds=[write],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        finally:
            os.close(write)
        # Its number comes once it is ready.
        with os.fdopen(read) as pipe:
            number = pipe.readline().strip()
        assert number, "Xvfb did not start"
        self.display = f":{number}"

    def picture(self) -> np.ndarray:
        """What is on the screen now: H×W×3 uint8, BGR."""
        content = self._file.read_bytes()
        # XWD: a header of 32-bit numbers, most significant byte first; then colours of 12 bytes each; then the pixels.
        head = np.frombuffer(content, ">u4", 25).astype(int)
        size, width, height, bits, row, colours = (head[index] for index in (0, 4, 5, 11, 12, 19))
        assert bits == 32, f"{bits} bits a pixel"
        pixels = np.frombuffer(content, np.uint8, row * height, size + 12 * colours)
        return pixels.reshape(height, row // 4, 4)[:, :width, :3].copy()

    def close(self) -> None:
        """Ends it."""
        self._process.terminate()
        self._process.wait()


class Obs:
    """OBS while it runs.

    Attributes:
        screen: Where its window is.
        display: The same for other programs.
    """

    def __init__(self, screen: Screen, log: Path, process: subprocess.Popen[bytes]) -> None:
        self.screen, self._log, self._process = screen, log, process

    def said(self) -> str:
        """Its log so far. It must be running still."""
        said = self._log.read_text(errors="replace")
        assert self._process.poll() is None, f"OBS ended with {self._process.poll()}: {said[-2000:]}"
        return said


@contextlib.contextmanager
def obs(source: dict[str, Any], canvas: tuple[int, int] = (1280, 720)) -> Iterator[Obs]:
    """OBS until the block ends, with a folder of its own: no first-run questions, no updates, nothing of the user's.

    Args:
        source: From :func:`virtual_camera` or :func:`media`.
        canvas: Width and height.
    """
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as end:
        folder = Path(name)
        _configure(folder / "obs-studio", source, canvas)
        screen = Screen(folder, SCREEN)
        end.callback(screen.close)
        log = folder / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                ["obs", "--multi"], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                start_new_session=True,
                env={"HOME": name, "XDG_CONFIG_HOME": name, "XDG_RUNTIME_DIR": name, "PATH": "/usr/bin:/bin",
                     "LANG": "C.UTF-8", "DISPLAY": screen.display, "QT_QPA_PLATFORM": "xcb",
                     "LIBGL_ALWAYS_SOFTWARE": "1"},
            )  # fmt: skip
        end.callback(_stop, process)
        yield Obs(screen, log, process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends it with what it started: a plain end would have it ask and save."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _configure(folder: Path, source: dict[str, Any], canvas: tuple[int, int]) -> None:
    """The files that OBS writes itself when a user sets it up so."""
    width, height = canvas
    item = {
        "id": 1, "name": "doppelcam", "visible": True, "pos": {"x": 0.0, "y": 0.0}, "scale": {"x": 1.0, "y": 1.0},
        "bounds_type": _BOUNDS_INSIDE, "bounds": {"x": float(width), "y": float(height)}, "bounds_align": 0, "align": 5,
    }  # fmt: skip
    scene = {
        "id": "scene", "versioned_id": "scene", "name": "Call", "enabled": True,
        "settings": {"id_counter": 1, "custom_size": False, "items": [item]},
    }  # fmt: skip
    collection = {
        "name": "doppelcam", "current_scene": "Call", "current_program_scene": "Call",
        "scene_order": [{"name": "Call"}], "sources": [source, scene],
    }  # fmt: skip
    files = {
        "global.ini": "[General]\nFirstRun=true\nEnableAutoUpdates=false\nLastVersion=486539266\n"
        "[Basic]\nProfile=doppelcam\nProfileDir=doppelcam\nSceneCollection=doppelcam\n"
        "SceneCollectionFile=doppelcam\n",
        "basic/profiles/doppelcam/basic.ini": f"[General]\nName=doppelcam\n[Video]\nBaseCX={width}\nBaseCY={height}\n"
        f"OutputCX={width}\nOutputCY={height}\nFPSType=1\nFPSInt={_FPS}\n",
        "basic/scenes/doppelcam.json": json.dumps(collection),
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
