"""One-Euro filtering: still when the face is still, without lag when it moves.

Casiez, Roussel, Vogel: 1€ Filter, CHI 2012. Landmarks are filtered, images never are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from engines.faces import Floats


@dataclass(frozen=True, slots=True)
class OneEuroSettings:
    """How much is smoothed.

    Attributes:
        min_cutoff: Hz at rest; lower holds stiller.
        beta: Hz per face width a second; higher follows faster.
        speed_cutoff: Hz at which the speed itself is smoothed.
    """

    min_cutoff: float = 2.5
    beta: float = 60.0
    speed_cutoff: float = 8.0

    @classmethod
    def of(cls, amount: float) -> OneEuroSettings:
        """More or less than usual.

        Args:
            amount: 0 follows eight times as fast, 0.5 as usual, 1 holds eight times as still.
        """
        factor = 8 ** (1 - 2 * amount)
        return cls(cls().min_cutoff * factor, cls().beta * factor)


class OneEuro:
    """Filters a set of points, each by its own speed, measured in widths of the face.

    Args:
        settings: How much.

    Attributes:
        settings: The same; may be changed from one frame to the next.
    """

    def __init__(self, settings: OneEuroSettings = OneEuroSettings()) -> None:
        self.settings = settings
        self._at_ns: int | None = None
        self._value: Floats = np.empty((0, 0), np.float32)
        self._speed: Floats = self._value

    def reset(self) -> None:
        """Forgets the past: the next points are taken as they are."""
        self._at_ns = None

    def __call__(self, points: Floats, scale: float, now_ns: int) -> Floats:
        """Filters one frame's points.

        Args:
            points: (N, D) float32, pixels. Another number of them than before is a new beginning.
            scale: Width of the face, pixels.
            now_ns: When the frame was captured.

        Returns:
            (N, D) float32, pixels; belongs to the caller.
        """
        if self._at_ns is None or now_ns <= self._at_ns or points.shape != self._value.shape:
            self._at_ns, self._value, self._speed = now_ns, points.copy(), np.zeros_like(points)
            return points.copy()
        seconds = (now_ns - self._at_ns) / 1e9
        self._at_ns = now_ns
        self._speed += _follow(self.settings.speed_cutoff, seconds) * (
            (points - self._value) / seconds - self._speed
        )
        # One cutoff for all coordinates of a point, or a slanted motion would bend.
        pace = np.sqrt(np.einsum("nd,nd->n", self._speed, self._speed)) / max(scale, 1.0)
        cutoff = self.settings.min_cutoff + self.settings.beta * pace
        step = cutoff * (2 * math.pi * seconds)
        self._value += (step / (1 + step)).astype(np.float32)[:, None] * (points - self._value)
        return self._value.copy()


def _follow(cutoff: float, seconds: float) -> float:
    step = 2 * math.pi * cutoff * seconds
    return step / (1 + step)
