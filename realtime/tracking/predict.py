"""Landmarks a little ahead of time: where a head will be when viewers see the frame.

A Kalman filter of constant velocity (R. E. Kalman, 1960; white noise in acceleration) follows place, size and turn of
each face; its points are carried on as one rigid picture, so that lips and lids, which nobody can foretell, stay what
they were. Prediction ends where motion does: no axis goes on faster than it did in the last frame, nor the other way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from engines.analysis.topology import OVAL
from engines.faces import Array, Floats

MOST_MS: Final = 100.0
"""What is further ahead than this nobody can foretell."""
_MOST_MOVE: Final = 0.08
"""Widths of the face by which it is moved at most: more would lay the real one bare."""
_MOST_GROW, _MOST_TURN = 0.06, 0.12
"""How much larger or smaller, as a logarithm, and how many radians turned, at most."""
_ACCELERATION: Final = 12.0
"""Standard deviation of what a head does unforeseen, face widths a second squared."""
_NOISE: Final = 0.002
"""Standard deviation of a measurement, face widths."""
_SLOW: Final = 0.08
"""Face widths, or radians, a second: a tenth of it counts for nothing, ten times as much in full."""
_GAP_S: Final = 0.25
_OVAL: Final = list(OVAL)
_RIGHT_EYE: Final = [33, 133, 159, 145, 160, 158, 153, 144]
_LEFT_EYE: Final = [263, 362, 386, 374, 387, 385, 380, 373]


@dataclass(frozen=True, slots=True)
class Lookahead:
    """By how much.

    Attributes:
        horizon_ns: Asked for every face of every frame: how far ahead, ns.
    """

    horizon_ns: Callable[[], int]

    @classmethod
    def fixed(cls, ms: float) -> Lookahead:
        """Always the same.

        Args:
            ms: 0 or more.
        """
        ns = round(ms * 1e6)
        return cls(lambda: ns)


def lookahead(predict: str, age_ns: Callable[[], int]) -> Lookahead | None:
    """What the option asks for.

    Args:
        predict: ``off``, ``auto`` for the age of a frame when it is sent, or so many milliseconds.
        age_ns: That age of late, as measured.
    """
    if predict == "auto":
        return Lookahead(age_ns)
    return None if predict == "off" else Lookahead.fixed(float(predict))


class Predictor:
    """Carries the points of one face ahead. Used by one thread.

    Args:
        lookahead: By how much.
    """

    def __init__(self, lookahead: Lookahead) -> None:
        self._lookahead = lookahead
        self._at_ns: int | None = None
        self._state: Array = np.zeros((2, 4))
        self._spread: Array = np.eye(2)
        self._last: Array = np.zeros(4)

    def __call__(self, points: Floats, now_ns: int) -> Floats:
        """Takes in one frame's points and carries them ahead.

        Args:
            points: (N, 3) float32, pixels; changed in place.
            now_ns: When the frame was captured.

        Returns:
            The same array.
        """
        oval = points[_OVAL, :2]
        middle = oval.mean(0)
        off = oval - middle
        # Of all points of the oval, since two of them would tremble; twice the root mean square is about its width.
        width = max(2 * math.sqrt(float(np.einsum("nd,nd->", off, off)) / len(off)), 1.0)
        dx, dy = (points[_LEFT_EYE, :2].mean(0) - points[_RIGHT_EYE, :2].mean(0)).tolist()
        measured = np.array([middle[0], middle[1], math.log(width), math.atan2(dy, dx)])
        velocity = _gated(self._velocity(measured, now_ns) * (1 / width, 1 / width, 1, 1))
        seconds = min(max(self._lookahead.horizon_ns(), 0) / 1e9, MOST_MS / 1e3)
        if not seconds or not velocity.any():
            return points
        return _carried(points, middle, velocity * seconds, width)

    def _velocity(self, measured: Array, now_ns: int) -> Array:
        """(4,): pixels a second along x and y, logarithm of the size and radians a second."""
        seconds = (now_ns - self._at_ns) / 1e9 if self._at_ns is not None else 0.0
        before, self._last, self._at_ns = self._last, measured, now_ns
        if not 0 < seconds < _GAP_S:
            self._state = np.stack([measured, np.zeros(4)])
            # In widths of the face, whatever the units above: the gain is a ratio.
            self._spread = np.diag([_NOISE**2, 1.0])
            return np.zeros(4)
        moved = np.array([[1.0, seconds], [0.0, 1.0]])
        unforeseen = np.array([seconds**2 / 2, seconds])
        # A turn by half a circle is none.
        measured = measured.copy()
        state = moved @ self._state
        for values in (before, state[0]):
            values[3] = measured[3] + math.remainder(values[3] - measured[3], math.tau)
        spread = moved @ self._spread @ moved.T + _ACCELERATION**2 * np.outer(unforeseen, unforeseen)
        gain = spread[:, 0] / (spread[0, 0] + _NOISE**2)
        self._state = state + np.outer(gain, measured - state[0])
        self._spread = spread - np.outer(gain, spread[0])
        just = (measured - before) / seconds
        smooth = self._state[1]
        return np.where(just * smooth > 0, np.sign(smooth) * np.minimum(np.abs(just), np.abs(smooth)), 0.0)


def _gated(velocity: Array) -> Array:
    """What is as slow as the noise of a still face is no motion."""
    squared = velocity * velocity
    return np.asarray(velocity * squared / (squared + _SLOW**2))


def _carried(points: Floats, middle: Floats, step: Array, width: float) -> Floats:
    far = float(np.hypot(step[0], step[1]))
    shift = step[:2] * width * min(1.0, _MOST_MOVE / max(far, 1e-9))
    scale = math.exp(min(max(float(step[2]), -_MOST_GROW), _MOST_GROW))
    angle = min(max(float(step[3]), -_MOST_TURN), _MOST_TURN)
    cos, sin = math.cos(angle) * scale, math.sin(angle) * scale
    turn = np.array([[cos, sin], [-sin, cos]], np.float32)
    points[:, :2] = (points[:, :2] - middle) @ turn + (middle + shift).astype(np.float32)
    points[:, 2] *= np.float32(scale)
    return points
