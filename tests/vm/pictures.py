"""The documentation's pictures: python -m tests.vm.pictures FOLDER, in the machine that tools/vcam_vm boots.

``doppelcam run`` puts one packaged portrait's face on the other, and OBS and Chromium show its virtual camera.
Everything is as a user has it, but slow: this machine is emulated.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np

from tests.vm import rig
from tests.vm.face import PHOTO
from tests.vm.obs import SCREEN, Obs, Screen, obs

_RUN = ("run", "--source", "portrait", "--face", str(PHOTO), "--sink", f"virtualcam:{rig.LABEL}", "--size", "640x360",
        "--fps", "5", "--no-governor", "--control", "off")  # fmt: skip
_SOURCE = (280, 531)
_PROPERTIES = (260, 451)
_SETTINGS = "chrome://settings/content/camera"


def main() -> int:
    folder = Path(sys.argv[1])
    rig.load_loopback(rig.versions()[-1], devices=2)
    with _doppelcam():
        with obs(rig.LOOPBACK) as studio:
            rig.eventually(lambda: "Startup complete" in studio.said(), "OBS is up", 240)
            rig.eventually(lambda: _is_rich(studio.screen.picture()), "OBS shows the picture", 120)
            # The meters and the picture settle.
            for number in range(8):
                time.sleep(4)
                _save(folder / f"obs-{number}.png", studio.screen.picture())
            _click(studio, _SOURCE)
            time.sleep(5)
            _click(studio, _PROPERTIES)
            for number in range(4):
                time.sleep(5)
                _save(folder / f"obs-properties-{number}.png", studio.screen.picture())
            print(studio.said()[-1500:])
        _chromium(folder)
    return 0


@contextlib.contextmanager
def _doppelcam() -> Iterator[None]:
    """The command, from its first swapped frame until the block ends."""
    process = subprocess.Popen([sys.executable, "-m", "realtime", *_RUN], cwd=rig.ROOT, stdin=subprocess.DEVNULL)
    try:
        rig.eventually(lambda: process.poll() is not None or rig.gives_pictures(rig.LOOPBACK), "frames", 150)
        yield
        assert process.poll() is None, f"doppelcam ended with {process.poll()}"
    finally:
        process.kill()
        process.wait()


def _chromium(folder: Path) -> None:
    """The page where Chrome chooses the camera for every site."""
    with tempfile.TemporaryDirectory() as name:
        screen = Screen(Path(name), SCREEN)
        line = ["chromium", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--test-type",
                "--disable-background-networking", "--disable-sync", "--disable-extensions", "--window-position=0,0",
                f"--window-size={SCREEN[0]},{SCREEN[1]}", f"--user-data-dir={name}/profile", "about:blank"]  # fmt: skip
        browser = subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={"HOME": name, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "DISPLAY": screen.display},
        )  # fmt: skip
        try:
            rig.eventually(lambda: screen.picture().mean() > 150, "the browser's window", 150)
            time.sleep(10)
            _xdotool(screen.display, "mousemove", "500", "62", "click", "1")
            time.sleep(3)
            _xdotool(screen.display, "type", "--delay", "150", _SETTINGS)
            _xdotool(screen.display, "key", "Return")
            for number in range(5):
                time.sleep(9)
                _save(folder / f"chromium-{number}.png", screen.picture())
        finally:
            browser.kill()
            browser.wait()
            screen.close()


def _is_rich(picture: np.ndarray) -> bool:
    """Something is in the middle of the preview."""
    return bool(picture[100:350, 300:780].std() > 20)


def _click(studio: Obs, place: tuple[int, int]) -> None:
    _xdotool(studio.screen.display, "mousemove", str(place[0]), str(place[1]), "click", "1")


def _xdotool(display: str, *words: str) -> None:
    subprocess.run(["xdotool", *words], env={"DISPLAY": display, "PATH": os.defpath}, check=True, timeout=60)


def _save(path: Path, picture: np.ndarray) -> None:
    assert cv2.imwrite(str(path), picture), f"{path} cannot be written"


if __name__ == "__main__":
    sys.exit(main())
