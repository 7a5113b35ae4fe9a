"""Another program that shows the virtual camera, and notes of every picture what is to be seen on it."""

from __future__ import annotations

import itertools
import os
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from tests.vm.face import SIZE, Lookout

BARE = 0.7
"""From this likeness on, it is the face that nobody should see."""

_SLOWEST = 2.0
"""Longest gap a viewer may see, s. It is ten periods: emulated processors are slow, and a driver that is waited for
would make it ten seconds."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One picture.

    Attributes:
        at: When it came, s.
        likeness: To the bare face.
        grey: The picture.
    """

    at: float
    likeness: float
    grey: np.ndarray


class Viewer:
    """Reads the device through ffmpeg, in a thread, until it is closed.

    Args:
        device: Path.
    """

    def __init__(self, device: str) -> None:
        self.seen: list[Seen] = []
        self._process = subprocess.Popen(
            ["ffmpeg", "-v", "error", "-f", "v4l2", "-i", device, "-fps_mode", "passthrough", "-f", "rawvideo",
             "-pix_fmt", "gray", "-"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._thread = threading.Thread(target=self._run, name="viewer")
        self._thread.start()

    def _run(self) -> None:
        lookout, count = Lookout(), SIZE[0] * SIZE[1]
        stream = self._process.stdout
        assert stream is not None
        while len(data := stream.read(count)) == count:
            grey = np.frombuffer(data, np.uint8).reshape(SIZE[1], SIZE[0])
            self.seen.append(Seen(time.monotonic(), lookout.likeness(grey), grey))

    def since(self, moment: float) -> list[Seen]:
        """What was seen from then on."""
        return [one for one in self.seen if one.at >= moment]

    def close(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait()
        self._thread.join()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def nobody_was_seen(self, since: float, fps: float, name: str) -> None:
        """No picture since then shows the bare face, and they never stopped coming.

        Args:
            since: From when on, s.
            fps: How many come a second.
            name: Of the strip of pictures that is left for a person to look at.
        """
        seen, now = self.since(since), time.monotonic()
        if folder := os.environ.get("VCAM_VM_OUT"):
            _keep(seen, Path(folder) / f"{name}.png")
        assert max(one.likeness for one in seen) < BARE
        gaps = [
            after - before for before, after in itertools.pairwise([since, *(one.at for one in seen), now])
        ]
        assert max(gaps) < _SLOWEST, f"{name}: a gap of {max(gaps):.1f} s"
        assert len(seen) > 0.5 * fps * (now - since), f"{name}: {len(seen)} in {now - since:.1f} s"


def _keep(seen: list[Seen], path: Path) -> None:
    picked = [seen[number * (len(seen) - 1) // 7].grey for number in range(8)] if seen else []
    if picked:
        cv2.imwrite(str(path), cv2.hconcat([cv2.resize(one, (240, 135)) for one in picked]))
