"""The kernel that looks at lids, compiled by Numba without the GIL and cached on disk."""

from __future__ import annotations

import numpy as np
from numba import njit

from engines.faces import Floats


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def upright_edges(image, x, y, step_x, step_y, rows, columns):  # type: ignore[no-untyped-def]
    """How much brightness changes from pixel to pixel along the rows of a turned grid.

    Args:
        image: (H, W, 3) float32 RGB; beyond its border the border goes on.
        x: Of the grid's first sample, pixels of the image.
        y: Likewise.
        step_x: From one sample of a row to the next, pixels of the image; a row lies at right angles to the one before.
        step_y: Likewise.
        rows: Of the grid.
        columns: Likewise.

    Returns:
        The mean difference of two samples that are next to each other.
    """
    height, width = image.shape[0], image.shape[1]
    total = np.float32(0)
    for i in range(rows):
        before = np.float32(0)
        for j in range(columns):
            # Bounded while still a float: an integer too large to hold is no number at all.
            u = np.float32(min(max(x + j * step_x - i * step_y, 0.0), width - 1.0))
            v = np.float32(min(max(y + j * step_y + i * step_x, 0.0), height - 1.0))
            left, top = int(u), int(v)
            right, bottom = min(left + 1, width - 1), min(top + 1, height - 1)
            a, b = u - np.float32(left), v - np.float32(top)
            grey = np.float32(0)
            for k in range(3):
                share = np.float32(0.299) if k == 0 else np.float32(0.587) if k == 1 else np.float32(0.114)
                upper = image[top, left, k] + a * (image[top, right, k] - image[top, left, k])
                lower = image[bottom, left, k] + a * (image[bottom, right, k] - image[bottom, left, k])
                grey += share * (upper + b * (lower - upper))
            if j > 0:
                total += abs(grey - before)
            before = grey
    return float(total) / (rows * (columns - 1))


def warm_up() -> None:
    """Compiles the kernel, or loads it from the disk, so that no live frame has to wait for it."""
    picture: Floats = np.zeros((4, 4, 3), np.float32)
    upright_edges(picture, 0.0, 0.0, 1.0, 0.0, 2, 2)
