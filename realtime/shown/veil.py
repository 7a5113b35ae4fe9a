"""The live picture, pixelated so coarsely and so slowly that nobody can be recognised in it."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from engines.faces import Floats, Image
from realtime.frame import Frame, FramePool, Kind, Lease
from realtime.shown.lettering import Sprite, plate

_CELLS = 8
"""On the longer side, whatever the resolution: a face that fills the frame still has only a few. With the
blur between neighbours its likeness to the real face, also averaged over many frames, stays below a
stranger's; with twelve it did not in an upright picture."""

_BLUR = 1.2  # Of the cells themselves, in cells.

_SAMPLES = 16  # Pixels looked at in each cell, along each side.
_SOFT = 6  # Steps a cell is drawn with; the outermost one fades into the neighbour.
_TINT, _DEPTH = (66.0, 52.0, 44.0), 0.45  # Colour it is pulled towards, BGR, and how far.
_CAPTION = ("Camera veiled", "Looking for a face")


class Veil:
    """Turns frames into a soft mosaic with a caption. Belongs to one thread.

    The mosaic changes a few times a second only and fades from one to the next: frames of a moving face that
    are put together afterwards would otherwise show more than one frame does.

    Args:
        refresh_ns: How long one mosaic stays.
        blend: How much of a new mosaic goes into the next one, 0…1.
        caption: Lines in the middle; empty for none.
    """

    def __init__(
        self, refresh_ns: int = 200_000_000, blend: float = 0.5, caption: Sequence[str] = _CAPTION
    ) -> None:
        self._refresh_ns = refresh_ns
        self._blend = blend
        self._lines = tuple(caption)
        self._size = (0, 0)
        self._pool = FramePool((1, 1))
        self._caption: Sprite | None = None
        self._cells: Floats | None = None
        self._drawn: Lease[Image] | None = None
        self._drawn_ns = 0

    def show(self, live: Frame, now_ns: int) -> Frame:
        """The frame, veiled. The live frame stays as it is.

        Args:
            live: Any frame; it may be half painted.
            now_ns: The time it is shown.
        """
        if live.size != self._size:
            self._resize(live.size)
        age = now_ns - self._drawn_ns
        if self._drawn is None or age >= self._refresh_ns:
            # After a pause the old mosaic says nothing about this scene.
            fade = self._drawn is not None and age < 4 * self._refresh_ns
            self._drawn, self._drawn_ns = self._draw(live, fade), now_ns
        image = self._drawn.buffer.view()
        image.flags.writeable = False
        return Frame(image, live.seq, live.captured_ns, Kind.VEILED, self._drawn)

    def _resize(self, size: tuple[int, int]) -> None:
        width, height = size
        self._size, self._pool = size, FramePool(size)
        self._drawn = self._cells = None
        letters = max(10, round(min(height / 32, width / 30)))
        self._caption = plate(self._lines, letters, padding=1.1) if self._lines else None

    def _draw(self, live: Frame, fade: bool) -> Lease[Image]:
        width, height = self._size
        cell = max(width, height) / _CELLS
        grid = (max(2, round(width / cell)), max(2, round(height / cell)))
        # Some hundred pixels of a cell stand for all of it, so that 4K costs no more than VGA.
        few = (min(width, grid[0] * _SAMPLES), min(height, grid[1] * _SAMPLES))
        seen = live.sample(*few)
        cells = np.asarray(cv2.resize(seen, grid, interpolation=cv2.INTER_AREA), np.float32)
        cells = np.asarray(
            cv2.GaussianBlur(cells, (3, 3), _BLUR, borderType=cv2.BORDER_REPLICATE), np.float32
        )
        cells += (np.array(_TINT, np.float32) - cells) * np.float32(_DEPTH)
        if fade and self._cells is not None:
            cells = self._cells + (cells - self._cells) * np.float32(self._blend)
        self._cells = cells

        blocks = (grid[0] * _SOFT, grid[1] * _SOFT)
        coarse = cv2.resize(np.round(self._cells).astype(np.uint8), blocks, interpolation=cv2.INTER_NEAREST)
        lease = self._pool.lease()
        cv2.resize(coarse, self._size, dst=lease.buffer, interpolation=cv2.INTER_LINEAR)
        if self._caption is not None:
            across, tall = self._caption.size
            self._caption.paint(lease.buffer, (width - across) // 2, (height - tall) // 2)
        return lease
