"""Crops, masks, colours and paste-back on a card, several faces at once: what :mod:`engines.kernels.warp`,
:mod:`engines.kernels.mask` and :mod:`engines.kernels.paste` do on the CPU, with one more axis in front.

What changes from frame to frame (matrices, colours, regions) lies in arrays on the card, so that a recipe that was
captured as a CUDA graph sees the new values. ``boost`` is the pixel boost: a crop of that many times the network's
side, dealt out by turns to ``boost``² pictures, and put together again when it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from engines.faces import Array
from engines.kernels.gpu.arrays import THREADS, Grid, along, image_of, layout_of, over, solid
from engines.kernels.gpu.card import Card, GpuArray
from engines.kernels.mask import MOMENTS

_PARTS = 32
"""Blocks of threads that sum up one face, at most."""


def regions_of(affines: Array, texture: tuple[int, int], size: tuple[int, int]) -> Array:
    """Where in a frame faces are painted.

    Args:
        affines: (N, 2, 3) float64, frame pixels to texels.
        texture: Columns and rows of a face's texture.
        size: Width and height of the frame, pixels.

    Returns:
        (N, 4) int32: left, top, right and bottom, the last two exclusive; an empty one where the matrix is no map.
    """
    regions = np.zeros((len(affines), 4), np.int32)
    last = np.array(texture, np.float64) - 1
    corners = np.array([[0, 0], [last[0], 0], [0, last[1]], last]).T
    for region, affine in zip(regions, np.asarray(affines, np.float64), strict=True):
        with np.errstate(all="ignore"):
            area = affine[0, 0] * affine[1, 1] - affine[0, 1] * affine[1, 0]
            if not (np.isfinite(affine).all() and 1e-9 < abs(area) < 1e9):
                continue
            places = np.linalg.solve(affine[:, :2], corners - affine[:, 2:])
        low = np.clip(np.floor(places.min(1)), 0, size)
        high = np.clip(np.floor(places.max(1)) + 2, 0, size)
        region[:] = *low, *high
    return regions


class FaceKernels:
    """Everything between a frame and a network that makes faces. Arrays are CuPy's.

    Args:
        card: Where.
        faces: The most faces of a frame.
    """

    def __init__(self, card: Card, faces: int) -> None:
        self._card, self._faces = card, faces
        self._parts = card.empty((faces, _PARTS, MOMENTS), np.float32)

    def crop(
        self, image: GpuArray, backs: GpuArray, out: GpuArray, scale: Sequence[float],
        offset: Sequence[float], boost: int = 1,
    ) -> None:  # fmt: skip
        """Reads aligned crops. See :meth:`engines.kernels.warp.Warp.crop`.

        Args:
            image: (H, W, 3) uint8, rows contiguous.
            backs: (N, 2, 3) float64, crop pixels to frame pixels: what :func:`engines.kernels.warp.inverse` gives.
            out: (N·boost², rows, columns, 3) float32 or float16 with the channels in the frame's order. Any strides,
                so that a network's planar RGB input, turned round, is one.
            scale: Three: a channel's 0…255 times this …
            offset: Three: … plus this.
            boost: See above; the matrices are those of the whole crop.
        """
        seen, width, height, row = image_of(image)
        ending, layout = layout_of("out", out)
        solid("backs", backs, np.float64, _whole(out.shape[0], boost), 2, 3)
        columns, rows = out.shape[2] * boost, out.shape[1] * boost
        self._card.launch(
            f"crop_{ending}", *over(columns, rows, backs.shape[0]), seen, width, height, row, backs,
            np.int32(columns), np.int32(rows), out, *layout, np.int32(boost),
            *(np.float32(value) for value in (*scale, *offset)),
        )  # fmt: skip

    def feather_convex(self, masks: GpuArray, lines: GpuArray, feathers: GpuArray) -> None:
        """Fills convex outlines. See :func:`engines.kernels.mask.feather_convex`.

        Args:
            masks: (N, H, W) float32, written everywhere.
            lines: (N, E, 3) float32. An outline with fewer sides repeats one.
            feathers: (N,) float32, pixels.
        """
        count, height, width = solid("masks", masks, np.float32, None, None, None).shape
        solid("lines", lines, np.float32, count, None, 3)
        solid("feathers", feathers, np.float32, count)
        self._card.launch(
            "feather_convex", *over(width, height, count), masks, np.int32(width), np.int32(height), lines,
            np.int32(lines.shape[1]), feathers,
        )  # fmt: skip

    def narrow(self, masks: GpuArray, others: GpuArray, boost: int = 1) -> None:
        """Takes from masks what a network's masks take.

        Args:
            masks: (N, H, W) float32, narrowed in place. What is no number in either stays none.
            others: (N·boost², H/boost, W/boost) float32 or float16, any strides.
            boost: See above.
        """
        count, height, width = solid("masks", masks, np.float32, None, None, None).shape
        if others.shape != (count * boost * boost, height // boost, width // boost):
            raise ValueError(
                f"masks of {masks.shape} are not narrowed by {others.shape} with a boost of {boost}"
            )
        # Read as the first of three channels that are all the same.
        ending = {"float32": "float", "float16": "half"}[str(others.dtype)]
        strides = (np.int64(stride // others.dtype.itemsize) for stride in others.strides)
        self._card.launch(
            f"narrow_{ending}", *over(width, height, count), masks, np.int32(width), np.int32(height), others,
            *strides, np.int64(0), np.int32(boost),
        )  # fmt: skip

    def erode(self, masks: GpuArray, reach: int, room: GpuArray) -> None:
        """Makes masks smaller: the least value within ``reach`` pixels across and down, as OpenCV's ``erode``.

        Args:
            masks: (N, H, W) float32, changed in place.
            reach: Pixels, at least 0.
            room: Likewise, scratch.
        """
        if reach < 0:
            raise ValueError(f"a mask is not eroded by {reach} pixels")
        for to_columns, (start, end) in enumerate(((masks, room), (room, masks))):
            size, grid = self._lines(masks, room)
            self._card.launch("erode_lines", *grid, start, *size, np.int32(reach), np.int32(to_columns), end)

    def blur(self, masks: GpuArray, weights: GpuArray, room: GpuArray) -> None:
        """Makes masks softer, as OpenCV's ``GaussianBlur`` does with a replicated border.

        Args:
            masks: (N, H, W) float32, changed in place.
            weights: (2·reach + 1,) float32 with the sum 1: a Gauss, or a box; across and down.
            room: Like ``masks``, scratch.
        """
        solid("weights", weights, np.float32, None)
        if weights.shape[0] % 2 != 1:
            raise ValueError(f"a mask is blurred by an odd number of weights, not {weights.shape[0]}")
        reach = np.int32(weights.shape[0] // 2)
        for to_columns, (start, end) in enumerate(((masks, room), (room, masks))):
            size, grid = self._lines(masks, room)
            self._card.launch("blur_lines", *grid, start, *size, reach, weights, np.int32(to_columns), end)

    def _lines(self, masks: GpuArray, room: GpuArray) -> tuple[tuple[np.int32, ...], tuple[Grid, Grid]]:
        count, height, width = solid("masks", masks, np.float32, None, None, None).shape
        solid("room", room, np.float32, count, height, width)
        return (np.int32(count), np.int32(width), np.int32(height)), along(count * height * width, THREADS)

    def moments(
        self, live: GpuArray, faces: GpuArray, masks: GpuArray, step: int, sums: GpuArray, boost: int = 1
    ) -> None:
        """Weighted sums for means and spreads, always in the same order. See :func:`engines.kernels.mask.moments`.

        Args:
            live: (N, H, W, 3) float32.
            faces: (N·boost², H/boost, W/boost, 3) float32 or float16, any strides.
            masks: (N, H, W) float32: the weights.
            step: Only every so many pixels are looked at, across and down.
            sums: (N, 13) float64.
            boost: See above.
        """
        ending, layout, (count, height, width) = self._pictures(faces, masks, boost)
        solid("live", live, np.float32, count, height, width, 3)
        solid("sums", sums, np.float64, count, MOMENTS)
        if step < 1 or count > self._faces:
            raise ValueError(
                f"{count} faces and every {step} pixels, where {self._faces} faces were announced"
            )
        # No more blocks than there is work for; which pixel falls to which block depends on the size alone.
        looked_at = -(-width // step) * -(-height // step)
        parts = max(1, min(_PARTS, looked_at // THREADS))
        self._card.launch(
            f"moment_parts_{ending}", (parts, count, 1), (THREADS, 1, 1), live, np.int32(width), np.int32(height),
            np.int32(step), faces, *layout, np.int32(boost), masks, self._parts,
        )  # fmt: skip
        self._card.launch("moment_sums", (count, 1, 1), (THREADS, 1, 1), self._parts, np.int32(parts), sums)

    def bake(
        self, faces: GpuArray, masks: GpuArray, block: int, match: GpuArray, faults: GpuArray,
        textures: GpuArray, boost: int = 1,
    ) -> None:  # fmt: skip
        """Makes the textures that are pasted. See :func:`engines.kernels.paste.average` and ``bake`` there.

        Args:
            faces: (N·boost², H/boost, W/boost, 3) float32 or float16 with the channels B, G, R, any strides.
            masks: (N, H, W) float32, 0…1.
            block: How many pixels of the face become one texel, across and down.
            match: (N, 2, 3) float32: factors that bring the channels to 0…255, and what is added then.
            faults: (N,) int32: set to 1 where a face or a mask holds what is not finite; never set back.
            textures: (N, H // block, W // block, 4) uint8, filled: three channels, opacity.
            boost: See above.
        """
        ending, layout, (count, height, width) = self._pictures(faces, masks, boost)
        if not 1 <= block <= min(height, width):
            raise ValueError(f"{block} pixels of a face of {width}x{height} do not become one texel")
        down, across = height // block, width // block
        solid("match", match, np.float32, count, 2, 3)
        solid("faults", faults, np.int32, count)
        solid("textures", textures, np.uint8, count, down, across, 4)
        self._card.launch(
            f"bake_{ending}", *over(across, down, count), faces, np.int32(width), np.int32(height), *layout,
            np.int32(boost), masks, np.int32(block), match, faults, textures,
        )  # fmt: skip

    def paste(self, image: GpuArray, textures: GpuArray, affines: GpuArray, regions: GpuArray) -> None:
        """Blends textures into an image. See :func:`engines.kernels.paste.paste`.

        Args:
            image: (H, W, 3) uint8, rows contiguous; painted in place.
            textures: (N, h, w, 4) uint8, at least 2×2. Where faces overlap the later one lies on top.
            affines: (N, 2, 3) float64, pixels of the image to texels.
            regions: (N, 4) int32 of :func:`regions_of`.
        """
        painted, width, height, row = image_of(image)
        count, rows, columns, _ = solid("textures", textures, np.uint8, None, None, None, 4).shape
        if min(rows, columns) < 2:
            raise ValueError("a texture is at least 2x2")
        solid("affines", affines, np.float64, count, 2, 3)
        solid("regions", regions, np.int32, count, 4)
        self._card.launch(
            "paste", *over(int(width), int(height)), painted, width, height, row, textures, np.int32(columns),
            np.int32(rows), affines, regions, np.int32(count),
        )  # fmt: skip

    def _pictures(
        self, faces: GpuArray, masks: GpuArray, boost: int
    ) -> tuple[str, tuple[Any, ...], tuple[int, int, int]]:
        ending, layout = layout_of("faces", faces)
        count = _whole(faces.shape[0], boost)
        height, width = faces.shape[1] * boost, faces.shape[2] * boost
        solid("masks", masks, np.float32, count, height, width)
        return ending, layout, (count, height, width)


def _whole(pictures: int, boost: int) -> int:
    """How many faces so many pictures are."""
    if boost < 1 or pictures % (boost * boost):
        raise ValueError(f"{pictures} pictures are no whole number of faces with a boost of {boost}")
    return pictures // (boost * boost)
