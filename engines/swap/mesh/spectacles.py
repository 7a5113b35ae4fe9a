"""The dark frames of glasses before live eyes: thin, darker than the skin on both sides, where no face has such a line.

They may have been there from the first frame on, so nothing has to be learnt. Fine wire is not seen.
"""

from __future__ import annotations

from typing import Final

import cv2
import numpy as np

from engines.analysis.crop import affine_of
from engines.analysis.landmarks import region_of_points
from engines.analysis.topology import LEFT_BROW, LEFT_EYE_RINGS, POINTS, RIGHT_BROW, RIGHT_EYE_RINGS
from engines.faces import Array, Floats, Image

_BRIDGE: Final = (168, 6, 197, 195)
"""Along the ridge of the nose, which every bridge crosses."""
_COLUMNS: Final = (
    (228, 117, 123), (229, 118, 50), (230, 119, 101), (231, 120, 100),
    (448, 346, 352), (449, 347, 280), (450, 348, 330), (451, 349, 329),
)  # fmt: skip
"""From the lower lids down to the cheeks: a rim crosses each of them."""
_AROUND: Final = (127, 356, 50, 280, 101, 330, 195, *RIGHT_BROW, *LEFT_BROW)
_SPARED: Final = (
    (*RIGHT_EYE_RINGS[1],), (*LEFT_EYE_RINGS[1],), RIGHT_BROW, LEFT_BROW,
)  # fmt: skip
"""Lashes and brows are dark lines too, and the person's own."""
_THIN: Final = 0.06
"""Width of the closing that finds thin lines, sides of the patch; frames are up to half as wide again."""
_DARK: Final = 0.45
"""How much darker than the skin around it a frame is (logarithm). The bridge and the cheeks of three bare faces that
make every face they can reach 0.23, a pair of wire glasses 0.19, dark frames 1.1 and more."""
_FAINT: Final = 0.3
_LONG: Final = 0.1
_REACH: Final = 0.02
_DARKEST: Final = 0.04
_SIDE: Final = 192


def frames(picture: Floats, places: Floats, sure: bool = False) -> Array | None:
    """Where the frames of glasses are.

    Args:
        picture: (S, S, 3) float32 RGB, 0…1: an upright crop around the face.
        places: (468 or more, 2) float32: landmarks in it, pixels; finite.
        sure: Whether they were there a moment ago: then less is enough.

    Returns:
        (S, S) uint8, 255 on the frames; None if there are none.
    """
    height, width = picture.shape[:2]
    around = places[list(_AROUND)]
    x0, y0 = np.clip(np.floor(around.min(0)) - 4, 0, (width, height)).astype(int).tolist()
    x1, y1 = np.clip(np.ceil(around.max(0)) + 5, 0, (width, height)).astype(int).tolist()
    if x1 - x0 < 8 or y1 - y0 < 8:
        return None
    grey = np.log(
        np.maximum(cv2.cvtColor(picture[y0:y1, x0:x1], cv2.COLOR_RGB2GRAY), 0) + np.float32(_DARKEST)
    )
    thin = round(_THIN * width) | 1
    lines = cv2.morphologyEx(grey, cv2.MORPH_CLOSE, np.ones((thin, thin), np.uint8)) - grey
    reach = 2 * round(_REACH * width) + 1
    at = places - np.array([x0, y0], np.float32)
    spared: Image = np.zeros(grey.shape, np.uint8)
    for group in _SPARED:
        cv2.fillConvexPoly(spared, _hull(at, group), 1)
    square = np.ones((reach, reach), np.uint8)
    near = cv2.dilate(np.where(cv2.dilate(spared, square) > 0, np.float32(0), lines), square)
    where = np.clip(np.rint(at), 0, (x1 - x0 - 1, y1 - y0 - 1)).astype(int)
    seen = near[where[:, 1], where[:, 0]]
    columns = sorted(float(seen[list(column)].max()) for column in _COLUMNS)
    # The weakest ones may be behind a turned nose.
    if min(columns[2], float(seen[list(_BRIDGE)].max())) < (_DARK / 2 if sure else _DARK):
        return None
    zone: Image = np.zeros(grey.shape, np.uint8)
    cv2.fillConvexPoly(zone, _hull(at, _AROUND), 1)
    zone[spared > 0] = 0
    amount = np.clip((cv2.dilate(lines, np.ones((3, 3), np.uint8)) - _FAINT) / (_DARK - _FAINT), 0, 1) * zone
    # Frames hang together; the creases of a smile are short.
    _, labels, stats, _ = cv2.connectedComponentsWithStats((amount > 0.3).astype(np.uint8), connectivity=8)
    long = stats[:, cv2.CC_STAT_WIDTH] >= _LONG * width
    long[0] = False
    amount *= long[labels]
    mask: Array = np.zeros((height, width), np.uint8)
    mask[y0:y1, x0:x1] = np.rint(cv2.GaussianBlur(amount, (0, 0), 0.6) * 255)
    return mask


def worn(image: Image, points: Floats) -> bool:
    """Whether a photo shows dark frames.

    Args:
        image: The photo, BGR.
        points: (N, 3) landmarks, pixels.
    """
    affine = affine_of(region_of_points(points), _SIDE)
    patch = cv2.warpAffine(image, affine, (_SIDE, _SIDE), flags=cv2.INTER_AREA)
    places = (points[:POINTS, :2] @ affine[:, :2].T + affine[:, 2]).astype(np.float32)
    return frames(patch[:, :, ::-1].astype(np.float32) / np.float32(255), places) is not None


def _hull(places: Floats, vertices: tuple[int, ...]) -> Array:
    return cv2.convexHull(np.rint(places[list(vertices)]).astype(np.int32))
