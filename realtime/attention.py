"""How often to look for new faces: more often while something moves, seldom while everything is still."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from engines.faces import Face, Floats, Image
from realtime.probe import COARSE, Probe

BRISK: Final = (3, 5)
"""Frames from look to look while something moves: a third of the base, within these."""
STILL: Final = 30
"""The same after a while in which nothing moved: three times the base, at most this."""

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
_STIRRED, _SETTLED = 5, 60
"""Frames since the last motion: up to the first it goes on, from the second on everything is still."""


class Attention:
    """Says after how many frames the detector should look again. Used by one thread.

    Args:
        base: Frames from look to look when it is neither lively nor still.
    """

    def __init__(self, base: int) -> None:
        self._base = max(1, base)
        self._probe = Probe(COARSE)
        self._places: dict[int, Floats] = {}
        self._presence: dict[int, float] = {}
        self._quiet = _STIRRED
        self.rest = 1
        """How many times as long it may rest as it otherwise would: the governor's lever."""

    @property
    def interval(self) -> int:
        """Frames from one look to the next, as things are now."""
        frames = self._base
        if self._quiet < _STIRRED:
            frames = min(self._base, max(BRISK[0], min(BRISK[1], self._base // 3)))
        elif self._quiet >= _SETTLED:
            frames = max(self._base, min(STILL, 3 * self._base))
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
        if not self._probe.take(image):
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
        return int(np.count_nonzero(changed)) > _SHARE * changed.size

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
