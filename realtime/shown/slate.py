"""A calm card for when there is no picture to show."""

from __future__ import annotations

import cv2
import numpy as np

from engines.faces import Image
from realtime.frame import Frame, Kind
from realtime.shown.lettering import Sprite, write

STARTING = "Starting…"
WAITING = "Waiting for the camera"
RECONNECTING = "Camera is reconnecting"
LOOKING = "Looking for a face"
STOPPED = "Stopped"
VEILED = "Camera veiled"

_TOP, _BOTTOM = (52.0, 42.0, 36.0), (26.0, 20.0, 18.0)
_RING, _WORDS = (214, 190, 150), (232, 226, 222)


class Slate:
    """Draws a card once for each size and reason and keeps it. Belongs to one thread."""

    def __init__(self) -> None:
        self._cards: dict[tuple[tuple[int, int], str], Image] = {}

    def show(self, size: tuple[int, int], reason: str, now_ns: int) -> Frame:
        """The card as a frame.

        Args:
            size: Width and height, pixels.
            reason: One short line.
            now_ns: The time it is shown.
        """
        card = self._cards.get((size, reason))
        if card is None:
            card = self._cards[size, reason] = _draw(size, reason)
        return Frame(card, seq=0, captured_ns=now_ns, kind=Kind.SLATE)


def _draw(size: tuple[int, int], reason: str) -> Image:
    width, height = size
    ramp = np.linspace(0, 1, height, dtype=np.float32)[:, None]
    shade = np.array(_TOP, np.float32) * (1 - ramp) + np.array(_BOTTOM, np.float32) * ramp
    # A slow ramp in eight bits shows steps; half a level of noise hides them.
    grain = np.random.default_rng(0).random((height, 64, 3), np.float32)
    stripe = np.floor(shade[:, None] + grain).astype(np.uint8)
    card = np.ascontiguousarray(np.tile(stripe, (1, -(-width // 64), 1))[:, :width])

    unit = min(width / 16, height / 9)
    centre = (width / 2, height / 2 - unit * 0.7)
    radius = max(4.0, unit * 0.62)
    for side, colour in ((-0.42, _WORDS), (0.42, _RING)):
        _ring(card, (centre[0] + side * radius, centre[1]), radius, max(1.0, unit * 0.07), colour)
    letters = max(10, round(unit * 0.36))
    words = write(reason, letters)
    if words.shape[1] > width * 0.9:
        words = write(reason, max(4, int(letters * width * 0.9 / words.shape[1])))
    inked = words.astype(np.float32)[..., None] / 255 * np.array(_WORDS, np.float32)
    sprite = Sprite(np.asarray(np.round(inked), np.uint8), words)
    sprite.paint(card, (width - sprite.size[0]) // 2, round(height / 2 + unit * 0.75))
    card.flags.writeable = False
    return card


def _ring(
    card: Image, centre: tuple[float, float], radius: float, stroke: float, colour: tuple[int, int, int]
) -> None:
    fine = 4  # Bits after the point in OpenCV's coordinates.
    where = (round(centre[0] * (1 << fine)), round(centre[1] * (1 << fine)))
    cv2.circle(card, where, round(radius * (1 << fine)), colour, max(1, round(stroke)), cv2.LINE_AA, fine)
