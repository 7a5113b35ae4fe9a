"""The kernels on the CPU, compiled by Numba without the GIL and cached on disk.

Conventions of every kernel here: the centre of pixel (i, j) lies at (i, j), as OpenCV has it; images are BGR; nothing
outside of the triangles is touched.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from engines.faces import Array, Floats, Image
from engines.kernels.span import BLOCK, FIXED, prefetch, shade_blocks, shade_pixels

_LARGEST = 1e30
"""Twice the area, in pixels, of a triangle that is certainly a mistake."""
_AHEAD = 6
"""How many triangles ahead the frame's memory is brought near."""
_BROUGHT = 256.0
"""Pixels; larger triangles have long rows, which the processor follows by itself."""
_LINE = 64
"""Bytes of a cache line, or half of one."""

_njit = njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})


@_njit
def _gradient(fa, fb, fc, abx, aby, acx, acy):  # type: ignore[no-untyped-def]
    """Slopes in x and y of a value given at three corners; edges are divided by twice the triangle's area."""
    b, c = fb - fa, fc - fa
    return b * acy - c * aby, c * abx - b * acx


@_njit
def _within(low, high, size):  # type: ignore[no-untyped-def]
    """The whole numbers from low to high that are pixels of a row of this size, as a range."""
    # Bounded while still a float: an integer too large to hold is no number at all.
    first = int(min(float(size), max(0.0, math.ceil(low))))
    return first, int(min(float(size), max(0.0, math.floor(high) + 1.0)))


@_njit
def _bring(target, row_bytes, width, height, xy, corners):  # type: ignore[no-untyped-def]
    """Has the part of the image under a triangle brought near.

    The frame lies in the cache of the core that captured it. A triangle's rows are short, so that no processor guesses
    what comes next, and each would be waited for.
    """
    ax, ay, bx, by = xy[corners[0], 0], xy[corners[0], 1], xy[corners[1], 0], xy[corners[1], 1]
    cx, cy = xy[corners[2], 0], xy[corners[2], 1]
    left, right = max(0.0, min(ax, min(bx, cx))), min(width - 1.0, max(ax, max(bx, cx)))
    top, bottom = max(0.0, min(ay, min(by, cy))), min(height - 1.0, max(ay, max(by, cy)))
    # What is not finite fails one of these.
    if not (left <= right <= left + _BROUGHT and top <= bottom <= top + _BROUGHT):
        return
    start, end = np.uintp(int(left) * 3), np.uintp(int(right) * 3 + 3)
    for y in range(int(top), int(bottom) + 1):
        row = target + np.uintp(y * row_bytes)
        for offset in range(start, end + np.uintp(_LINE - 1), _LINE):
            prefetch(row + np.uintp(offset))  # type: ignore[call-arg]


