"""The proportions of the photo on the live face: where eyes, nose, mouth and jaw sit, not how they move.

Both faces are laid over the canonical one. What is left between the photo and the live person's usual shape is who
they are; what is left between the live person's shape now and their usual one is expression, and is not touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cache
from typing import Final, NamedTuple

import numpy as np

from engines.analysis.topology import (
    LEFT_BROW,
    LEFT_EYE_RINGS,
    LIPS_BETWEEN,
    LIPS_INNER,
    LIPS_OUTER,
    OVAL,
    POINTS,
    RIGHT_BROW,
    RIGHT_EYE_RINGS,
    canonical,
)
from engines.faces import Array, Floats
from engines.swap.mesh.ramp import away, smoothstep

_FALL: Final = 1.2
"""Over this distance from the rim of the oval inwards (cm of the canonical face) the offset grows to its whole."""
_FIXED_FALL: Final = 2.0
"""The same around vertices that stay where they are."""
_LEARN: Final = 15
"""Frames over which the live person's usual shape is averaged at first."""
_FOLLOW: Final = 1 / 1800
"""How fast it follows afterwards, part of the way per frame: slower than any expression lasts."""

_UPPER_LIDS: Final = ([ring[8 + i] for ring in RIGHT_EYE_RINGS[:2] for i in range(1, 8)],
                      [ring[8 + i] for ring in LEFT_EYE_RINGS[:2] for i in range(1, 8)])  # fmt: skip
_LOWER_LIDS: Final = ([ring[i] for ring in RIGHT_EYE_RINGS[:2] for i in range(1, 8)],
                      [ring[i] for ring in LEFT_EYE_RINGS[:2] for i in range(1, 8)])  # fmt: skip
_LIPS: Final = (LIPS_INNER, LIPS_BETWEEN[1], LIPS_BETWEEN[0], LIPS_OUTER)
_LIP_VERTICES: Final = tuple(vertex for ring in _LIPS for vertex in ring)
_MOUTH_FALL: Final = 2.5
_MOUTH_WIDTH: Final = 0.5
"""Part of the difference in width that is taken for the person's; the rest is a smile."""
_UPPER_SHARE: Final = 0.75
"""Part of a blink that is the upper lid's."""
_SLIT: Final = 0.3
"""How far the photo's lids stay apart over a shut eye: the live lid shows between them. Where the photo's landmarks lie
a little inside of its eye, its lids have a rim of open eye that would be all that is seen."""
_SURELY_OPEN: Final = (0.9, 1.0)
"""How far the mesh has eyes open, of what is usual, that do not shut whatever the picture shows. It has shut eyes at
0.5 to 0.9."""
_SECOND_RING: Final = 0.5
"""How far the ring around an eye goes along with its lids."""
_BROW_VERTICES: Final = (*RIGHT_BROW, *LEFT_BROW)
_EYE_VERTICES: Final = tuple(vertex for ring in (*RIGHT_EYE_RINGS, *LEFT_EYE_RINGS) for vertex in ring)
_NOSE_VERTICES: Final = (168, 6, 197, 195, 5, 4, 1, 19, 94, 2)
USUAL: Final = 0.8
"""The strength at which each region takes just its share."""


class _Region(NamedTuple):
    """Part of a face that the same holds for.

    Attributes:
        vertices: Its middle.
        reach: How far around it goes, cm.
        share: How much of the offset it takes at the usual strength.
        livelier: How much more it moves than on the live face, across and upwards. A face is read by its creases as
            much as by its shape, and those of the photo do not move: a network that reads the output sees half to
            nine tenths of the motion.
    """

    vertices: tuple[int, ...]
    reach: float
    share: float
    livelier: tuple[float, float]


