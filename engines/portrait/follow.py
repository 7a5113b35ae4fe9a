"""A live face in, what a picture is to do out.

Everything is relative to the live person's own neutral face, which is learnt: a picture's own expression and the way
its head is turned stay its own. What moves is read in the canonical face's frame, so that a turned head is no
expression, and only from landmarks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from engines.analysis.topology import (
    LEFT_BROW,
    LIPS_BETWEEN,
    LIPS_INNER,
    LIPS_OUTER,
    POINTS,
    RIGHT_BROW,
)
from engines.faces import Array, Floats
from engines.portrait.fields import CHIN, CONTROLS, columns
from engines.portrait.mesh import RELIEF, upright
from engines.portrait.neutral import Neutral, Reading, read_face
from engines.portrait.state import HeadState

YAW, PITCH, ROLL = 0.36, 0.24, 0.26
"""How far a picture's head is turned at most, radians: it has no skin for what a larger turn would show."""
_SHIFT: Final = (0.10, 0.07)
"""How far it moves at most, widths of the face: further, and the neck would be drawn out."""
_ZOOM: Final = 0.07
_FOLLOWS: Final = 0.6
"""Part of the live head's own travel."""
_RISES, _FALLS = 0.12, 0.05
"""How fast a picture comes to life and to rest, part of the way per frame."""
_SHUT, _WIDE = 0.42, 0.82
"""Distance of the lids, of the usual one, of an eye that is shut, and from which one is open."""
_SIDEWAYS, _UPWARDS = 0.12, 0.05
"""Travel of an iris at full gaze, widths of the eye."""
_BROWS: Final = 1.3
_LIPS: Final = 1.1
"""How much livelier than on the live face: a picture's creases do not move, and they are half of an expression."""
_MOUTHS: Final = (0.6, 1.6)
"""How much smaller or larger than the live person's a picture's mouth moves."""
_OPEN: Final = 0.5
"""Distance of lips, cm of the canonical face, up to which a neutral mouth is a shut one."""
_FURTHEST: Final = 3.0
"""Travel of a vertex, cm: beyond, a mesh is a mistake."""

_LIP_RINGS: Final = (LIPS_INNER, *LIPS_BETWEEN[::-1], LIPS_OUTER)
_PRESS: Final = ((0.48, 0.7), (0.52, 0.35))
"""Of the correction of a gap, the upper and the lower lip's part, and how much of that the outer border is spared."""


@dataclass(frozen=True, slots=True)
class Drive:
    """What a picture is to do.

    Attributes:
        state: Pose, lids and gaze.
        pull: (3, controls) float32: how far each of :data:`~engines.portrait.fields.CONTROLS` is pulled, in the frame
            of :attr:`~engines.portrait.mesh.PortraitMesh.head`.
    """

    state: HeadState
    pull: Floats

    def scaled(self, share: float) -> Drive:
        """Part of the way from rest."""
        s = self.state
        state = HeadState(
            yaw=share * s.yaw, pitch=share * s.pitch, roll=share * s.roll, x=share * s.x, y=share * s.y,
            zoom=s.zoom**share, right_lid=share * s.right_lid, left_lid=share * s.left_lid,
            gaze_x=share * s.gaze_x, gaze_y=share * s.gaze_y,
        )  # fmt: skip
        return Drive(state, self.pull * np.float32(share))


REST: Final = Drive(HeadState(), np.zeros((3, len(CONTROLS)), np.float32))


