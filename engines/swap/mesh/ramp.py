"""The soft step that every border of the swap is made of."""

from __future__ import annotations

import numpy as np

from engines.faces import Array, Floats


def smoothstep(t: Array) -> Floats:
    """0 up to 0, 1 from 1 on, and level at both ends in between."""
    t = np.clip(t, 0, 1)
    return np.asarray(t * t * (3 - 2 * t), np.float32)
