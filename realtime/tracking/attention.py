"""How often to look for new faces: more often while something moves, seldom while everything is still."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from engines.faces import Face, Floats, Image
from realtime.tracking.probe import COARSE, Probe

BRISK: Final = (3, 5)
"""Frames from look to look while something moves: a third of the base, within these."""
STILL: Final = 30
"""The same after a while in which nothing moved: three times the base, at most this."""
NEWCOMERS: Final = 15
"""The same at most, where somebody who comes in without any motion would be bare."""

_NOISE: Final = 24
"""A sample that changes by so much from one frame to the next is no noise of a sensor."""
_SHARE: Final = 0.004
"""Share of the picture outside of the followed faces that has to change to count: a child's head far away."""
_SPEED: Final = 0.02
"""Face widths a frame: faster than this the head moves, slower is talking and breathing."""
_FALLING: Final = 0.1
"""Presence that falls so far below its own average is falling."""
_LOW: Final = 0.7
"""Presence below which a followed face may soon be lost."""
_FRESH: Final = 15
"""Frames for which a sample, and all around it, was still: motion there is news."""
_LEAST_WINDOW: Final = 0.25
"""Longest side of what is looked at for news, in longest sides of the frame, at least."""
_NEIGHBOURS: Final = np.ones((3, 3), np.uint8)
_STIRRED, _SETTLED = 5, 60
"""Frames since the last motion: up to the first it goes on, from the second on everything is still."""


class Attention:
    """Says after how many frames the detector should look again. Used by one thread.

    Args:
        base: Frames from look to look when it is neither lively nor still.
        longest: The most it ever becomes: who comes in without any motion is bare for so long.
    """

    def __init__(self, base: int, longest: int = STILL) -> None:
        self._base = max(1, base)
        self._longest = max(self._base, longest)
        self._probe = Probe(COARSE)
        self._places: dict[int, Floats] = {}
        self._presence: dict[int, float] = {}
        self._quiet = _STIRRED
        self._still: NDArray[np.uint8] = np.empty((0, 0), np.uint8)
        self.rest = 1
        """How many times as long it may rest as it otherwise would: the governor's lever."""
        self.moving: NDArray[np.bool_] | None = None
        """(rows, columns): where a grid over the frame changed outside of the followed faces; None if not known."""
        self.news: tuple[int, int, int, int] | None = None
        """Left, top, width and height, pixels, of what moves where everything was still: somebody may come in. None
        if nothing does."""

    @property
    def interval(self) -> int:
        """Frames from one look to the next, as things are now."""
        frames = self._base
        if self._quiet < _STIRRED:
            frames = min(self._base, max(BRISK[0], min(BRISK[1], self._base // 3)))
        elif self._quiet >= _SETTLED:
            frames = max(self._base, min(self._longest, 3 * self._base))
        return frames * self.rest

    def notice(self, image: Image, faces: Sequence[Face]) -> None:
        """Takes in one frame.

        Args:
            image: The frame, BGR, as captured.
            faces: Everybody who is followed in it.
        """
        # All three, whatever the first one says: each of them remembers this frame.
        stirs = (self._elsewhere(image, faces), self._faces_move(faces), self._presence_falls(faces))
        self._quiet = 0 if any(stirs) else self._quiet + 1

    def _elsewhere(self, image: Image, faces: Sequence[Face]) -> bool:
        """Whether something moves where no followed face is."""
        self.moving = self.news = None
        if not self._probe.take(image):
            self._still = np.empty((0, 0), np.uint8)
            return False
        changed, step = self._probe.changed(_NOISE), self._probe.step
        for face in faces:
            low, high = face.points[:, :2].min(0), face.points[:, :2].max(0)
            # Hair, neck and hands of somebody who is known are not news.
            margin = (high - low) * (0.5, 0.5)
            (left, top), (right, bottom) = (
                np.maximum((edge / step).astype(int), 0) for edge in (low - margin, high + margin)
            )
            changed[top : bottom + 1, left : right + 1] = False
        self.moving = changed
        least = _SHARE * changed.size
        if self._still.shape != changed.shape:
            self._still = np.full(changed.shape, _FRESH, np.uint8)
        if not changed.any():
            np.minimum(self._still + 1, _FRESH, out=self._still)
            return False
        fresh = changed & (self._still == _FRESH)
        if int(np.count_nonzero(fresh)) > least:
            self.news = self._around(changed, image)
        np.minimum(self._still + 1, _FRESH, out=self._still)
        self._still[cv2.dilate(changed.view(np.uint8), _NEIGHBOURS) > 0] = 0
        return int(np.count_nonzero(changed)) > least

    def _around(self, changed: NDArray[np.bool_], image: Image) -> tuple[int, int, int, int]:
        """A window around everything that moves, with room for a head of which only an edge does."""
        height, width = image.shape[:2]
        left, right = self._span(np.flatnonzero(changed.any(0)), width)
        top, bottom = self._span(np.flatnonzero(changed.any(1)), height)
        side = max(right - left, bottom - top, _LEAST_WINDOW * max(height, width))
        x0, x1 = _within((left + right) / 2, side, width)
        y0, y1 = _within((top + bottom) / 2, side, height)
        return x0, y0, x1 - x0, y1 - y0

    def _span(self, where: NDArray[np.intp], length: int) -> tuple[float, float]:
        """First and last pixel along one axis, with a quarter more on either side."""
        low, high = float(where[0]) * self._probe.step, float(where[-1] + 1) * self._probe.step
        margin = (high - low) / 4
        return max(0.0, low - margin), min(float(length), high + margin)

    def _faces_move(self, faces: Sequence[Face]) -> bool:
        before = self._places
        self._places = {face.track: face.points[:, :2].mean(0) for face in faces}
        return any(
            float(np.linalg.norm(place - before[face.track])) > _SPEED * face.width
            for face, place in zip(faces, self._places.values(), strict=True)
            if face.track in before
        )

    def _presence_falls(self, faces: Sequence[Face]) -> bool:
        before = self._presence
        falling = any(face.presence < max(_LOW, before.get(face.track, 0.0) - _FALLING) for face in faces)
        self._presence = {
            face.track: 0.9 * before.get(face.track, face.presence) + 0.1 * face.presence for face in faces
        }
        return falling


def _within(centre: float, side: float, length: int) -> tuple[int, int]:
    """A span of this length around a centre, moved and cut so that it lies within the frame."""
    side = min(side, length)
    start = min(max(centre - side / 2, 0.0), length - side)
    return round(start), round(start + side)
