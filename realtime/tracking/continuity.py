"""Whether a face is still that of the same person: where it should be by now, and what it looked like.

It needs no network of its own. The aligned crop that the landmarks were read from, shrunk to a few cells, is alike from
frame to frame for one person (0.92 and more for people who make faces, 0.76 and more over three seconds) and unlike for
two (at most 0.76, mostly below 0.5).
"""

from __future__ import annotations

from typing import Final

import cv2
import numpy as np

from engines.faces import Floats, Patch

ALIKE: Final = 0.75
"""Likeness below which two looks are of two people."""
_CELLS: Final = 12
_SPARSE: Final = 4
_MEMORY: Final = 0.1
"""How much of each frame goes into what a face looks like."""
_JUMP: Final = 0.25
"""Crop sides by which a face may be off from where it should be by now."""
_GROWTH: Final = 1.25
"""Times by which it may have grown or shrunk from one frame to the next."""
_PACE: Final = 0.5
"""How much of each frame's speed is believed."""
_STALE_NS: Final = 250_000_000
"""After a gap this long nothing is known of the speed."""


def look_of(patch: Patch) -> Floats:
    """What a face looks like, whatever the light.

    Args:
        patch: The aligned crop, (S, S, 3) float32.

    Returns:
        (432,) float32 of length 1, without the mean of each channel; zeros for a crop of one colour.
    """
    # One pixel in sixteen: the mean of all of them says no more, and takes six times as long.
    sparse = np.ascontiguousarray(patch.image[_SPARSE // 2 :: _SPARSE, _SPARSE // 2 :: _SPARSE])
    cells = cv2.resize(sparse, (_CELLS, _CELLS), interpolation=cv2.INTER_AREA).reshape(-1, 3)
    cells = cells - cells.mean(0)
    length = float(np.linalg.norm(cells))
    return np.asarray(cells / length if length > 1e-3 else np.zeros_like(cells), np.float32).ravel()


def likeness(one: Floats, other: Floats) -> float:
    """How alike two looks are, −1…1; 1 where either says nothing."""
    if not one.any() or not other.any():
        return 1.0
    return float(one @ other / max(float(np.linalg.norm(one) * np.linalg.norm(other)), 1e-9))


class Continuity:
    """Remembers where one face went and what it looked like."""

    def __init__(self) -> None:
        self.look: Floats = np.zeros(_CELLS * _CELLS * 3, np.float32)
        """What it looked like lately; zeros while that is not known."""
        self._place: Floats = np.zeros(3, np.float32)
        self._speed: Floats = np.zeros(3, np.float32)
        self._at_ns: int | None = None

    def apart(self, place: Floats, now_ns: int) -> float:
        """How far a face is from where this one should be by now, in sides of its crop.

        Args:
            place: (3,) x, y and side of its crop, pixels.
            now_ns: When the frame was captured.
        """
        if self._at_ns is None:
            return 0.0
        seconds = (now_ns - self._at_ns) / 1e9
        expected = self._place + self._speed * (seconds if 0 < seconds < _STALE_NS / 1e9 else 0.0)
        return float(np.abs(place - expected)[:2].max() / max(float(self._place[2]), 1.0))

    def broken(self, place: Floats, look: Floats, now_ns: int) -> bool:
        """Whether this is somebody else: the face is suddenly elsewhere or of another size, and looks unlike."""
        if self._at_ns is None:
            return False
        growth = float(place[2] / max(float(self._place[2]), 1.0))
        jumped = self.apart(place, now_ns) > _JUMP or not 1 / _GROWTH < growth < _GROWTH
        return jumped and likeness(self.look, look) < ALIKE

    def goes_on(self, place: Floats, look: Floats, now_ns: int) -> None:
        """Takes in one frame.

        Args:
            place: (3,) x, y and side of its crop, pixels.
            look: As :func:`look_of` gives it.
            now_ns: When it was captured.
        """
        seconds = (now_ns - self._at_ns) / 1e9 if self._at_ns is not None else 0.0
        if 0 < seconds < _STALE_NS / 1e9:
            self._speed = self._speed + np.float32(_PACE) * ((place - self._place) / seconds - self._speed)
        else:
            self._speed = np.zeros(3, np.float32)
        self.look = self.look + np.float32(_MEMORY) * (look - self.look) if self.look.any() else look
        self._place, self._at_ns = place, now_ns
