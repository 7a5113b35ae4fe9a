"""Paints a mesh into a frame: compiled loops over triangles, rows and pixels, without the GIL.

A texture holds one pixel in an int64: blue, green, red and transparency (0…127) in lanes of 16 bits. A weighted sum
of four pixels is then four multiplications, whatever the number of channels. Colours are stored lowered by the
noise's headroom and the noise raised by it, so that adding noise neither wraps nor needs clamping.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit

from engines.faces import Array, Floats, Image

NOISE: Final = 8192
"""The widest frame there may be, and half of the strip of noise that rows are cut from; a power of two."""

_ONE: Final = 65536

_ROW_MIX, _FRAME_MIX = 2654435761, 40503 * 65599


def noise_strip(sigma: float, seed: int) -> tuple[Array, int]:
    """Sensor noise: mostly brightness, a little colour.

    Args:
        sigma: Standard deviation, levels of 0…255.
        seed: Seed of the strip.

    Returns:
        (2·NOISE,) int64: packed, in 1/256 levels, raised by the headroom; and the headroom, levels.
    """
    room = int(np.ceil(3 * sigma))
    random = np.random.Generator(np.random.PCG64(seed))
    grain = 0.8 * random.standard_normal((NOISE, 1)) + 0.6 * random.standard_normal((NOISE, 3))
    levels = np.clip(np.rint((sigma * grain + room) * 256 + 128), 0, 2 * room * 256 + 255).astype(np.int64)
    strip = levels[:, 0] | levels[:, 1] << 16 | levels[:, 2] << 32
    return np.concatenate([strip, strip]), room


def pack(image: Image, room: int, alpha: Floats | None = None) -> Array:
    """Makes a texture.

    Args:
        image: H×W×3 uint8 BGR; darker than ``room`` and brighter than 255 − ``room`` is cut off.
        room: The noise's headroom, levels.
        alpha: (H, W) float32, 0…1; opaque without.

    Returns:
        (H, W) int64.
    """
    out = np.empty(image.shape[:2], np.int64)
    clear = np.zeros((1, 1), np.uint8) if alpha is None else np.rint(127 - alpha * 127).astype(np.uint8)
    _pack(np.ascontiguousarray(image), clear, room, out)
    return out


@njit(nogil=True, cache=True)
def _lowered(level: Any, room: int) -> Any:
    return np.int64(min(max(np.int64(level), np.int64(room)), np.int64(255 - room)) - room)


@njit(nogil=True, cache=True)
def _pack(image: Image, clear: Image, room: int, out: Array) -> None:
    height, width = out.shape
    single = clear.shape[0] == 1
    for y in range(height):
        for x in range(width):
            value = np.int64(clear[0, 0] if single else clear[y, x]) << 48
            for c in range(3):
                level = _lowered(image[y, x, c], room)
                value |= level << (16 * c)
            out[y, x] = value


@njit(nogil=True, cache=True)
def _row_of_noise(y: int, frame: int) -> Any:
    mixed = (np.int64(y) * _ROW_MIX + np.int64(frame) * _FRAME_MIX) & 0x7FFFFFFF
    mixed = (mixed ^ (mixed >> 13)) * 0x5BD1E995 & 0x7FFFFFFF
    return (mixed ^ (mixed >> 15)) & (NOISE - 1)


@njit(nogil=True, cache=True)
def add_noise(image: Image, noise: Array, room: int, frame: int, out: Image) -> None:
    """Fills ``out`` with the image under the noise of one frame."""
    height, width = image.shape[:2]
    for y in range(height):
        start = _row_of_noise(y, frame)
        for x in range(width):
            grain = noise[start + x]
            for c in range(3):
                level = _lowered(image[y, x, c], room)
                out[y, x, c] = np.uint8(((level << 8) + ((grain >> (16 * c)) & 0xFFFF)) >> 8)


@njit(nogil=True, cache=True)
def copy_outside(source: Image, left: Array, right: Array, out: Image) -> None:
    """Copies of each row what lies before ``left`` and from ``right`` on.

    Args:
        source: H×W×3 uint8.
        left: (H,) int32.
        right: (H,) int32, not below ``left``.
        out: H×W×3 uint8, filled in place.
    """
    for y in range(out.shape[0]):
        _copy(source[y].ravel(), 0, 3 * left[y], out[y].ravel())
        _copy(source[y].ravel(), 3 * right[y], 3 * out.shape[1], out[y].ravel())


@njit(nogil=True, cache=True)
def _copy(source: Image, begin: int, end: int, out: Image) -> None:
    for x in range(begin, end):
        out[np.uint64(x)] = source[np.uint64(x)]


@njit(nogil=True, cache=True)
def _edge(y: float, ax: float, ay: float, bx: float, by: float) -> float:
    # Both triangles of an edge come here with its upper end first: no pixel is left out between them.
    return ax + (y - ay) * ((bx - ax) / (by - ay))


@njit(nogil=True, cache=True)
def _downwards(points: Array, triangle: Array) -> Any:
    """The corners of a triangle from the highest to the lowest."""
    i, j, k = triangle[0], triangle[1], triangle[2]
    if points[j, 1] < points[i, 1]:
        i, j = j, i
    if points[k, 1] < points[j, 1]:
        j, k = k, j
        if points[j, 1] < points[i, 1]:
            i, j = j, i
    return i, j, k


@njit(nogil=True, cache=True)
def _rows(points: Array, i: int, k: int, height: int) -> Any:
    """The rows of the frame that a triangle reaches: the first, and the one after the last."""
    first = int(np.ceil(min(max(points[i, 1], 0.0), float(height))))
    return first, int(np.ceil(min(max(points[k, 1], 0.0), float(height))))


@njit(nogil=True, cache=True)
def _span(points: Array, i: int, j: int, k: int, y: int, width: int) -> Any:
    """The pixels of a row whose centres a triangle holds: the first, and the one after the last.

    Corners are given from the highest to the lowest.
    """
    x0, y0, x1, y1 = points[i, 0], points[i, 1], points[j, 0], points[j, 1]
    x2, y2 = points[k, 0], points[k, 1]
    a = _edge(y, x0, y0, x2, y2)
    b = _edge(y, x0, y0, x1, y1) if y < y1 else _edge(y, x1, y1, x2, y2)
    low, high = min(max(min(a, b), 0.0), float(width)), min(max(max(a, b), 0.0), float(width))
    return int(np.ceil(low)), int(np.ceil(high))


class Rasteriser:
    """Paints the same textured triangles again and again, wherever their corners are.

    Rows of triangles are collected first and painted row by row of the frame. What a row will read of the texture
    is touched before, in the order it lies in memory: a turned head reads it slantwise, and waiting for memory
    would take as long as all the rest.

    Args:
        coords: (N, 2) float64: where the vertices lie in the texture, pixels.
        triangles: (T, 3) int32; later ones cover earlier ones.
        texture: From :func:`pack`, opaque.
        size: Width and height of the frames, pixels.
    """

    def __init__(self, coords: Array, triangles: Array, texture: Array, size: tuple[int, int]) -> None:
        self._coords, self._triangles, self._texture = np.ascontiguousarray(coords), triangles, texture
        self._planes = np.empty((len(triangles), 6), np.float64)
        self._first = np.empty(size[1], np.int32)
        self._last = np.empty(size[1], np.int32)
        self._spans = np.empty((4096, 4), np.int32)
        self._row = np.empty((2, size[0]), np.int32)

    def draw(self, out: Image, points: Array, noise: Array, frame: int) -> None:
        """Paints the triangles that face the viewer (clockwise in the picture).

        Args:
            out: H×W×3 uint8, painted in place.
            points: (N, 2) float64, pixels of ``out``; a triangle covers the pixels whose centre it holds.
            noise: From :func:`noise_strip`.
            frame: Which noise.
        """
        while True:
            size = (out.shape[1], out.shape[0])
            needed = _collect(
                points,
                self._coords,
                self._triangles,
                size,
                self._planes,
                self._first,
                self._last,
                self._spans,
            )
            if needed <= len(self._spans):
                break
            self._spans = np.empty((needed * 5 // 4, 4), np.int32)
        _paint(out, self._planes, self._first, self._spans, self._row, self._texture, noise, frame)


@njit(nogil=True, cache=True)
def _collect(
    points: Array, coords: Array, triangles: Array, size: tuple[int, int],
    planes: Array, heads: Array, tails: Array, spans: Array,
) -> int:  # fmt: skip
    # spans: begin, end, triangle, next span of the same row. planes: (u, v) as affine functions of the pixel.
    width, height = size
    heads[:] = -1
    count = 0
    for t in range(triangles.shape[0]):
        i, j, k = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        area = (points[j, 0] - points[i, 0]) * (points[k, 1] - points[i, 1]) - (
            points[k, 0] - points[i, 0]
        ) * (points[j, 1] - points[i, 1])
        if area < 1e-6:
            continue
        i, j, k = _downwards(points, triangles[t])
        x0, y0, x1, y1 = points[i, 0], points[i, 1], points[j, 0], points[j, 1]
        x2, y2 = points[k, 0], points[k, 1]
        det = 1.0 / ((x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0))
        for axis in range(2):
            d1, d2 = coords[j, axis] - coords[i, axis], coords[k, axis] - coords[i, axis]
            across, down = (d1 * (y2 - y0) - d2 * (y1 - y0)) * det, (d2 * (x1 - x0) - d1 * (x2 - x0)) * det
            planes[t, 3 * axis] = across
            planes[t, 3 * axis + 1] = down
            planes[t, 3 * axis + 2] = coords[i, axis] - across * x0 - down * y0
        first, last = _rows(points, i, k, height)
        for y in range(first, last):
            begin, end = _span(points, i, j, k, y, width)
            if begin >= end:
                continue
            if count < spans.shape[0]:
                spans[count, 0], spans[count, 1], spans[count, 2], spans[count, 3] = begin, end, t, -1
                if heads[y] < 0:
                    heads[y] = count
                else:
                    spans[tails[y], 3] = count
                tails[y] = count
            count += 1
    return count


@njit(nogil=True, cache=True)
def _paint(
    out: Image,
    planes: Array,
    heads: Array,
    spans: Array,
    row: Array,
    texture: Array,
    noise: Array,
    frame: int,
) -> Any:
    flat, stride = texture.ravel(), np.int64(texture.shape[1])
    most_u = np.int64((texture.shape[1] - 1) * _ONE - 1)
    most_v = np.int64((texture.shape[0] - 1) * _ONE - 1)
    us, vs, zero = row[0], row[1], np.int64(0)
    # Unsigned indices: signed ones would be tested for counting from the end, four times a pixel.
    one, two, below = np.uint64(1), np.uint64(2), np.uint64(stride)
    ready, sum_ = np.int64(-1), np.int64(0)
    for y in range(out.shape[0]):
        s = heads[y]
        if s < 0:
            continue
        left, right, low, high = np.int64(out.shape[1]), np.int64(0), most_v, np.int64(0)
        while s >= 0:
            begin, end, t = np.int64(spans[s, 0]), np.int64(spans[s, 1]), spans[s, 2]
            s = spans[s, 3]
            left, right = min(left, begin), max(right, end)
            u = np.int64((planes[t, 0] * begin + planes[t, 1] * y + planes[t, 2]) * _ONE)
            v = np.int64((planes[t, 3] * begin + planes[t, 4] * y + planes[t, 5]) * _ONE)
            du, dv = np.int64(planes[t, 0] * _ONE), np.int64(planes[t, 3] * _ONE)
            # Only slivers reach out of the texture; their ends tell.
            steps = end - begin - 1
            u, v = min(max(u, zero), most_u), min(max(v, zero), most_v)
            if u + du * steps < 0 or u + du * steps > most_u:
                du = zero
            if v + dv * steps < 0 or v + dv * steps > most_v:
                dv = zero
            low, high = min(low, v, v + dv * steps), max(high, v, v + dv * steps)
            for x in range(begin, end):
                us[np.uint64(x)] = u
                vs[np.uint64(x)] = v
                u += du
                v += dv
        if ready < 0:
            ready = low >> 16
        wanted = min((high >> 16) + 6, np.int64(texture.shape[0]))
        for k in range(ready * stride, wanted * stride, 8):
            sum_ += flat[np.uint64(k)]
        ready = max(ready, wanted)
        grain = np.int64(_row_of_noise(y, frame))
        pixels = out[y].ravel()
        for x in range(left, right):
            u, v = np.int64(us[np.uint64(x)]), np.int64(vs[np.uint64(x)])
            fx, fy = (u >> 8) & 255, (v >> 8) & 255
            both = (fx * fy + 128) >> 8
            at = np.uint64((v >> 16) * stride + (u >> 16))
            value = (
                flat[at] * (256 - fx - fy + both)
                + flat[at + one] * (fx - both)
                + flat[at + below] * (fy - both)
                + flat[at + below + one] * both
                + noise[np.uint64(grain + x)]
            )
            to = np.uint64(3 * x)
            pixels[to] = np.uint8(value >> 8)
            pixels[to + one] = np.uint8(value >> 24)
            pixels[to + two] = np.uint8(value >> 40)
    return sum_  # Or the touching would be optimised away.


@njit(nogil=True, cache=True)
def blend(
    out: Image, points: Array, coords: Array, looks: Array, triangles: Array,
    texture: Array, noise: Array, room: int, frame: int,
) -> None:  # fmt: skip
    """Paints small translucent triangles, either way round: eyes, the inside of a mouth, shadows.

    Args:
        out: H×W×3 uint8, painted in place.
        points: (N, 2) float64, pixels of ``out``.
        coords: (N, 2) float64, pixels of the texture; its border goes on for ever.
        looks: (N, 2) float64: opacity 0…1, and brightness, 1 as in the texture.
        triangles: (T, 3) int32.
        texture: From :func:`pack`.
        noise: From :func:`noise_strip`.
        room: The noise's headroom, levels.
        frame: Which noise.
    """
    height, width = out.shape[:2]
    most_u, most_v = texture.shape[1] - 1.001, texture.shape[0] - 1.001
    for t in range(triangles.shape[0]):
        i, j, k = _downwards(points, triangles[t])
        x0, y0, x1, y1 = points[i, 0], points[i, 1], points[j, 0], points[j, 1]
        x2, y2 = points[k, 0], points[k, 1]
        area = (x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0)
        if abs(area) < 1e-6:
            continue
        first, last = _rows(points, i, k, height)
        for y in range(first, last):
            begin, end = _span(points, i, j, k, y, width)
            grain = _row_of_noise(y, frame)
            for x in range(begin, end):
                wj = ((x - x0) * (y2 - y0) - (x2 - x0) * (y - y0)) / area
                wk = ((x1 - x0) * (y - y0) - (x - x0) * (y1 - y0)) / area
                wi = 1.0 - wj - wk
                u = min(max(wi * coords[i, 0] + wj * coords[j, 0] + wk * coords[k, 0], 0.0), most_u)
                v = min(max(wi * coords[i, 1] + wj * coords[j, 1] + wk * coords[k, 1], 0.0), most_v)
                column, line = int(u), int(v)
                fx, fy = np.int64((u - column) * 256), np.int64((v - line) * 256)
                both = (fx * fy + 128) >> 8
                value = (
                    texture[line, column] * (256 - fx - fy + both)
                    + texture[line, column + 1] * (fx - both)
                    + texture[line + 1, column] * (fy - both)
                    + texture[line + 1, column + 1] * both
                )
                alpha = wi * looks[i, 0] + wj * looks[j, 0] + wk * looks[k, 0]
                alpha *= 1.0 - (value >> 48) / (127.0 * 256)
                gain = wi * looks[i, 1] + wj * looks[j, 1] + wk * looks[k, 1]
                noisy = noise[grain + x]
                for c in range(3):
                    level = ((value >> (16 * c)) & 0xFFFF) / 256.0 + room
                    level = min(max(level * gain - room, 0.0), 255.0 - 2 * room)
                    level += ((noisy >> (16 * c)) & 0xFFFF) / 256.0
                    out[y, x, c] = np.uint8(out[y, x, c] + alpha * (level - out[y, x, c]))
