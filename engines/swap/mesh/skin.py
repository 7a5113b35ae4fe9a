"""Which texels of a photo are not skin of its face: a fringe, a hat, an ear-ring, a strap.

They come in from the border of the face, and they differ from its plain skin in colour or darkness. What lies inside,
brows, glasses, a beard, belongs to how the person looks and stays.
"""

from __future__ import annotations

from typing import Final

import cv2
import numpy as np

from engines.analysis.topology import LEFT_BROW, LEFT_EYE_RINGS, LIPS_OUTER, OVAL, RIGHT_BROW, RIGHT_EYE_RINGS
from engines.faces import Array, Floats, Image
from engines.swap.mesh.broad import broad_blur
from engines.swap.mesh.ramp import smoothstep

_SIDE: Final = 128
_CORE: Final = (
    118, 101, 36, 205, 187, 50, 347, 330, 266, 425, 411, 280,  # cheeks
    6, 197, 195, 5, 4, 51, 281,  # nose
    151, 9, 8, 108, 337, 199, 200, 18,  # between the brows, chin
)  # fmt: skip
_FEATURES: Final = (
    # Lids and brows with all that belongs to glasses between the temples, then nose and mouth.
    (
        *LEFT_EYE_RINGS[2],
        *RIGHT_EYE_RINGS[2],
        *LEFT_BROW,
        *RIGHT_BROW,
        35,
        265,
        111,
        340,
        117,
        346,
        118,
        347,
        119,
        348,
    ),
    (*LIPS_OUTER, 168, 48, 278),
)
_TOLERANCE: Final = np.array([20.0, 6.5, 8.5], np.float32)
"""What plain skin may differ by at least, in lightness, green–red and blue–yellow (CIE Lab)."""
_FILL: Final = (0.02, 0.06, 0.2)
"""From how far away hidden skin is filled, of the side of the texture, one after the other."""
_FINE: Final = 256
"""Side of the texture, texels, in which it is filled: what is filled in has no pores."""
_NEAR: Final = (0.1, 0.2)
_CENTRE: Final = 195
"""On the ridge of the nose."""
_SHADE: Final = ((0.36, 0.5), (1.0, 1.8))
"""Rows of the texture, of its side, and how much more than the tolerance in lightness is allowed there."""
_FOREIGN: Final = (1.4, 1.9)
"""Distances, in tolerances, from which a texel counts a little and wholly as foreign."""


def foreign(skin: Image, uv: Floats) -> Floats:
    """Where something else than the face's skin reaches into a texture from its border.

    Args:
        skin: (S, S, 3) uint8 BGR, the photo laid over the canonical texture.
        uv: (468, 2) float32: where each vertex lies in it, texels.

    Returns:
        (S, S) float32: 0 skin, 1 something else; with soft borders.
    """
    side = skin.shape[0]
    scale = _SIDE / side
    places = (uv + 0.5) * scale - 0.5
    small = cv2.resize(skin, (_SIDE, _SIDE), interpolation=cv2.INTER_AREA)
    lab = cv2.cvtColor(small.astype(np.float32) / 255, cv2.COLOR_BGR2LAB)
    soft = np.asarray(cv2.GaussianBlur(lab, (0, 0), 1.0), np.float32)
    face = _filled(places, (OVAL,))
    features = _filled(places, _FEATURES)
    distance = _distance_from_skin(soft, places)
    low, high = _FOREIGN
    amount = np.clip((distance - low) / (high - low), 0, 1) * face * (1 - features)
    amount *= _reachable(amount > 0.3, face)
    amount = np.maximum(amount, face * _islands((amount < 0.5) & (face > 0), places))
    spread = cv2.GaussianBlur(cv2.dilate(amount, np.ones((5, 5), np.uint8)), (0, 0), 1.5)
    return np.asarray(
        np.clip(cv2.resize(spread, (side, side), interpolation=cv2.INTER_LINEAR), 0, 1), np.float32
    )


def without(skin: Image, other: Floats, bare: Floats) -> Image:
    """A texture in which what is not skin is replaced by the skin around it.

    Args:
        skin: (S, S, 3) uint8 BGR.
        other: (S, S) float32, 0…1: how far each texel is something else.
        bare: (S, S) float32, 0…1: how far it is skin.

    Returns:
        (S, S, 3) uint8 BGR.
    """
    x, y, w, h = cv2.boundingRect((other > 0).astype(np.uint8))
    if not w or not h:
        return skin
    part = slice(y, y + h), slice(x, x + w)
    own = skin[part].astype(np.float32)
    mixed = own + np.clip(2 * other[part], 0, 1)[:, :, None] * (_skin_around(skin, bare)[part] - own)
    made = skin.copy()
    made[part] = np.clip(np.rint(mixed), 0, 255)
    return made


def _skin_around(skin: Image, bare: Floats) -> Floats:
    """(S, S, 3) float32 B, G, R: the mean of the skin near each texel."""
    side = skin.shape[0]
    weighted = np.empty((side, side, 4), np.float32)
    weighted[:, :, 3] = bare**2 + np.float32(1e-6)
    np.multiply(skin, weighted[:, :, 3:], out=weighted[:, :, :3])
    fine = min(side, _FINE)
    if fine < side:
        weighted = np.asarray(cv2.resize(weighted, (fine, fine), interpolation=cv2.INTER_AREA), np.float32)
    around = np.zeros((fine, fine, 3), np.float32)
    share = np.zeros((fine, fine, 1), np.float32)
    # Near skin counts first; where there is none, that from further away.
    for reach in _FILL:
        blurred = broad_blur(weighted, reach * fine)
        part = (1 - share) * np.clip(blurred[:, :, 3:] * 4, 0, 1)
        around += part * blurred[:, :, :3] / np.maximum(blurred[:, :, 3:], 1e-6)
        share += part
    around /= np.maximum(share, 1e-6)
    return around if fine == side else np.asarray(cv2.resize(around, (side, side)), np.float32)


