"""The kernels of :mod:`engines.kernels.cpu` on a card, with the same arguments."""

from __future__ import annotations

import numpy as np

from engines.kernels.canvas import Window
from engines.kernels.gpu.arrays import THREADS, TILE, along, image_of, over, solid
from engines.kernels.gpu.card import Card, GpuArray

_EDGES, _PLANES = 8, 20  # As in mesh.cu.


class MeshKernels:
    """Paints and measures meshes. Arrays are CuPy's; shapes, types and units are those of :mod:`engines.kernels.cpu`.

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

    def interpolate(self, out: GpuArray, xy: GpuArray, values: GpuArray, triangles: GpuArray) -> None:
        """Spreads values over triangles. See :func:`engines.kernels.cpu.interpolate`."""
        height, width, channels = out.shape
        vertices = xy.shape[0]
        solid("out", out, np.float32, height, width, channels)
        solid("xy", xy, np.float32, vertices, 2)
        solid("values", values, np.float32, vertices, channels)
        solid("triangles", triangles, np.int32, None, 3)
        self._card.launch(
            "interpolate", *over(width, height), out, np.int32(width), np.int32(height), np.int32(channels), xy,
            values, np.int32(vertices), triangles, np.int32(triangles.shape[0]),
        )  # fmt: skip

    def facing(self, points: GpuArray, triangles: GpuArray, normals: GpuArray, out: GpuArray) -> None:
        """How much each vertex looks at the camera. See :func:`engines.kernels.cpu.facing`."""
        vertices = points.shape[0]
        solid("points", points, np.float32, vertices, 3)
        solid("triangles", triangles, np.int32, None, 3)
        solid("normals", normals, np.float32, vertices, 3)
        solid("out", out, np.float32, vertices)
        self._card.launch(
            "facing", *along(vertices), points, np.int32(vertices), triangles, np.int32(triangles.shape[0]),
            normals, out,
        )  # fmt: skip

    def weigh(self, weights: GpuArray, values: GpuArray, out: GpuArray) -> None:
        """Weighted sums. See :func:`engines.kernels.cpu.weigh`."""
        (rows, columns), sets = weights.shape, values.shape[0]
        solid("weights", weights, np.float32, rows, columns)
        solid("values", values, np.float32, sets, columns)
        solid("out", out, np.float32, sets, rows)
        self._card.launch(
            "weigh", (rows, 1, 1), (THREADS, 1, 1), weights, values, np.int32(rows), np.int32(columns),
            np.int32(sets), out,
        )  # fmt: skip

    def patch_colours(
        self, patch: GpuArray, affine: GpuArray, points: GpuArray, cells: int, out: GpuArray
    ) -> None:
        """The colours of a live face at each vertex, averaged over cells of its patch.

        What :meth:`engines.swap.mesh.light.Light.of_patch` does.

        Args:
            patch: (S, S, 3) float32 RGB.
            affine: (2, 3) float32, frame pixels to patch pixels.
            points: (N, 2 or 3) float32 landmarks, pixels of the frame.
            cells: Along a side of the patch, at most S.
            out: (N, 3) float32 B, G, R.
        """
        side, count = patch.shape[0], points.shape[0]
        solid("patch", patch, np.float32, side, side, 3)
        solid("affine", affine, np.float32, 2, 3)
        solid("points", points, np.float32, count, points.shape[1])
        solid("out", out, np.float32, count, 3)
        if not (0 < cells <= side and points.shape[1] >= 2):
            raise ValueError(f"{cells} cells of a patch of {side}, and points of {points.shape[1]} numbers")
        self._card.launch(
            "patch_colours", *along(count), patch, np.int32(side), affine, points, np.int32(points.shape[1]),
            np.int32(count), np.int32(cells), out,
        )  # fmt: skip
