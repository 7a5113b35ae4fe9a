"""Masks and colours of a crop on the CPU. Conventions as in :mod:`engines.kernels.cpu`."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numba import njit

from engines.faces import Array, Floats

MOMENTS: Final = 13
"""Sum of the weights; then for each channel the sums of the live face, its squares, the new face, its squares."""

_njit = njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})


@_njit
def _beyond(line, y, distance, left, right):  # type: ignore[no-untyped-def]
    """The part of the pixels left ≤ x < right of a row that lies farther inside of a line than a distance."""
    across, start = line[0], line[1] * y + line[2] - distance
    if abs(across) < 1e-6:
        return (left, right) if start > 0 else (right, right)
    edge = -start / across
    if across > 0:
        return min(max(left, math.floor(edge) + 1.0), right), right
    return left, max(min(right, math.ceil(edge)), left)


@_njit
def feather_convex(mask, lines, feather):  # type: ignore[no-untyped-def]
    """Fills a convex outline with ones, falling smoothly to nought at its edge.

    Inside of a convex outline the distance to it is the least of the distances to the lines of its sides.

    Args:
        mask: (H, W) float32, contiguous; written everywhere.
        lines: (E, 5) float32: a, b, c with ``a·x + b·y + c`` the distance to a side, pixels, positive inside; the
            rows that the side reaches from and to.
        feather: Width of the slope inside of the outline, pixels.
    """
    share, nought, one = np.float32(1 / max(feather, 1e-3)), np.float32(0), np.float32(1)
    width = mask.shape[1]
    for y in range(mask.shape[0]):
        row = mask[y]
        left, right, crossed = 0.0, float(width), False
        for side in range(lines.shape[0]):
            if lines[side, 3] <= y <= lines[side, 4]:
                crossed = True
                left, right = _beyond(lines[side], y, 0.0, left, right)
        if not crossed:
            row[:] = nought
            continue
        first, last = int(left), max(int(left), int(right))
        row[:first], row[last:] = nought, nought
        row[first:last] = one
        for side in range(lines.shape[0]):
            # What is nearest to a side lies across from it. Only what is nearer than the slope is wide is not one.
            if not lines[side, 3] - feather <= y <= lines[side, 4] + feather:
                continue
            low, high = _beyond(lines[side], y, feather, left, right)
            across = lines[side, 0] * share
            start = (lines[side, 1] * np.float32(y) + lines[side, 2]) * share
            begin, end = (first, int(low)) if across > 0 else (int(high), last)
            if low >= high:
                begin, end = first, last
            for x in range(begin, end):
                row[x] = min(row[x], across * np.float32(x) + start)
        for x in range(first, last):
            t = max(row[x], nought)
            row[x] = t * t * (np.float32(3) - np.float32(2) * t)


@_njit
def moments(live, face, mask, step, sums):  # type: ignore[no-untyped-def]
    """Weighted sums that means and spreads of two pictures are made of.

    Args:
        live: (H, W, 3) float32.
        face: (H, W, 3) float32.
        mask: (H, W) float32: the weights.
        step: Only every so many pixels are looked at, across and down.
        sums: (13,) float64, filled; see :data:`MOMENTS`.
    """
    sums[:] = 0
    for y in range(0, mask.shape[0], step):
        for x in range(0, mask.shape[1], step):
            w = mask[y, x]
            sums[0] += w
            for c in range(3):
                a, b = live[y, x, c], face[y, x, c]
                sums[1 + c] += w * a
                sums[4 + c] += w * a * a
                sums[7 + c] += w * b
                sums[10 + c] += w * b * b


def warm_up() -> None:
    """Compiles what masks and measures, or loads it from the disk."""
    mask: Floats = np.zeros((4, 4), np.float32)
    picture: Floats = np.zeros((4, 4, 3), np.float32)
    sums: Array = np.zeros(MOMENTS)
    feather_convex(mask, np.zeros((3, 5), np.float32), 1.0)
    moments(picture, picture, mask, 1, sums)
