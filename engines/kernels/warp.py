"""Aligned crops on the CPU: a rotated square of a frame, as small and as normalised as a network wants it.

A crop that is smaller than what it shows is made in two steps, since bilinear samples alone would leave pixels out
and lashes would flicker: blocks of whole pixels are averaged first, then the small picture is sampled. Beyond the
border of the frame its last pixels go on. Conventions as in :mod:`engines.kernels.cpu`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from engines.faces import Array, Floats, Image
from engines.kernels.fetch import BLOCK, PLACES, fold, sample_bytes, sample_shorts

_BYTES, _SHORTS = 3, 8
"""How large a pixel is: three bytes of a frame, or four numbers of 16 bits of what was averaged."""
_ROUND_UP = 0.35
"""Blocks are as wide as a crop's pixel, rounded; a sample may skip at most two thirds of a pixel."""

_njit = njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})


@_njit
def _average(image, left, top, block, out, sums):  # type: ignore[no-untyped-def]
    """Averages blocks of pixels; outside of the image its border goes on.

    Args:
        image: (H, W, 3) uint8, contiguous.
        left: Column of the first block's first pixel; may lie outside.
        top: Its row.
        block: Pixels along a block's side.
        out: (h, w, 4) int16, contiguous: three channels with six binary places, and nothing.
        sums: (at least 3·w·block + 1,) int32, scratch.
    """
    height, width = image.shape[0], image.shape[1]
    lines = image.reshape(height, width * 3)
    first = min(max(left, 0), width - 1)
    last = max(min(left + out.shape[1] * block, width), first + 1)
    before = max(first - left, 0)
    begin, count, total = 3 * before, np.uintp(3 * (last - first)), 3 * out.shape[1] * block
    # A single column beyond the border may be all there is: it is then repeated to the left or to the right.
    inside = sums[begin : begin + 3 * (last - first)]
    share = np.float32(PLACES / (block * block))
    target, read = np.uintp(out.ctypes.data), np.uintp(sums.ctypes.data)
    for row in range(out.shape[0]):
        at = top + row * block
        line = lines[min(max(at, 0), height - 1), 3 * first : 3 * last]
        for i in range(count):
            inside[i] = line[i]
        for j in range(1, block):
            line = lines[min(max(at + j, 0), height - 1), 3 * first : 3 * last]
            for i in range(count):
                inside[i] += line[i]
        for i in range(begin - 1, -1, -1):
            sums[i] = sums[i + 3]
        for i in range(begin + 3 * (last - first), total):
            sums[i] = sums[i - 3]
        fold(out.shape[1], target + np.uintp(row * out.strides[0]), read, block, share)  # type: ignore[call-arg]


@_njit
def _sample(source, back, out, scale, offset):  # type: ignore[no-untyped-def]
    """Bilinear samples of a picture on a rotated grid; outside of the picture its border goes on.

    Args:
        source: (h, w, 3), any number.
        back: (2, 3) float64, pixels of ``out`` to pixels of ``source``.
        out: (rows, columns, 3) float32, any strides.
        scale: (3,) float32 factor per channel.
        offset: (3,) float32, added then.
    """
    u_high, v_high = source.shape[1] - 1.0, source.shape[0] - 1.0
    right_most, lowest = np.uintp(source.shape[1] - 1), np.uintp(source.shape[0] - 1)
    du, dv, one = back[0, 0], back[1, 0], np.float32(1)
    for y in range(out.shape[0]):
        u0, v0 = back[0, 1] * y + back[0, 2], back[1, 1] * y + back[1, 2]
        for x in range(out.shape[1]):
            u, v = min(max(du * x + u0, 0.0), u_high), min(max(dv * x + v0, 0.0), v_high)
            # Unsigned, so that no index is looked at twice for being negative.
            left, top = np.uintp(u), np.uintp(v)
            right, below = min(left + np.uintp(1), right_most), min(top + np.uintp(1), lowest)
            fu, fv = np.float32(u - np.int64(left)), np.float32(v - np.int64(top))
            a, b, c, d = (one - fu) * (one - fv), fu * (one - fv), (one - fu) * fv, fu * fv
            for k in range(np.uintp(3)):
                value = (
                    a * np.float32(source[top, left, k]) + b * np.float32(source[top, right, k])
                    + c * np.float32(source[below, left, k]) + d * np.float32(source[below, right, k])
                )  # fmt: skip
                out[y, x, k] = value * scale[k] + offset[k]


