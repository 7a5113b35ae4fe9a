"""Paints a mesh without noise, and with what is behind it where the texture is transparent."""

from __future__ import annotations

import numpy as np

from engines.faces import Array, Image
from engines.kernels import cpu


class Compositor:
    """Does the work of :class:`~engines.portrait.raster.Rasteriser` where there is no noise, in a third of the time.

    Args:
        coords: (N, 2) float64: where the vertices lie in the texture, pixels.
        triangles: (T, 3) int32, clockwise in the picture; later ones cover earlier ones.
        texture: H×W×3 uint8 BGR.
        alpha: (H, W) uint8, 0 where it is transparent; None for an opaque one.
    """

    def __init__(self, coords: Array, triangles: Array, texture: Image, alpha: Array | None = None) -> None:
        self._coords = np.ascontiguousarray(coords, np.float32)
        # The kernel wants them the other way round.
        self._triangles = np.ascontiguousarray(triangles[:, ::-1])
        opacity = np.full(texture.shape[:2], 255, np.uint8) if alpha is None else alpha
        self._texture = np.ascontiguousarray(np.dstack([texture, opacity]))
        self._gain = np.ones((len(coords), 4), np.float32)
        self._gain[:, 3] = 1 / 255

    def draw(self, out: Image, points: Array, noise: Array, frame: int) -> None:
        """See :meth:`~engines.portrait.raster.Rasteriser.draw`; there is no noise."""
        xy = points.astype(np.float32)
        cpu.composite(out, self._texture, xy, self._coords, self._gain, self._triangles)