def near_features(uv: Floats, side: int) -> Floats:
    """Where the photo must cover the live face even if its own skin is hidden: else the live brows show as second ones.

    Args:
        uv: (468, 2) float32: where each vertex lies in the texture, texels.
        side: Side of the texture, texels.

    Returns:
        (side, side) float32: 1 on brows, eyes, nose and lips and close to them, fading out further away.
    """
    scale = _SIDE / side
    outside = (1 - _filled((uv + 0.5) * scale - 0.5, _FEATURES)).astype(np.uint8)
    away = cv2.distanceTransform(outside, cv2.DIST_L2, cv2.DIST_MASK_PRECISE) / _SIDE
    near = smoothstep((_NEAR[1] - away) / (_NEAR[1] - _NEAR[0]))
    return np.asarray(cv2.resize(near, (side, side), interpolation=cv2.INTER_LINEAR), np.float32)


def plain(uv: Floats, side: int) -> Floats:
    """Where a face has neither brows, eyes, glasses, nose nor lips.

    Args:
        uv: (468, 2) float32: where each vertex lies in the texture, texels.
        side: Side of the texture, texels.

    Returns:
        (side, side) float32, 0…1, with soft borders.
    """
    scale = _SIDE / side
    places = (uv + 0.5) * scale - 0.5
    rest = _filled(places, (OVAL,)) * (1 - _filled(places, _FEATURES))
    soft = cv2.GaussianBlur(rest, (0, 0), 2.0)
    return np.asarray(cv2.resize(soft, (side, side), interpolation=cv2.INTER_LINEAR), np.float32)


def _distance_from_skin(lab: Floats, places: Floats) -> Floats:
    """How far each texel is from the plain skin of this face, in tolerances, evenly lit from one side or not."""
    y, x = np.mgrid[0:_SIDE, 0:_SIDE].astype(np.float32) / _SIDE - 0.5
    core = np.clip(np.rint(places[list(_CORE)]).astype(int), 1, _SIDE - 2)
    patches = [(r + i, c + j) for c, r in core for i in (-1, 0, 1) for j in (-1, 0, 1)]
    rows, columns = np.array(patches).T
    samples = lab[rows, columns]
    basis = np.stack([np.ones(len(rows)), x[rows, columns], y[rows, columns]], 1).astype(np.float32)
    weights = np.ones(len(rows), np.float32)
    for _ in range(4):
        # Highlights and wrinkles among the samples count less each time.
        slopes = np.linalg.lstsq(basis * weights[:, None], samples * weights[:, None], rcond=None)[0]
        off = np.linalg.norm((samples - basis @ slopes) / _TOLERANCE, axis=1)
        weights = (1 / (1 + off**2)).astype(np.float32)
    spread = 1.5 * np.median(np.abs(samples - basis @ slopes), axis=0)
    expected = slopes[0] + x[:, :, None] * slopes[1] + y[:, :, None] * slopes[2]
    tolerance = np.maximum(_TOLERANCE, spread) * np.ones((_SIDE, 1, 1), np.float32)
    # Hair and hats come from above. Below the eyes the same darkness is the shade of a jaw.
    tolerance[:, :, 0] *= np.interp(np.arange(_SIDE) / _SIDE, _SHADE[0], _SHADE[1])[:, None]
    return np.asarray(np.linalg.norm((lab - expected) / tolerance, axis=2), np.float32)


def _filled(places: Floats, groups: tuple[tuple[int, ...], ...]) -> Floats:
    """(S, S) float32: 1 inside of the hull of each group of vertices."""
    mask: Array = np.zeros((_SIDE, _SIDE), np.uint8)
    for group in groups:
        cv2.fillConvexPoly(mask, cv2.convexHull(np.rint(places[list(group)]).astype(np.int32)), 1)
    return mask.astype(np.float32)


def _islands(skin: Array, places: Floats) -> Floats:
    """Skin that is cut off from the middle of the face: a lighter lock in a fringe."""
    _, labels = cv2.connectedComponents(cv2.erode(skin.astype(np.uint8), np.ones((3, 3), np.uint8)))
    column, row = np.rint(places[_CENTRE]).astype(int)
    joined = cv2.dilate((labels == labels[row, column]).astype(np.uint8), np.ones((5, 5), np.uint8))
    return np.asarray(skin & (joined == 0), np.float32)


def _reachable(mask: Array, face: Floats) -> Floats:
    """The parts of a mask that touch the border of the face."""
    rim = face.astype(bool) & ~cv2.erode(face, np.ones((5, 5), np.uint8)).astype(bool)
    _, labels = cv2.connectedComponents((mask & (face > 0)).astype(np.uint8))
    touching = np.setdiff1d(np.unique(labels[rim]), [0])
    return np.isin(labels, touching).astype(np.float32)
