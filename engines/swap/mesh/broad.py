"""Wide blurs at the price of narrow ones."""

from __future__ import annotations

import math
from typing import Final

import cv2
import numpy as np

from engines.faces import Array, Floats

_LEAST: Final = 5.0
"""Spread that a blur keeps, texels, where it is worked out: that much of it hides how coarse its texels are."""
_OF_SCALING: Final = 0.25
"""Variance, in texels there, that the way down (means of squares: 1/12) and up again (straight lines: 1/6) adds."""


def broad_blur(values: Array, sigma: float) -> Floats:
    """A Gaussian blur; a wide one is worked out at a fraction of the size, where it costs a fraction of the time.

    A blur of a fifth of a large texture takes seconds at full size, and what it leaves has nothing finer.

    Args:
        values: (H, W) or (H, W, C) float32 or uint8, as many channels as OpenCV blurs.
        sigma: Its spread, pixels, above 0.

    Returns:
        The same shape, float32.
    """
    image = np.asarray(values, np.float32)
    steps = max(0, int(math.log2(max(sigma, 1e-3) / _LEAST)))
    height, width = image.shape[:2]
    # A picture that is hardly there is not made smaller.
    while steps and min(height, width) >> steps < 2:
        steps -= 1
    if steps == 0:
        return np.asarray(cv2.GaussianBlur(image, (0, 0), sigma), np.float32)
    factor = 1 << steps
    small = cv2.resize(image, (width // factor, height // factor), interpolation=cv2.INTER_AREA)
    spread = math.sqrt((sigma / factor) ** 2 - _OF_SCALING)
    # At full size the mirror stands in the middle of the outermost pixels, which is nearly their edge down here.
    blurred = cv2.GaussianBlur(small, (0, 0), spread, borderType=cv2.BORDER_REFLECT)
    return np.asarray(cv2.resize(blurred, (width, height), interpolation=cv2.INTER_LINEAR), np.float32)
