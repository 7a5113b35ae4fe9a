"""What hangs together in a small mask, and which triangles lie near. Conventions as in :mod:`engines.kernels.cpu`."""

from __future__ import annotations

import numpy as np
from numba import njit

from engines.faces import Array, Floats

_njit = njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})


@_njit
def _closed(there, between):  # type: ignore[no-untyped-def]
    """Fills gaps of one texel: a closing by 3 × 3."""
    side = there.shape[0]
    for i in range(side):
        for j in range(side):
            some = np.uint8(0)
            for y in range(max(0, i - 1), min(side, i + 2)):
                for x in range(max(0, j - 1), min(side, j + 2)):
                    some |= there[y, x]
            between[i, j] = some
    for i in range(side):
        for j in range(side):
            every = np.uint8(1)
            for y in range(max(0, i - 1), min(side, i + 2)):
                for x in range(max(0, j - 1), min(side, j + 2)):
                    every &= between[y, x]
            there[i, j] = every


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
    found = 0
    for n in range(texels.shape[0]):
        i, j = texels[n] // side, texels[n] % side
        value = evidence[i, j]
        # What was there in the frame before needs less to be there still.
        easier = bars[2] if level[i, j] > np.float32(0.5) else np.float32(1)
        if value <= bars[1] * easier:
            continue
        clear[i, j] = value > bars[0] * easier
        around = np.float32(0)
        for y in range(max(0, i - 2), min(side, i + 3)):
            for x in range(max(0, j - 2), min(side, j + 3)):
                around = max(around, evidence[y, x])
        # What is very unlike is seen beyond its border, since all of this is blurred.
        if value > around / 4:
            maybe[i, j] = 1
            found += clear[i, j]
    if found == 0:
        return
    _closed(maybe, np.empty((side, side), np.uint8))
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
    nearby(level.reshape(-1), np.zeros(2, np.int64), np.zeros((1, 3), np.int32))
