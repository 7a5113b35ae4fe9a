"""What a face looks like when it does nothing: learnt over the first seconds, then slowly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from engines.analysis.topology import (
    LEFT_BROW,
    LEFT_EYE_RINGS,
    LEFT_IRIS,
    POINTS,
    REFINED_POINTS,
    RIGHT_BROW,
    RIGHT_EYE_RINGS,
    RIGHT_IRIS,
    canonical,
)
from engines.faces import Array, Floats

EYES: Final = (RIGHT_EYE_RINGS, LEFT_EYE_RINGS)
_IRISES: Final = (RIGHT_IRIS[0], LEFT_IRIS[0])

_LEARN: Final = 45
"""Frames over which the neutral face is averaged at first."""
_FOLLOW: Final = 1 / 900
"""How fast it follows afterwards, part of the way per frame."""
_MOST: Final = 0.12
"""Centimetres of a vertex's distance that count then: a long talk must not become the neutral face."""
_SETTLE: Final = 1 / 300
"""How fast place and turn of the head follow: people lean back and stay there."""
_WIDENS, _NARROWS = 0.1, 0.003
"""How fast the usual distance of the lids follows: a blink is no news, an eye that opens is."""
_AHEAD: Final = 0.7
"""Radians from which a head is turned too far to learn from."""
_SAME: Final = 0.45
"""Mean distance, cm, of two faces of one person; expressions are in it."""


@dataclass(slots=True)
class Reading:
    """What landmarks say.

    Attributes:
        shape: (468, 3) float64, cm of the canonical face, laid over it.
        turn: (3, 3) float64: the canonical face's axes in the frame, one a row.
        scale: Canonical cm per pixel.
        centre: (2,) float64: where the head is, pixels.
        angles: (3,) float64: yaw, pitch and roll, radians; see :class:`~engines.portrait.state.HeadState`.
        lids: (2,) float64: distance of the right and the left eye's lids, widths of the eye.
        gaze: (2,) float64: how far the irises are off the middle of their eyes, to the right of an upright picture
            and down, widths of the eye; None where irises are not known.
    """

    shape: Array
    turn: Array
    scale: float
    centre: Array
    angles: Array
    lids: Array
    gaze: Array | None


def _rigid() -> Array:
    """The vertices that no expression moves: from the cheekbones up, without brows and lids."""
    points = canonical()
    soft = {*RIGHT_BROW, *LEFT_BROW} | {v for eye in EYES for ring in eye for v in ring}
    return np.array([v for v in range(POINTS) if points[v, 1] < points[2, 1] and v not in soft])


_RIGID: Final = _rigid()


def read_face(points: Floats) -> Reading:
    """Lays landmarks over the canonical face by what is bone, and reads the rest.

    Args:
        points: (468, 3) or (478, 3) finite, pixels.
    """
    live, target = points.astype(np.float64), canonical().astype(np.float64)
    middle, origin = live[_RIGID].mean(0), target[_RIGID].mean(0)
    moved, wanted = live[_RIGID] - middle, target[_RIGID] - origin
    # Umeyama 1991: the similarity of least squares.
    u, s, vt = np.linalg.svd(moved.T @ wanted)
    sign = np.array([1.0, 1.0, np.sign(np.linalg.det(u @ vt))])
    rotation = (u * sign) @ vt
    scale = max(float((s * sign).sum() / max(np.einsum("nd,nd->", moved, moved), 1e-9)), 1e-9)
    shape = scale * (live - middle) @ rotation + origin
    turn = rotation.T
    ahead = -turn[2]
    angles = np.array(
        [np.arctan2(ahead[0], -ahead[2]), np.arcsin(np.clip(ahead[1], -1, 1)), np.arctan2(turn[0, 1], turn[0, 0])]
    )  # fmt: skip
    lids, looks = np.empty(2), np.zeros(2)
    for eye, rings in enumerate(EYES):
        ring = rings[0]
        corners = shape[[ring[0], ring[8]], :2]
        wide = max(float(np.linalg.norm(corners[1] - corners[0])), 1e-3)
        lids[eye] = np.mean([shape[ring[i], 1] - shape[ring[8 + i], 1] for i in (3, 4, 5)]) / wide
        if len(points) == REFINED_POINTS:
            looks += (shape[_IRISES[eye], :2] - corners.mean(0)) / (2 * wide)
    gaze = looks if len(points) == REFINED_POINTS else None
    return Reading(shape[:POINTS], turn, scale, middle[:2], angles, lids, gaze)


class Neutral:
    """The neutral face of one person.

    Args:
        first: The first that is seen of it.
        track: Whose it is.

    Attributes:
        usual: What is usual for it.
        lids: (2,) float64: how far its lids are apart when it looks.
        width: Width of the canonical face, cm.
    """

    width = float(np.ptp(canonical()[:, 0]))

    def __init__(self, first: Reading, track: int) -> None:
        self.usual = Reading(
            first.shape.copy(), first.turn, first.scale, first.centre.copy(), first.angles.copy(),
            first.lids, None if first.gaze is None else first.gaze.copy(),
        )  # fmt: skip
        self.lids = first.lids.copy()
        self._track, self._seen = track, 0

    def knows(self, now: Reading, track: int) -> bool:
        """Whether this is who it was learnt from: the same track, or another one of a face of this shape."""
        if track != self._track:
            apart = float(np.linalg.norm(now.shape - self.usual.shape, axis=1).mean())
            if apart > _SAME:
                return False
            self._track = track
        return True

    def learn(self, now: Reading) -> None:
        """Takes one frame into account."""
        usual = self.usual
        if np.abs(now.angles).max() > _AHEAD:
            return
        self._seen += 1
        rate = 1 / self._seen if self._seen <= _LEARN else _FOLLOW
        most = np.inf if self._seen <= _LEARN else _MOST
        usual.shape += rate * np.clip(now.shape - usual.shape, -most, most)
        pose = max(rate, _SETTLE)
        usual.angles += pose * (now.angles - usual.angles)
        usual.centre += pose * (now.centre - usual.centre)
        usual.scale += pose * (now.scale - usual.scale)
        self.lids += np.where(now.lids > self.lids, _WIDENS, _NARROWS) * (now.lids - self.lids)
        if now.gaze is not None:
            usual.gaze = (
                now.gaze.copy() if usual.gaze is None else usual.gaze + pose * (now.gaze - usual.gaze)
            )
