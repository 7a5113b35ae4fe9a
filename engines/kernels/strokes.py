"""The pixels of thin lines, the frames of glasses, apart from the skin or the brow beside them. Conventions as in
:mod:`engines.kernels.cpu`.

Where a line runs is known to a pixel or two. In the picture, at its own resolution, it is what is brighter than both
of its sides, or darker.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numba import njit

from engines.faces import Array, Floats, Image

COLUMNS: Final = 7
"""Numbers that describe a place of a line: x, y, in pixels of the crop; half of its width there; how surely it is
seen, 0…1; its kind, −1 dark, 1 bright; above nought where a brow is; and above nought where a dark line is drawn over
it unseen."""
_HALF = 14
"""Samples to either side of a line."""
_SLACK = np.float32(1.5)
"""Pixels of the crop that a line may lie beside where it was seen there."""
_BESIDE = np.float32(2)
"""Pixels beside a line, of the picture, that are taken for what lies behind it."""
_CLEAR = np.array([0.05, 0.11], np.float32)
"""Contrast in the picture from which some of a line is kept, and all of it: more than noise has."""
_STRONG = np.array([0.3, 0.5], np.float32)
"""Contrast from which what lies well inside of a line is kept whatever it looks like."""
_DARKEST = np.float32(0.04)
"""Added to brightness before it is divided by: below this there is more noise than contrast."""
_SOFT = np.array([0.15, 0.6], np.float32)
"""How far a pixel must be like the line rather than its sides to be kept a little, and wholly."""
_WIDEST = np.float32(64)
"""Half the width of the widest line, pixels of the picture, and how far it may lie beside where it was seen."""
_NEAR = 2
"""Rays to either side whose lines lie as far from where they were seen."""

_njit = njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})


@_njit
def _grey(image, x, y):  # type: ignore[no-untyped-def]
    """Brightness between pixels, 0…1; beyond the picture that of its border."""
    height, width = image.shape[:2]
    x = min(max(x, np.float32(0)), np.float32(width - 1.001))
    y = min(max(y, np.float32(0)), np.float32(height - 1.001))
    j, i = int(x), int(y)
    a, b = x - np.float32(j), y - np.float32(i)
    upper, lower = _pixel(image, i, j), _pixel(image, i + 1, j)
    upper += a * (_pixel(image, i, j + 1) - upper)
    lower += a * (_pixel(image, i + 1, j + 1) - lower)
    return upper + b * (lower - upper)


@_njit
def _pixel(image, i, j):  # type: ignore[no-untyped-def]
    """Brightness of a pixel, 0…1."""
    total = np.int32(29) * image[i, j, 0] + np.int32(150) * image[i, j, 1] + np.int32(77) * image[i, j, 2]
    return np.float32(total) * np.float32(1 / 65280)


@_njit
def _ramp(value, ends):  # type: ignore[no-untyped-def]
    return min(max((value - ends[0]) / (ends[1] - ends[0]), np.float32(0)), np.float32(1))


@_njit
def _measure(profile, step, half, kind):  # type: ignore[no-untyped-def]
    """What one ray shows: the middle of the line and half its width, pixels, its contrast, and the brightness of
    itself and of what is beside it."""
    count = profile.shape[0]
    # A line as wide as it was in the crop, where it differs most from both of its sides.
    away = int((half + _BESIDE) / step) + 1
    most, at, behind, own = np.float32(-9), _HALF, np.float32(0), np.float32(0)
    for k in range(away, count - away):
        line = profile[k] * np.float32(0.5) + (profile[k - 1] + profile[k + 1]) * np.float32(0.25)
        one = np.float32(0.5) * (profile[k - away] + profile[k - away + 1])
        other = np.float32(0.5) * (profile[k + away] + profile[k + away - 1])
        side = max(kind * one, kind * other)
        odd = kind * line - side
        # Of two as clear the nearer one.
        odd -= np.float32(0.002) * np.float32(abs(k - _HALF)) * step
        if odd > most:
            most, at, behind, own = odd, k, side, kind * line
    # Both edges, where it is half as clear.
    middle = np.float32(0.5) * (own + behind)
    low, high = at, at
    while low > max(at - away, 1) and kind * profile[low - 1] > middle:
        low -= 1
    while high < min(at + away, count - 2) and kind * profile[high + 1] > middle:
        high += 1
    first, last = np.float32(low) - np.float32(0.5), np.float32(high) + np.float32(0.5)
    one, other = kind * profile[low], kind * profile[low - 1]
    if one > other:
        first = np.float32(low) - min((one - middle) / (one - other), np.float32(1))
    one, other = kind * profile[high], kind * profile[high + 1]
    if one > other:
        last = np.float32(high) + min((one - middle) / (one - other), np.float32(1))
    contrast = (own - behind) / (abs(behind) + _DARKEST)
    where = (np.float32(0.5) * (first + last) - np.float32(_HALF)) * step
    return where, np.float32(0.5) * (last - first) * step, contrast, own, behind


@_njit
def _lay(image, corner, out, ends, half, shades, kinds):  # type: ignore[no-untyped-def]
    """The pixels of the line between two rays.

    Args:
        image: The picture.
        corner: Its column and row that ``out`` begins at.
        out: (h, w) uint8; changed in place.
        ends: (2, 2) float32: where the line's middle is, pixels.
        half: Half its width.
        shades: (2, 4) float32, of both: how much of it is kept; brightness of itself and of what is beside it, times
            its kind; and how far what is well inside is kept whatever it looks like.
        kinds: (2,) float32.
    """
    height, width = out.shape
    x0, y0, x1, y1 = ends[0, 0], ends[0, 1], ends[1, 0], ends[1, 1]
    dx, dy = x1 - x0, y1 - y0
    one = np.float32(1) / max(dx * dx + dy * dy, np.float32(1e-6))
    reach = half + np.float32(1.5)
    top = int(min(max(min(y0, y1) - reach - corner[1], np.float32(0)), np.float32(height)))
    bottom = int(min(max(max(y0, y1) + reach + 2 - corner[1], np.float32(0)), np.float32(height)))
    left = int(min(max(min(x0, x1) - reach - corner[0], np.float32(0)), np.float32(width)))
    right = int(min(max(max(x0, x1) + reach + 2 - corner[0], np.float32(0)), np.float32(width)))
    for i in range(top, bottom):
        for j in range(left, right):
            x, y = np.float32(j) + corner[0] - x0, np.float32(i) + corner[1] - y0
            t = min(max((x * dx + y * dy) * one, np.float32(0)), np.float32(1))
            x, y = x - t * dx, y - t * dy
            away = x * x + y * y
            if away >= reach * reach:
                continue
            away = np.float32(math.sqrt(away))
            near = 0 if t < np.float32(0.5) else 1
            # A thick frame shines here and there.
            core = min(max(half - np.float32(1) - away, np.float32(0)), np.float32(1))
            core *= shades[0, 3] + t * (shades[1, 3] - shades[0, 3])
            own = shades[0, 1] + t * (shades[1, 1] - shades[0, 1])
            behind = shades[0, 2] + t * (shades[1, 2] - shades[0, 2])
            if kinds[0] != kinds[1]:
                own, behind = shades[near, 1], shades[near, 2]
            value = kinds[near] * _pixel(image, i + int(corner[1]), j + int(corner[0]))
            like = _ramp((value - behind) / max(own - behind, np.float32(1e-3)), _SOFT)
            like = max(like, core) * min(reach - away, np.float32(1))
            kept = like * (shades[0, 0] + t * (shades[1, 0] - shades[0, 0]))
            out[i, j] = max(out[i, j], np.uint8(np.float32(255) * kept + np.float32(0.5)))


@_njit
def matte(image, rays, parts, rings, back, corner, out):  # type: ignore[no-untyped-def]
    """Lays the pixels of lines into a mask, where the stronger counts.

    Args:
        image: (H, W, 3) uint8: the picture.
        rays: (N, COLUMNS) float32: places of the lines; finite.
        parts: (P, 2) int64: the first ray of each line, and the one after its last.
        rings: (P,) bool: whether a line ends where it begins.
        back: (2, 3) float32: pixels of the crop to those of the picture; finite.
        corner: (2,) float32: column and row of the picture that ``out`` begins at; all of it lies inside.
        out: (h, w) uint8; changed in place.
    """
    count = rays.shape[0]
    scale = np.float32(math.sqrt(abs(back[0, 0] * back[1, 1] - back[0, 1] * back[1, 0])))
    profile = np.empty(2 * _HALF + 1, np.float32)
    places, across = np.empty((count, 2), np.float32), np.empty((count, 2), np.float32)
    # Of each ray: where the line is beside the place it was seen at, half its width, contrast, and both brightnesses.
    seen = np.empty((count, 5), np.float32)
    shades, ends, kinds = np.empty((2, 4), np.float32), np.empty((2, 2), np.float32), np.empty(2, np.float32)
    for n in range(count):
        x, y = rays[n, 0], rays[n, 1]
        places[n, 0] = back[0, 0] * x + back[0, 1] * y + back[0, 2]
        places[n, 1] = back[1, 0] * x + back[1, 1] * y + back[1, 2]
    for p in range(parts.shape[0]):
        start, size, ring = parts[p, 0], parts[p, 1] - parts[p, 0], rings[p]
        widths, many = np.empty(size, np.float32), 0
        owns, behinds = np.empty(size, np.float32), np.empty(size, np.float32)
        for m in range(size):
            n = start + m
            if rays[n, 3] <= 0:
                continue
            one = start + ((m - 1) % size if ring else max(m - 1, 0))
            other = start + ((m + 1) % size if ring else min(m + 1, size - 1))
            dx, dy = places[other, 0] - places[one, 0], places[other, 1] - places[one, 1]
            length = max(np.float32(math.sqrt(dx * dx + dy * dy)), np.float32(1e-6))
            across[n, 0], across[n, 1] = -dy / length, dx / length
            half = min(rays[n, 2] * scale, _WIDEST)
            step = (half + _BESIDE + min(_SLACK * scale, _WIDEST) + 1) / np.float32(_HALF)
            for k in range(2 * _HALF + 1):
                u = np.float32(k - _HALF) * step
                profile[k] = _grey(image, places[n, 0] + u * across[n, 0], places[n, 1] + u * across[n, 1])
            seen[n, 0], seen[n, 1], seen[n, 2], seen[n, 3], seen[n, 4] = _measure(
                profile, step, half, rays[n, 4]
            )
            if rays[n, 5] <= 0 and seen[n, 2] > _CLEAR[1]:
                # No wider than it was in the crop, which blurs.
                seen[n, 1] = min(seen[n, 1], half)
                widths[many], owns[many], behinds[many] = seen[n, 1], seen[n, 3], seen[n, 4]
                many += 1
        if many == 0:
            continue
        # A frame is as thick in one place as in another.
        half = np.partition(widths[:many], many // 2)[many // 2]
        own = np.partition(owns[:many], many // 2)[many // 2]
        behind = np.partition(behinds[:many], many // 2)[many // 2]
        for m in range(size if ring else size - 1):
            pair = (start + m, start + (m + 1) % size)
            if rays[pair[0], 3] <= 0 or rays[pair[1], 3] <= 0:
                continue
            strongest = np.float32(0)
            for e in range(2):
                n = pair[e]
                beside, clear = np.float32(0), np.float32(0)
                weight, total = np.float32(1e-3), np.float32(1e-3)
                for d in range(-_NEAR, _NEAR + 1):
                    o = n - start + d
                    o = start + (o % size if ring else min(max(o, 0), size - 1))
                    if rays[o, 3] > 0:
                        much = _ramp(seen[o, 2], _CLEAR) * (1 if rays[o, 6] <= 0 else np.float32(0))
                        beside += much * seen[o, 0]
                        clear += much
                        weight += much
                        total += 1
                beside /= weight
                clear /= total
                unseen = rays[n, 6] > 0
                ends[e, 0] = places[n, 0] + beside * across[n, 0]
                ends[e, 1] = places[n, 1] + beside * across[n, 1]
                shades[e, 0] = rays[n, 3] * (1 if unseen else min(2 * clear, np.float32(1)))
                shades[e, 1], shades[e, 2] = (own, behind) if unseen else (seen[n, 3], seen[n, 4])
                shades[e, 3] = 0 if unseen else _ramp(seen[n, 2], _STRONG)
                kinds[e] = rays[n, 4]
                strongest = max(strongest, shades[e, 0])
            if strongest > 0:
                _lay(image, corner, out, ends, half, shades, kinds)


def warm_up() -> None:
    """Compiles every kernel here, or loads it from the disk, so that no live frame has to wait for it."""
    image: Image = np.zeros((4, 4, 3), np.uint8)
    rays: Floats = np.ones((2, COLUMNS), np.float32)
    parts: Array = np.array([[0, 2]], np.int64)
    matte(
        image, rays, parts, np.ones(1, np.bool_), np.eye(2, 3, dtype=np.float32), np.zeros(2, np.float32),
        np.zeros((4, 5), np.uint8)[:, :4],
    )  # fmt: skip
