"""A person as a texture of the canonical mesh: upright, with the opacity in the fourth channel."""

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
    RIGHT_EYE_RINGS,
    canonical_uv,
)
from engines.faces import Array, Floats, Image
from engines.swap.mesh.ramp import smoothstep
from engines.swap.mesh.unwrap import face_width, merged, view_of

_MARGIN: Final = 4
_SIDES: Final = (256, 384, 512, 768, 1024)
_OVAL_FEATHER: Final = 0.045
"""Width of the blend at the face's border, in sides of the texture."""
_EYE_FEATHER: Final = 0.006
_LIP_FEATHER: Final = 0.006

RING_LOOP: Final = (0, 1, 2, 3, 4, 5, 6, 7, 8, 15, 14, 13, 12, 11, 10, 9)
"""A ring around an eye is stored as its lower, then its upper half; this walks around it once."""
_LIP_LOOP: Final = (*range(11), *range(19, 10, -1))

EYE_HOLES: Final = tuple(
    (tuple(ring[i] for i in RING_LOOP), _EYE_FEATHER) for ring in (RIGHT_EYE_RINGS[0], LEFT_EYE_RINGS[0])
)
"""Borders of the openings through which the live eyes are seen, and how softly they begin, sides of the texture."""
MOUTH_HOLE: Final = ((tuple(LIPS_INNER[i] for i in _LIP_LOOP), _LIP_FEATHER),)
_WIDER: Final = 0.004
"""How far holes reach over their border, sides of the texture: there a photo shows the inside of a mouth."""

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


def unwrap(*sources: SourceFace, holes: Holes = EYE_HOLES + MOUTH_HOLE) -> Texture:
    """Makes the texture of one person.

    Args:
        sources: One or several photos of the person.
        holes: Where it stays open for the live face.
    """
    widest = max(face_width(source) for source in sources)
    side = next((s for s in _SIDES if s >= 1.2 * widest), _SIDES[-1])
    uv = uv_of(side)
    view = merged([view_of(source, uv, side) for source in sources])
    alpha = np.rint(opacity(uv, side, holes) * view.known * 255).astype(np.uint8)
    levels = [np.ascontiguousarray(np.dstack([view.skin, alpha]))]
    while levels[-1].shape[0] > 96:
        half = levels[-1].shape[0] // 2
        levels.append(cv2.resize(levels[-1], (half, half), interpolation=cv2.INTER_AREA))
    # A texel of a smaller level is the mean of 2×2 texels, so its centre lies between them.
    scaled = [(uv + 0.5) * (level.shape[0] / side) - 0.5 for level in levels]
    return Texture(
        levels, [np.ascontiguousarray(places, np.float32) for places in scaled], float(np.ptp(uv[:, 0]))
    )


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
    covered = smoothstep(inside / (_OVAL_FEATHER * side))
    for border, feather in holes:
        away = _distance(uv[list(border)], side, inwards=False) / side - _WIDER
        covered *= smoothstep(away / feather)
    return covered


def _distance(loop: Floats, side: int, inwards: bool) -> Floats:
    """Distance to a closed line from inside (0 outside of it), or from outside (0 inside), texels."""
    mask: Array = np.zeros((side, side), np.uint8)
    cv2.fillPoly(mask, [np.rint(loop * 16).astype(np.int32)], 255, cv2.LINE_8, 4)
    return np.asarray(
        cv2.distanceTransform(mask if inwards else 255 - mask, cv2.DIST_L2, cv2.DIST_MASK_PRECISE), np.float32
    )
