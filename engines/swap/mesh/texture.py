"""A person as a texture of the canonical mesh: upright, with the opacity in the fourth channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

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
from engines.swap.mesh.lashes import lashes_end
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
_UPPER: Final = np.arange(9, 16)
"""Where the upper lid is in that walk; opposite to the nth is, on the lower lid, the nth from the walk's end."""
_LIP_LOOP: Final = (*range(11), *range(19, 10, -1))

_WIDER: Final = 0.004
"""How far holes reach over their border, sides of the texture: there a photo shows the inside of a mouth."""
_LASHES: Final = -0.002
"""How much further than the lashes seem to end a hole begins, sides of the texture: any more, and the eye that looks
up from under them moves less."""
_LOWEST: Final = 0.4
"""Part of an eye's height that lashes may take at most."""


class Hole(NamedTuple):
    """Where the live face is seen through the photo.

    Attributes:
        border: The vertices around it, in order.
        feather: How softly it begins, sides of the texture.
        lashes: Whether it is an eye that has the photo's upper lashes before it.
    """

    border: tuple[int, ...]
    feather: float
    lashes: bool = False


EYE_HOLES: Final = tuple(
    Hole(tuple(ring[i] for i in RING_LOOP), _EYE_FEATHER) for ring in (RIGHT_EYE_RINGS[0], LEFT_EYE_RINGS[0])
)
LASHED_EYE_HOLES: Final = tuple(hole._replace(lashes=True) for hole in EYE_HOLES)
MOUTH_HOLE: Final = (Hole(tuple(LIPS_INNER[i] for i in _LIP_LOOP), _LIP_FEATHER),)


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


def unwrap(*sources: SourceFace, holes: Sequence[Hole] = LASHED_EYE_HOLES + MOUTH_HOLE) -> Texture:
    """Makes the texture of one person.

    Args:
        sources: One or several photos of the person.
        holes: Where it stays open for the live face.
    """
    skin, known = laid_out(*sources)
    side = len(skin)
    uv = uv_of(side)
    levels: list[Image] = [np.empty((side, side, 4), np.uint8)]
    levels[0][:, :, :3] = skin
    levels[0][:, :, 3] = np.rint(opacity(uv, side, _loops(skin, uv, holes)) * known * 255)
    while levels[-1].shape[0] > 96:
        half = levels[-1].shape[0] // 2
        levels.append(
            np.asarray(cv2.resize(levels[-1], (half, half), interpolation=cv2.INTER_AREA), np.uint8)
        )
    # A texel of a smaller level is the mean of 2×2 texels, so its centre lies between them.
    scaled = [(uv + 0.5) * (level.shape[0] / side) - 0.5 for level in levels]
    return Texture(
        levels, [np.ascontiguousarray(places, np.float32) for places in scaled], float(np.ptp(uv[:, 0]))
    )


def laid_out(*sources: SourceFace) -> tuple[Image, Floats]:
    """Lays the photos of one person over the texture: most of the work, and the same whatever stays live.

    It is kept with the first photo: 7 bytes a texel, 0.5 MB for a face 200 pixels wide and 4 MB for one of 500.

    Args:
        sources: One or several photos of the person.

    Returns:
        (S, S, 3) uint8 BGR in neutral light, and (S, S) float32, 0…1: how far it shows the face's skin. Read-only.
    """
    widest = max(face_width(source) for source in sources)
    side = next((s for s in _SIDES if s >= 1.2 * widest), _SIDES[-1])
    first, *others = sources

    def lay_out() -> tuple[Image, Floats, Sequence[SourceFace]]:
        uv = uv_of(side)
        view = merged([view_of(source, uv, side) for source in sources])
        for plane in (view.skin, view.known):
            plane.flags.writeable = False
        # The others are held, or another photo might come to lie in memory where one of them did.
        return view.skin, view.known, others

    skin, known, _ = first.kept.latest(("mesh texture", side, *map(id, others)), lay_out)
    return skin, known


def _loops(skin: Image, uv: Floats, holes: Sequence[Hole]) -> list[tuple[Floats, float]]:
    """The border (N, 2) of each hole, texels, and how softly it begins, sides of the texture."""
    ends = lashes_end(skin, uv) if any(hole.lashes for hole in holes) else None
    loops = []
    for hole in holes:
        loop = uv[list(hole.border)]
        if hole.lashes and ends is not None:
            upper, lower = loop[_UPPER], loop[-_UPPER]
            height = (lower - upper)[:, 1:]
            upper[:, 1:] += np.clip((ends + _LASHES + _WIDER) * len(skin), 0, _LOWEST * height)
            loop[_UPPER] = upper
        loops.append((loop, hole.feather))
    return loops


def opacity(uv: Floats, side: int, holes: Sequence[tuple[Floats, float]]) -> Floats:
    """Where the photo covers the live face: not on the oval, and not in its holes.

    Args:
        uv: (468, 2) float32: where each vertex lies in the texture, texels.
        side: Side of the texture, texels.
        holes: Their borders (N, 2), texels, and how softly they begin, sides of the texture.

    Returns:
        (side, side) float32, 0…1.
    """
    inside = _distance(uv[list(OVAL)], (side, side), inwards=True)
    covered = smoothstep(inside / (_OVAL_FEATHER * side))
    for loop, feather in holes:
        # A hole is small, and further away than this nothing changes.
        reach = (_WIDER + feather) * side + 2
        low = np.maximum(np.floor(loop.min(0) - reach), 0).astype(int)
        part = covered[low[1] : int(loop[:, 1].max() + reach), low[0] : int(loop[:, 0].max() + reach)]
        away = _distance(loop - low.astype(np.float32), part.shape, inwards=False) / side - _WIDER
        part *= smoothstep(away / feather)
    return covered


def _distance(loop: Floats, shape: tuple[int, ...], inwards: bool) -> Floats:
    """Distance to a closed line from inside (0 outside of it), or from outside (0 inside), texels."""
    mask: Array = np.zeros(shape, np.uint8)
    cv2.fillPoly(mask, [np.rint(loop * 16).astype(np.int32)], 255, cv2.LINE_8, 4)
    return np.asarray(
        cv2.distanceTransform(mask if inwards else 255 - mask, cv2.DIST_L2, cv2.DIST_MASK_PRECISE), np.float32
    )
