"""Five points of a face, whichever landmarks they come from, and the keypoints that a tracker starts from.

The numbering of 68 points is that of iBUG 300-W, the one of 106 points that of InsightFace's ``2d106det``.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

from engines.analysis.align import five_points
from engines.analysis.topology import canonical
from engines.errors import EngineError
from engines.faces import Floats

FIVE: Final = 5
IBUG: Final = 68
INSIGHT: Final = 106

_IBUG_EYES: Final = (slice(36, 42), slice(42, 48))
_IBUG_REST: Final = (30, 48, 54)
_INSIGHT_FIVE: Final = (38, 88, 86, 52, 61)
"""Centre of each eye, tip of the nose, corners of the mouth."""
_EARS: Final = (93, 323)
"""Points of the mesh before the lobes of the right and the left ear."""


def five_of(points: Floats) -> Floats:
    """Eyes, tip of the nose and corners of the mouth.

    Args:
        points: (5, 68, 106, 468 or 478; 2 or 3) float32 landmarks.

    Returns:
        (5, 2) float32 in the same unit: the eye on the left of the picture, the other eye, the nose, the corner of
        the mouth on the left, the other one.

    Raises:
        EngineError: There is another number of them.
    """
    count = len(points)
    if count == FIVE:
        return np.asarray(points[:, :2], np.float32)
    if count == INSIGHT:
        return np.asarray(points[list(_INSIGHT_FIVE), :2], np.float32)
    if count == IBUG:
        eyes = [points[eye, :2].mean(0) for eye in _IBUG_EYES]
        return np.asarray([*eyes, *points[list(_IBUG_REST), :2]], np.float32)
    if count >= len(canonical()):
        return five_points(points)
    raise EngineError(
        f"{count} landmarks are none that this program knows: it knows 5, 68, 106, 468 and 478."
    )


def keypoints_of(five: Floats) -> Floats:
    """The six keypoints of a :class:`~engines.faces.Detection`, where a detector gives five points.

    The mouth lies between its corners. The ears are where those of the mean face come to lie when it is turned so
    that its own five points fit in the least squares (an affine camera; the nose, which stands out, tells the turn).
    That is an estimate: they are no measurement, and nothing is found by them.

    Args:
        five: (N, 5, 2) float32.

    Returns:
        (N, 6, 2) float32: right eye, left eye, nose, mouth, right ear, left ear.
    """
    mouth = five[:, 3:].mean(1, keepdims=True)
    ears = np.einsum("ef,nfd->ned", _ear_weights(), five)
    return np.concatenate([five[:, :3], mouth, ears], 1).astype(np.float32)


@cache
def _ear_weights() -> Floats:
    """(2, 5): how much of each of the five points makes an ear. Each row sums to one."""
    face = np.asarray(canonical(), np.float64)
    flat = np.asarray(five_of(canonical()), np.float64)
    depth = five_of(np.ascontiguousarray(canonical()[:, [2, 1]]))[:, :1]
    known = np.c_[flat, depth, np.ones(FIVE)]
    ears = np.c_[face[list(_EARS)], np.ones(len(_EARS))]
    weights = np.asarray(ears @ np.linalg.pinv(known), np.float32)
    weights.setflags(write=False)
    return weights
