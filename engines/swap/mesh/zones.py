"""Where the parts of a face lie in the small canonical picture in which it is looked for what is before it.

The same for every face, and worked out once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import cv2
import numpy as np

from engines.analysis.topology import (
    LEFT_BROW,
    LEFT_EYE_RINGS,
    LIPS_OUTER,
    POINTS,
    RIGHT_BROW,
    RIGHT_EYE_RINGS,
    canonical_uv,
    triangles,
)
from engines.faces import Array, Floats
from engines.kernels import cpu

SIDE: Final = 64
"""Texels along a side."""
_MARGIN: Final = 2
_TIP: Final = 4
"""The vertex on the tip of the nose."""
_SPREAD: Final = np.array([0.13, 0.045, 0.06], np.float32)
"""How far lightness, redness and blueness (logarithms) of a face are off at least from one frame to another."""
_MOUTH_SPREAD: Final = np.array([0.35, 0.10, 0.10], np.float32)
_EYE_SPREAD: Final = np.array([0.15, 0.03, 0.05], np.float32)
_RIM_SPREAD: Final = np.array([0.10, 0.04, 0.04], np.float32)
"""How much more near the mouth, which moves; near lids and brows; and at the oval, where the mesh ends."""


@dataclass(frozen=True, slots=True)
class Zones:
    """Texels of a face. Never written to.

    Attributes:
        uv: (468, 2) float32: where each vertex lies, texels.
        at: (468,) int64: the texel that it lies in, row times :data:`SIDE` plus column; so are all below.
        texels: (N,) int32: those of the face.
        corners: (N, 3) int32: the triangle that each of them lies in.
        weights: (N, 3) float32: where in it.
        face: (64, 64) float32: 1 on them.
        variance: (64, 64, 3) float32: by how much lightness, redness and blueness may be off at least, squared.
        lips: (L,) int64: those within the lips.
        lips_near: (L,) int64: those, and what is close by.
        lips_zone: (L,) int64: where lips may be.
        ring: (R,) int64: the skin around them.
        plain: (P,) int64: plain skin above the mouth.
        lower: (64, 64) float32, 0…1: from the tip of the nose downwards.
        soft: (3, 64, 64) float32, 0…1: around the mouth, :attr:`lower`, the forehead.
    """

    uv: Floats
    at: Array
    texels: Array
    corners: Array
    weights: Floats
    face: Floats
    variance: Floats
    lips: Array
    lips_near: Array
    lips_zone: Array
    ring: Array
    plain: Array
    lower: Floats
    soft: Floats


@cache
def zones() -> Zones:
    """All of them."""
    uv = np.ascontiguousarray(canonical_uv() * (SIDE - 2 * _MARGIN - 1) + _MARGIN, np.float32)
    texels, corners, weights = _texels(uv)
    face: Floats = np.zeros((SIDE, SIDE), np.float32)
    face.reshape(-1)[texels] = 1
    depth = cv2.distanceTransform(face.astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    rows = np.arange(SIDE, dtype=np.float32)[:, None]
    rim = np.clip(1 - depth / 5, 0, 1)
    mouth = _around(uv, LIPS_OUTER, 10)
    eyes = np.maximum(
        _around(uv, (*RIGHT_EYE_RINGS[1], *RIGHT_BROW), 4), _around(uv, (*LEFT_EYE_RINGS[1], *LEFT_BROW), 4)
    )
    wavering = ((mouth, _MOUTH_SPREAD), (eyes, _EYE_SPREAD), (rim, _RIM_SPREAD))
    spread = _SPREAD + sum(zone[:, :, None] * more for zone, more in wavering)
    at = np.clip(np.rint(uv).astype(int), 0, SIDE - 1)
    lower = np.clip((rows - uv[_TIP, 1]) / 4 + 1, 0, 1) * face
    brows = uv[[*RIGHT_BROW, *LEFT_BROW], 1].min()
    forehead = np.clip((brows - rows) / 3, 0, 1) * face
    return Zones(
        uv=uv,
        at=at[:, 1] * SIDE + at[:, 0],
        texels=texels,
        corners=corners,
        weights=weights,
        face=face,
        variance=np.asarray(spread**2, np.float32),
        lips=np.flatnonzero(mouth >= 1),
        lips_near=np.flatnonzero(mouth > 0.6),
        lips_zone=np.flatnonzero((_around(uv, LIPS_OUTER, 9) > 0) & (face > 0)),
        ring=np.flatnonzero((_around(uv, LIPS_OUTER, 14) > 0) & (mouth < 0.8) & (depth > 3)),
        plain=np.flatnonzero((depth > 6) & (mouth < 0.5) & (eyes <= 0) & (rows < uv[_TIP, 1])),
        lower=lower,
        soft=np.ascontiguousarray(np.stack([mouth, lower, forehead]), np.float32),
    )


def _texels(uv: Floats) -> tuple[Array, Array, Floats]:
    """The texels of the face, the triangle each lies in, and its weights there."""
    found: Floats = np.zeros((SIDE, SIDE, POINTS), np.float32)
    cpu.interpolate(found, uv, np.eye(POINTS, dtype=np.float32), triangles())
    flat = found.reshape(-1, POINTS)
    texels = np.flatnonzero(flat.sum(1) > 0.5).astype(np.int32)
    three = np.argsort(-flat[texels], axis=1)[:, :3].astype(np.int32)
    weights = np.take_along_axis(flat[texels], three, axis=1)
    return texels, np.ascontiguousarray(three), np.ascontiguousarray(weights)


def _around(uv: Floats, vertices: Sequence[int], reach: float) -> Floats:
    """(64, 64) float32: 1 inside of the hull of some vertices, falling to 0 so many texels away."""
    outside: Array = np.ones((SIDE, SIDE), np.uint8)
    cv2.fillConvexPoly(outside, cv2.convexHull(np.rint(uv[list(vertices)]).astype(np.int32)), 0)
    away = cv2.distanceTransform(outside, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    return np.asarray(np.clip(1 - away / reach, 0, 1), np.float32)
