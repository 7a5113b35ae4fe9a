"""Lines across rays: the rims of glasses. Conventions as in :mod:`engines.kernels.cpu`.

A ray is a row of samples across the place where a line may run; neighbouring rays lie side by side along it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from engines.faces import Array, Floats

_DARKEST = np.float32(0.04)
"""Added to brightness before it is divided by: below this there is more noise than contrast."""
_ENOUGH = np.float32(0.1)
"""Contrast beyond this makes no line clearer: a long faint one is worth more than a short dark one."""
_BROW = np.float32(0.5)
"""Contrast of a dark brow against the skin around it."""
_BEND = np.float32(0.05)
"""What a step of one sample from one ray to the next costs."""
_NEARLY = np.float32(0.75)
"""Part of the clearest contrast from which a line is no wider than what is looked across."""

_njit = njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})


@_njit
def sample(grey, spared, table, parts, frames, out, own):  # type: ignore[no-untyped-def]
    """Reads a picture along rays.

    Args:
        grey: (H, W) float32, 0…1.
        spared: (H, W) uint8: above nought where a dark line is the face's own.
        table: (N, R, 2) float32: where each sample lies, in the axes of its part.
        parts: (N,) int32: the part that each ray belongs to.
        frames: (P, 6) float32: origin, first and second axis of each part, pixels; finite.
        out: (N, R) float32: brightness.
        own: (N, R) uint8, out: whether it is spared.
    """
    height, width = grey.shape
    for n in range(table.shape[0]):
        part = frames[parts[n]]
        for k in range(table.shape[1]):
            s, t = table[n, k, 0], table[n, k, 1]
            # Bounded while still a float: an integer too large to hold is no number at all.
            x = min(max(part[0] + s * part[2] + t * part[4], np.float32(0)), np.float32(width - 1.001))
            y = min(max(part[1] + s * part[3] + t * part[5], np.float32(0)), np.float32(height - 1.001))
            column, row = int(x), int(y)
            a, b = x - np.float32(column), y - np.float32(row)
            upper = grey[row, column] + a * (grey[row, column + 1] - grey[row, column])
            lower = grey[row + 1, column] + a * (grey[row + 1, column + 1] - grey[row + 1, column])
            out[n, k] = upper + b * (lower - upper)
            own[n, k] = spared[row, column]


@_njit
def ridges(values, own, spacing, reaches, out, wide):  # type: ignore[no-untyped-def]
    """How far each sample is brighter, or darker, than what lies on both sides of it; a step is neither.

    Args:
        values: (N, R) float32: brightness along the rays, nought or more.
        own: (N, R) uint8: above nought where only a very dark line counts.
        spacing: (N,) float32: from one sample to the next, pixels.
        reaches: (K,) float32: how far away both sides are, pixels, rising; the clearest counts.
        out: (N, R) float32: contrast, above nought where brighter, below where darker.
        wide: (N, R) float32, out: the least of the reaches from which a line shows nearly as clearly.
    """
    count = values.shape[1]
    out[:] = 0
    wide[:] = reaches[0]
    for n in range(values.shape[0]):
        line, into, reach, ours = values[n], out[n], wide[n], own[n]
        for k in range(reaches.shape[0]):
            far = reaches[k] / max(spacing[n], np.float32(0.05))
            d = int(min(max(far + np.float32(0.5), np.float32(1)), np.float32(count)))
            for j in range(d, count - d):
                one, other, here = line[j - d], line[j + d], line[j]
                low, high = min(one, other), max(one, other)
                odd = max(here - high, np.float32(0)) + min(here - low, np.float32(0))
                odd /= np.float32(0.5) * (low + high) + _DARKEST
                before = abs(into[j])
                reach[j] = reaches[k] if abs(odd) * _NEARLY > before else reach[j]
                into[j] = odd if abs(odd) > before else into[j]
        for j in range(count):
            into[j] = min(into[j] + _BROW, np.float32(0)) if ours[j] > 0 and into[j] < 0 else into[j]


@_njit
def trace(lines, closed, at, clear):  # type: ignore[no-untyped-def]
    """The line across neighbouring rays that is clearest along its whole length, bent little.

    By dynamic programming; around a closed ring one and a half times, of which the middle is taken.

    Args:
        lines: (N, R) float32, from :func:`ridges`.
        closed: Whether the last ray lies beside the first.
        at: (N,) int64, out: the sample of each ray that the line runs through.
        clear: (N,) float32, out: its contrast there, either way.
    """
    rays, count = lines.shape
    turns = rays + rays // 2 if closed else rays
    back = np.empty((turns, count), np.int8)
    # One more at either end, which no line comes from.
    sums, before = np.zeros(count, np.float32), np.full(count + 2, -np.inf, np.float32)
    for turn in range(turns):
        before[1 : count + 1] = sums
        row, origin = lines[turn % rays], back[turn]
        for j in range(count):
            left, right, here = before[j] - _BEND, before[j + 2] - _BEND, before[j + 1]
            best = max(here, max(left, right))
            sums[j] = best + min(abs(row[j]), _ENOUGH) / _ENOUGH
            origin[j] = np.int8(0) if best == here else (np.int8(-1) if best == left else np.int8(1))
    place = 0
    for j in range(count):
        if sums[j] > sums[place]:
            place = j
    middle = (turns - rays) // 2
    for turn in range(turns - 1, -1, -1):
        if middle <= turn < middle + rays:
            at[turn % rays] = place
            clear[turn % rays] = abs(lines[turn % rays, place])
        place += back[turn, place]


@_njit
def clearness(lines, clear, chosen, part):  # type: ignore[no-untyped-def]
    """The contrast that all but a part of a line has at least, and that of what else is there.

    Args:
        lines: (N, R) float32, from :func:`ridges`.
        clear: (N,) float32: contrast of the line.
        chosen: (N,) bool: the rays that count; at least one.
        part: How much of the line need not be seen, 0…1.

    Returns:
        Both, nought or more.
    """
    along, around = np.empty(lines.shape[0], np.float32), np.empty(lines.size, np.float32)
    rays, many = 0, 0
    for n in range(lines.shape[0]):
        if chosen[n]:
            along[rays] = clear[n]
            rays += 1
            for k in range(lines.shape[1]):
                around[many] = abs(lines[n, k])
                many += 1
    low, half = int(rays * part), many // 2
    return np.partition(along[:rays], low)[low], np.partition(around[:many], half)[half]


@_njit
def _breadth(line, at, reach):  # type: ignore[no-untyped-def]
    """How far a line reaches either way, in samples: to where it is half as clear."""
    count = line.shape[0]
    side = (line[max(at - reach, 0)] + line[min(at + reach, count - 1)]) / 2
    here, low, high = line[at] - side, 0, 0
    while low < reach and at - low - 1 >= 0 and (line[at - low - 1] - side) / here > np.float32(0.5):
        low += 1
    while high < reach and at + high + 1 < count and (line[at + high + 1] - side) / here > np.float32(0.5):
        high += 1
    return low, high


@_njit
def places(lines, table, spacing, frame, at, clear, closed, shown, out):  # type: ignore[no-untyped-def]
    """Where a line that was traced runs, how wide it is, and how surely it is seen.

    Args:
        lines: Two of (N, R) float32: brightness along the rays, and how wide a line is there, from :func:`ridges`.
        table: (N, R, 2) float32: where each sample lies, in the axes of the part.
        spacing: (N,) float32: from one sample to the next, pixels.
        frame: (6,) float32: origin, first and second axis of the part, pixels; finite.
        at: (N,) int64: from :func:`trace`.
        clear: (N,) float32: likewise.
        closed: Whether the last ray lies beside the first.
        shown: (2,) float32: contrast from which some of it is seen, and all of it.
        out: (N, 4 or more) float32, out: x and y, pixels; half of its width; and how surely it is seen, 0…1.
    """
    values, wide = lines
    rays, count = values.shape
    across = np.empty(rays, np.float32)
    for n in range(rays):
        apart = max(spacing[n], np.float32(0.05))
        reach = int(min(wide[n, at[n]] / apart + np.float32(0.5), np.float32(count)))
        low, high = _breadth(values[n], at[n], reach)
        across[n] = np.float32(0.5) * np.float32(low + high + 1) * apart
        middle = at[n] + (high - low) // 2
        s, t = table[n, middle, 0], table[n, middle, 1]
        out[n, 0] = frame[0] + s * frame[2] + t * frame[4]
        out[n, 1] = frame[1] + s * frame[3] + t * frame[5]
        mean = np.float32(0)
        for k in range(n - 2, n + 3):
            mean += clear[k % rays if closed else min(max(k, 0), rays - 1)] / 5
        out[n, 3] = min(max((mean - shown[0]) / (shown[1] - shown[0]), np.float32(0)), np.float32(1))
    # A frame is as thick in one place as in another.
    out[:, 2] = np.partition(across, rays // 2)[rays // 2]


def warm_up() -> None:
    """Compiles every kernel here, or loads it from the disk, so that no live frame has to wait for it."""
    table: Floats = np.zeros((2, 8, 2), np.float32)
    parts: Array = np.zeros(2, np.int32)
    lines: Floats = np.zeros((2, 8), np.float32)
    own: Array = np.zeros((2, 8), np.uint8)
    grey, mask = np.zeros((4, 4), np.float32), np.zeros((4, 4), np.uint8)
    sample(grey, mask, table, parts, np.zeros((1, 6), np.float32), lines, own)
    ridges(lines, own, np.ones(2, np.float32), np.ones(1, np.float32), lines.copy(), lines.copy())
    clear: Floats = np.zeros(2, np.float32)
    trace(lines, True, np.zeros(2, np.int64), clear)
    clearness(lines, clear, np.ones(2, np.bool_), 0.5)
    at, frame = np.zeros(2, np.int64), np.zeros(6, np.float32)
    shown: Floats = np.array([0, 1], np.float32)
    places((lines, lines), table, clear, frame, at, clear, True, shown, np.zeros((2, 4), np.float32))
