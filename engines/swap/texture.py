"""A source face as a texture of the canonical mesh: upright, symmetric, with its opacity in the fourth channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import cv2
import numpy as np

from engines.analysis.source import SourceFace
from engines.analysis.topology import (
    LEFT_EYE_RINGS,
    LIPS_INNER,
    OVAL,
    POINTS,
    RIGHT_EYE_RINGS,
    canonical_uv,
    triangles,
)
from engines.faces import Array, Floats, Image
from engines.kernels import cpu
from engines.swap.light import plain_skin, sample
from engines.swap.skin import foreign, plain
from engines.swap.tone import calm, neutral

_MARGIN: Final = 4
_SIDES: Final = (256, 384, 512, 768, 1024)
_OVAL_FEATHER: Final = 0.045
"""Width of the blend at the face's border, in sides of the texture."""
_EYE_FEATHER: Final = 0.006
_EDGE_ON: Final = (0.10, 0.30)
"""A photo that saw the skin at less than this (cosine) knows nothing, or not everything, about it."""
_LIP_FEATHER: Final = 0.006

RING_LOOP: Final = (0, 1, 2, 3, 4, 5, 6, 7, 8, 15, 14, 13, 12, 11, 10, 9)
"""A ring around an eye is stored as its lower, then its upper half; this walks around it once."""
_LIP_LOOP: Final = (*range(11), *range(19, 10, -1))

EYE_HOLES: Final = tuple(
    (tuple(ring[i] for i in RING_LOOP), _EYE_FEATHER) for ring in (RIGHT_EYE_RINGS[0], LEFT_EYE_RINGS[0])
)
"""Borders of the openings through which the live eyes are seen, and how softly they begin, sides of the texture."""
MOUTH_HOLE: Final = ((tuple(LIPS_INNER[i] for i in _LIP_LOOP), _LIP_FEATHER),)

Holes = Sequence[tuple[tuple[int, ...], float]]


@dataclass(frozen=True, slots=True)
class Texture:
    """What the mesh swapper paints.

    Attributes:
        levels: (S, S, 4) uint8 B, G, R, opacity; each level half as large as the one before.
        uv: For each level (468, 2) float32: where each vertex lies, texels.
        width: How wide the face is in the first level, texels.
    """

    levels: Sequence[Image]
    uv: Sequence[Floats]
    width: float

    def level_for(self, face_width: float) -> int:
        """Which level to paint a face of this width (pixels) from, so that no texel is skipped."""
        level, width = 0, self.width
        while level + 1 < len(self.levels) and width > 1.6 * face_width:
            level, width = level + 1, width / 2
        return level


def uv_of(side: int) -> Floats:
    """(468, 2) float32: where each vertex lies in a texture of this size, texels."""
    uv: Floats = canonical_uv() * np.float32(side - 2 * _MARGIN - 1) + np.float32(_MARGIN)
    return np.ascontiguousarray(uv, np.float32)


def unwrap(source: SourceFace, holes: Holes = EYE_HOLES + MOUTH_HOLE) -> Texture:
    """Makes the texture of a photo.

    Args:
        source: The photo and its landmarks.
        holes: Where it stays open for the live face.
    """
    points = np.ascontiguousarray(source.points[:POINTS])
    face = float(np.ptp(points[:, 0]))
    side = next((s for s in _SIDES if s >= 1.2 * face), _SIDES[-1])
    uv = uv_of(side)
    seen = _seen(points, uv, side)
    skin, known = _fill_hidden_half(_flatten(source.image, points, uv, side, face), seen)
    covered = opacity(uv, side, holes) * known * (1 - foreign(skin, uv))
    skin = calm(neutral(skin, _mean_skin(skin, uv, covered)), plain(uv, side) * covered)
    alpha = np.rint(covered * 255).astype(np.uint8)
    levels = [np.ascontiguousarray(np.dstack([skin, alpha]))]
    while levels[-1].shape[0] > 96:
        half = levels[-1].shape[0] // 2
        levels.append(cv2.resize(levels[-1], (half, half), interpolation=cv2.INTER_AREA))
    # A texel of a smaller level is the mean of 2×2 texels, so its centre lies between them.
    scaled = [(uv + 0.5) * (level.shape[0] / side) - 0.5 for level in levels]
    return Texture(
        levels, [np.ascontiguousarray(places, np.float32) for places in scaled], float(np.ptp(uv[:, 0]))
    )


