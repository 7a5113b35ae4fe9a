"""Which restorer is wanted, as it is typed: ``gfpgan_1.4:0.8:2``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

MOST_RARE: Final = 30
"""Frames from one restored one to the next, at most: a second of them."""


@dataclass(frozen=True, slots=True)
class RestoreChoice:
    """A restorer and how much of it.

    Attributes:
        model: A name of the catalogue, or the path of a file.
        strength: How far its picture replaces the one it was shown, 0…1.
        every: It runs on every so many frames of a face.
    """

    model: str
    strength: float = 1.0
    every: int = 1


def read_restore(text: str) -> RestoreChoice:
    """Reads ``MODEL[:STRENGTH[:EVERY]]``. A path may have colons of its own.

    Raises:
        ValueError: It is none; the sentence says what is wrong.
    """
    *front, last = text.strip().split(":")
    numbers = [last] if front and _is_number(last) else []
    if numbers and len(front) > 1 and _is_number(front[-1]):
        numbers.insert(0, front.pop())
    model = ":".join(front if numbers else [*front, last]).strip()
    strength = float(numbers[0]) if numbers else 1.0
    if not model:
        raise ValueError("a restorer has to be named first")
    if not 0 <= strength <= 1:
        raise ValueError(f"the strength is a number from 0 to 1, not {numbers[0]}")
    if len(numbers) > 1 and not (numbers[1].isdecimal() and 1 <= int(numbers[1]) <= MOST_RARE):
        raise ValueError(f"it runs on every 1 to {MOST_RARE} frames, not {numbers[1]}")
    return RestoreChoice(model, strength, int(numbers[1]) if len(numbers) > 1 else 1)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
