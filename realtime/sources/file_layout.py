"""How a stored picture becomes a frame: turned, mirrored, scaled, cropped or put between black bars."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import cv2
import numpy as np

from engines.faces import Image

_QUARTERS: Final = (cv2.ROTATE_90_CLOCKWISE, cv2.ROTATE_90_COUNTERCLOCKWISE)


@dataclass(frozen=True, slots=True)
class Turn:
    """What brings a stored picture upright.

    Attributes:
        mirror: Whether left and right change places, before the rotation.
        rotate: For ``cv2.rotate``; None for none.
    """

    mirror: bool = False
    rotate: int | None = None

    @property
    def swaps(self) -> bool:
        """Whether width and height change places."""
        return self.rotate in _QUARTERS


# The signs of a display matrix's four corners.
_TURNS: Final[dict[tuple[int, ...], Turn]] = {
    (1, 0, 0, 1): Turn(),
    (0, 1, -1, 0): Turn(False, cv2.ROTATE_90_CLOCKWISE),
    (-1, 0, 0, -1): Turn(False, cv2.ROTATE_180),
    (0, -1, 1, 0): Turn(False, cv2.ROTATE_90_COUNTERCLOCKWISE),
    (-1, 0, 0, 1): Turn(True),
    (0, -1, -1, 0): Turn(True, cv2.ROTATE_90_CLOCKWISE),
    (1, 0, 0, -1): Turn(True, cv2.ROTATE_180),
    (0, 1, 1, 0): Turn(True, cv2.ROTATE_90_COUNTERCLOCKWISE),
}


def turn_of(display_matrix: bytes) -> Turn:
    """The turn that a container asks for; none where it asks for anything but quarter turns.

    Args:
        display_matrix: Nine 32-bit integers in the machine's order, as ffmpeg gives them; may be anything.
    """
    try:
        matrix = struct.unpack_from("=9i", display_matrix)
    except struct.error:
        return Turn()
    corners = (matrix[0], matrix[1], matrix[3], matrix[4])
    half = max(abs(value) for value in corners) / 2
    return _TURNS.get(tuple(0 if abs(v) <= half else (1 if v > 0 else -1) for v in corners), Turn())


def shown_size(stored: tuple[int, int], turn: Turn, pixel_shape: float) -> tuple[int, int]:
    """Width and height with square pixels, upright; nothing is thrown away.

    Args:
        stored: Width and height, pixels.
        turn: What brings it upright.
        pixel_shape: Width of a stored pixel by its height.
    """
    width, height = stored
    if pixel_shape >= 1.0:
        width = round(width * pixel_shape)
    else:
        height = round(height / pixel_shape)
    return (height, width) if turn.swaps else (width, height)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a picture lies in a frame.

    Attributes:
        scaled: Width and height to scale the stored picture to, before it is turned.
        turn: What brings it upright.
        x: Left edge in the frame.
        y: Top edge in the frame.
    """

    scaled: tuple[int, int]
    turn: Turn
    x: int
    y: int

    def place(self, picture: Image, out: Image) -> None:
        """Turns a picture into its place and blackens the rest.

        Args:
            picture: H×W×3 uint8 of the size ``scaled``.
            out: The frame's buffer, H×W×3 uint8; all of it is written.
        """
        if self.turn.mirror:
            picture = np.asarray(cv2.flip(picture, 1), np.uint8)
        if self.turn.rotate is not None:
            picture = np.asarray(cv2.rotate(picture, self.turn.rotate), np.uint8)
        x, y = self.x, self.y
        # An odd row or column more than the frame has is cut off.
        high = min(picture.shape[0], out.shape[0])
        wide = min(picture.shape[1], out.shape[1])
        np.copyto(out[y : y + high, x : x + wide], picture[:high, :wide])
        for rest in (out[:y], out[y + high :], out[y : y + high, :x], out[y : y + high, x + wide :]):
            rest[...] = 0


def layout_in_own_size(stored: tuple[int, int], turn: Turn, pixel_shape: float) -> Layout:
    """For a frame of the picture's own size, cropped to even numbers."""
    width, height = shown_size(stored, turn, pixel_shape)
    return Layout((height, width) if turn.swaps else (width, height), turn, 0, 0)


def layout_within(frame: tuple[int, int], stored: tuple[int, int], turn: Turn, pixel_shape: float) -> Layout:
    """The whole picture, as large as it fits into a frame of this width and height, in the middle."""
    width, height = shown_size(stored, turn, pixel_shape)
    factor = min(frame[0] / width, frame[1] / height)
    width = min(max(round(width * factor), 1), frame[0])
    height = min(max(round(height * factor), 1), frame[1])
    x, y = (frame[0] - width) // 2, (frame[1] - height) // 2
    return Layout((height, width) if turn.swaps else (width, height), turn, x, y)
