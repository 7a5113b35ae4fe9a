"""What hangs together in a small mask, and which triangles lie near. Conventions as in :mod:`engines.kernels.cpu`."""

from __future__ import annotations

import numpy as np
from numba import njit

from engines.faces import Array, Floats

_njit = njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})


@_njit
def _closed(there, across, both):  # type: ignore[no-untyped-def]
    """Fills gaps of one texel: a closing by 3 × 3, along rows and then down columns, of noughts and ones."""
    side = there.shape[0]
    for i in range(side):
        row, line = there[i], across[i]
        line[:] = row
        for j in range(1, side):
            line[j] |= row[j - 1]
        for j in range(side - 1):
            line[j] |= row[j + 1]
    for i in range(side):
        line, above, here, below = both[i], across[max(i - 1, 0)], across[i], across[min(i + 1, side - 1)]
        for j in range(side):
            line[j] = above[j] | here[j] | below[j]
    for i in range(side):
        row, line = both[i], across[i]
        line[:] = row
        for j in range(1, side):
            line[j] &= row[j - 1]
        for j in range(side - 1):
            line[j] &= row[j + 1]
    for i in range(side):
        line, above, here, below = there[i], across[max(i - 1, 0)], across[i], across[min(i + 1, side - 1)]
        for j in range(side):
            line[j] = above[j] & here[j] & below[j]


@_njit
def seek(evidence, level, texels, bars, counts, there):  # type: ignore[no-untyped-def]
    """Where something is: what is clear enough, and what hangs together with it.

    Args:
        evidence: (S, S) float32; nought outside of the face.
        level: (S, S) float32, 0…1: how surely something was there before.
        texels: (N,) int32: those of the face.
        bars: (3,) float32: evidence that is clear, evidence that hangs together with it, and how much of either is
            enough for what was there before.
        counts: (2,) int64: texels that must be clear, and that there must be at all.
        there: (S, S) float32, out: 1 where something is, else 0.
    """
    side = evidence.shape[0]
    there[:] = 0
    maybe, clear = np.zeros((side, side), np.uint8), np.zeros((side, side), np.bool_)
    found, most = 0, np.float32(0)
    for n in range(texels.shape[0]):
        most = max(most, evidence[texels[n] // side, texels[n] % side])
    for n in range(texels.shape[0]):
        i, j = texels[n] // side, texels[n] % side
        value = evidence[i, j]
        # What was there in the frame before needs less to be there still.
        easier = bars[2] if level[i, j] > np.float32(0.5) else np.float32(1)
        if value <= bars[1] * easier:
            continue
        clear[i, j] = value > bars[0] * easier
        # What is very unlike is seen beyond its border, since all of this is blurred.
        beside = False
        if value <= most / 4:
            for y in range(max(0, i - 2), min(side, i + 3)):
                for x in range(max(0, j - 2), min(side, j + 3)):
                    beside |= evidence[y, x] / 4 >= value
        if not beside:
            maybe[i, j] = 1
            found += clear[i, j]
    if found == 0:
        return
    _closed(maybe, np.empty((side, side), np.uint8), np.empty((side, side), np.uint8))
    flood = np.empty(side * side, np.int64)
    for first in range(side * side):
        if maybe[first // side, first % side] != 1:
            continue
        flood[0], length, done, sure = first, 1, 0, 0
        maybe[first // side, first % side] = 2
        while done < length:
            i, j = flood[done] // side, flood[done] % side
            done += 1
            sure += clear[i, j]
            for y in range(max(0, i - 1), min(side, i + 2)):
                for x in range(max(0, j - 1), min(side, j + 2)):
                    if maybe[y, x] == 1:
                        maybe[y, x] = 2
                        flood[length] = y * side + x
                        length += 1
        if sure >= counts[0] and length >= counts[1]:
            for n in range(length):
                there[flood[n] // side, flood[n] % side] = 1


@_njit
def follow(level, there, rates, soft, amount):  # type: ignore[no-untyped-def]
    """Lets how surely something is before each texel follow what is seen, and says how much of it is shown.

    Args:
        level: (S, S) float32, 0…1; changed.
        there: (S, S) float32: from :func:`seek`.
        rates: (2,) float32: part of the way per frame, up and down.
        soft: (2,) float32: the level from which some of it is shown, and all of it.
        amount: (S, S) float32, out: 0…1, with soft ends.

    Returns:
        Whether anything is shown.
    """
    some = np.float32(0)
    for i in range(level.shape[0]):
        line, wanted, shown = level[i], there[i], amount[i]
        for j in range(line.shape[0]):
            rate = rates[0] if wanted[j] > line[j] else rates[1]
            line[j] += rate * (wanted[j] - line[j])
            part = min(max((line[j] - soft[0]) / (soft[1] - soft[0]), np.float32(0)), np.float32(1))
            shown[j] = part * part * (3 - 2 * part)
        for j in range(line.shape[0]):
            some = max(some, shown[j])
    return some > 0


@_njit
def nearby(amount, at, corners):  # type: ignore[no-untyped-def]
    """The triangles of which a corner lies where something is.

    Args:
        amount: (S·S,) float32.
        at: (V,) int64: the texel of each vertex.
        corners: (T, 3) int32.
    """
    chosen, count = np.empty_like(corners), 0
    for n in range(corners.shape[0]):
        if amount[at[corners[n, 0]]] > 0 or amount[at[corners[n, 1]]] > 0 or amount[at[corners[n, 2]]] > 0:
            chosen[count] = corners[n]
            count += 1
    return chosen[:count]


def warm_up() -> None:
    """Compiles every kernel here, or loads it from the disk, so that no live frame has to wait for it."""
    level: Floats = np.zeros((4, 4), np.float32)
    texels: Array = np.zeros(1, np.int32)
    seek(level, level, texels, np.ones(3, np.float32), np.ones(2, np.int64), level.copy())
    follow(level, level.copy(), np.ones(2, np.float32), np.array([0, 1], np.float32), level.copy())
    nearby(level.reshape(-1), np.zeros(2, np.int64), np.zeros((1, 3), np.int32))