def _flatten(image: Image, points: Floats, uv: Floats, side: int, face: float) -> Image:
    """The photo laid over the texture, triangle by triangle."""
    scale = min(1.0, side / (1.2 * face))
    if scale < 1:
        # A photo far larger than the texture would alias.
        image = np.asarray(
            cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA), np.uint8
        )
    places = np.full((side, side, 2), -1, np.float32)
    values = np.ascontiguousarray((points[:, :2] + 0.5) * scale - 0.5, np.float32)
    cpu.interpolate(places, uv, values, triangles())
    return np.asarray(
        cv2.remap(image, places[:, :, 0], places[:, :, 1], cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE),
        np.uint8,
    )


def _mean_skin(skin: Image, uv: Floats, covered: Floats) -> Floats:
    """(3,) float32 B, G, R, 0…1: the mean of the plain skin that the photo shows."""
    broad = cv2.GaussianBlur(skin, (0, 0), skin.shape[0] / 64).astype(np.float32) / np.float32(255)
    weight = plain_skin() * sample(covered, uv + 0.5)
    if weight.sum() < 1:
        weight = np.ones(POINTS, np.float32)
    return np.asarray(np.average(sample(broad, uv + 0.5), axis=0, weights=weight), np.float32)


def _seen(points: Floats, uv: Floats, side: int) -> Floats:
    """(side, side) float32: how squarely the photo saw each part of the face, 0 edge on, 1 straight."""
    looks = np.empty(POINTS, np.float32)
    cpu.facing(points, triangles(), np.empty((POINTS, 3), np.float32), looks)
    seen = np.zeros((side, side, 1), np.float32)
    cpu.interpolate(seen, uv, looks[:, None].copy(), triangles())
    return np.asarray(cv2.GaussianBlur(seen[:, :, 0], (0, 0), side / 48), np.float32)


def _fill_hidden_half(skin: Image, seen: Floats) -> tuple[Image, Floats]:
    """Takes what a turned photo shows badly from the other half of the face.

    Returns:
        The skin, and (side, side) float32: how far it is known at all, 0…1.
    """
    other = np.ascontiguousarray(seen[:, ::-1])
    # Only where this half is nearly edge on and the other one is plainly better.
    take = np.clip((0.4 - seen) / 0.2, 0, 1) * np.clip((other - seen - 0.2) / 0.2, 0, 1)
    known = _smoothstep((seen + take * (other - seen) - _EDGE_ON[0]) / (_EDGE_ON[1] - _EDGE_ON[0]))
    if take.max() <= 0:
        return skin, known
    mirror = np.ascontiguousarray(skin[:, ::-1]).astype(np.float32)
    own = skin.astype(np.float32)
    # The light on the two halves differs: bring the borrowed one to the brightness around it.
    broad = (0, 0), skin.shape[0] / 10
    ratio = (cv2.GaussianBlur(own, *broad) + 4) / (cv2.GaussianBlur(mirror, *broad) + 4)
    mixed = own + take[:, :, None] * (mirror * np.clip(ratio, 0.5, 2.0) - own)
    return np.clip(np.rint(mixed), 0, 255).astype(np.uint8), known


def opacity(uv: Floats, side: int, holes: Holes) -> Floats:
    """Where the photo covers the live face: not on the oval, and not in its holes.

    Args:
        uv: (468, 2) float32: where each vertex lies in the texture, texels.
        side: Side of the texture, texels.
        holes: Their borders, and how softly they begin, sides of the texture.

    Returns:
        (side, side) float32, 0…1.
    """
    inside = _distance(uv[list(OVAL)], side, inwards=True)
    covered = _smoothstep(inside / (_OVAL_FEATHER * side))
    for border, feather in holes:
        covered *= _smoothstep(_distance(uv[list(border)], side, inwards=False) / (feather * side))
    return covered


def _distance(loop: Floats, side: int, inwards: bool) -> Floats:
    """Distance to a closed line from inside (0 outside of it), or from outside (0 inside), texels."""
    mask: Array = np.zeros((side, side), np.uint8)
    cv2.fillPoly(mask, [np.rint(loop * 16).astype(np.int32)], 255, cv2.LINE_8, 4)
    return np.asarray(
        cv2.distanceTransform(mask if inwards else 255 - mask, cv2.DIST_L2, cv2.DIST_MASK_PRECISE), np.float32
    )


def _smoothstep(t: Floats) -> Floats:
    t = np.clip(t, 0, 1)
    return t * t * (3 - 2 * t)
