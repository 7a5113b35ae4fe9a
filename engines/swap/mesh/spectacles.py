"""The frames of glasses before live eyes, from thick and dark to fine wire.

A rim is a line around each eye, seen against the skin below it and at its sides, where no face has any; a bridge is a
line across the nose between them. Wire hardly shows in one picture, and shines here and is dark there: what is sought
is a line along the whole way, of whichever kind, in the mean of many pictures. It was there from the first one on
perhaps, so nothing has to be learnt.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import cv2
import numpy as np

from engines.analysis.crop import affine_of
from engines.analysis.landmarks import region_of_points
from engines.analysis.topology import LEFT_BROW, POINTS, RIGHT_BROW
from engines.faces import Array, Floats, Image
from engines.kernels import rims, strokes

_EYES: Final = ((133, 33), (362, 263))
"""Inner and outer corner of the right and of the left eye."""
_BROWS: Final = (list(RIGHT_BROW), list(LEFT_BROW))
_RAYS, _BRIDGE, _ARM, _SAMPLES = 64, 20, 10, 32
"""Rays around an eye, across a bridge, across an arm; samples of each."""
_NEAREST: Final = (0.54, 0.54, 0.42)
_FARTHEST: Final = (0.98, 1.3, 1.2)
"""Where a rim may run: towards the nose, away from it, and up and down, in widths of the eye around its middle."""
_PARTS: Final = np.repeat(np.arange(5), (_RAYS, _RAYS, _BRIDGE, _ARM, _ARM)).astype(np.int32)
"""Right and left rim, the bridge, right and left arm."""
_OF: Final = tuple(slice(*np.flatnonzero(n == _PARTS)[[0, -1]] + (0, 1)) for n in range(5))
PARTS: Final = np.array([[part.start, part.stop] for part in _OF], np.int64)
"""(5, 2): the first ray of each, and the one after its last."""
RINGS: Final = np.arange(5) < 2
"""Which of them end where they begin."""
_REACHES: Final = np.array([0.009, 0.0135, 0.019, 0.028], np.float32)
"""How far from the middle of a line the skin beside it is looked at, sides of the patch."""
_FOUND, _STILL, _PHOTO = (0.008, 0.2, 3.3), (0.004, 0.35, 2.0), (0.03, 0.2, 3.3)
"""What both lower rims and the bridge must have to be found, to stay found, and in a photo, which is a single picture:
contrast; how much of the line need not; and how many times the contrast of what is there at random, since sensor noise
and rough skin have lines too. On bare faces it is 0.004 at the most, on wire 0.01 to 0.15."""
_FOLLOW: Final = 0.1
_SHOWN: Final = np.array([0.012, 0.03], np.float32)
"""Contrast from which some of a line is drawn, and all of it."""
_NOW: Final = 0.6
"""How far this picture says where the line is, and the mean of the ones before the rest."""
_ALIKE: Final = 0.8
"""How much of what is seen of the lower rims must be dark, or bright, for the upper ones to be so too: of the one less
the other."""
_BELOW: Final = 0.4
"""Where the lowest part of a rim begins, of where it may run at the lowest."""
_SETTLED: Final = 8
"""Pictures after which anything is said."""
_BESIDE_BROW: Final = 3
"""Samples between a line and a brow that is beside it."""
_FAR: Final = 1e4
"""Pixels: an integer too large to hold is no number at all."""
_SIDE: Final = 192


@dataclass(slots=True)
class Worn:
    """What is known about one person's glasses.

    Attributes:
        lines: (168, 32) float32: mean contrast of lines across each ray.
        pictures: How many were looked at.
        sure: Whether glasses are worn.
    """

    lines: Floats = field(default_factory=lambda: np.zeros((len(_PARTS), _SAMPLES), np.float32))
    pictures: int = 0
    sure: bool = False

    @property
    def settled(self) -> bool:
        """Whether enough was seen to say."""
        return self.pictures >= _SETTLED


class Spectacles:
    """Finds the frames of glasses. One for all people; each has what is :class:`Worn`."""

    def __init__(self) -> None:
        self._table = _rays()
        self._step = np.linalg.norm(self._table[:, 1] - self._table[:, 0], axis=1).astype(np.float32)
        self._spacing = self._step.copy()
        self._values, self._now, self._both, self._wide = np.zeros((4, len(_PARTS), _SAMPLES), np.float32)
        self._at, self._clear = np.zeros(len(_PARTS), np.int64), np.zeros(len(_PARTS), np.float32)
        # The lower half of each rim, the nose's side and the other one included.
        self._lower = (self._table[:, 0, 1] >= 0) | (_PARTS == 2)
        # Of it what has neither brow nor hair beside it.
        self._below = (self._table[:, 0, 1] >= _BELOW * _NEAREST[2]) & (_PARTS < 2)
        self._own = np.zeros(self._values.shape, np.uint8)
        self._grey: Floats = np.empty((0, 0), np.float32)
        self._spared: Array = np.empty((0, 0), np.uint8)

    def look(self, picture: Floats, places: Floats, known: Worn) -> Floats | None:
        """Looks at one picture.

        Args:
            picture: (S, S, 3) float32 RGB, 0…1: an upright crop around the face.
            places: (468 or more, 2) float32: landmarks in it, pixels; finite.
            known: Of this person; changed.

        Returns:
            (168, 7) float32: where their frames are, for :func:`engines.kernels.strokes.matte`, in pixels of the
            picture; None if there are none.
        """
        frames = _frames(places)
        self._read(picture, places, frames)
        if not np.isfinite(self._values).all():
            return None
        known.pictures += 1
        known.lines += np.float32(max(_FOLLOW, 1 / known.pictures)) * (self._now - known.lines)
        self._trace(known.lines)
        known.sure = known.settled and self._seen(known.lines, *(_STILL if known.sure else _FOUND))
        return self._lines(known, frames) if known.sure else None

    def wears(self, picture: Floats, places: Floats) -> bool:
        """Whether one picture, all there is, shows glasses; arguments as those of :meth:`look`."""
        self._read(picture, places, _frames(places))
        self._trace(self._now)
        return self._seen(self._now, *_PHOTO)

    def _read(self, picture: Floats, places: Floats, frames: Floats) -> None:
        """The lines across every ray of one picture."""
        size = picture.shape[:2]
        if self._grey.shape != size:
            self._grey, self._spared = np.empty(size, np.float32), np.empty(size, np.uint8)
        cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY, dst=self._grey)
        # A brow is a dark line too, and the person's own.
        self._spared[:] = 0
        for brow in _BROWS:
            hull = cv2.convexHull(np.rint(np.clip(places[brow], -_FAR, _FAR)).astype(np.int32))
            cv2.fillConvexPoly(self._spared, hull, 1)
            cv2.polylines(self._spared, [hull], True, 1, 3)
        rims.sample(self._grey, self._spared, self._table, _PARTS, frames, self._values, self._own)
        np.multiply(self._step, np.hypot(frames[:, 2], frames[:, 3])[_PARTS], out=self._spacing)
        rims.ridges(
            self._values, self._own, self._spacing, _REACHES * np.float32(size[0]), self._now, self._wide
        )

    def _trace(self, lines: Floats) -> None:
        for n, part in enumerate(_OF):
            rims.trace(lines[part], n < 2, self._at[part], self._clear[part])

    def _seen(self, lines: Floats, least: float, hidden: float, times: float) -> bool:
        """Whether both rims and the bridge are lines along their whole length."""
        for part in _OF[:3]:
            clear, floor = rims.clearness(lines[part], self._clear[part], self._lower[part], hidden)
            if not clear > max(least, times * floor):
                return False
        return True

    def _lines(self, known: Worn, frames: Floats) -> Floats:
        """Where all that shows is."""
        np.multiply(known.lines, np.float32(1 - _NOW), out=self._both)
        self._both += np.float32(_NOW) * self._now
        # Beside a dark rim that is near a brow, the skin between them is a bright line; and so the other way round.
        rays = np.arange(len(_PARTS))
        lower = rays[self._below]
        shown = known.lines[lower, self._at[lower]]
        kind = float(shown.sum()) / max(float(np.abs(shown).sum()), 1e-6)
        if abs(kind) > _ALIKE:
            np.copyto(self._both, 0, where=self._both * np.float32(kind) < 0)
        self._trace(self._both)
        found = np.empty((len(_PARTS), strokes.COLUMNS), np.float32)
        for n, part in enumerate(_OF):
            rims.places(
                (self._values[part], self._wide[part]), self._table[part], self._spacing[part], frames[n],
                self._at[part], self._clear[part], n < 2, _SHOWN, found[part],
            )  # fmt: skip
        np.sign(self._both[rays, self._at], out=found[:, 4])
        near = np.clip(self._at[:, None] + np.arange(-_BESIDE_BROW, _BESIDE_BROW + 1), 0, _SAMPLES - 1)
        brow = self._own[rays[:, None], near].any(1)
        found[:, 5] = brow
        # A brow is dark too: before it a dark rim is drawn as wide as elsewhere, and of any other what is bright.
        found[:, 6] = brow & (kind < -_ALIKE)
        found[brow, 4] = 1 - 2 * found[brow, 6]
        return found


def worn(image: Image, points: Floats) -> bool:
    """Whether a photo shows glasses.

    Args:
        image: The photo, BGR.
        points: (N, 3) landmarks, pixels.
    """
    affine = affine_of(region_of_points(points), _SIDE)
    patch = cv2.warpAffine(image, affine, (_SIDE, _SIDE), flags=cv2.INTER_AREA)
    places = (points[:POINTS, :2] @ affine[:, :2].T + affine[:, 2]).astype(np.float32)
    picture = np.ascontiguousarray(patch[:, :, ::-1]).astype(np.float32) / np.float32(255)
    return Spectacles().wears(picture, places)


def _rays() -> Floats:
    """(168, 32, 2) float32: where each sample lies in the axes of its part: those of an eye point away from the nose
    and down, those of bridge and arms along them and down."""
    table = np.empty((len(_PARTS), _SAMPLES, 2))
    along = np.linspace(0, 1, _SAMPLES)[:, None]
    angles = np.arange(_RAYS) * 2 * np.pi / _RAYS
    out, down = np.cos(angles), np.sin(angles)
    inward, outward, upright = zip(_NEAREST, _FARTHEST, strict=True)
    low, high = (
        1 / np.hypot(out / np.where(out > 0, outward[i], inward[i]), down / upright[i]) for i in (0, 1)
    )
    for n in range(_RAYS):
        rim = (low[n] + (high[n] - low[n]) * along) * np.array([out[n], down[n]])
        table[_OF[0]][n] = table[_OF[1]][n] = rim
    for part, (start, end), (top, bottom) in (
        (2, (-0.3, 0.3), (-0.45, 0.6)),
        (3, (1.05, 1.5), (-0.5, 0.4)),
        (4, (1.05, 1.5), (-0.5, 0.4)),
    ):
        strip = table[_OF[part]]
        strip[:, :, 0] = np.linspace(start, end, len(strip))[:, None]
        strip[:, :, 1] = np.linspace(top, bottom, _SAMPLES)
    return table.astype(np.float32)


def _frames(places: Floats) -> Floats:
    """(5, 6) float32: origin, first and second axis of every part, pixels."""
    made = np.empty((5, 6), np.float32)
    across = places[263] - places[33]
    down = np.array([-across[1], across[0]]) / max(float(np.hypot(*across)), 1e-6)
    for n, (inner, outer) in enumerate(_EYES):
        axis = places[outer] - places[inner]
        width = float(np.hypot(*axis))
        middle = (places[outer] + places[inner]) / 2 + 0.08 * width * down
        made[n] = np.concatenate([middle, axis, width * down])
    made[3:] = made[:2]
    (right, _), (left, _) = _EYES
    width = float(np.hypot(*across)) * 0.3
    made[2] = np.concatenate(
        [
            (places[right] + places[left]) / 2,
            width * across / max(float(np.hypot(*across)), 1e-6),
            width * down,
        ]
    )
    return made
