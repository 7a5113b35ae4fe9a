"""Paste-back on the CPU: a square crop, its mask and its colours laid over a face of the frame in one pass.

What a network made is baked into a small texture with its colours matched and its mask as opacity; then each row of
the face's region samples that texture and is blended, by the same inner loop as the mesh's composite. Nothing of the
frame's size is made on the way, and what the mask leaves at nought is not looked at.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numba import njit

from engines.faces import Array, Floats, Image
from engines.kernels.lay import BLOCK, lay_blocks, lay_pixels
from engines.kernels.span import FIXED

LIMITS: Final = 8
"""Least and greatest u, v, u + v and u − v of what is not transparent: an octagon wastes little around a face."""

_SEEN: Final = 0.5 / 255
"""A mask below this rounds to no opacity at all."""

_njit = njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})


@_njit
def _row(face, mask, scale, offset, texels):  # type: ignore[no-untyped-def]
    """Part of a row of :func:`bake`; four bytes are written as one number, which a compiler makes vectors of.

    Args:
        face: (W, 3) float32, contiguous.
        mask: (W,) float32, contiguous.
        scale: (3,) float32.
        offset: (3,) float32.
        texels: (W,) uint32.
    """
    s0, s1, s2, o0, o1, o2 = scale[0], scale[1], scale[2], offset[0], offset[1], offset[2]
    nought, half, white = np.float32(0), np.float32(0.5), np.float32(255)
    for x in range(np.uintp(texels.shape[0])):
        b = face[x, np.uintp(0)] * s0 + o0
        g = face[x, np.uintp(1)] * s1 + o1
        r = face[x, np.uintp(2)] * s2 + o2
        texels[x] = (
            np.uint32(np.int32(min(max(b, nought), white) + half))
            | np.uint32(np.int32(min(max(g, nought), white) + half)) << np.uint32(8)
            | np.uint32(np.int32(min(max(r, nought), white) + half)) << np.uint32(16)
            | np.uint32(np.int32(min(max(mask[x] * white, nought), white) + half)) << np.uint32(24)
        )


@_njit
def _strange(bits):  # type: ignore[no-untyped-def]
    """How many of some float32, read as int32, are not finite: all bits of the exponent are set."""
    count, exponent = np.int32(0), np.int32(0x7F800000)
    for i in range(np.uintp(bits.shape[0])):
        count += np.int32(bits[i] & exponent == exponent)
    return count


@_njit
def average(face, mask, block, small_face, small_mask):  # type: ignore[no-untyped-def]
    """A face and its mask made smaller, each pixel the mean of a block of pixels.

    Args:
        face: (H, W, 3) float32.
        mask: (H, W) float32.
        block: Pixels along a block's side.
        small_face: (H // block, W // block, 3) float32, filled.
        small_mask: (H // block, W // block) float32, filled.
    """
    share = np.float32(1 / (block * block))
    small_face[:], small_mask[:] = 0, 0
    for y in range(small_mask.shape[0] * block):
        row = y // block
        for x in range(small_mask.shape[1] * block):
            column = x // block
            small_mask[row, column] += mask[y, x] * share
            for c in range(3):
                small_face[row, column, c] += face[y, x, c] * share


@_njit
def bake(face, mask, scale, offset, texture, limits):  # type: ignore[no-untyped-def]
    """Makes the texture that is pasted: colours matched, the mask as opacity.

    Args:
        face: (H, W, 3) float32, contiguous.
        mask: (H, W) float32, 0…1, contiguous.
        scale: (3,) float32: factor of a channel that brings it to 0…255 …
        offset: (3,) float32: … with this added.
        texture: (H, W, 4) uint8, contiguous: three channels, opacity. What cannot be seen is left as it is, but for
            its opacity.
        limits: (8,) float64: filled with least and greatest u, v, u + v, u − v, in texels, of what may be seen of
            the texture; the least lies above the greatest where nothing may.

    Returns:
        Whether every number of the face and the mask was finite.
    """
    rows, columns = mask.shape
    texels = texture.view(np.uint32).reshape(rows, columns)
    strange = _strange(face.view(np.int32).reshape(-1)) + _strange(mask.view(np.int32).reshape(-1))
    for i in range(0, 8, 2):
        limits[i], limits[i + 1] = 1e9, -1e9
    spans = np.empty((rows + 2, 2), np.intp)
    spans[:, 0], spans[:, 1] = columns, -1
    for y in range(rows):
        first, last = 0, columns - 1
        while first < columns and not mask[y, first] >= _SEEN:
            first += 1
        if first == columns:
            continue
        while not mask[y, last] >= _SEEN:
            last -= 1
        spans[y + 1, 0], spans[y + 1, 1] = first, last
        limits[0], limits[1] = min(limits[0], first), max(limits[1], last)
        limits[2], limits[3] = min(limits[2], y), max(limits[3], y)
        limits[4], limits[5] = min(limits[4], first + y), max(limits[5], last + y)
        limits[6], limits[7] = min(limits[6], first - y), max(limits[7], last - y)
    for y in range(rows):
        # A texel is mixed with its neighbours, so those have their colours too, though they are not seen themselves.
        first = max(0, min(spans[y, 0], spans[y + 1, 0], spans[y + 2, 0]) - 1)
        last = min(columns, max(spans[y, 1], spans[y + 1, 1], spans[y + 2, 1]) + 2)
        if first >= last:
            texels[y] = 0
            continue
        texels[y, :first], texels[y, last:] = 0, 0
        _row(face[y, first:last], mask[y, first:last], scale, offset, texels[y, first:last])
    # A texel is seen up to the next one, and two of them on a slope.
    for i in range(0, 8, 2):
        reach = 1.0 if i < 4 else 2.0
        limits[i], limits[i + 1] = limits[i] - reach, limits[i + 1] + reach
    limits[0], limits[1] = max(limits[0], 0.0), min(limits[1], columns - 1.0)
    limits[2], limits[3] = max(limits[2], 0.0), min(limits[3], rows - 1.0)
    return strange == 0


@_njit
def _narrow(low, high, slope, start, least, greatest):  # type: ignore[no-untyped-def]
    """The part of low…high in which ``slope · x + start`` lies between two values."""
    if abs(slope) < 1e-12:
        return (low, high) if least <= start <= greatest else (1.0, 0.0)
    first, second = (least - start) / slope, (greatest - start) / slope
    return max(low, min(first, second)), min(high, max(first, second))


@_njit
def paste(image, texture, affine, limits):  # type: ignore[no-untyped-def]
    """Blends a texture over a rotated square of an image.

    Args:
        image: (H, W, 3) uint8, rows contiguous; painted in place.
        texture: (h, w, 4) uint8, contiguous, at least 2×2: three channels and opacity.
        affine: (2, 3) float64, pixels of the image to texels.
        limits: (8,) float64 of :func:`bake`.
    """
    height, width = image.shape[0], image.shape[1]
    a, b, c = affine[0, 0], affine[0, 1], affine[0, 2]
    d, e, f = affine[1, 0], affine[1, 1], affine[1, 2]
    area = a * e - b * d
    # Not a number, or no map at all.
    if not (1e-9 < abs(area) < 1e9 and limits[0] <= limits[1] and limits[2] <= limits[3]):
        return
    top, bottom = 1e30, -1e30
    for u in (limits[0], limits[1]):
        for v in (limits[2], limits[3]):
            y = (a * (v - f) - d * (u - c)) / area
            top, bottom = min(top, y), max(bottom, y)
    # Bounded while still a float: an integer too large to hold is no number at all.
    first = int(min(float(height), max(0.0, math.ceil(top))))
    last = int(min(float(height), max(0.0, math.floor(bottom) + 1.0)))
    target, row_bytes = np.uintp(image.ctypes.data), np.intp(image.strides[0])
    source, stride = np.uintp(texture.ctypes.data), np.intp(texture.strides[0])
    u_high = np.int32((texture.shape[1] - 1) * FIXED - 1)
    v_high = np.int32((texture.shape[0] - 1) * FIXED - 1)
    du, dv = np.int32(round(a * FIXED)), np.int32(round(d * FIXED))
    for y in range(first, last):
        u0, v0 = b * y + c, e * y + f
        low, high = _narrow(0.0, width - 1.0, a, u0, limits[0], limits[1])
        low, high = _narrow(low, high, d, v0, limits[2], limits[3])
        low, high = _narrow(low, high, a + d, u0 + v0, limits[4], limits[5])
        low, high = _narrow(low, high, a - d, u0 - v0, limits[6], limits[7])
        if not low <= high:
            continue
        left, right = math.ceil(low), math.floor(high) + 1
        if left >= right:
            continue
        u = np.int32(round((a * left + u0) * FIXED))
        v = np.int32(round((d * left + v0) * FIXED))
        count, pixel = np.intp(right - left), target + np.uintp(y * row_bytes + left * 3)
        # A block writes its masked pixels back as they were, so it must not reach over the end of the image.
        if right > width - BLOCK and (y == height - 1 or width < BLOCK):
            lay_pixels(count, pixel, source, stride, u, v, du, dv, u_high, v_high)
        else:
            lay_blocks(count, pixel, source, stride, u, v, du, dv, u_high, v_high)


def warm_up() -> None:
    """Compiles what pastes, or loads it from the disk."""
    face: Floats = np.zeros((8, 8, 3), np.float32)
    mask: Floats = np.ones((8, 8), np.float32)
    image: Image = np.zeros((8, 8, 3), np.uint8)
    limits: Array = np.zeros(LIMITS)
    texture: Array = np.zeros((4, 4, 4), np.uint8)
    small_face, small_mask = face[:4, :4].copy(), mask[:4, :4].copy()
    average(face, mask, 2, small_face, small_mask)
    bake(small_face, small_mask, np.ones(3, np.float32), np.zeros(3, np.float32), texture, limits)
    paste(image, texture, np.array([[1.0, 0, 0], [0, 1, 0]]), limits)
