"""The kernels once more, slowly and plainly: what the fast ones have to agree with."""

from __future__ import annotations

import numpy as np


def covered(xy, shape):
    """(H, W) bool: pixels whose centre a triangle holds. A centre on an edge belongs to it at the left and the top."""
    y, x = np.mgrid[0 : shape[0], 0 : shape[1]].astype(np.float64)
    a, b, c = xy.astype(np.float64)
    if _doubled_area(a, b, c) < 0:
        b, c = c, b
    inside = np.ones(shape[:2], bool)
    for p, q in ((a, b), (b, c), (c, a)):
        dx, dy = q - p
        side = dx * (y - p[1]) - dy * (x - p[0])
        inside &= (side > 0) | ((side == 0) & ((dy < 0) | ((dy == 0) & (dx > 0))))
    return inside


def spread(xy, values, shape):
    """(H, W, K) float64: values at three corners as a plane over all pixels."""
    y, x = np.mgrid[0 : shape[0], 0 : shape[1]].astype(np.float64)
    a, b, c = xy.astype(np.float64)
    area = _doubled_area(a, b, c)
    p = ((x - a[0]) * (c[1] - a[1]) - (y - a[1]) * (c[0] - a[0])) / area
    q = ((y - a[1]) * (b[0] - a[0]) - (x - a[0]) * (b[1] - a[1])) / area
    va, vb, vc = values.astype(np.float64)
    return va + p[..., None] * (vb - va) + q[..., None] * (vc - va)


def bilinear(texture, u, v):
    """(..., C) float64 samples; outside of the texture its border goes on."""
    height, width = texture.shape[:2]
    u, v = np.clip(u, 0, width - 1), np.clip(v, 0, height - 1)
    left, top = np.minimum(u.astype(int), width - 2), np.minimum(v.astype(int), height - 2)
    right, down = (u - left)[..., None], (v - top)[..., None]
    t = texture.astype(np.float64)
    upper = t[top, left] * (1 - right) + t[top, left + 1] * right
    lower = t[top + 1, left] * (1 - right) + t[top + 1, left + 1] * right
    return upper * (1 - down) + lower * down


def composite(image, texture, xy, uv, gain, triangles):
    """What :func:`engines.kernels.cpu.composite` paints, as a new picture."""
    out = image.copy()
    for corners in triangles:
        places = xy[corners].astype(np.float64)
        if not np.isfinite(places).all() or not _doubled_area(*places) < -1e-6:
            continue
        inside = covered(places, image.shape)
        where = spread(places, uv[corners], image.shape)[inside]
        factors = spread(places, gain[corners], image.shape)[inside]
        lit = bilinear(texture, where[:, 0], where[:, 1]) * factors
        below = out[inside].astype(np.float64)
        mixed = below + lit[:, 3:] * (np.minimum(lit[:, :3], 255) - below)
        out[inside] = np.floor(mixed + 0.5).astype(np.uint8)
    return out


def _doubled_area(a, b, c):
    return (b[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (b[1] - a[1])
