"""What is behind a picture that is transparent, or narrower than the frame: a colour, or another picture."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import cv2
import numpy as np

from engines.analysis.photo import read_photo
from engines.errors import UsageError
from engines.faces import Image

GREEN: Final = "#00b140"
"""The green that video programs make transparent."""


def read_backdrop(text: str) -> Image:
    """A colour or a picture.

    Args:
        text: ``#rrggbb``, ``green`` for :data:`GREEN`, or the path of a picture, with or without ``file:``.

    Returns:
        H×W×3 uint8 BGR; 1×1 of a colour.

    Raises:
        UsageError: It begins like a colour and is none.
        PhotoError: The picture cannot be read.
    """
    colour = GREEN if text == "green" else text
    if re.fullmatch(r"#[0-9a-fA-F]{6}", colour):
        red, green, blue = bytes.fromhex(colour[1:])
        return np.array([[[blue, green, red]]], np.uint8)
    if colour.startswith("#"):
        raise UsageError(
            f"{text!r} is no colour.",
            f"Write six digits, for example {GREEN}; or file:PATH for a picture.",
        )
    return read_photo(Path(text.removeprefix("file:")).expanduser())


def filled(backdrop: Image, size: tuple[int, int]) -> Image:
    """A backdrop as large as a frame: it covers it, and what is too much is cut off on both sides.

    Args:
        backdrop: From :func:`read_backdrop`.
        size: Width and height of the frame, pixels.
    """
    height, width = backdrop.shape[:2]
    if (height, width) == (1, 1):
        return np.ascontiguousarray(np.broadcast_to(backdrop, (size[1], size[0], 3)))
    factor = max(size[0] / width, size[1] / height)
    w, h = min(width, round(size[0] / factor)), min(height, round(size[1] / factor))
    x, y = (width - w) // 2, (height - h) // 2
    how = cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(backdrop[y : y + h, x : x + w], size, interpolation=how), np.uint8)


def mean_colour(picture: Image, alpha: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> Image:
    """1×1×3: the mean colour of what a picture shows."""
    mean = np.average(picture.reshape(-1, 3), axis=0, weights=alpha.reshape(-1))
    return np.rint(mean).astype(np.uint8).reshape(1, 1, 3)
