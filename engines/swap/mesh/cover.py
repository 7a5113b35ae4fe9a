"""What is before the live face: a hand, a microphone, a cup, a mask. There the swap must not be painted.

Every frame is laid over the canonical face, so that expression and pose come off, and compared with what this face
usually looks like in this light. Three rules keep the bare face from being shown by mistake:

1. What differs must also be unlike this face's skin and lips. A grimace, a blush or a shadow differs, but not so.
2. What has the colour of skin counts only where it hides the mouth: lips are redder than the skin around them on
   every face, whatever they do, and a hand before them is not.
3. It must be there for two frames, be of some size, and go at once when the face is seen again.

A face that looks as it did is not looked at anew in every frame: one texel in eight tells that nothing came or went,
and what was before it moves with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import cv2
import numpy as np

from engines.analysis.topology import POINTS, triangles
from engines.faces import Array, Floats, Image, Patch
from engines.kernels import blobs, cpu, edges
from engines.kernels import cover as kernels
from engines.kernels import relight as light
from engines.kernels.canvas import Window
from engines.swap.mesh.spectacles import Spectacles, Worn
from engines.swap.mesh.zones import SIDE, zones

_SETTLED: Final = 15
"""Frames after which a face is known well enough to say what is before it."""
_FOLLOW: Final = 1 / 300
_SPREADS: Final = np.array([[0.45, 0.09, 0.12], [0.10, 0.035, 0.045]], np.float32)
"""How far a face's skin is off from its own mean, lightness widely and colour little; and how far a face at rest is
from what is usual: where the mouth is hidden nobody sees it grimace."""
_BLUR: Final = 1.5
_BELL: Final = np.asarray(cv2.getGaussianKernel(13, _BLUR, cv2.CV_32F).reshape(-1), np.float32)
"""Means are taken over so much of the face around a texel."""
_SEED, _GROW, _STAYS = 9.0, 4.0, 0.6
"""Squared distances, in spreads, from which something is there, and to which it reaches; and how much of that is
enough for what was there before."""
_BARS: Final = np.array([_SEED, _GROW, _STAYS], np.float32)
_COUNTS: Final = np.array([3, 14])
"""Texels that must be clear, and that there must be at all."""
_LEAST: Final = 0.2
"""Part of the face that must be as usual for anything to be said about the rest."""
_REST: Final = 16
"""Frames after which the mean of the skin is taken anew."""
_NO_LIPS: Final = 0.03
_LEAST_RED: Final = 0.05
"""Lips that are not redder than this against the skin (logarithm) tell nothing."""
_HIDDEN, _SEEN = 0.72, 0.95
"""Redness around the mouth, of the usual one, plus how far it lies where it usually does (a correlation): below the
first number the lips are hidden, above the second they are seen again. On three people who make every face they can it
is 0.92 to 2.9, and behind hands, cups and masks −0.2 to 0.83."""
_RATES: Final = np.array([0.45, 0.5], np.float32)
_SELDOM: Final = 4
"""Where no glasses were seen, they are looked for in every so manyth frame only."""
_BELOW: Final = [118, 101, 50, 197, 280, 330, 347]
"""Vertices on the cheeks and the nose, where the rims of glasses end."""
_RESTS: Final = 2
"""Frames in a row that need no look where nothing changed."""
_FEW: Final = 8
"""One texel in so many tells whether something did."""
_CHANGED, _CHANGES = 3.0, 2
"""Squared distance to the last look, in spreads, from which a texel changed, and how many of them are a change."""
_UNSETTLED, _UNSURE, _BORDER = 0.2, 14, 0.25
"""How far a texel's level may lag behind what was seen there, and how many may lag farther: so many, and a part of what
is there, since its border wavers."""
_SOFT: Final = np.array([0.46, 0.86], np.float32)
_NEARBY: Final = np.ones((13, 13), np.uint8)


@dataclass(frozen=True, slots=True)
class Cover:
    """Something before a face.

    Attributes:
        mask: (S, S) uint8 over the patch: 255 where it hides the face wholly.
        affine: (2, 3) float32, frame pixels to pixels of the mask.
        vertices: (468,) float32, 0…1: how far each vertex of the face is hidden.
        frames: (168, 7) float32: where the frames of glasses are, pixels of the mask, which does not show them; None
            if none are worn.
        window: The part of the frame, left, top, right and bottom, that the mask is of, pixel by pixel; None if it is
            of the patch.
    """

    mask: Array
    affine: Floats
    vertices: Floats
    frames: Floats | None = None
    window: Window | None = None


@dataclass(slots=True)
class Acquaintance:
    """What one person's face usually looks like, and what was before it a moment ago.

    Attributes:
        frames: How many were learnt from.
        usual: (64, 64, 3) float32: lightness, redness, blueness of each texel.
        varies: (64, 64, 3) float32: their variances.
        skin: (3,) float32: the mean of the skin, likewise.
        plane: (3, 3) float32: the light of the last frame.
        level: (64, 64) float32: how surely something is before each texel, 0…1.
        there: (64, 64) float32: 1 where something was seen in the last frame, for the first time or not.
        worn: Glasses.
        red: How red the lips usually are against the skin; none yet below 0.
        hidden: Whether the lips are.
        seen: (64, 64, 3) float32: what each texel was at the last look.
        points: (N, 2) float32: where some of the face was then, pixels of the frame.
        cover: What was before it.
        settled: Whether that look saw what the ones before it had seen.
        rested: Frames since then.
    """

    frames: int = 0
    usual: Floats = field(default_factory=lambda: np.zeros((SIDE, SIDE, 3), np.float32))
    varies: Floats = field(default_factory=lambda: np.zeros((SIDE, SIDE, 3), np.float32))
    skin: Floats = field(default_factory=lambda: np.zeros(3, np.float32))
    plane: Floats = field(default_factory=lambda: np.zeros((3, 3), np.float32))
    level: Floats = field(default_factory=lambda: np.zeros((SIDE, SIDE), np.float32))
    there: Floats = field(default_factory=lambda: np.zeros((SIDE, SIDE), np.float32))
    worn: Worn = field(default_factory=Worn)
    red: float = -1.0
    hidden: bool = False
    seen: Floats = field(default_factory=lambda: np.zeros((SIDE, SIDE, 3), np.float32))
    points: Floats = field(default_factory=lambda: np.zeros((0, 2), np.float32))
    cover: Cover | None = None
    settled: bool = False
    rested: int = 0


class Covers:
    """Tells what is before live faces. One for all people; each has an :class:`Acquaintance`.

    Args:
        spectacles: Whether the frames of glasses count; not where the new face wears its own.
    """

    def __init__(self, spectacles: bool = True) -> None:
        self._spectacles = Spectacles() if spectacles else None
        self._zones = zones()
        looked_at = (self._zones.texels, self._zones.corners, self._zones.weights)
        self._some, self._some_corners, self._some_weights = (each[::_FEW].copy() for each in looked_at)
        self._share = np.ones((SIDE, 3 * SIDE), np.float32)
        room = np.zeros((7, SIDE, SIDE, 3), np.float32)
        self._seen, self._left, self._off, self._now, self._sum, self._square, self._between = room
        face = np.ascontiguousarray(np.repeat(self._zones.face[:, :, None], 3, 2))
        self._share = self._smoothed(face, np.empty_like(face)).reshape(SIDE, -1) + np.float32(1e-3)
        self._unusual, self._foreign, self._evidence, self._amount = np.zeros((4, SIDE, SIDE), np.float32)
        self._fitting = np.empty((9, len(self._zones.texels)), np.float32)
        self._drawn: Image = np.empty((0, 0, 3), np.uint8)
        self._work = np.empty(0, np.float32)
        self._painted = np.full((SIDE, SIDE, 4), 255, np.uint8)
        self._whole = np.ones((POINTS, 4), np.float32)
        self._whole[:, 3] = 1 / 255
        self._all = np.array(triangles(), np.int32)

    def look(self, patch: Patch, points: Floats, known: Acquaintance) -> Cover | None:
        """Looks at one face, and learns what it looks like.

        Args:
            patch: The crop of the frame around the face.
            points: (N, 3) landmarks, pixels of the frame; finite.
            known: Of this person; changed.

        Returns:
            What is before the face; None if nothing is.
        """
        places = np.ascontiguousarray(
            points[:POINTS, :2] @ patch.affine[:, :2].T + patch.affine[:, 2], np.float32
        )
        if self._as_before(patch, places, known):
            known.rested += 1
            return (
                None if known.cover is None else _moved(known.cover, known.points, points[:POINTS:_FEW, :2])
            )
        known.cover = self._look(patch, places, known)
        known.rested = 0
        known.points = points[:POINTS:_FEW, :2].copy()
        np.copyto(known.seen, self._seen)
        unsure = np.count_nonzero(np.abs(known.there - known.level) > _UNSETTLED)
        some = _UNSURE + _BORDER * np.count_nonzero(known.there)
        known.settled = bool(known.frames > _SETTLED and unsure < some)
        if self._spectacles is not None:
            known.settled &= known.worn.settled
        return known.cover

    def _as_before(self, patch: Patch, places: Floats, known: Acquaintance) -> bool:
        """Whether the face looks as it did at the last look, a moment ago."""
        if not known.settled or known.rested >= _RESTS:
            return False
        kernels.unwrap(patch.image, places, self._some, self._some_corners, self._some_weights, self._seen)
        changed = kernels.changes(self._seen, known.seen, self._zones.variance, self._some, _CHANGED)
        return bool(changed < _CHANGES)

    def _look(self, patch: Patch, places: Floats, known: Acquaintance) -> Cover | None:
        """Looks anew, and learns."""
        face = self._zones
        kernels.unwrap(patch.image, places, face.texels, face.corners, face.weights, self._seen)
        if known.frames == 0:
            known.usual[:] = self._seen
        share = light.relight(
            self._seen, known.usual, known.varies, face.variance, face.texels, known.plane, self._fitting,
            self._left, self._square,
        )  # fmt: skip
        off = self._smoothed(self._left, self._off)
        now = self._smoothed(np.add(self._left, known.usual, out=self._sum), self._now)
        redness = self._read_lips(known)
        if known.frames % _REST == 0:
            kernels.medians(known.usual.reshape(-1, 3), face.plain, known.skin)
        before = known.skin
        if known.hidden:
            before = np.empty(3, np.float32)
            kernels.medians(now.reshape(-1, 3), face.lips, before)
        kernels.weigh_up(
            known.usual, off, now, self._square, face.texels, face.soft, known.skin, before, _SPREADS,
            np.array([known.hidden, redness < _NO_LIPS]), self._unusual, self._foreign, self._evidence,
        )  # fmt: skip
        known.there[:] = 0
        # Where hardly anything is as it was, the face stays swapped, and nothing is learnt from it.
        if known.frames >= _SETTLED and share >= _LEAST:
            blobs.seek(self._evidence, known.level, face.texels, _BARS, _COUNTS, known.there)
        some = blobs.follow(known.level, known.there, _RATES, _SOFT, self._amount)
        if share >= _LEAST:
            self._learn(known, off)
        cover = self._cover(patch, places, self._amount) if some else None
        worn = self._worn(patch, places, known, cover)
        if worn is None:
            return cover
        if cover is None:
            blank: Array = np.zeros(patch.image.shape[:2], np.uint8)
            return Cover(blank, patch.affine.copy(), np.zeros(POINTS, np.float32), worn)
        return replace(cover, frames=worn)

    def _worn(self, patch: Patch, places: Floats, known: Acquaintance, cover: Cover | None) -> Floats | None:
        """Where the frames of glasses are in the patch."""
        if self._spectacles is None:
            return None
        # Nobody puts glasses on between two frames, and the upper edge of a mask is none.
        later = known.worn.settled and known.frames % _SELDOM > 0
        masked = cover is not None and float(cover.vertices[_BELOW].max()) > 0
        if not known.worn.sure and (later or masked):
            return None
        return self._spectacles.look(patch.image, places, known.worn)

    def bare(self, known: Acquaintance) -> Floats:
        """(468,) float32: 1 for vertices that nothing was seen before or near in the last frame."""
        near = cv2.dilate(known.there, np.ones((5, 5), np.uint8))
        return np.asarray(1 - near.reshape(-1)[self._zones.at], np.float32)

    def _smoothed(self, values: Floats, out: Floats) -> Floats:
        """The mean of what is around each texel, of the face alone."""
        flat, between, into = (each.reshape(SIDE, -1) for each in (values, self._between, out))
        kernels.smooth(flat, self._share, _BELL, between, into)
        return out

    def _read_lips(self, known: Acquaintance) -> float:
        """How much redder the lips are than the skin around them; says whether they are hidden."""
        redness, alike = kernels.read_lips(
            self._left.reshape(-1, 3),
            known.usual.reshape(-1, 3),
            self._zones.lips_zone,
            self._zones.ring,
            self._zones.lips_near,
        )
        if known.red >= _LEAST_RED and known.frames >= _SETTLED:
            # Crooked lips are still red, and pressed ones are still where they were.
            known.hidden = redness / known.red + alike < (_SEEN if known.hidden else _HIDDEN)
            if known.hidden:
                # In light or on a camera that shows no redness at all, lips tell nothing.
                skin = np.empty(3, np.float32)
                kernels.medians(self._seen.reshape(-1, 3), self._zones.plain, skin)
                known.hidden = bool(skin[1] > known.skin[1] / 2)
        if not known.hidden:
            rate = max(1 / (known.frames + 1), _FOLLOW * (1 + known.rested))
            known.red = redness if known.frames == 0 else known.red + rate * (redness - known.red)
        return float(redness)

    def _learn(self, known: Acquaintance, off: Floats) -> None:
        # As far in a second, however many frames of it are looked at.
        follow = _FOLLOW * (1 + known.rested)
        rates = np.array([max(1 / (known.frames + 1), follow), follow / 4, _GROW], np.float32)
        states = np.array([known.frames >= _SETTLED, known.hidden])
        kernels.learn(
            (known.usual, known.varies, known.level), off, self._left, self._unusual, self._foreign,
            self._zones.lower, self._zones.texels, rates, states,
        )  # fmt: skip
        known.frames += 1

    def _cover(self, patch: Patch, places: Floats, amount: Floats) -> Cover:
        """The mask over the patch, its border drawn to the edges in the picture."""
        self._painted[:, :, 0] = np.rint(amount * 255)
        size = patch.image.shape[:2]
        if self._drawn.shape[:2] != size:
            self._drawn = np.empty((*size, 3), np.uint8)
            self._work = np.empty(edges.PLANES * size[0] * size[1], np.float32)
        drawn = self._drawn
        drawn[:] = 0
        # Only what lies near it need be drawn.
        some = blobs.nearby(cv2.dilate(amount, _NEARBY).reshape(-1), self._zones.at, self._all)
        cpu.composite(drawn, self._painted, places, self._zones.uv, self._whole, some)
        x, y, w, h = cv2.boundingRect(cv2.extractChannel(drawn, 0))
        reach = 2 * edges.REACH
        rows, columns = slice(max(0, y - reach), y + h + reach), slice(max(0, x - reach), x + w + reach)
        mask: Array = np.zeros(size, np.uint8)
        if w and h:
            part = mask[rows, columns]
            grey = np.ascontiguousarray(
                cv2.cvtColor(patch.image[rows, columns], cv2.COLOR_RGB2GRAY), np.float32
            )
            edges.to_edges(grey, drawn[rows, columns], self._work, part)
        return Cover(mask, patch.affine.copy(), np.ascontiguousarray(amount.reshape(-1)[self._zones.at]))


def _moved(cover: Cover, before: Floats, now: Floats) -> Cover:
    """The same, moved as the face was: some of its landmarks (N, 2) then, and now."""
    middle, centre = now.mean(0), before.mean(0)
    here, there = now - middle, before - centre
    # The similarity from now to then that leaves the least squares.
    (xx, xy), (yx, yy) = (here.T @ there).tolist()
    size = max(float(np.vdot(here, here)), 1e-6)
    a, b = (xx + yy) / size, (xy - yx) / size
    affine = np.empty((2, 3), np.float32)
    affine[:, :2] = cover.affine[:, :2] @ np.array([[a, -b], [b, a]], np.float32)
    affine[:, 2] = cover.affine[:, :2] @ centre + cover.affine[:, 2] - affine[:, :2] @ middle
    return replace(cover, affine=affine)
