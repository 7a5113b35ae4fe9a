"""Work added to every frame, to see what a slower machine would do; and how many faces each frame had."""

from __future__ import annotations

import time
from collections.abc import Sequence

import cv2
import numpy as np

from engines.faces import Face, Image
from engines.swap.base import Progress
from realtime.pipeline import FaceTracker


class SlowTracker:
    """A tracker with more work to do: it counts as tracking, and comes whether or not there is a face.

    Args:
        tracker: The one that does the real work.
        ms: Processor time to add to each frame.

    Attributes:
        frames: How many there were.
        faces: How many faces were to be swapped in them, all together.
    """

    def __init__(self, tracker: FaceTracker, ms: float) -> None:
        self._tracker = tracker
        self.frames = self.faces = 0
        self._ns = round(ms * 1e6)
        self._sheet: Image = np.zeros((128, 128, 3), np.uint8)
        self.lost, self.skipped_detections = False, 0
        self.others: Sequence[Face] = ()

    def open(self, progress: Progress) -> None:
        """See :class:`~realtime.pipeline.FaceTracker`."""
        self._tracker.open(progress)

    def track(self, image: Image, now_ns: int) -> Sequence[Face]:
        """See :class:`~realtime.pipeline.FaceTracker`."""
        # This thread's own time, so that it is work and not waiting; without the GIL, as real work is.
        until = time.thread_time_ns() + self._ns
        while time.thread_time_ns() < until:
            cv2.GaussianBlur(self._sheet, (5, 5), 0, dst=self._sheet)
        faces = self._tracker.track(image, now_ns)
        self.lost, self.skipped_detections = self._tracker.lost, self._tracker.skipped_detections
        self.others = self._tracker.others
        self.frames, self.faces = self.frames + 1, self.faces + len(faces)
        return faces

    def look_on(self) -> None:
        """See :class:`~realtime.pipeline.FaceTracker`."""
        self._tracker.look_on()

    def close(self) -> None:
        """See :class:`~realtime.pipeline.FaceTracker`."""
        self._tracker.close()