_REGIONS: Final = (
    _Region(_BROW_VERTICES, 2.0, 1.0, (0.3, 0.3)),
    _Region(_EYE_VERTICES, 1.0, 0.8, (0.15, 0.3)),
    _Region(_NOSE_VERTICES, 2.2, 0.95, (0.0, 0.0)),
    _Region(_LIP_VERTICES, _MOUTH_FALL, 0.65, (0.0, 0.1)),
)
"""Where likeness is worth most for the expression that it costs; found by trying each share and motion in turn."""
_ELSEWHERE: Final = 0.65
"""The share of cheeks, jaw and forehead: the rim around them stays where it is, and what is bent between rim and
features moves otherwise than the live face does."""


def align(points: Floats) -> tuple[Floats, Floats]:
    """Lays a mesh over the canonical face.

    Args:
        points: (N, 3) landmarks, pixels.

    Returns:
        (468, 3) float32, the mesh in centimetres of the canonical face, and (3, 3) float32, the matrix that takes
        offsets there back to pixels of the frame.
    """
    live = points[:POINTS].astype(np.float64)
    live -= live.mean(0)
    # Umeyama 1991: the similarity of least squares.
    u, s, vt = np.linalg.svd(live.T @ _target())
    sign = np.array([1.0, 1.0, np.sign(np.linalg.det(u @ vt))])
    rotation = (u * sign) @ vt
    scale = float((s * sign).sum() / np.einsum("nd,nd->", live, live))
    return (scale * live @ rotation).astype(np.float32), (rotation.T / scale).astype(np.float32)


@cache
def _target() -> Array:
    """(468, 3) float64: the canonical face around its middle."""
    target = canonical().astype(np.float64)
    return np.asarray(target - target.mean(0))


def mean_shape(photos: Sequence[Floats]) -> Floats:
    """The shape that several photos of one person have in common: what differs is expression and lens.

    Args:
        photos: (N, 3) landmarks of each.

    Returns:
        (468, 3) float32, centimetres of the canonical face.
    """
    return np.asarray(np.mean([align(points)[0] for points in photos], axis=0), np.float32)


def _freedom() -> Floats:
    """(468, 1) float32: how much of the offset each vertex may take; none on the oval, where the live head ends."""
    return smoothstep(away(OVAL) / _FALL)


def _around(vertices: tuple[int, ...], reach: float) -> Floats:
    """(468, 1) float32: 1 on some vertices, fading out around them."""
    return smoothstep(1 - away(vertices) / reach)


@cache
def _regional() -> tuple[Floats, Floats]:
    """(468, 1) and (468, 2) float32, read-only: each vertex's share of the offset, and how much livelier it moves."""
    masks = [_around(region.vertices, region.reach) for region in _REGIONS]
    masks.append(np.clip(1 - np.sum(masks, axis=0), 0, 1))
    total = np.sum(masks, axis=0)
    shares = [region.share for region in _REGIONS] + [_ELSEWHERE]
    livelier = [np.array(region.livelier, np.float32) for region in _REGIONS]
    share = np.sum([part * mask for part, mask in zip(shares, masks, strict=True)], axis=0) / total
    moves = np.sum([part * mask for part, mask in zip(livelier, masks[:-1], strict=True)], axis=0) / total
    tables = np.asarray(share, np.float32), np.asarray(moves, np.float32)
    for table in tables:
        table.flags.writeable = False
    return tables


def _mouth_offset(photo: Floats, usual: Floats, now: Floats) -> Floats:
    """Where and how wide the photo's mouth is; how it is bent and opened is expression and stays live."""
    lips = list(_LIP_VERTICES)
    here, there = usual[lips].mean(0), photo[lips].mean(0)
    width = (float(np.ptp(photo[lips, 0])) / max(float(np.ptp(usual[lips, 0])), 1e-3)) ** _MOUTH_WIDTH
    stretched = (now - now[lips].mean(0)) * np.array([width - 1, 0, 0], np.float32)
    return np.asarray(there - here + stretched, np.float32)


