"""Words in a picture: rendered once, blended in place as often as needed."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from engines.faces import Image

_FONT = cv2.FONT_HERSHEY_SIMPLEX
_CAPITAL = 22.0  # Height of a capital letter at scale 1, pixels.
_FINE = 3  # Drawn that much larger and averaged down, which also smooths the line fonts of OpenCV 4.


class Sprite:
    """A small picture with opacity.

    Args:
        colour: (h, w, 3) uint8 BGR, already multiplied by the opacity.
        opacity: (h, w) uint8.

    Attributes:
        colour: As given, contiguous.
        keep: (h, w, 3) uint8: 255 less the opacity.
    """

    def __init__(self, colour: Image, opacity: NDArray[np.uint8]) -> None:
        self.colour: Image = np.ascontiguousarray(colour)
        self.keep: Image = np.ascontiguousarray(np.repeat((255 - opacity)[..., None], 3, axis=2))

    @property
    def size(self) -> tuple[int, int]:
        """Width and height, pixels."""
        return self.colour.shape[1], self.colour.shape[0]

    def paint(self, image: Image, x: int, y: int) -> None:
        """Blends itself into ``image`` with its corner at (x, y); what lies outside is cut off."""
        height, width = image.shape[:2]
        x0, y0 = max(x, 0), max(y, 0)
        x1, y1 = min(x + self.size[0], width), min(y + self.size[1], height)
        if x0 >= x1 or y0 >= y1:
            return
        inside = (slice(y0 - y, y1 - y), slice(x0 - x, x1 - x))
        target = image[y0:y1, x0:x1]
        cv2.multiply(target, self.keep[inside], dst=target, scale=1 / 255)
        cv2.add(target, self.colour[inside], dst=target)


def write(text: str, height: int) -> NDArray[np.uint8]:
    """The opacity of one line of text.

    Args:
        text: What to write.
        height: Height of a capital letter, pixels.

    Returns:
        (h, w) uint8; the capital letters stand in the middle, with room for what goes below the line.
    """
    if not hasattr(cv2, "FontFace"):  # The line fonts of OpenCV 4 know ASCII only.
        text = text.replace("…", "...").encode("ascii", "replace").decode()
    fine = height * _FINE
    scale, weight = fine / _CAPITAL, max(1, round(fine / 12))
    (width, _), _ = cv2.getTextSize(text, _FONT, scale, weight)
    margin = fine // 3
    canvas = np.zeros((fine + 2 * margin, width + 2 * margin), np.uint8)
    cv2.putText(canvas, text, (margin, margin + fine), _FONT, scale, 255, weight, cv2.LINE_AA)
    columns = np.flatnonzero(canvas.any(axis=0))
    if not len(columns):
        return np.zeros((height + 2 * (margin // _FINE), 1), np.uint8)
    canvas = canvas[:, columns[0] : columns[-1] + 1]
    small = (max(1, round(canvas.shape[1] / _FINE)), height + 2 * (margin // _FINE))
    return np.asarray(cv2.resize(canvas, small, interpolation=cv2.INTER_AREA), np.uint8)


def plate(
    lines: Sequence[str],
    height: int,
    *,
    ground: tuple[int, int, int] = (24, 20, 18),
    opacity: float = 0.72,
    padding: float = 0.6,
) -> Sprite:
    """A rounded dark plate with centred white lines.

    Args:
        lines: From top to bottom.
        height: Height of a capital letter, pixels.
        ground: Colour of the plate, BGR.
        opacity: Of the plate, 0…1; the letters are opaque.
        padding: Room above and below the words, in letter heights; at the sides a quarter of a letter more.
    """
    written = [write(line, height) for line in lines]
    # The lines bring a third of a letter of room above and below, which is taken off the padding.
    inner = max(0, round(height * padding) - round(height / 3))
    gap = round(height * 0.25)
    width = max(line.shape[1] for line in written) + 2 * max(3, round(height * (padding + 0.25)))
    tall = sum(line.shape[0] for line in written) + gap * (len(written) - 1) + 2 * inner
    body = rounded(width, tall, min(tall / 2, height * 0.8)).astype(np.float32) / 255 * opacity
    ink = np.zeros((tall, width), np.float32)
    top = inner
    for line in written:
        left = (width - line.shape[1]) // 2
        ink[top : top + line.shape[0], left : left + line.shape[1]] = line.astype(np.float32) / 255
        top += line.shape[0] + gap
    alpha = ink + body * (1 - ink)
    colour = ink[..., None] * 255.0 + (body * (1 - ink))[..., None] * np.array(ground, np.float32)
    return Sprite(np.round(colour).astype(np.uint8), np.round(alpha * 255).astype(np.uint8))


def rounded(width: int, height: int, radius: float) -> NDArray[np.uint8]:
    """The opacity of a rectangle with round, smooth corners: (height, width) uint8."""
    x = np.abs(np.arange(width) + 0.5 - width / 2) - (width / 2 - radius)
    y = np.abs(np.arange(height) + 0.5 - height / 2) - (height / 2 - radius)
    beyond = np.hypot(np.maximum(x, 0)[None, :], np.maximum(y, 0)[:, None]) - radius
    return np.asarray(np.round(np.clip(0.5 - beyond, 0, 1) * 255), np.uint8)
