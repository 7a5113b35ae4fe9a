"""Who gets the face, when there are several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from engines.faces import Face, Floats

Choice = Literal["largest", "center", "owner"]

CHOICES: Final = ("largest", "center", "owner")

_STAY: Final = 1.25
"""How much better than a chosen face another one must be to take its place."""

_RESERVED_NS: Final = 3_000_000_000
"""How long an owner who is not seen keeps the place, unless the same place is taken again."""


@dataclass(frozen=True, slots=True)
class _Owner:
    """Where and when an owner was seen last; whoever was in the picture then is somebody else."""

    place: Floats
    width: float
    last_ns: int
    others: frozenset[int]


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
        self._owners: dict[int, _Owner] = {}
        self._last: set[int] = set()

    @property
    def candidates(self) -> int:
        """How many faces have to be followed for the choice: one more than wanted.

        So a larger face is noticed, and a passer-by is known as one and leaves room for an owner who comes back.
        """
        return self._count + 1

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
        for track, owner in list(self._owners.items()):
            newcomers = [face for face in faces if face.track not in owner.others]
            if track in seen or not faces:
                continue
            # The same person found again has a new track, at the old place.
            heir = min(newcomers, key=lambda face: _apart(face, owner.place), default=None)
            if heir is not None and heir.track not in self._owners and _took_place(heir, owner):
                self._owners = {
                    heir.track if key == track else key: value for key, value in self._owners.items()
                }
            elif now_ns - owner.last_ns > _RESERVED_NS:
                del self._owners[track]
        everyone = frozenset(seen)
        for face in sorted(faces, key=lambda face: -face.width):
            if len(self._owners) < self._count:
                self._owners.setdefault(face.track, _Owner(_centre(face), face.width, now_ns, everyone))
        chosen = [seen[track] for track in self._owners if track in seen]
        self._owners.update(
            {face.track: _Owner(_centre(face), face.width, now_ns, everyone) for face in chosen}
        )
        return chosen


def _apart(face: Face, place: Floats) -> float:
    return float(np.linalg.norm(_centre(face) - place))


def _took_place(face: Face, owner: _Owner) -> bool:
    return _apart(face, owner.place) < owner.width and 0.5 < face.width / owner.width < 2


def _centre(face: Face) -> Floats:
    return np.asarray(face.points[:, :2].mean(0), np.float32)
