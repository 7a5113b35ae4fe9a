"""The light that falls on a face, told from what lies before it. Conventions as in :mod:`engines.kernels.cpu`."""

from __future__ import annotations

import numpy as np
from numba import njit

from engines.faces import Array, Floats

_ROUNDS = 3
"""Steps of the fit at most; of another light three times as many."""
_FIRM = 1e-3
"""How firmly its level is held to that of the round before, in texels of the face."""
_LEVEL_SLOPE, _COLOUR_SLOPE = 0.02, 0.3
"""How firmly the slopes of the light are held to what is usual, lightness and colour, in texels of the face."""
_UNLIKE = np.float32(16)
"""Squared distance, in spreads, from which a texel is something else."""
_STEADY = 0.85
"""Part of the face that is as usual, from which one round is enough."""
_DOUBTED, _BETTER = 0.6, 0.25
"""Part of the face below which another light is tried, and how much more of it that must explain."""

_njit = njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
_njit_sums = njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
"""Sums in whatever order is fastest."""


@_njit
def _off(left, share, plane, place, out):  # type: ignore[no-untyped-def]
    """What a plane leaves of each texel, as a squared distance in spreads; see :func:`relight`."""
    out[:] = 0
    for k in range(3):
        row, part, c, a, b = left[k], share[k], plane[k, 0], plane[k, 1], plane[k, 2]
        for n in range(out.shape[0]):
            value = row[n] - c - a * place[0, n] - b * place[1, n]
            out[n] += value * value * part[n]


@_njit_sums
def _sums(left, weight, place):  # type: ignore[no-untyped-def]
    """Weighted moments of the texels' places, and of three values with them."""
    x, y, one, two, three = place[0], place[1], left[0], left[1], left[2]
    zero = np.float32(0)
    m00 = m01 = m02 = m11 = m12 = m22 = zero
    for n in range(weight.shape[0]):
        w, wx, wy = weight[n], weight[n] * x[n], weight[n] * y[n]
        m00 += w
        m01 += wx
        m02 += wy
        m11 += wx * x[n]
        m12 += wx * y[n]
        m22 += wy * y[n]
    a0 = a1 = a2 = b0 = b1 = b2 = c0 = c1 = c2 = zero
    for n in range(weight.shape[0]):
        w, wx, wy = weight[n], weight[n] * x[n], weight[n] * y[n]
        a0 += w * one[n]
        a1 += wx * one[n]
        a2 += wy * one[n]
        b0 += w * two[n]
        b1 += wx * two[n]
        b2 += wy * two[n]
        c0 += w * three[n]
        c1 += wx * three[n]
        c2 += wy * three[n]
    return (m00, m01, m02, m11, m12, m22), ((a0, a1, a2), (b0, b1, b2), (c0, c1, c2))


@_njit
def _fit(left, share, plane, place, weight, soft):  # type: ignore[no-untyped-def]
    """One weighted least-squares step of the plane; see :func:`relight`. Returns the part of the texels it explains."""
    count = weight.shape[0]
    _off(left, share, plane, place, weight)
    like = 0
    for n in range(count):
        like += weight[n] < _UNLIKE
    if soft:
        for n in range(count):
            weight[n] = np.float32(1) / (np.float32(1) + weight[n] / _UNLIKE)
    else:
        for n in range(count):
            part = np.float32(1) - weight[n] / _UNLIKE
            weight[n] = part * part if part > 0 else np.float32(0)
    (m00, m01, m02, m11, m12, m22), values = _sums(left, weight, place)
    for k in range(3):
        # Light may be of another colour from one moment to the next, but hardly from one cheek to the other.
        level = (_LEVEL_SLOPE if k == 0 else _COLOUR_SLOPE) * count
        s00, s11, s12, s22 = m00 + _FIRM * count, m11 + level, m12, m22 + level
        # The first sum is firm towards the plane of the round before, the others towards none.
        r0, r1, r2 = values[k][0] + _FIRM * count * plane[k, 0], values[k][1], values[k][2]
        # Gauss elimination; the matrix is positive definite.
        f1, f2 = m01 / s00, m02 / s00
        s11, s12, s22, r1, r2 = s11 - f1 * m01, s12 - f1 * m02, s22 - f2 * m02, r1 - f1 * r0, r2 - f2 * r0
        c = (r2 - s12 / s11 * r1) / (s22 - s12 / s11 * s12)
        b = (r1 - s12 * c) / s11
        plane[k, 0] = (r0 - m01 * b - m02 * c) / s00
        plane[k, 1] = b
        plane[k, 2] = c
    return like / count


@_njit
def relight(seen, usual, varies, variance, texels, plane, work, out, square):  # type: ignore[no-untyped-def]
    """Takes off what light changes: a plane over the face in each of the three values.

    Fitted by least squares that are weighted anew each round (J. W. Tukey's biweight), beginning with what the plane
    of the frame before leaves: something before the face does not count, even before half of it. Another light is
    believed in only if it explains far more of the face.

    Args:
        seen: (S, S, 3) float32, from :func:`engines.kernels.cover.unwrap`.
        usual: (S, S, 3) float32: what this face usually looks like.
        varies: (S, S, 3) float32: by how much each was off until now, squared.
        variance: (S, S, 3) float32: by how much each may be off at least, squared.
        texels: (N,) int32: those that count.
        plane: (3, 3) float32: constant, slope in x and in y of each value; taken from the frame before, changed.
        work: (9, N) float32, to work in.
        out: (S, S, 3) float32: what light does not explain.
        square: (S, S, 3) float32, out: by how much each may usually be off, squared.

    Returns:
        The part of the face that is as it usually is, 0…1.
    """
    side, count = seen.shape[1], texels.shape[0]
    half = np.float32(side) / 2
    left, share, place, weight = work[:3], work[3:6], work[6:8], work[8]
    # One after the other in memory: of such the compiler makes vectors.
    for n in range(count):
        i, j = texels[n] // side, texels[n] % side
        place[0, n], place[1, n] = (j - half) / half, (i - half) / half
        for k in range(3):
            left[k, n] = seen[i, j, k] - usual[i, j, k]
            square[i, j, k] = 2 * min(varies[i, j, k], variance[i, j, k]) + variance[i, j, k]
            share[k, n] = 1 / square[i, j, k]
    for _ in range(_ROUNDS):
        explained = _fit(left, share, plane, place, weight, False)
        if explained > _STEADY:
            break
    best = explained
    if best < _DOUBTED:
        other = plane.copy()
        for turn in range(3 * _ROUNDS):
            explained = _fit(left, share, other, place, weight, turn < 2 * _ROUNDS)
        if explained > best + _BETTER:
            plane[:] = other
            best = explained
    for k in range(3):
        row = left[k]
        for n in range(count):
            row[n] -= plane[k, 0] + plane[k, 1] * place[0, n] + plane[k, 2] * place[1, n]
    for n in range(count):
        i, j = texels[n] // side, texels[n] % side
        for k in range(3):
            out[i, j, k] = left[k, n]
    return best


def warm_up() -> None:
    """Compiles every kernel here, or loads it from the disk, so that no live frame has to wait for it."""
    values: Floats = np.ones((4, 4, 3), np.float32)
    texels: Array = np.zeros(1, np.int32)
    plane, work = np.zeros((3, 3), np.float32), np.zeros((9, 1), np.float32)
    relight(values, values, values, values, texels, plane, work, values.copy(), values.copy())
