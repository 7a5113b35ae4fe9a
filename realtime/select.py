"""Who gets the face, when there are several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np

from engines.faces import Face, Floats

Choice = Literal["largest", "center", "owner"]

CHOICES: Final = ("largest", "center", "owner")

_STAY: Final = 1.25
"""How much better than a chosen face another one must be to take its place."""

_RESERVED_NS: Final = 3_000_000_000
"""How long an owner who is not seen keeps the place, unless the same place is taken again."""


class Selector:
    """Chooses among the tracked faces.

    Args:
        choice: ``largest``; ``center``, the nearest to the middle of the picture; or ``owner``, whoever was there
            first, for as long as the track lasts and a while longer.
        count: How many at most.
    """

    def __init__(self, choice: Choice, count: int) -> None:
        self._choice = choice
        self._count = count
        self._owners: dict[int, tuple[Floats, float, int]] = {}
        self._last: set[int] = set()

    @property
    def candidates(self) -> int:
        """How many faces have to be followed for the choice: one more than wanted, unless newcomers get nothing."""
        return self._count + (self._choice != "owner")

    def choose(self, faces: Sequence[Face], size: tuple[int, int], now_ns: int) -> list[Face]:
        """The chosen ones, the first choice first.

        Args:
            faces: All tracked faces.
            size: Width and height of the frame.
            now_ns: When the frame was captured.
        """
        if self._choice == "owner":
            return self._owned(faces, now_ns)
        middle = np.array([size[0] / 2, size[1] / 2], np.float32)

        def rank(face: Face) -> float:
            kept = _STAY if face.track in self._last else 1.0
            if self._choice == "center":
                return float(np.linalg.norm(_centre(face) - middle)) / kept
            return -face.width * kept

        chosen = sorted(faces, key=rank)[: self._count]
        self._last = {face.track for face in chosen}
        return chosen

    def _owned(self, faces: Sequence[Face], now_ns: int) -> list[Face]:
        seen = {face.track: face for face in faces}
        for track, (place, width, last) in list(self._owners.items()):
            if track in seen or not faces:
                continue
            # The same person found again has a new track, at the old place.
            heir = min(faces, key=lambda face: float(np.linalg.norm(_centre(face) - place)))
            near = float(np.linalg.norm(_centre(heir) - place)) < width and 0.5 < heir.width / width < 2
            if near and heir.track not in self._owners:
                self._owners = {
                    heir.track if key == track else key: value for key, value in self._owners.items()
                }
            elif now_ns - last > _RESERVED_NS:
                del self._owners[track]
        for face in sorted(faces, key=lambda face: -face.width):
            if len(self._owners) < self._count:
                self._owners.setdefault(face.track, (_centre(face), face.width, now_ns))
        chosen = [seen[track] for track in self._owners if track in seen]
        self._owners.update({face.track: (_centre(face), face.width, now_ns) for face in chosen})
        return chosen


def _centre(face: Face) -> Floats:
    return np.asarray(face.points[:, :2].mean(0), np.float32)
