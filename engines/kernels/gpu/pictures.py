"""Whole pictures on a card: into a virtual camera's layout, and what hides or marks a face."""

from __future__ import annotations

import numpy as np

from engines.kernels.canvas import Window
from engines.kernels.gpu.arrays import THREADS, image_of, over, solid
from engines.kernels.gpu.card import Card, GpuArray


class PictureKernels:
    """Changes pictures as OpenCV does, to the same byte where it says so. Arrays are CuPy's.

    Args:
        card: Where.
    """

    def __init__(self, card: Card) -> None:
        self._card = card

    def to_i420(self, image: GpuArray, picture: GpuArray) -> None:
        """BGR to three planes, BT.601 limited range; the bytes of ``cv2.COLOR_BGR2YUV_I420``.

        Args:
            image: (H, W, 3) uint8, H and W even.
            picture: (H·3/2, W) uint8: Y, then U, then V.
        """
        seen, width, height, row = image_of(image)
        if image.shape[1] % 2 or image.shape[0] % 2:
            raise ValueError(
                f"a picture whose pixels share their colours has even sides, not {width}x{height}"
            )
        solid("picture", picture, np.uint8, image.shape[0] * 3 // 2, image.shape[1])
        self._card.launch(
            "bgr_to_i420", *over(image.shape[1] // 2, image.shape[0] // 2), seen, width, height, row, picture
        )

    def cell_means(
        self, image: GpuArray, window: Window, cells: GpuArray, few: tuple[int, int] | None = None
    ) -> None:
        """Mean colours of a grid's cells.

        Args:
            image: (H, W, 3) uint8.
            window: The part that the grid lies over; what is outside of the image is cut off.
            cells: (rows, columns, 3) float32, filled: 0…255.
            few: How many pixels of a row and of a column are looked at, evenly; None is all.
        """
        seen, _, _, row = image_of(image)
        left, top, width, height = _inside(image, window)
        rows, columns, _ = solid("cells", cells, np.float32, None, None, 3).shape
        if width < 1 or height < 1:
            raise ValueError(f"the window {window} holds nothing of an image of {image.shape[1::-1]}")
        few = (min(few[0], width), min(few[1], height)) if few else (width, height)
        if min(few) < 1:
            raise ValueError(f"of {few} pixels there is no mean")
        place = (np.int32(value) for value in (left, top, width, height, *few))
        self._card.launch("cell_means", (columns, rows, 1), (THREADS, 1, 1), seen, row, *place, cells)

    def stretch(self, cells: GpuArray, image: GpuArray, window: Window, steps: int = 1) -> None:
        """Draws a grid of colours over a window, softly.

        Args:
            cells: (rows, columns, 3) float32, 0…255; rounded first.
            image: (H, W, 3) uint8; painted in place.
            window: Where; what is outside of the image is cut off, and the grid lies over the rest.
            steps: Each cell is drawn in so many, and only the outermost fades into the neighbour. With 1 it is
                ``cv2.resize`` with linear interpolation.
        """
        painted, _, _, row = image_of(image)
        left, top, width, height = _inside(image, window)
        rows, columns, _ = solid("cells", cells, np.float32, None, None, 3).shape
        if steps < 1:
            raise ValueError(f"a cell is not drawn in {steps} steps")
        if width < 1 or height < 1:
            return
        place = (np.int32(value) for value in (left, top, width, height))
        self._card.launch(
            "stretch_cells", *over(width, height), cells, np.int32(columns), np.int32(rows), np.int32(steps), painted,
            row, *place,
        )  # fmt: skip

    def cover(self, image: GpuArray, window: Window, cells: GpuArray) -> None:
        """Lays a coarse mosaic over a window, as :func:`engines.kernels.canvas.mosaic` does.

        Args:
            image: (H, W, 3) uint8; painted in place.
            window: Where; what is outside of the image is cut off.
            cells: (rows, columns, 3) float32, scratch: how coarse.
        """
        _, _, width, height = _inside(image, window)
        if width < 1 or height < 1:
            return
        self.cell_means(image, window, cells)
        self.stretch(cells, image, window)

    def sprite(self, image: GpuArray, colour: GpuArray, keep: GpuArray, x: int, y: int) -> None:
        """Blends a :class:`~engines.kernels.canvas.Stamp`; to the same byte as its own ``paint``.

        Args:
            image: (H, W, 3) uint8; painted in place.
            colour: (h, w, 3) uint8, multiplied by its opacity.
            keep: (h, w, 3) uint8: 255 less the opacity.
            x: Column of its corner; what lies outside is cut off.
            y: Row of its corner.
        """
        painted, width, height, row = image_of(image)
        down, across, _ = solid("colour", colour, np.uint8, None, None, 3).shape
        solid("keep", keep, np.uint8, down, across, 3)
        limit = 1 << 30
        x, y = max(-limit, min(x, limit)), max(-limit, min(y, limit))
        self._card.launch(
            "paint_sprite", *over(across, down), painted, width, height, row, colour, keep, np.int32(across),
            np.int32(down), np.int32(x), np.int32(y),
        )  # fmt: skip

    def lift(
        self, image: GpuArray, corner: tuple[int, int], out: GpuArray, table: GpuArray, strength: float
    ) -> None:
        """Copies a part of a picture into a texture, and gives it other colours by its brightness.

        Args:
            image: (H, W, 3) uint8.
            corner: Left and top of the part, which lies inside.
            out: (h, w, 4) uint8, filled: B, G, R, 255.
            table: (256, 3) uint8: the colour of each brightness.
            strength: How much of that, 0…1; 0 leaves the picture as it is.
        """
        seen, _, _, row = image_of(image)
        height, width, _ = solid("out", out, np.uint8, None, None, 4).shape
        solid("table", table, np.uint8, 256, 3)
        place = _within(image, corner, width, height)
        self._card.launch("lift", *over(width, height), seen, row, *place, table, np.float32(strength), out)

    def put_back(
        self, image: GpuArray, corner: tuple[int, int], lifted: GpuArray, mask: GpuArray, affine: GpuArray
    ) -> None:
        """Lays back what was lifted, over what was painted since, as :func:`engines.kernels.edges.put_back` does.

        Args:
            image: (H, W, 3) uint8; painted in place.
            corner: Left and top of the part, which lies inside.
            lifted: (h, w, 4) uint8 of :meth:`lift`.
            mask: (M, N) uint8: 255 where it is wanted wholly; beyond it is nothing.
            affine: (2, 3) float32, pixels of the part to pixels of the mask.
        """
        painted, _, _, row = image_of(image)
        height, width, _ = solid("lifted", lifted, np.uint8, None, None, 4).shape
        rows, columns = solid("mask", mask, np.uint8, None, None).shape
        solid("affine", affine, np.float32, 2, 3)
        place = _within(image, corner, width, height)
        self._card.launch(
            "put_back", *over(width, height), painted, row, *place, lifted, mask, np.int32(columns), np.int32(rows),
            affine,
        )  # fmt: skip


def _within(image: GpuArray, corner: tuple[int, int], width: int, height: int) -> tuple[np.int32, ...]:
    """Left, top, width and height of a part that has to lie in the image."""
    left, top = corner
    if (
        min(left, top) < 0
        or left + width > image.shape[1]
        or top + height > image.shape[0]
        or width * height < 1
    ):
        raise ValueError(f"{width}x{height} pixels at {corner} are not in an image of {image.shape[1::-1]}")
    return np.int32(left), np.int32(top), np.int32(width), np.int32(height)


def _inside(image: GpuArray, window: Window) -> tuple[int, int, int, int]:
    """Left, top, width and height of the part of a window that is in the image."""
    left, right = (max(0, min(value, image.shape[1])) for value in window[::2])
    top, bottom = (max(0, min(value, image.shape[0])) for value in window[1::2])
    return left, top, right - left, bottom - top
