"""The mesh that animates a photo: 468 landmarks, rings around them that carry hair and neck, and what moves them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from engines.analysis.topology import (
    LEFT_BROW,
    LEFT_EYE_RINGS,
    LIPS_BETWEEN,
    LIPS_INNER,
    LIPS_OUTER,
    OVAL,
    POINTS,
    RIGHT_BROW,
    RIGHT_EYE_RINGS,
    triangles,
)
from engines.faces import Array, Floats
from realtime.sources.portrait_motion import HeadState

FIELDS: Final = (
    "jaw", "press", "smile", "pucker", "lip", "brow", "frown", "right_lid", "left_lid", "breath",
)  # fmt: skip
"""What of a :class:`HeadState` bends the mesh; each has one displacement per vertex."""

_RINGS: Final = np.array([0.06, 0.13, 0.22, 0.34, 0.47, 0.59, 0.71, 0.84])
"""How far the rings lie from the oval, widths of the face."""

REACH: Final = float(_RINGS[-1])

_CAMERA: Final = 4.5
"""Distance of the lens, widths of the face: an arm's length."""

_RELIEF: Final = 0.87
"""A little flatter than life: the photo has no skin for the side of a cheek that a turn would show."""

_JAW_ANGLE: Final = 0.3
_CHIN: Final = (152, 148, 377, 176, 400, 175, 171, 396, 199, 208, 428, 200)
_NOSE: Final = (1, 2, 4, 5, 6, 195, 197, 168, 98, 327, 97, 326, 48, 278, 49, 279, 129, 358)
_CHEEKS: Final = (50, 280, 101, 330, 36, 266)
_FOREHEAD: Final = (10, 338, 297, 332, 284, 251, 21, 54, 103, 67, 109, 162, 389)


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
        head: (N, 3) float64: the bent but unturned face in its own frame; written by :meth:`pose`.
    """

    def __init__(self, landmarks: Floats) -> None:
        points = landmarks[:POINTS].astype(np.float64)
        across = points[263, :2] - points[33, :2]
        angle = np.arctan2(across[1], across[0])
        self.width = float(np.ptp(points[:, 0]))
        ears = (points[234] + points[454]) / 2
        self.pivot = np.array([ears[0], ears[1] * 0.35 + points[13, 1] * 0.65])
        self.turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        own = np.empty((POINTS, 3))
        own[:, :2] = (points[:, :2] - self.pivot) @ self.turn / self.width
        own[:, 2] = (points[:, 2] - ears[2]) * (_RELIEF / self.width)
        ring, weight, shifts = _rings(own)
        corners = np.concatenate([triangles(), _ring_triangles(len(_RINGS))]).astype(np.int32)
        own = np.concatenate([own, ring])
        weight = np.concatenate([np.ones(POINTS), weight])
        corners = _clockwise(own, corners)
        fields = _fields(own, corners, shifts)
        # The strip above the lashes follows the lid's edge: they are moved and not smeared.
        lashes = [_lash_edges(rings, corners) for rings in (RIGHT_EYE_RINGS, LEFT_EYE_RINGS)]
        pairs = np.concatenate([np.stack([lash, skin], 1) for lash, skin in lashes])
        middles = fields[:, pairs].mean(2)
        for name in ("right_lid", "left_lid"):
            k = FIELDS.index(name)
            middles[k] = 0.85 * fields[k, pairs[:, 0]] + 0.15 * fields[k, pairs[:, 1]]
        self.triangles, origin = _split(corners, np.sort(pairs, axis=1), len(own))
        own = np.concatenate([own, own[pairs].mean(1)])
        fields = np.concatenate([fields, middles], 1)
        self._weight = np.concatenate([weight, weight[pairs].mean(1)])[:, None]
        self._fields = fields.reshape(len(FIELDS), -1)
        self.depth = (1 + own[:, 2] / _CAMERA)[:, None]
        flat = own[:, :2].copy()
        # The photo shows the head in perspective already: undo it, so that the resting pose gives the photo.
        own[:, :2] *= self.depth
        self._own = own.copy()
        self.head = own
        self._flat = flat
        self.rest = flat @ self.turn.T * self.width + self.pivot
        around = np.any(corners >= POINTS, axis=1)[origin]
        order = np.argsort(-own[self.triangles, 2].mean(1) - 10.0 * around, kind="stable")
        self.triangles = np.ascontiguousarray(self.triangles[order])
        last = POINTS + len(OVAL) * (len(_RINGS) - 1)
        self.border = np.arange(last, last + len(OVAL), dtype=np.int32)

    def pose(self, state: HeadState) -> Array:
        """Where the vertices lie in a frame.

        Args:
            state: Pose and expression.

        Returns:
            (N, 2) float64, pixels of the picture.
        """
        amounts = np.array([getattr(state, name) for name in FIELDS])
        np.add(self._own, (amounts @ self._fields).reshape(-1, 3), out=self.head)
        moved = self._project(self.head, state)
        flat = self._flat + self._weight * (moved - self._flat)
        return np.asarray(flat @ self.turn.T * self.width + self.pivot)

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


def _rotation(yaw: float, pitch: float, roll: float) -> Array:
    (cy, sy), (cp, sp), (cr, sr) = ((np.cos(a), np.sin(a)) for a in (yaw, pitch, roll))
    # z points away, so the near nose (z < 0) goes right with a positive yaw and down with a positive pitch.
    around_y = np.array([[cy, 0, -sy], [0, 1, 0], [sy, 0, cy]])
    around_x = np.array([[1, 0, 0], [0, cp, -sp], [0, sp, cp]])
    around_z = np.array([[cr, -sr, 0], [sr, cr, 0], [0, 0, 1]])
    return np.asarray(around_z @ around_y @ around_x)


def _step(x: Array, low: float, high: float) -> Array:
    t = np.clip((x - low) / (high - low), 0, 1)
    return np.asarray(t * t * (3 - 2 * t))


def _rings(own: Array) -> tuple[Array, Array, Array]:
    """Vertices around the oval (K, 3), how far they follow the head (K,), and how far they breathe (K,)."""
    oval = own[list(OVAL)]
    centre = np.append((oval[:, :2].min(0) + oval[:, :2].max(0)) / 2, 0)
    out = oval - centre
    out[:, 2] = 0
    out /= np.linalg.norm(out, axis=1, keepdims=True)
    # The oval's own dents would fold rings that follow them, so directions are smoothed along the ring.
    for _ in range(3):
        out = (np.roll(out, 1, 0) + 2 * out + np.roll(out, -1, 0)) / 4
        out /= np.linalg.norm(out, axis=1, keepdims=True)
    rows, weights, breaths = [], [], []
    down = _step(out[:, 1], 0.25, 0.8)
    for distance in _RINGS:
        row = oval + out * distance
        row[:, 2] = oval[:, 2] * (1 - _step(np.array(distance), 0.0, 0.3))
        held = 1 - _step(np.array(distance), 0.36, REACH)
        # A neck bends where hair does not: below the chin the motion fades at once.
        bent = 1 - _step(np.array(distance), -0.1, 0.85)
        rows.append(row)
        weights.append(held * (1 - down) + bent * down)
        breaths.append(
            down * _step(np.array(distance), 0.05, 0.5) * (1 - _step(np.array(distance), 0.5, REACH))
        )
    return np.concatenate(rows), np.concatenate(weights), np.concatenate(breaths)


def _ring_triangles(count: int) -> Array:
    n = len(OVAL)
    loops = [list(OVAL)] + [[POINTS + r * n + i for i in range(n)] for r in range(count)]
    found = []
    for inner, outer in pairwise(loops):
        for i in range(n):
            j = (i + 1) % n
            found += [(inner[i], outer[i], outer[j]), (inner[i], outer[j], inner[j])]
    return np.array(found, np.int32)


def _clockwise(points: Array, corners: Array) -> Array:
    """The same triangles, wound like most of their kind: the face as a whole, the rings as a whole."""
    edge = points[corners, :2]
    area = np.cross(
        np.pad(edge[:, 1] - edge[:, 0], ((0, 0), (0, 1))), np.pad(edge[:, 2] - edge[:, 0], ((0, 0), (0, 1)))
    )[:, 2]
    face = (corners < POINTS).all(1)
    for part in (face, ~face):
        if area[part].sum() < 0:
            corners[part] = corners[part][:, ::-1]
    return corners


def _split(corners: Array, marked: Array, start: int) -> tuple[Array, Array]:
    """Puts a new vertex into the middle of some edges, of no triangle into all three.

    Args:
        corners: (T, 3) triangles.
        marked: (E, 2) edges, the smaller vertex first; number ``start + e`` becomes the middle of edge e.
        start: The first free number.

    Returns:
        (T', 3) int32: the triangles, wound as before; and (T',) which one each comes from.
    """
    middle = {(int(a), int(b)): start + n for n, (a, b) in enumerate(marked)}
    found: list[tuple[int, ...]] = []
    origin: list[int] = []
    for t, triangle in enumerate(corners.tolist()):
        polygon = []
        for a, b in zip(triangle, triangle[1:] + triangle[:1], strict=True):
            polygon += [a, middle.get((min(a, b), max(a, b)), -1)]
        # Turned so that a fan from the first vertex never runs along one side.
        turn = next((i for i, v in enumerate(polygon) if i % 2 and v >= 0), 0)
        polygon = [v for v in polygon[turn:] + polygon[:turn] if v >= 0]
        found += [(polygon[0], polygon[n], polygon[n + 1]) for n in range(1, len(polygon) - 1)]
        origin += [t] * (len(found) - len(origin))
    return np.array(found, np.int32), np.array(origin)


def _spread(points: Array, corners: Array, fixed: Array, values: Array) -> Array:
    """Spreads displacements over the mesh: given at some vertices, as smooth as a thin plate in between.

    The mouth is no connection: what the lower lip does reaches the upper one around the corners only.

    Args:
        points: (N, 3) vertices.
        corners: (T, 3) triangles.
        fixed: (F,) the vertices at which the displacements are given.
        values: (K, N, 3): K displacements.

    Returns:
        (K, N, 3): the same, with the other vertices filled in.
    """
    inner = np.isin(corners, LIPS_INNER).all(1)
    a, b = np.unique(np.sort(corners[~inner][:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1), axis=0).T
    stiff = 1 / np.maximum(np.linalg.norm(points[a] - points[b], axis=1), 0.01)
    laplace = np.zeros((len(points), len(points)))
    laplace[a, b] = laplace[b, a] = -stiff
    laplace[np.diag_indices(len(points))] = -laplace.sum(1)
    laplace /= laplace.diagonal()[:, None]
    # A little membrane in the plate keeps it from swinging over.
    energy = laplace.T @ laplace + 0.05 * (laplace + laplace.T) / 2
    free = np.setdiff1d(np.arange(len(points)), fixed)
    given = values[:, fixed].transpose(1, 0, 2).reshape(len(fixed), -1)
    solved = np.linalg.solve(energy[free][:, free], -energy[free][:, fixed] @ given)
    out = values.copy()
    out[:, free] = solved.reshape(len(free), len(values), 3).transpose(1, 0, 2)
    return out


def _fields(own: Array, corners: Array, breaths: Array) -> Array:
    """(fields, vertices, 3): the displacement of every vertex at the full amount of each field."""
    out = np.zeros((len(FIELDS), len(own), 3))
    # Expressions end before the outer rings, which need no solving then.
    near = POINTS + 6 * len(OVAL)
    inside = corners[(corners < near).all(1)]
    far = range(POINTS + 4 * len(OVAL), near)
    eyes = [i for rings in (RIGHT_EYE_RINGS, LEFT_EYE_RINGS) for ring in rings for i in ring]
    upper_oval = [i for i in OVAL if own[i, 1] < own[13, 1] - 0.12]
    lips = [*LIPS_OUTER, *LIPS_INNER, *LIPS_BETWEEN[0], *LIPS_BETWEEN[1]]
    for given, fixed in (
        (_mouth_fields(own), _unique(lips, _CHIN, _NOSE, _CHEEKS, eyes, upper_oval, far)),
        (_brow_fields(own), _unique(RIGHT_BROW, LEFT_BROW, eyes, _FOREHEAD, _NOSE[:8], lips, OVAL, far)),
    ):
        which = [FIELDS.index(name) for name in given]
        out[which, :near] = _spread(own[:near], inside, fixed, np.stack(list(given.values()))[:, :near])
    for name, rings in (("right_lid", RIGHT_EYE_RINGS), ("left_lid", LEFT_EYE_RINGS)):
        out[FIELDS.index(name)] = _lids(own, rings)
    out[FIELDS.index("breath"), POINTS:, 1] = -0.012 * breaths
    return out


def _mouth_fields(own: Array) -> dict[str, Array]:
    """Displacements (vertices, 3) of lips and chin; the rest of each is zero."""
    chin = list(_CHIN)
    names = ("jaw", "press", "smile", "pucker", "lip")
    jaw, press, smile, pucker, lip = (np.zeros_like(own) for _ in names)
    hinge = own[[234, 454]].mean(0)
    dropped = _JAW_ANGLE * np.stack(
        [np.zeros(len(own)), hinge[2] - own[:, 2] + 0.02, 0.8 * (own[:, 1] - hinge[1])], 1
    )
    jaw[list(chin)] = dropped[list(chin)]
    centre = own[[61, 291]].mean(0)
    half = np.abs(own[291, 0] - own[61, 0]) / 2
    upper_inner, lower_inner = columns(LIPS_INNER)
    gap = own[lower_inner, :2] - own[upper_inner, :2]
    for order, ring in enumerate((LIPS_INNER, *LIPS_BETWEEN[::-1], LIPS_OUTER)):
        upper, lower = columns(ring)
        out = order / 3  # 0 at the inner border, 1 at the outer
        middle = np.sin(np.pi * np.linspace(0, 1, len(upper))) ** 0.7
        jaw[lower] = dropped[lower] * (0.34 + 0.66 * middle)[:, None]
        jaw[upper[1:-1]] = (
            dropped[upper[1:-1]] * (0.34 * (1 - middle[1:-1]) ** 2 - 0.04 * middle[1:-1])[:, None]
        )
        jaw[[upper[0], upper[-1]], 0] = (0.012, -0.012)
        press[lower, :2] = -0.52 * gap * (1 - 0.35 * out)
        press[upper, :2] = 0.48 * gap * (1 - 0.7 * out)
        side = np.clip((own[ring, 0] - centre[0]) / half, -1, 1)
        smile[ring, 0] = 0.03 * side * np.abs(side)
        smile[ring, 1] = 0.006 - 0.034 * np.abs(side) ** 1.5
        smile[ring, 2] = 0.03 * np.abs(side)
        pucker[ring, 0] = -0.3 * (own[ring, 0] - centre[0])
        pucker[ring, 1] = 0.12 * (own[ring, 1] - centre[1]) * out
        pucker[ring, 2] = -0.03
        lip[upper, 1] = -0.022 * middle * (1 - 0.2 * out)
        lip[lower, 1] = 0.008 * middle
    smile[list(_CHEEKS), 1] = -0.012  # Cheeks go up under the eyes.
    press[list(chin), 1] = -0.2 * gap[5, 1]
    return dict(zip(names, (jaw, press, smile, pucker, lip), strict=True))


def _brow_fields(own: Array) -> dict[str, Array]:
    """Displacements (vertices, 3) of the brows and the skin right below; the rest of each is zero."""
    up, knit = np.zeros_like(own), np.zeros_like(own)
    for brow, side in ((RIGHT_BROW, 1.0), (LEFT_BROW, -1.0)):
        up[list(brow), 1] = -0.04
        inward = 1 - np.clip(np.abs(own[list(brow), 0] - own[168, 0]) / 0.3, 0, 1)
        knit[list(brow), 0] = side * 0.022 * inward
        knit[list(brow), 1] = 0.016 * inward
    for rings in (RIGHT_EYE_RINGS, LEFT_EYE_RINGS):
        up[list(rings[2][9:]), 1] = -0.014
    return {"brow": up, "frown": knit}


def _lids(own: Array, rings: Sequence[Sequence[int]]) -> Array:
    """(vertices, 3): the upper lid comes down to meet the lower one, drawing the skin above along."""
    out = np.zeros_like(own)
    upper, lower = columns(rings[0])
    gap = own[lower] - own[upper]
    out[upper], out[lower] = 0.86 * gap, -0.14 * gap
    for ring, down, up in ((rings[1], 0.55, 0.1), (rings[2], 0.12, 0.04)):
        above, below = columns(ring)
        out[above[1:-1]], out[below[1:-1]] = down * gap[1:-1], -up * gap[1:-1]
    return out


def _lash_edges(rings: Sequence[Sequence[int]], corners: Array) -> tuple[Array, Array]:
    """The edges between an upper lid's border and the ring around it: their ends on the border, and above."""
    edges = np.unique(corners[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=0)
    wanted = np.isin(edges[:, 0], rings[0][9:]) & np.isin(edges[:, 1], rings[1][8:])
    return edges[wanted, 0], edges[wanted, 1]


def columns(ring: Sequence[int]) -> tuple[list[int], list[int]]:
    """The vertices of the upper and the lower border of an eye or mouth, column by column; both hold the corners.

    Args:
        ring: Corner, lower border, corner, upper border from the first corner on.
    """
    half = len(ring) // 2
    return [ring[0], *ring[half + 1 :], ring[half]], list(ring[: half + 1])


def _unique(*groups: Iterable[int]) -> Array:
    return np.array(sorted({i for group in groups for i in group}))
