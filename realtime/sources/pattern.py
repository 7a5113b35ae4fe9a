"""A moving test picture whose frames carry their number in the pixels."""

from __future__ import annotations

import binascii
import struct
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from engines.errors import UsageError
from engines.faces import Image
from realtime.clock import Clock
from realtime.frame import Frame, FramePool

MIN_SIZE: Final = (160, 120)
"""Smaller pictures have no room for the number, pixels."""

_COLUMNS: Final = 24
_ROWS: Final = 2
_PER_WIDTH: Final = 32
_DARK: Final = 96
_BRIGHT: Final = 160


def encode_number(image: Image, n: int) -> None:
    """Paints a number into the top left corner, as black and white cells that survive I420, JPEG and scaling.

    Two rows of 24 cells, each 1/32 of the width: 32 bits of the number and 16 of a checksum.

    Args:
        image: H×W×3 uint8 BGR, at least :data:`MIN_SIZE`; painted into.
        n: The number, taken modulo 2³².
    """
    x, y, cell = _place(image.shape[1])
    bits = np.unpackbits(np.frombuffer(_word(n & 0xFFFFFFFF), np.uint8)).reshape(_ROWS, _COLUMNS)
    cells = cv2.resize(bits * np.uint8(255), (_COLUMNS * cell, _ROWS * cell), interpolation=cv2.INTER_NEAREST)
    image[y : y + _ROWS * cell, x : x + _COLUMNS * cell] = cells[..., None]


def decode_number(image: Image) -> int | None:
    """Reads what :func:`encode_number` painted.

    Args:
        image: H×W×3 uint8, any colour order, of the same aspect ratio as the one that was painted into.

    Returns:
        The number; None if there is none that can be trusted.
    """
    height, width = image.shape[:2]
    if width < MIN_SIZE[0] or height < MIN_SIZE[1]:
        return None
    x, y, cell = _place(width)
    area = image[y : y + _ROWS * cell, x : x + _COLUMNS * cell]
    cells = area.reshape(_ROWS, cell, _COLUMNS, cell, 3)
    # The middle of each cell: its rim is smeared by chroma, blocks and scaling.
    rim = cell // 4
    means = cells[:, rim : cell - rim, :, rim : cell - rim].mean(axis=(1, 3, 4))
    if ((means > _DARK) & (means < _BRIGHT)).any():
        return None
    word = np.packbits(means >= _BRIGHT).tobytes()
    number = int(struct.unpack_from(">I", word)[0])
    return number if word == _word(number) else None


def _place(width: int) -> tuple[int, int, int]:
    """Left, top and side of the first cell, pixels."""
    cell = width // _PER_WIDTH
    return cell, cell, cell


def _word(n: int) -> bytes:
    """Number and checksum. Neither an all-black nor an all-white area is one."""
    data = struct.pack(">I", n)
    return data + struct.pack(">H", binascii.crc_hqx(data, 0xFFFF) ^ 0x5A3C)


class PatternSource:
    """Colour bars, a ramp, something that moves, and the frame's number in digits and in cells.

    Args:
        size: Width and height, pixels; odd ones are rounded down.
        fps: Frames a second.
        clock: Stamps the frames.

    Raises:
        UsageError: The size is smaller than :data:`MIN_SIZE`.
    """

    name = "test pattern"
    device = False

    def __init__(self, size: tuple[int, int], fps: float, clock: Clock) -> None:
        if size[0] < MIN_SIZE[0] or size[1] < MIN_SIZE[1]:
            what = f"The test pattern does not fit into {size[0]}x{size[1]} pixels."
            raise UsageError(what, f"Ask for {MIN_SIZE[0]}x{MIN_SIZE[1]} or more.")
        self.size = (size[0] & ~1, size[1] & ~1)
        self.fps = fps
        self._clock = clock
        self._pool = FramePool(self.size)
        self._ground: Image | None = None
        self._seq = 0

    def open(self) -> None:
        """Paints what does not move."""
        self._ground = _background(*self.size)

    def read(self) -> Frame:
        """The next picture, at once."""
        if self._ground is None:
            self.open()
            assert self._ground is not None
        captured = self._clock.now_ns()
        lease = self._pool.lease()
        image = lease.buffer
        np.copyto(image, self._ground)
        self._paint(image, self._seq)
        frame = Frame(image, self._seq, captured, lease=lease)
        self._seq += 1
        return frame

    def close(self) -> None:
        """See :class:`realtime.sources.base.Source`."""
        self._ground = None

    def _paint(self, image: Image, n: int) -> None:
        width, height = self.size
        unit = max(min(width, height) // 120, 1)
        # A bar that crosses the ramp in four seconds: tearing and repeats are seen on it.
        top, bottom = _ramp_rows(height)
        wide = max(width // 64, 2)
        at = int(n / self.fps * 0.25 * width) % width
        image[top:bottom, at : at + wide] = 255
        # A hand that goes round once a second.
        radius = min(width, height) // 6
        centre = (width * 3 // 4, height * 9 // 20)
        turn = 2.0 * np.pi * ((n / self.fps) % 1.0)
        tip = (int(centre[0] + radius * np.sin(turn)), int(centre[1] - radius * np.cos(turn)))
        cv2.circle(image, centre, radius, (32, 32, 32), -1, cv2.LINE_AA)
        cv2.line(image, centre, tip, (255, 255, 255), 2 * unit, cv2.LINE_AA)
        left, base = width // 32, height // 2
        cv2.rectangle(image, (left, base - 14 * unit), (left + 64 * unit, base + 4 * unit), (16, 16, 16), -1)
        place = (left + 2 * unit, base)
        cv2.putText(image, f"{n:07d}", place, cv2.FONT_HERSHEY_SIMPLEX, 0.4 * unit, (255, 255, 255), unit)
        encode_number(image, n)


def _ramp_rows(height: int) -> tuple[int, int]:
    return height * 3 // 4, height


def _background(width: int, height: int) -> Image:
    """Bars at 75 % above a grey ramp. Each bar differs from its neighbour in more than brightness."""
    image: NDArray[np.uint8] = np.empty((height, width, 3), np.uint8)
    colours = np.array(
        [(191, 191, 191), (0, 191, 191), (191, 191, 0), (0, 191, 0), (191, 0, 191), (0, 0, 191), (191, 0, 0)],
        np.uint8,
    )
    image[:] = colours[np.arange(width) * len(colours) // width]
    top, bottom = _ramp_rows(height)
    image[top:bottom] = np.linspace(16, 235, width).astype(np.uint8)[None, :, None]
    return image
