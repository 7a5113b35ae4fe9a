"""Draws the border of what is before a face to the edges in the picture, and carries live pixels over what is painted.

Conventions as in :mod:`engines.kernels.cpu`. Loops are small, and each writes one array: of such the compiler makes
vectors.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import njit

from engines.faces import Floats, Image

REACH: Final = 4
"""Pixels of the patch that the border may move; the windows below are written out for it."""
PLANES: Final = 7
"""Planes that :func:`to_edges` needs to work in."""
_NOISE: Final = np.float32(2e-4)
"""Variance of brightness below which there is no edge."""
_FEW: Final = np.float32(1e-4)
_STEEP: Final = np.float32(1.6)
_AREA: Final = np.float32(1 / ((2 * REACH + 1) ** 2 * 255))
_RUN: Final = 32
"""Pixels of a row that are looked at together when live ones are put back."""

_njit = njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})


@_njit
def _slide(line, plane, row, height):  # type: ignore[no-untyped-def]
    """Moves the window of the sums down a column to ``row``."""
    width = plane.shape[1]
    inner = line[REACH : REACH + width]
    if row + REACH < height:
        come = plane[row + REACH]
        for j in range(width):
            inner[j] += come[j]
    if row - REACH - 1 >= 0:
        gone = plane[row - REACH - 1]
        for j in range(width):
            inner[j] -= gone[j]


@_njit
def _across(line, out):  # type: ignore[no-untyped-def]
    """Sums of nine along a row."""
    for j in range(out.shape[0]):
        out[j] = (
            line[j] + line[j + 1] + line[j + 2] + line[j + 3] + line[j + 4]
            + line[j + 5] + line[j + 6] + line[j + 7] + line[j + 8]
        )  # fmt: skip


@_njit
def _solve(share, first, square, wanted, both, face, slope, start):  # type: ignore[no-untyped-def]
    """The line through what lies in one window, for a row of windows; weighted by how much is face."""
    for j in range(slope.shape[0]):
        one = np.float32(1) / (share[j] * _AREA + _FEW) * _AREA
        mean, hit = first[j] * one, wanted[j] * one
        spread = max(square[j] * one - mean * mean, np.float32(0))
        slope[j] = (both[j] * one - mean * hit) / (spread + _NOISE)
    for j in range(start.shape[0]):
        one = np.float32(1) / (share[j] * _AREA + _FEW) * _AREA
        start[j] = wanted[j] * one - slope[j] * (first[j] * one)
    for j in range(slope.shape[0]):
        slope[j] *= face[j]
    for j in range(start.shape[0]):
        start[j] *= face[j]


@_njit
def to_edges(grey, drawn, work, out):  # type: ignore[no-untyped-def]
    """Draws the border of a mask to the edges of the picture around it.

    A guided filter (K. He, J. Sun, X. Tang, "Guided Image Filtering", ECCV 2010) that counts only what lies in the
    face.

    Args:
        grey: (H, W) float32, contiguous: brightness, 0…1.
        drawn: (H, W, 3) uint8: the mask, and where the face is; the third is not looked at.
        work: PLANES·H·W float32 or more, to work in.
        out: (H, W) uint8.
    """
    height, width = out.shape
    # Whole numbers from 0 to 255 stay exact in a running sum: where nothing is, it is nought.
    planes = work[: PLANES * height * width].reshape(PLANES, height, width)
    face, bright, square, mask, both = planes[0], planes[1], planes[2], planes[3], planes[4]
    slopes, starts = planes[5], planes[6]
    lines = np.zeros((5, width + 2 * REACH), np.float32)
    sums = np.empty((6, width), np.float32)
    for i in range(height):
        line, part, whole = grey[i], mask[i], face[i]
        for j in range(width):
            part[j] = drawn[i, j, 0]
        for j in range(width):
            whole[j] = drawn[i, j, 1]
        product = bright[i]
        for j in range(width):
            product[j] = whole[j] * line[j]
        other = square[i]
        for j in range(width):
            other[j] = product[j] * line[j]
        third = both[i]
        for j in range(width):
            third[j] = part[j] * line[j]
    for i in range(-REACH, height):
        # Written out, here and below: a loop over the planes takes a quarter longer.
        _slide(lines[0], face, i, height)
        _slide(lines[1], bright, i, height)
        _slide(lines[2], square, i, height)
        _slide(lines[3], mask, i, height)
        _slide(lines[4], both, i, height)
        if i < 0:
            continue
        for n in range(5):
            _across(lines[n], sums[n])
        _solve(sums[0], sums[1], sums[2], sums[3], sums[4], face[i], slopes[i], starts[i])
    lines[:] = 0
    for i in range(-REACH, height):
        _slide(lines[0], face, i, height)
        _slide(lines[1], slopes, i, height)
        _slide(lines[2], starts, i, height)
        _slide(lines[3], mask, i, height)
        if i < 0:
            continue
        for n in range(4):
            _across(lines[n], sums[n])
        share, slope, start, near, fitted = sums[0], sums[1], sums[2], sums[3], sums[5]
        row = grey[i]
        for j in range(width):
            value = (slope[j] * row[j] + start[j]) * _AREA / (share[j] * _AREA + _FEW)
            fitted[j] = min(
                max((value - np.float32(0.5)) * _STEEP + np.float32(0.5), np.float32(0)), np.float32(1)
            )
        for j in range(width):
            out[i, j] = (
                np.uint8(fitted[j] * np.float32(255) + np.float32(0.5)) if near[j] > 0 else np.uint8(0)
            )


@_njit
def put_back(image, live, amount):  # type: ignore[no-untyped-def]
    """Blends live pixels over what was painted.

    Args:
        image: (H, W, 3) uint8, rows contiguous; changed in place.
        live: (H, W, 3) uint8: the same region before it was painted.
        amount: (H, W) uint8: 255 where the live pixel is wanted wholly.
    """
    width = amount.shape[1]
    for i in range(amount.shape[0]):
        for start in range(0, width, _RUN):
            end = min(start + _RUN, width)
            # Most of the region is untouched, or live through and through: a whole run is done at once.
            some, every = np.uint8(0), np.uint8(255)
            for j in range(start, end):
                some |= amount[i, j]
                every &= amount[i, j]
            if some == 0:
                continue
            if every == 255:
                for j in range(start, end):
                    for k in range(3):
                        image[i, j, k] = live[i, j, k]
                continue
            for j in range(start, end):
                part = np.int32(amount[i, j])
                part += part >> 7
                for k in range(3):
                    painted = np.int32(image[i, j, k])
                    image[i, j, k] = np.uint8(
                        painted + (((np.int32(live[i, j, k]) - painted) * part + 128) >> 8)
                    )


def warm_up() -> None:
    """Compiles every kernel here, or loads it from the disk, so that no live frame has to wait for it."""
    grey: Floats = np.zeros((4, 4), np.float32)
    work: Floats = np.zeros(PLANES * 16, np.float32)
    image: Image = np.zeros((8, 8, 3), np.uint8)
    # Where something reaches from one side to the other its region lies in one piece, else it does not; what is kept
    # never does.
    to_edges(grey, image[:4, :4], work, np.zeros((8, 8), np.uint8)[:4, :4])
    to_edges(grey, image[:4, :4].copy(), work, np.zeros((4, 4), np.uint8))
    live, amount = image.copy()[:2, :2], np.zeros((3, 3), np.uint8)[:2, :2]
    put_back(image[2:4, 2:4], live, amount)
    put_back(image[:2, :2].copy(), live, amount)
