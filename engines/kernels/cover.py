"""The kernels that look at what is before a face, compiled by Numba without the GIL and cached on disk."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from engines.faces import Array, Floats

_DARKEST, _BRIGHTEST = np.float32(0.04), np.float32(100)
"""Added before the logarithm: below this there is more noise than colour; and the most that is believed."""
_HAIR = np.float32(0.8)
"""How much darker than the skin hair is, in spreads."""
_SHADED = np.float32(0.5)
"""And how much darker the inside of a mouth is at least."""
_NEAR = np.float32(10)
"""Evidence for what looks like skin where the lips should be seen."""
_CLEAR = np.float32(80)
"""Evidence beyond this makes nothing clearer."""

_njit = njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})


@_njit
def _bounded(value):  # type: ignore[no-untyped-def]
    """What is no number is nought, as the first of two that neither is the larger."""
    return min(max(np.float32(0), value), _BRIGHTEST)


@_njit
def unwrap(patch, places, texels, corners, weights, out):  # type: ignore[no-untyped-def]
    """Lays a patch over the canonical face: lightness, redness and blueness, each a logarithm.

    A factor on all channels is a sum here, and so is one on a single channel: light comes off by subtraction.

    Args:
        patch: (H, W, 3) float32 RGB, 0…1; whatever it holds, what comes out is finite.
        places: (V, 2) float32: where each vertex lies in the patch, pixels; finite.
        texels: (N,) int32: which texels of the face are looked at, row times width plus column.
        corners: (N, 3) int32: the triangle that each lies in.
        weights: (N, 3) float32: where in it.
        out: (S, S, 3) float32: means of log R, G, B; log R − log G; log B − log G. Others stay as they are.
    """
    height, width = patch.shape[0], patch.shape[1]
    side = out.shape[1]
    ninth = np.float32(1.0 / 9.0)
    for n in range(texels.shape[0]):
        a, b, c = corners[n, 0], corners[n, 1], corners[n, 2]
        x = places[a, 0] * weights[n, 0] + places[b, 0] * weights[n, 1] + places[c, 0] * weights[n, 2]
        y = places[a, 1] * weights[n, 0] + places[b, 1] * weights[n, 1] + places[c, 1] * weights[n, 2]
        # Bounded while still a float: an integer too large to hold is no number at all.
        column = int(min(max(x + 0.5, 1.0), width - 2.0))
        row = int(min(max(y + 0.5, 1.0), height - 2.0))
        red, green, blue = np.float32(0), np.float32(0), np.float32(0)
        for i in range(row - 1, row + 2):
            for j in range(column - 1, column + 2):
                red += patch[i, j, 0]
                green += patch[i, j, 1]
                blue += patch[i, j, 2]
        log_red = math.log(_bounded(red * ninth) + _DARKEST)
        log_green = math.log(_bounded(green * ninth) + _DARKEST)
        log_blue = math.log(_bounded(blue * ninth) + _DARKEST)
        i, j = texels[n] // side, texels[n] % side
        out[i, j, 0] = (log_red + log_green + log_blue) / 3
        out[i, j, 1] = log_red - log_green
        out[i, j, 2] = log_blue - log_green


@_njit
def changes(seen, before, variance, texels, bar):  # type: ignore[no-untyped-def]
    """How many texels are not what they, or those next to them, were: a mesh trembles, and on a border that is no news.

    Args:
        seen: (S, S, 3) float32, from :func:`unwrap`.
        before: (S, S, 3) float32, likewise.
        variance: (S, S, 3) float32: by how much each may be off, squared.
        texels: (N,) int32: those that count.
        bar: Squared distance, in spreads, from which one changed.
    """
    side = seen.shape[1]
    count = 0
    for n in range(texels.shape[0]):
        i, j = texels[n] // side, texels[n] % side
        off = np.float32(0)
        for k in range(3):
            low = high = before[i, j, k]
            for y in range(max(0, i - 1), min(side, i + 2)):
                for x in range(max(0, j - 1), min(side, j + 2)):
                    low, high = min(low, before[y, x, k]), max(high, before[y, x, k])
            value = seen[i, j, k]
            off += (value - min(max(value, low), high)) ** 2 / variance[i, j, k]
        count += not off <= bar
    return count


@_njit
def weigh_up(  # type: ignore[no-untyped-def]
    usual, off, now, square, texels, zones, skin, before, spreads, states, unusual, foreign, evidence
):  # fmt: skip
    """How much speaks for something before each texel of a face, in squared spreads.

    Args:
        usual: (S, S, 3) float32: lightness, redness and blueness that this face usually has.
        off: (S, S, 3) float32: how much it is off now, smoothed.
        now: (S, S, 3) float32: what it looks like now, in the usual light, smoothed.
        square: (S, S, 3) float32: by how much it may be, squared.
        texels: (N,) int32: those of the face.
        zones: (3, S, S) float32, 0…1: around the mouth, below the nose, the forehead.
        skin: (3,) float32: this face's skin.
        before: (3,) float32: what is seen where the lips should be.
        spreads: (2, 3) float32: of skin from its mean, and of a face at rest.
        states: (2,) bool: whether lips that are known are hidden; whether none are seen at all.
        unusual: (S, S) float32, out: distance from what is usual.
        foreign: (S, S) float32, out: distance from skin and lips.
        evidence: (S, S) float32, out.
    """
    side = usual.shape[1]
    for n in range(texels.shape[0]):
        i, j = texels[n] // side, texels[n] % side
        mouth, lower, forehead = zones[0, i, j], zones[1, i, j], zones[2, i, j]
        odd, from_skin, at_rest, apart = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        dark, colour = np.float32(0), np.float32(0)
        for k in range(3):
            value = off[i, j, k]
            odd += value * value / square[i, j, k]
            at_rest += (value / spreads[1, k]) ** 2
            apart += ((usual[i, j, k] - before[k]) / spreads[1, k]) ** 2
            away = (now[i, j, k] - skin[k]) / spreads[0, k]
            if k == 0:
                dark = -away
            else:
                colour += away * away
            if k == 1 and away > 0:
                # Lips and tongues are redder than skin.
                away *= 1 - mouth
            from_skin += away * away
        # An open mouth is dark.
        from_skin *= 1 - mouth * min(np.float32(1), max(np.float32(0), dark - _SHADED))
        unusual[i, j] = odd
        foreign[i, j] = from_skin
        found = min(odd, from_skin)
        if dark > _HAIR:
            # Hair or a hat, new or not.
            found = max(found, from_skin * min(np.float32(1), 2 * (dark - _HAIR)) * forehead)
        if states[0]:
            # Where a hand looks as the face does, what is near the hidden mouth belongs to it.
            found = max(found, (at_rest + _NEAR * mouth * mouth * math.exp(apart / -8)) * lower)
        if states[1] and dark < _HAIR:
            # A mask that was on before the face was ever seen; a beard is dark.
            found = max(found, colour * lower)
        evidence[i, j] = min(found, _CLEAR)


@_njit
def smooth(values, share, weights, between, out):  # type: ignore[no-untyped-def]
    """The mean of what is around each texel, of the face alone.

    Args:
        values: (S, 3·S) float32; nought outside of the face.
        share: (S, 3·S) float32: how much of what is around is face; above nought.
        weights: (odd,) float32.
        between: (S, 3·S) float32, to work in.
        out: (S, 3·S) float32.
    """
    side, width = values.shape
    reach = weights.shape[0] // 2
    for i in range(side):
        line = between[i]
        line[:] = 0
        for n in range(max(0, i - reach), min(side, i + reach + 1)):
            weight, row = weights[n - i + reach], values[n]
            for j in range(width):
                line[j] += weight * row[j]
    for i in range(side):
        line, row = out[i], between[i]
        line[:] = 0
        for n in range(-reach, reach + 1):
            weight, shift = weights[n + reach], 3 * n
            first, last = max(0, -shift), min(width, width - shift)
            to, come = line[first:last], row[first + shift : last + shift]
            for j in range(to.shape[0]):
                to[j] += weight * come[j]
        part = share[i]
        for j in range(width):
            line[j] /= part[j]


@_njit
def medians(values, texels, out):  # type: ignore[no-untyped-def]
    """The median of each of the three values.

    Args:
        values: (S·S, 3) float32.
        texels: (N,) int64: which of them; at least one.
        out: (3,) float32.
    """
    chosen = np.empty(texels.shape[0], np.float32)
    for k in range(3):
        for n in range(texels.shape[0]):
            chosen[n] = values[texels[n], k]
        out[k] = np.median(chosen)


@_njit
def read_lips(left, usual, zone, ring, near):  # type: ignore[no-untyped-def]
    """How red the lips are, and whether they are where they usually are.

    Args:
        left: (S·S, 3) float32: what light does not explain.
        usual: (S·S, 3) float32: what this face usually looks like.
        zone: (N,) int64: where lips may be.
        ring: (M,) int64: the skin around them.
        near: (K,) int64: the lips and what is next to them.

    Returns:
        How much redder they are than the skin around them, and how much they lie where they usually do, −1…1.
    """
    red = np.empty(zone.shape[0], np.float32)
    for n in range(zone.shape[0]):
        red[n] = left[zone[n], 1] + usual[zone[n], 1]
    top = red.shape[0] * 9 // 10
    reddest = np.partition(red, top)[top]
    skin = np.empty(ring.shape[0], np.float32)
    for n in range(ring.shape[0]):
        skin[n] = left[ring[n], 1] + usual[ring[n], 1]
    now_mean, before_mean = 0.0, 0.0
    for n in range(near.shape[0]):
        now_mean += left[near[n], 1] + usual[near[n], 1]
        before_mean += usual[near[n], 1]
    now_mean /= near.shape[0]
    before_mean /= near.shape[0]
    both, now_square, before_square = 0.0, 0.0, 0.0
    for n in range(near.shape[0]):
        now = left[near[n], 1] + usual[near[n], 1] - now_mean
        before = usual[near[n], 1] - before_mean
        both += now * before
        now_square += now * now
        before_square += before * before
    return float(reddest - np.median(skin)), both / (math.sqrt(now_square * before_square) + 1e-6)


@_njit
def learn(known, off, left, unusual, foreign, lower, texels, rates, states):  # type: ignore[no-untyped-def]
    """Follows what a face usually looks like.

    Args:
        known: Usual values and variances, (S, S, 3) float32 each, changed; and the (S, S) float32 level of what is
            before the face.
        off: (S, S, 3) float32: how much it is off now, smoothed.
        left: (S, S, 3) float32: the same, not smoothed.
        unusual: (S, S) float32: distance from what is usual.
        foreign: (S, S) float32: distance from skin and lips.
        lower: (S, S) float32, 0…1: below the nose.
        texels: (N,) int32: those of the face.
        rates: (3,) float32: part of the way per frame; the same where something is before the face that might be skin;
            and how foreign that may be.
        states: (2,) bool: whether the face is known already; whether the lips are hidden.
    """
    usual, varies, level = known
    side = usual.shape[1]
    for n in range(texels.shape[0]):
        i, j = texels[n] // side, texels[n] % side
        rate = rates[0]
        if states[0]:
            rate *= min(max(2 - unusual[i, j] / 4, np.float32(0)), np.float32(1))
            if level[i, j] > np.float32(0.1):
                # What stays and might be skin is got used to; what cannot be is not.
                rate = rates[1] if foreign[i, j] < rates[2] else np.float32(0)
            if states[1]:
                rate *= 1 - lower[i, j]
        for k in range(3):
            usual[i, j, k] += rate * left[i, j, k]
            varies[i, j, k] += rate * (off[i, j, k] * off[i, j, k] - varies[i, j, k])


def warm_up() -> None:
    """Compiles every kernel here, or loads it from the disk, so that no live frame has to wait for it."""
    texels: Array = np.zeros(1, np.int32)
    corners: Array = np.zeros((1, 3), np.int32)
    values: Floats = np.ones((4, 4, 3), np.float32)
    unwrap(values, np.ones((3, 2), np.float32), texels, corners, np.ones((1, 3), np.float32), values.copy())
    changes(values, values, values, texels, 1.0)
    zones: Floats = np.zeros((3, 4, 4), np.float32)
    three: Floats = np.ones(3, np.float32)
    weigh_up(
        values, values, values, values, texels, zones, three, three, np.ones((2, 3), np.float32), np.zeros(2, np.bool_),
        zones[0], zones[1], zones[2],
    )  # fmt: skip
    flat = values.reshape(4, 12)
    smooth(flat, flat, np.ones(3, np.float32), flat.copy(), flat.copy())
    some, places = values.reshape(16, 3), np.zeros(2, np.int64)
    medians(some, places, three.copy())
    read_lips(some, some, places, places, places)
    level: Floats = np.zeros((4, 4), np.float32)
    learn(
        (values.copy(), values.copy(), level), values, values, level, level, zones[0], texels, three,
        np.zeros(2, np.bool_),
    )  # fmt: skip