@_njit
def _sample_rows(source, size, back, out, scale, offset):  # type: ignore[no-untyped-def]
    """The same as :func:`_sample`, eight pixels at a time.

    Args:
        source: (h, w, 3) uint8 or (h, w, 4) int16 of :func:`_average`, contiguous, at least 2×2.
        size: Bytes of a pixel of it: 3 or 8.
        back: (2, 3) float64, pixels of ``out`` to pixels of ``source``; finite.
        out: (rows, at least 8 columns, 3) float32, each row contiguous.
        scale: (3,) float32 factor per channel.
        offset: (3,) float32, added then.
    """
    rows, columns = out.shape[0], out.shape[1]
    u_high, v_high = source.shape[1] - 1.0, source.shape[0] - 1.0
    du, dv = back[0, 0], back[1, 0]
    picture, stride = np.uintp(source.ctypes.data), np.intp(source.strides[0])
    target = np.uintp(out.ctypes.data)
    s0, s1, s2, o0, o1, o2 = scale[0], scale[1], scale[2], offset[0], offset[1], offset[2]
    for y in range(rows):
        u0, v0 = back[0, 1] * y + back[0, 2], back[1, 1] * y + back[1, 2]
        # What is left over is sampled with some of what came before once more.
        for x, blocks in ((0, columns // BLOCK), (columns - BLOCK, 1)):
            if x and columns % BLOCK == 0:
                continue
            u, v = du * x + u0, dv * x + v0
            to = target + np.uintp(y * out.strides[0] + 12 * x)
            if size == 3:
                sample_bytes(
                    blocks, to, picture, stride, u, v, du, dv, u_high, v_high, s0, s1, s2, o0, o1, o2
                )
            else:
                sample_shorts(
                    blocks, to, picture, stride, u, v, du, dv, u_high, v_high, s0, s1, s2, o0, o1, o2
                )


@_njit
def rescale(source, out, scale, offset):  # type: ignore[no-untyped-def]
    """Values of three channels times a factor, plus an offset: into and out of a network's own range and layout.

    Args:
        source: (H, W, 3) float32, float16 or uint8, any strides.
        out: (H, W, 3) float32, any strides.
        scale: (3,) float32 factor per channel.
        offset: (3,) float32, added then.
    """
    for y in range(source.shape[0]):
        for x in range(source.shape[1]):
            for c in range(3):
                out[y, x, c] = source[y, x, c] * scale[c] + offset[c]


def inverse(affine: Array) -> Array:
    """(2, 3) float64: the inverse of an affine map.

    Raises:
        ZeroDivisionError: It has none.
    """
    (a, b, x), (c, d, y) = np.asarray(affine, np.float64).tolist()
    k = 1.0 / (a * d - b * c)
    return np.array([[d * k, -b * k, (b * y - d * x) * k], [-c * k, a * k, (c * x - a * y) * k]])


class Warp:
    """Cuts aligned crops out of frames. Its memory grows to the largest crop seen and stays; one thread."""

    def __init__(self) -> None:
        self._small: Array = np.empty((0, 0, 4), np.int16)
        self._sums: Array = np.empty(0, np.int32)

    def crop(self, image: Image, affine: Array, out: Floats, scale: Floats, offset: Floats) -> None:
        """Reads one crop.

        Args:
            image: (H, W, 3) uint8, contiguous.
            affine: (2, 3) similarity, frame pixels to crop pixels; centres of pixels lie at whole numbers.
            out: (rows, columns, 3) float32, filled in place with the channels in the frame's order. Any strides,
                so that a plane of a network's input, turned round, is one.
            scale: (3,) float32: a channel's 0…255 times this …
            offset: (3,) float32: … plus this.
        """
        back = inverse(affine)
        block = int(np.hypot(back[0, 0], back[1, 0]) + _ROUND_UP)
        if block < 2:
            _sampled(image, _BYTES, back, out, scale, offset)
            return
        corners = np.array([[0, 0, 1], [out.shape[1] - 1, 0, 1], [0, out.shape[0] - 1, 1],
                            [out.shape[1] - 1, out.shape[0] - 1, 1]]) @ back.T  # fmt: skip
        height, width = image.shape[:2]
        # One block beyond the border holds nothing but the border; what is farther out is the same.
        low = np.clip(np.floor(corners.min(0)) - block, -block, (width - 1, height - 1)).astype(int)
        high = np.clip(np.ceil(corners.max(0)) + block, 0, (width - 1 + block, height - 1 + block)).astype(
            int
        )
        columns, rows = ((high - low) // block + 1).tolist()
        small = self._room(rows, columns, block)
        left, top = low.tolist()
        _average(image, left, top, block, small, self._sums)
        # Pixel i of the small picture is the middle of a block.
        back[:, 2] -= low + (block - 1) / 2
        _sampled(small, _SHORTS, back / block, out, scale, offset)

    def _room(self, rows: int, columns: int, block: int) -> Array:
        if self._sums.size < 3 * columns * block + 1:
            self._sums = np.empty(3 * (columns + 16) * block + 1, np.int32)
        if self._small.size < rows * columns * 4:
            self._small = np.empty((rows + 16, columns + 16, 4), np.int16)
        return self._small.reshape(-1)[: rows * columns * 4].reshape(rows, columns, 4)


def _sampled(source: Array, size: int, back: Array, out: Floats, scale: Floats, offset: Floats) -> None:
    """Samples by the fastest loop that can: see :func:`_sample_rows` for what its arguments have to be."""
    if size == _SHORTS:
        scale = scale / np.float32(PLACES)
    packed = out.strides[1:] == (12, 4) and out.shape[1] >= BLOCK
    if packed and min(source.shape[:2]) >= 2 and np.isfinite(back).all():
        _sample_rows(source, size, back, out, scale, offset)
    else:
        _sample(source, back, out, scale, offset)


def sample(picture: Array, back: Array, out: Floats, scale: float) -> None:
    """Bilinear samples of a picture of fine numbers; outside of it its border goes on.

    Args:
        picture: (h, w, 4) int16, contiguous: three channels, and nothing.
        back: (2, 3) float64, pixels of ``out`` to pixels of the picture.
        out: (rows, columns, 3) float32, filled.
        scale: What numbers are multiplied by.
    """
    _sampled(picture, _SHORTS, back, out, np.full(3, scale * PLACES, np.float32), np.zeros(3, np.float32))


def warm_up() -> None:
    """Compiles what crops, or loads it from the disk."""
    image: Image = np.zeros((8, 8, 3), np.uint8)
    one, zero = np.ones(3, np.float32), np.zeros(3, np.float32)
    planar: Floats = np.zeros((3, 4, 4), np.float32)
    packed: Floats = np.zeros((8, 8, 3), np.float32)
    for out in (packed, packed[:4, :4], planar.transpose(1, 2, 0), planar[::-1].transpose(1, 2, 0)):
        for size in (4, 16):
            Warp().crop(image, np.array([[4 / size, 0, 0], [0, 4 / size, 0]]), out, one, zero)
        rescale(packed[:4, :4], out[:4, :4], one, zero)
        rescale(out[:4, :4], packed[:4, :4], one, zero)
    rescale(packed, packed, one, zero)
    for out in (planar.transpose(1, 2, 0), planar[::-1].transpose(1, 2, 0), packed):
        rescale(np.zeros(out.shape, np.uint8), out, one, zero)