@_njit
def composite(image, texture, xy, uv, gain, triangles):  # type: ignore[no-untyped-def]
    """Paints a textured mesh into an image: sampled, lit and blended in one pass.

    Triangles that are turned away are left out. Neighbours share their edge without a gap and without painting a
    pixel twice. Pixels belong to the triangle that holds their centre.

    Args:
        image: (H, W, 3) uint8 BGR, rows contiguous; painted in place.
        texture: (TH, TW, 4) uint8: B, G, R and opacity, 0…255; contiguous, at least 2×2.
        xy: (V, 2) float32 pixels of the image; may lie outside of it.
        uv: (V, 2) float32 texels.
        gain: (V, 4) float32: factors of blue, green, red, and of the opacity divided by 255.
        triangles: (T, 3) int32, in the order in which they are painted.
    """
    height, width = image.shape[0], image.shape[1]
    target, row_bytes = np.uintp(image.ctypes.data), np.intp(image.strides[0])
    source, stride = np.uintp(texture.ctypes.data), np.intp(texture.strides[0])
    u_high, v_high = (
        np.int32((texture.shape[1] - 1) * FIXED - 1),
        np.int32((texture.shape[0] - 1) * FIXED - 1),
    )
    for t in range(triangles.shape[0]):
        if t + _AHEAD < triangles.shape[0]:
            _bring(target, row_bytes, width, height, xy, triangles[t + _AHEAD])
        a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        ax, ay = float(xy[a, 0]), float(xy[a, 1])
        bx, by = float(xy[b, 0]), float(xy[b, 1])
        cx, cy = float(xy[c, 0]), float(xy[c, 1])
        area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay)
        # NaN and infinity fail the test too, and what is thinner than this covers no pixel's centre.
        if not -_LARGEST < area < -1e-6:
            continue
        x0, y0, x1, y1, x2, y2 = ax, ay, bx, by, cx, cy
        if y1 < y0:
            x0, y0, x1, y1 = x1, y1, x0, y0
        if y2 < y0:
            x0, y0, x2, y2 = x2, y2, x0, y0
        if y2 < y1:
            x1, y1, x2, y2 = x2, y2, x1, y1
        # Bounded on both sides while still a float: an integer too large to hold is no number at all.
        first = int(min(float(height), max(0.0, math.ceil(y0))))
        last = int(min(float(height), max(0.0, math.ceil(y2))))
        if first >= last:
            continue
        abx, aby, acx, acy = (bx - ax) / area, (by - ay) / area, (cx - ax) / area, (cy - ay) / area
        ux, uy = _gradient(float(uv[a, 0]), float(uv[b, 0]), float(uv[c, 0]), abx, aby, acx, acy)
        vx, vy = _gradient(float(uv[a, 1]), float(uv[b, 1]), float(uv[c, 1]), abx, aby, acx, acy)
        g0x, g0y = _gradient(float(gain[a, 0]), float(gain[b, 0]), float(gain[c, 0]), abx, aby, acx, acy)
        g1x, g1y = _gradient(float(gain[a, 1]), float(gain[b, 1]), float(gain[c, 1]), abx, aby, acx, acy)
        g2x, g2y = _gradient(float(gain[a, 2]), float(gain[b, 2]), float(gain[c, 2]), abx, aby, acx, acy)
        g3x, g3y = _gradient(float(gain[a, 3]), float(gain[b, 3]), float(gain[c, 3]), abx, aby, acx, acy)
        du, dv = np.int32(ux * FIXED), np.int32(vx * FIXED)
        d0, d1, d2, d3 = np.float32(g0x), np.float32(g1x), np.float32(g2x), np.float32(g3x)
        long_slope = (x2 - x0) / (y2 - y0)
        upper_slope = (x1 - x0) / (y1 - y0) if y1 > y0 else 0.0
        lower_slope = (x2 - x1) / (y2 - y1) if y2 > y1 else 0.0
        for y in range(first, last):
            from_long = x0 + (y - y0) * long_slope
            from_short = x0 + (y - y0) * upper_slope if y < y1 else x1 + (y - y1) * lower_slope
            left = int(min(float(width), max(0.0, math.ceil(min(from_long, from_short)))))
            right = int(min(float(width), max(0.0, math.ceil(max(from_long, from_short)))))
            if left >= right:
                continue
            dx, dy = left - ax, y - ay
            u = np.int32((uv[a, 0] + ux * dx + uy * dy) * FIXED)
            v = np.int32((uv[a, 1] + vx * dx + vy * dy) * FIXED)
            g0 = np.float32(gain[a, 0] + g0x * dx + g0y * dy)
            g1 = np.float32(gain[a, 1] + g1x * dx + g1y * dy)
            g2 = np.float32(gain[a, 2] + g2x * dx + g2y * dy)
            g3 = np.float32(gain[a, 3] + g3x * dx + g3y * dy)
            count, pixel = np.intp(right - left), target + np.uintp(y * row_bytes + left * 3)
            # A block writes its masked pixels back as they were, so it must not reach over the end of the image.
            if right > width - BLOCK and (y == height - 1 or width < BLOCK):
                shade_pixels(
                    count, pixel, source, stride, u, v, du, dv, u_high, v_high, g0, g1, g2, g3, d0, d1, d2, d3
                )
            else:
                shade_blocks(
                    count, pixel, source, stride, u, v, du, dv, u_high, v_high, g0, g1, g2, g3, d0, d1, d2, d3
                )


@_njit
def interpolate(out, xy, values, triangles):  # type: ignore[no-untyped-def]
    """Spreads values given at vertices over the triangles between them, whichever way those are turned.

    Args:
        out: (H, W, K) float32; pixels in no triangle keep what they hold.
        xy: (V, 2) float32 pixels.
        values: (V, K) float32.
        triangles: (T, 3) int32.
    """
    height, width, channels = out.shape
    for t in range(triangles.shape[0]):
        a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        ax, ay = float(xy[a, 0]), float(xy[a, 1])
        abx, aby, acx, acy = xy[b, 0] - ax, xy[b, 1] - ay, xy[c, 0] - ax, xy[c, 1] - ay
        area = abx * acy - acx * aby
        if not 1e-9 < abs(area) < _LARGEST:
            continue
        low_x, high_x = min(0.0, abx, acx) + ax, max(0.0, abx, acx) + ax
        low_y, high_y = min(0.0, aby, acy) + ay, max(0.0, aby, acy) + ay
        first_x, last_x = _within(low_x, high_x, width)
        first_y, last_y = _within(low_y, high_y, height)
        for y in range(first_y, last_y):
            for x in range(first_x, last_x):
                p = ((x - ax) * acy - (y - ay) * acx) / area
                q = ((y - ay) * abx - (x - ax) * aby) / area
                # A hair of overlap, so that rounding leaves no pixel between two triangles out.
                if p >= -1e-6 and q >= -1e-6 and p + q <= 1 + 1e-6:
                    for k in range(channels):
                        out[y, x, k] = (
                            values[a, k]
                            + p * (values[b, k] - values[a, k])
                            + q * (values[c, k] - values[a, k])
                        )