class Follower:
    """Has one picture follow one live face at a time.

    Args:
        picture: (468 or more, 3) landmarks of the picture, pixels.
    """

    def __init__(self, picture: Floats) -> None:
        own = read_face(picture)
        self._shape = own.shape
        # Offsets in cm of the canonical face become those of the mesh's own frame.
        back = own.turn / own.scale / float(np.ptp(picture[:POINTS, 0]))
        self._back = np.concatenate(
            [back[:, :2] @ upright(picture.astype(np.float64)), back[:, 2:] * RELIEF], axis=1
        )
        self._neutral: Neutral | None = None
        self._last, self._share = REST, 0.0
        lips = sorted({v for ring in _LIP_RINGS for v in ring})
        self._mouth = np.isin(CONTROLS, [*lips, *CHIN])
        self._brows = np.isin(CONTROLS, [*RIGHT_BROW, *LEFT_BROW])
        self._rings = [
            tuple(np.searchsorted(CONTROLS, side) for side in columns(ring)) for ring in _LIP_RINGS
        ]

    def follow(self, points: Floats, track: int) -> Drive:
        """What the picture does in this frame.

        Args:
            points: (468, 3) or (478, 3) finite float32: the live landmarks, pixels. Lids are seen well, and eyes
                move, with 478 only.
            track: Whose they are.
        """
        reading = read_face(points)
        if self._neutral is None or not self._neutral.knows(reading, track):
            # The picture comes back to life from wherever it is at the moment.
            self._neutral, self._share = Neutral(reading, track), 0.0
        neutral = self._neutral
        neutral.learn(reading)
        self._share += _RISES * (1 - self._share)
        self._last = Drive(self._state(reading, neutral), self._pull(reading, neutral))
        return self._last.scaled(self._share)

    def rest(self) -> Drive:
        """What the picture does in a frame without a face: it eases back to how it was painted."""
        self._share -= _FALLS * self._share + 0.002
        if self._share <= 0:
            self._share = 0.0
            return REST
        return self._last.scaled(self._share)

    def _state(self, now: Reading, neutral: Neutral) -> HeadState:
        usual = neutral.usual
        yaw, pitch, roll = (
            limit * float(np.tanh(value / limit))
            for limit, value in zip((YAW, PITCH, ROLL), now.angles - usual.angles, strict=True)
        )
        moved = (now.centre - usual.centre) * (usual.scale * _FOLLOWS / neutral.width)
        x, y = (limit * float(np.tanh(value / limit)) for limit, value in zip(_SHIFT, moved, strict=True))
        nearer = _FOLLOWS * float(np.log(usual.scale / now.scale))
        lids = [1 - _step(now.lids[eye] / max(neutral.lids[eye], 1e-3), _SHUT, _WIDE) for eye in (0, 1)]
        state = HeadState(
            yaw, pitch, roll, x, y, float(np.exp(_ZOOM * np.tanh(nearer / _ZOOM))),
            right_lid=lids[0], left_lid=lids[1],
        )  # fmt: skip
        if now.gaze is None or usual.gaze is None:
            return state
        # A lid on its way takes the iris's height along, and what is shut looks nowhere.
        seen = 1 - max(lids)
        across, down = (now.gaze - usual.gaze) / (_SIDEWAYS, _UPWARDS)
        return replace(state, gaze_x=float(np.clip(across, -1, 1)), gaze_y=float(np.clip(down, -1, 1)) * seen)

    def _pull(self, now: Reading, neutral: Neutral) -> Floats:
        usual = neutral.usual
        delta = (now.shape - usual.shape)[list(CONTROLS)]
        mouth = self._width_of_mouth(self._shape) / max(self._width_of_mouth(usual.shape), 0.1)
        size = _LIPS * float(np.clip(mouth, *_MOUTHS))
        delta[self._mouth] *= size
        delta[self._brows] *= _BROWS
        length = np.linalg.norm(delta, axis=1, keepdims=True)
        delta *= _FURTHEST * np.tanh(length / _FURTHEST) / np.maximum(length, 1e-6)
        self._shut(delta, now, usual, size)
        return np.ascontiguousarray((delta @ self._back).T, np.float32)

    def _shut(self, delta: Array, now: Reading, usual: Reading, size: float) -> None:
        """Has the lips be as far apart as the live ones, and not further by what the picture has; in place.

        A smile that shows its teeth could not speak otherwise, and shut lips would overlap.
        """
        upper, lower = columns(LIPS_INNER)
        live, usually, picture = (
            shape[lower, 1] - shape[upper, 1] for shape in (now.shape, usual.shape, self._shape)
        )
        wanted = size * np.maximum(live - np.clip(usually, 0, _OPEN), 0)
        above, below = self._rings[0]
        gap = picture + delta[below, 1] - delta[above, 1]
        excess = gap - wanted
        for order, (above, below) in enumerate(self._rings):
            out = order / (len(self._rings) - 1)
            for side, way, (part, spared) in ((above, 1, _PRESS[0]), (below, -1, _PRESS[1])):
                # Corners belong to both lips and are no gap.
                delta[side[1:-1], 1] += way * part * (1 - spared * out) * excess[1:-1]

    @staticmethod
    def _width_of_mouth(shape: Array) -> float:
        return float(np.linalg.norm(shape[291] - shape[61]))


def _step(value: float, low: float, high: float) -> float:
    t = min(max((value - low) / (high - low), 0.0), 1.0)
    return t * t * (3 - 2 * t)
