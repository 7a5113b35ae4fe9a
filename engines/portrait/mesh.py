"""The mesh that animates a picture: 468 landmarks, rings around them that carry hair and neck, and how it is posed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from engines.analysis.topology import LEFT_EYE_RINGS, OVAL, POINTS, RIGHT_EYE_RINGS, triangles
from engines.faces import Array, Floats
from engines.kernels import cpu
from engines.portrait.fields import CONTROLS, FIELDS, fields_of, lash_edges, pulls_of
from engines.portrait.state import HeadState
from engines.portrait.surface import RINGS, clockwise, ring_triangles, rings, split

_CAMERA: Final = 4.5
"""Distance of the lens, widths of the face: an arm's length."""

RELIEF: Final = 0.87
"""A little flatter than life: the photo has no skin for the side of a cheek that a turn would show."""

_LOWER_LIP: Final = CONTROLS.index(14)


@dataclass(frozen=True, slots=True)
class Posed:
    """A mesh in one pose.

    Attributes:
        state: The pose and what bends the face by name.
        points: (N, 2) float64: where the vertices lie, pixels of the picture.
        head: (N, 3) float64: the bent but unturned face in its own frame.
        drop: How far the jaw is dropped, by name and by pull, 0…1 and a little more.
    """

    state: HeadState
    points: Array
    head: Array
    drop: float


class PortraitMesh:
    """A photo's face as a surface that can be posed.

    Vertices 0…467 are the landmarks, then come the rings, then a strip above the lashes.

    Args:
        landmarks: (468 or more, 3) float32, pixels, as found in the picture.

    Attributes:
        rest: (N, 2) float64: where the vertices lie in the picture, pixels.
        triangles: (T, 3) int32: far ones first, all clockwise in the picture.
        border: (36,) int32: the outermost ring, which never moves.
        width: Width of the face, pixels.
        pivot: (2,) float64: where the head turns, pixels.
        turn: (2, 2) float64: from the face's own axes to those of the picture.
        depth: (N, 1) float64: by how much a vertex is smaller than one at the pivot.
        head: (N, 3) float64: the face at rest in its own frame: origin at the pivot, widths of the face.
    """

    def __init__(self, landmarks: Floats) -> None:
        points = landmarks[:POINTS].astype(np.float64)
        self.width = float(np.ptp(points[:, 0]))
        ears = (points[234] + points[454]) / 2
        self.pivot = np.array([ears[0], ears[1] * 0.35 + points[13, 1] * 0.65])
        self.turn = upright(points)
        own = np.empty((POINTS, 3))
        own[:, :2] = (points[:, :2] - self.pivot) @ self.turn / self.width
        own[:, 2] = (points[:, 2] - ears[2]) * (RELIEF / self.width)
        ring, weight, shifts = rings(own)
        corners = np.concatenate([triangles(), ring_triangles(len(RINGS))]).astype(np.int32)
        own = np.concatenate([own, ring])
        weight = np.concatenate([np.ones(POINTS), weight])
        corners = clockwise(own, corners)
        fields, pulls = fields_of(own, corners, shifts), pulls_of(own, corners)
        # The strip above the lashes follows the lid's edge: they are moved and not smeared.
        lashes = [lash_edges(eye, corners) for eye in (RIGHT_EYE_RINGS, LEFT_EYE_RINGS)]
        pairs = np.concatenate([np.stack([lash, skin], 1) for lash, skin in lashes])
        middles = fields[:, pairs].mean(2)
        for name in ("right_lid", "left_lid"):
            k = FIELDS.index(name)
            middles[k] = 0.85 * fields[k, pairs[:, 0]] + 0.15 * fields[k, pairs[:, 1]]
        self.triangles, origin = split(corners, np.sort(pairs, axis=1), len(own))
        own = np.concatenate([own, own[pairs].mean(1)])
        fields = np.concatenate([fields, middles], 1)
        self._pulls = np.concatenate([pulls, pulls[pairs].mean(1)]).astype(np.float32)
        self._weight = np.concatenate([weight, weight[pairs].mean(1)])[:, None]
        self._fields = fields.reshape(len(FIELDS), -1)
        self.depth = (1 + own[:, 2] / _CAMERA)[:, None]
        flat = own[:, :2].copy()
        # The photo shows the head in perspective already: undo it, so that the resting pose gives the photo.
        own[:, :2] *= self.depth
        self.head = own
        self._flat = flat
        self.rest = flat @ self.turn.T * self.width + self.pivot
        around = np.any(corners >= POINTS, axis=1)[origin]
        order = np.argsort(-own[self.triangles, 2].mean(1) - 10.0 * around, kind="stable")
        self.triangles = np.ascontiguousarray(self.triangles[order])
        last = POINTS + len(OVAL) * (len(RINGS) - 1)
        self.border = np.arange(last, last + len(OVAL), dtype=np.int32)

    def pose(self, state: HeadState, pull: Floats | None = None) -> Posed:
        """Where the vertices lie in a frame.

        Args:
            state: Pose and expression.
            pull: (3, controls) float32: how far each of :data:`CONTROLS` is pulled besides, in the face's own frame.
        """
        amounts = np.array([getattr(state, name) for name in FIELDS])
        head = self.head + (amounts @ self._fields).reshape(-1, 3)
        drop = state.jaw
        if pull is not None:
            moved = np.empty((3, len(head)), np.float32)
            cpu.weigh(self._pulls, pull, moved)
            head += moved.T
            drop += max(0.0, float(pull[1, _LOWER_LIP] / self.field("jaw", CONTROLS[_LOWER_LIP])[1]))
        placed = self._project(head, state)
        flat = self._flat + self._weight * (placed - self._flat)
        return Posed(state, np.asarray(flat @ self.turn.T * self.width + self.pivot), head, drop)

    def field(self, name: str, vertex: int) -> Array:
        """(3,) float64: how far one of :data:`FIELDS` moves a vertex at its full amount, in the face's own frame."""
        return np.asarray(self._fields[FIELDS.index(name)].reshape(-1, 3)[vertex])

    def shown(self, head: Array, state: HeadState) -> Array:
        """Where points of the unturned face lie in a frame.

        Args:
            head: (K, 3) float64, in the frame of :attr:`head`.
            state: The pose.

        Returns:
            (K, 2) float64, pixels of the picture.
        """
        return np.asarray(self._project(head, state) @ self.turn.T * self.width + self.pivot)

    def _project(self, head: Array, state: HeadState) -> Array:
        turned = head @ _rotation(state.yaw, state.pitch, state.roll).T
        scale = state.zoom / (1 + turned[:, 2:] / _CAMERA)
        return np.asarray(turned[:, :2] * scale + (state.x, state.y))


def upright(points: Array) -> Array:
    """(2, 2) float64: from the axes of a face, which its eyes' outer corners say, to those of the picture."""
    across = points[263, :2] - points[33, :2]
    angle = np.arctan2(across[1], across[0])
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def _rotation(yaw: float, pitch: float, roll: float) -> Array:
    (cy, sy), (cp, sp), (cr, sr) = ((np.cos(a), np.sin(a)) for a in (yaw, pitch, roll))
    # z points away, so the near nose (z < 0) goes right with a positive yaw and down with a positive pitch.
    around_y = np.array([[cy, 0, -sy], [0, 1, 0], [sy, 0, cy]])
    around_x = np.array([[1, 0, 0], [0, cp, -sp], [0, sp, cp]])
    around_z = np.array([[cr, -sr, 0], [sr, cr, 0], [0, 0, 1]])
    return np.asarray(around_z @ around_y @ around_x)
