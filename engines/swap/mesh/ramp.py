"""The soft step that every border of the swap is made of, and distances on the face that it is a step over."""

from __future__ import annotations

from functools import cache

import numpy as np

from engines.analysis.topology import canonical
from engines.faces import Array, Floats


def smoothstep(t: Array) -> Floats:
    """0 up to 0, 1 from 1 on, and level at both ends in between."""
    t = np.clip(t, 0, 1)
    return np.asarray(t * t * (3 - 2 * t), np.float32)


@cache
def away(vertices: tuple[int, ...]) -> Floats:
    """(468, 1) float32: how far each vertex of the canonical face is from the nearest of some, cm. Read-only."""
    points = canonical()
    apart = np.linalg.norm(points[:, None] - points[list(vertices)][None], axis=2)
    nearest = np.asarray(apart.min(1)[:, None], np.float32)
    nearest.flags.writeable = False
    return nearest