@_njit
def touched(mask, xy, triangles, out):  # type: ignore[no-untyped-def]
    """Which triangles, whichever way they are turned, hold a pixel of a mask.

    Args:
        mask: (H, W) bool.
        xy: (V, 2) float32 pixels.
        triangles: (T, 3) int32.
        out: (T,) bool: also true for a triangle so small that it holds the centre of no pixel.
    """
    height, width = mask.shape
    for t in range(triangles.shape[0]):
        a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        ax, ay = float(xy[a, 0]), float(xy[a, 1])
        abx, aby, acx, acy = xy[b, 0] - ax, xy[b, 1] - ay, xy[c, 0] - ax, xy[c, 1] - ay
        area = abx * acy - acx * aby
        holds, marked = False, False
        if 1e-9 < abs(area) < _LARGEST:
            first_x, last_x = _within(min(0.0, abx, acx) + ax, max(0.0, abx, acx) + ax, width)
            first_y, last_y = _within(min(0.0, aby, acy) + ay, max(0.0, aby, acy) + ay, height)
            for y in range(first_y, last_y):
                for x in range(first_x, last_x):
                    p = ((x - ax) * acy - (y - ay) * acx) / area
                    q = ((y - ay) * abx - (x - ax) * aby) / area
                    if p >= -1e-6 and q >= -1e-6 and p + q <= 1 + 1e-6:
                        holds = True
                        marked = marked or mask[y, x]
        out[t] = marked or not holds


@_njit
def facing(points, triangles, normals, out):  # type: ignore[no-untyped-def]
    """How much each vertex of a mesh looks at the camera.

    Args:
        points: (V, 3) float32: x right, y down, z away from the camera.
        triangles: (T, 3) int32, wound like the canonical mesh.
        normals: (V, 3) float32, scratch.
        out: (V,) float32: 1 straight at the camera, 0 edge on, negative turned away.
    """
    normals[:] = 0
    for t in range(triangles.shape[0]):
        a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        ux, uy, uz = points[b, 0] - points[a, 0], points[b, 1] - points[a, 1], points[b, 2] - points[a, 2]
        vx, vy, vz = points[c, 0] - points[a, 0], points[c, 1] - points[a, 1], points[c, 2] - points[a, 2]
        nx, ny, nz = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
        for corner in (a, b, c):
            normals[corner, 0] += nx
            normals[corner, 1] += ny
            normals[corner, 2] += nz
    for i in range(points.shape[0]):
        length = math.sqrt(normals[i, 0] ** 2 + normals[i, 1] ** 2 + normals[i, 2] ** 2)
        out[i] = -normals[i, 2] / length if length > 0 else 0.0


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
def weigh(weights, values, out):  # type: ignore[no-untyped-def]
    """Weighted sums, one row of weights each: ``out = values @ weights.T``.

    NumPy would hand this to a BLAS that wakes its own threads, and waits for them when the other core is busy with
    capture and output.

    Args:
        weights: (V, N) float32.
        values: (K, N) float32.
        out: (K, V) float32.
    """
    # Row by row: the weights are too many for the nearest cache, and are read once.
    for i in range(weights.shape[0]):
        row = weights[i]
        for k in range(values.shape[0]):
            value, total = values[k], np.float32(0)
            for j in range(row.shape[0]):
                total += row[j] * value[j]
            out[k, i] = total


def warm_up() -> None:
    """Compiles every kernel, or loads it from the disk, so that no live frame has to wait for it."""
    corners: Array = np.array([[0, 1, 2]], np.int32)
    xy: Floats = np.array([[0, 0], [0, 6], [6, 0]], np.float32)
    image: Image = np.zeros((8, 8, 3), np.uint8)
    texture: Array = np.zeros((8, 8, 4), np.uint8)
    points: Floats = np.zeros((3, 3), np.float32)
    # The canonical triangles are read-only, and to Numba that is another type.
    fixed = corners.copy()
    fixed.flags.writeable = False
    composite(image, texture, xy, xy, np.ones((3, 4), np.float32), corners)
    interpolate(np.zeros((8, 8, 2), np.float32), xy, xy, fixed)
    touched(np.zeros((8, 8), np.bool_), xy, fixed, np.zeros(1, np.bool_))
    weigh(np.zeros((3, 3), np.float32), points, points.copy())
    facing(points, fixed, points.copy(), np.zeros(3, np.float32))
