"""The documentation's pictures: python -m tests.vm.pictures FOLDER, in the machine that tools/vcam_vm boots.

``doppelcam run`` puts one packaged portrait's face on the other, and OBS shows its virtual camera.
Everything is as a user has it, but slow: this machine is emulated.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np

from tests.obs import Obs, obs, virtual_camera
from tests.vm import rig
from tests.vm.face import ASSETS, PHOTO

_RUN = (
    "run", "--source", "camera:Second", "--face", str(PHOTO), "--sink", f"virtualcam:{rig.LABEL}",
    "--size", "640x360", "--fps", "3", "--no-governor", "--control", "off",
)  # fmt: skip
_SOURCE = (280, 496)
_PROPERTIES = (260, 415)
"""Where OBS has them in its window, where there is a virtual camera that it could use."""


def main() -> int:
    folder = Path(sys.argv[1])
    rig.load_loopback(rig.versions()[-1], devices=2)
    with (
        tempfile.TemporaryDirectory() as name,
        rig.sending(_person(), rig.SECOND_LOOPBACK, fps=3),
        _doppelcam(Path(name) / "log") as is_live,
    ):
        # Alone first: OBS leaves it little of the processors.
        rig.eventually(is_live, "the other face", 240)
        with obs(virtual_camera(rig.LOOPBACK), rig.SMALL) as studio:
            rig.eventually(lambda: studio.said() and studio.screen.picture().mean() > 20, "OBS's window", 240)
            for number in range(4):
                rig.eventually(is_live, "the other face", 120)
                time.sleep(6)
                _save(folder / f"obs-{number}.png", studio.screen.picture())
            _click(studio, _SOURCE)
            time.sleep(6)
            _click(studio, _PROPERTIES)
            for number in range(3):
                time.sleep(6)
                _save(folder / f"obs-properties-{number}.png", studio.screen.picture())
    return 0


def _person() -> np.ndarray:
    """What the webcam sees: the person of a packaged portrait, sitting still."""
    whole = cv2.imread(str(ASSETS / "astronaut.png"))
    return cv2.resize(whole[0:288], rig.SMALL, interpolation=cv2.INTER_CUBIC)


@contextlib.contextmanager
def _doppelcam(log: Path) -> Iterator[Callable[[], bool]]:
    """The command, from its first frame until the block ends; tells whether it shows the other face."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "realtime", *_RUN],
            cwd=rig.ROOT,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )

    def is_live() -> bool:
        assert process.poll() is None, log.read_text()
        return log.read_text().strip().split("\n")[-1].startswith("live")

    try:
        rig.eventually(lambda: process.poll() is not None or rig.gives_pictures(rig.LOOPBACK), "frames", 150)
        yield is_live
        is_live()
    finally:
        print(log.read_text()[-1500:])
        process.kill()
        process.wait()


def _click(studio: Obs, place: tuple[int, int]) -> None:
    _xdotool(studio.screen.display, "mousemove", str(place[0]), str(place[1]), "click", "1")


def _xdotool(display: str, *words: str) -> None:
    subprocess.run(["xdotool", *words], env={"DISPLAY": display, "PATH": os.defpath}, check=True, timeout=60)


def _save(path: Path, picture: np.ndarray) -> None:
    assert cv2.imwrite(str(path), picture), f"{path} cannot be written"


if __name__ == "__main__":
    sys.exit(main())