def _opening(shape: Floats, eye: int) -> float:
    gaps = shape[_LOWER_LIDS[eye][:7], 1] - shape[_UPPER_LIDS[eye][:7], 1]
    return float(gaps.mean())


def _close_lids(eye: int, offset: Floats, now: Floats, usual: Floats, seen: float) -> None:
    """Has lids meet that close, however wide the photo's eyes are open; changes the offset in place.

    Args:
        eye: 0 the right, 1 the left one.
        offset: (468, 3) float32: what is added to the live face.
        now: (468, 3) float32: the live face.
        usual: (468, 3) float32: what is usual for it.
        seen: How far the eye is open in the picture, 0…1.
    """
    wide = float(np.clip(_opening(now, eye) / max(_opening(usual, eye), 1e-3), 0, 1))
    upper, lower = _UPPER_LIDS[eye], _LOWER_LIDS[eye]
    apart = (offset[lower] - offset[upper]) * np.float32((1 - wide) / 2)
    offset[upper] += apart
    offset[lower] -= apart
    # A head that turns fast is blurred, and its eyes have no edges either: the mesh must have seen a little of it.
    seen = max(_SLIT + (1 - _SLIT) * seen, (wide - _SURELY_OPEN[0]) / (_SURELY_OPEN[1] - _SURELY_OPEN[0]))
    if seen >= wide:
        return
    gap = (now + offset)[lower[:7]] - (now + offset)[upper[:7]]
    gap *= np.float32(1 - seen / wide)
    for lids, way in ((upper, _UPPER_SHARE), (lower, _UPPER_SHARE - 1)):
        offset[lids[:7]] += np.float32(way) * gap
        offset[lids[7:]] += np.float32(_SECOND_RING * way) * gap


class Proportions:
    """Moves the vertices of one live face towards the proportions of a photo.

    Args:
        photo: (N, 3) landmarks of the photo.
        strength: 0 leaves the live shape, 1 takes the photo's wherever it may.
        fixed: Vertices that stay where they are, with their surroundings: openings that are not carried along.
    """

    def __init__(self, photo: Floats, strength: float, fixed: Sequence[int] = ()) -> None:
        self._photo = align(photo)[0]
        free = _freedom()
        if fixed:
            free = free * np.clip(away(tuple(fixed)) / _FIXED_FALL, 0, 1)
        share, livelier = _regional()
        self._weight = free * np.minimum(share * np.float32(strength / USUAL), 1)
        self._emphasis = free * livelier * np.float32(min(strength / USUAL, 1))
        self._mouth = _around(_LIP_VERTICES, _MOUTH_FALL)
        self._usual: Floats | None = None
        self._seen = 0

    def of_another(self) -> Proportions:
        """The same for another live person, of whom nothing was learnt yet; far cheaper than to make one."""
        other = copy(self)
        other._usual, other._seen = None, 0
        return other

    def offset(self, points: Floats, lids: Sequence[float] = (1.0, 1.0)) -> Floats:
        """What to add to the live landmarks.

        Args:
            points: (N, 3) landmarks of this frame.
            lids: How far the right and the left eye are open in the picture, 0…1, where that is known better.

        Returns:
            (468, 3) float32 pixels.
        """
        now, back = align(points)
        usual = self._learn(now)
        offset = self._photo - usual
        offset += self._mouth * (_mouth_offset(self._photo, usual, now) - offset)
        offset *= self._weight
        # What a network makes of depth is a guess, and another one for every pose.
        offset[:, 2] = 0
        offset[:, :2] += self._emphasis * (now - usual)[:, :2]
        for eye in range(2):
            _close_lids(eye, offset, now, usual, lids[eye])
        return np.asarray(offset @ back, np.float32)

    def _learn(self, now: Floats) -> Floats:
        self._seen += 1
        if self._usual is None:
            self._usual = now
        else:
            rate = 1 / self._seen if self._seen <= _LEARN else _FOLLOW
            self._usual += np.float32(rate) * (now - self._usual)
        return self._usual
