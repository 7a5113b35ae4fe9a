"""The textured mesh of :mod:`engines.kernels.cpu` on a card, with the same arguments."""

from __future__ import annotations

import numpy as np

from engines.kernels.canvas import Window
from engines.kernels.gpu.arrays import TILE, along, image_of, solid
from engines.kernels.gpu.card import Card, GpuArray

_EDGES, _PLANES = 8, 20  # As in mesh.cu.


class MeshKernels:
    """Paints meshes. Arrays are CuPy's; shapes, types and units are those of :mod:`engines.kernels.cpu`.

    Args:
        card: Where.
        size: Width and height of the largest picture to be painted into, pixels.
        triangles: Of the largest mesh. More of either makes room for it when it first comes.
    """

    def __init__(self, card: Card, size: tuple[int, int], triangles: int = 1024) -> None:
        self._card = card
        self._room(triangles, size)

    def _room(self, triangles: int, size: tuple[int, int]) -> None:
        tiles = -(-size[0] // TILE) * -(-size[1] // TILE)
        self._triangles, self._words = triangles, tiles * -(-triangles // 32)
        self._boxes = self._card.empty((triangles, 4), np.int32)
        self._edges = self._card.empty((triangles, _EDGES), np.float64)
        self._planes = self._card.empty((triangles, _PLANES), np.float32)
        self._bits = self._card.empty((self._words,), np.uint32)

    def composite(
        self, image: GpuArray, texture: GpuArray, xy: GpuArray, uv: GpuArray, gain: GpuArray,
        triangles: GpuArray, window: Window | None = None,
    ) -> None:  # fmt: skip
        """Paints a textured mesh into an image. See :func:`engines.kernels.cpu.composite`.

        Args:
            image: As there.
            texture: As there.
            xy: As there.
            uv: As there.
            gain: As there.
            triangles: As there; one that names no vertex is left out.
            window: Left, top, right and bottom of what may be painted, for whoever knows where the mesh is; the
                whole picture costs a few microseconds more.
        """
        painted, width, height, row = image_of(image)
        vertices, count = xy.shape[0], triangles.shape[0]
        solid("texture", texture, np.uint8, None, None, 4)
        if min(texture.shape[:2]) < 2:
            raise ValueError(f"a texture is at least 2x2, not {texture.shape[1]}x{texture.shape[0]}")
        solid("xy", xy, np.float32, vertices, 2)
        solid("uv", uv, np.float32, vertices, 2)
        solid("gain", gain, np.float32, vertices, 4)
        solid("triangles", triangles, np.int32, count, 3)
        left, top, right, bottom = window or (0, 0, image.shape[1], image.shape[0])
        left, top = max(left, 0), max(top, 0)
        right, bottom = min(right, image.shape[1]), min(bottom, image.shape[0])
        across, down = -(-(right - left) // TILE), -(-(bottom - top) // TILE)
        if across <= 0 or down <= 0 or count == 0:
            return
        words = across * down * -(-count // 32)
        if count > self._triangles or words > self._words:
            self._room(max(count, self._triangles), (int(width), int(height)))
        where = np.int32(left), np.int32(top), np.int32(across)
        self._card.launch(
            "mesh_setup", *along(count), xy, uv, gain, np.int32(vertices), triangles, np.int32(count),
            width, height, self._boxes, self._edges, self._planes,
        )  # fmt: skip
        tiles = np.int32(across * down)
        self._card.launch("mesh_bin", *along(words), self._boxes, np.int32(count), *where, tiles, self._bits)
        self._card.launch(
            "mesh_shade", (across, down, 1), (TILE, TILE, 1), painted, np.int32(right), np.int32(bottom), row, texture,
            np.int32(texture.shape[1]), np.int32(texture.shape[0]), np.int32(texture.strides[0]), np.int32(count),
            *where, self._bits, self._boxes, self._edges, self._planes,
        )  # fmt: skip
