"""A few thousand pixels of a picture, to tell cheaply whether it is the one before."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from engines.faces import Image

FINE, COARSE = 96, 48
"""Samples in a row of the grid, at most: at 1080p one every 20 or every 40 pixels."""


class Probe:
    """Keeps a coarse grid of pixels of the newest picture and of the one before. Used by one thread.

    Taking one costs some ten microseconds, whatever is in the picture.

    Args:
        columns: Samples in a row, at most.
    """

    def __init__(self, columns: int = FINE) -> None:
        self._columns = columns
        self._shape: tuple[int, ...] = ()
        self._now: Image = np.empty((0, 0, 3), np.uint8)
        self._before: Image = self._now
        self._apart: Image = self._now
        self._taken = 0

    @property
    def step(self) -> int:
        """Distance of two samples, pixels, the same in both directions."""
        return max(1, -(-self._shape[1] // self._columns)) if self._shape else 1

    def forget(self) -> None:
        """The next picture has none before it."""
        self._taken = 0

    def take(self, image: Image) -> bool:
        """Samples a picture.

        Args:
            image: H×W×3 uint8.

        Returns:
            Whether there is one of the same size before it, to compare with.
        """
        if image.shape != self._shape:
            self._shape, self._taken = image.shape, 0
            shape = self._view(image).shape
            self._now, self._before, self._apart = (np.empty(shape, np.uint8) for _ in range(3))
        self._now, self._before = self._before, self._now
        np.copyto(self._now, self._view(image))
        self._taken += 1
        return self._taken > 1

    def back(self) -> None:
        """The newest picture was not worth keeping: the one before stays what the next is compared with."""
        self._now, self._before = self._before, self._now
        self._taken -= 1

    def largest(self) -> int:
        """The largest difference of any sample, 0…255."""
        return int(cv2.norm(self._now, self._before, cv2.NORM_INF))

    def mean(self) -> float:
        """The mean difference of all samples, 0…255."""
        return float(cv2.norm(self._now, self._before, cv2.NORM_L1)) / max(self._now.size, 1)

    def changed(self, more_than: int) -> NDArray[np.bool_]:
        """Which samples changed in any channel.

        Args:
            more_than: Differences up to this are noise, 0…255.

        Returns:
            (rows, columns), belongs to the caller.
        """
        apart = cv2.absdiff(self._now, self._before, dst=self._apart)
        # Channel by channel: numpy is five times as slow along an axis of three.
        return np.asarray(np.maximum(np.maximum(apart[..., 0], apart[..., 1]), apart[..., 2]) > more_than)

    def _view(self, image: Image) -> Image:
        step = self.step
        return image[step // 2 :: step, step // 2 :: step]
