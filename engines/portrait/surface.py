"""The surface that a portrait's face goes over into: rings around it, finer lids, and how a pull at it spreads."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from engines.analysis.topology import LIPS_INNER, OVAL, POINTS
from engines.faces import Array

RINGS: Final = np.array([0.06, 0.13, 0.22, 0.34, 0.47, 0.59, 0.71, 0.84])
"""How far the rings lie from the oval, widths of the face."""

REACH: Final = float(RINGS[-1])


def step(x: Array, low: float, high: float) -> Array:
    """0 up to low, 1 from high on, smooth between."""
    t = np.clip((x - low) / (high - low), 0, 1)
    return np.asarray(t * t * (3 - 2 * t))


def rings(own: Array) -> tuple[Array, Array, Array]:
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
    down = step(out[:, 1], 0.25, 0.8)
    for distance in RINGS:
        row = oval + out * distance
        row[:, 2] = oval[:, 2] * (1 - step(np.array(distance), 0.0, 0.3))
        held = 1 - step(np.array(distance), 0.36, REACH)
        # A neck bends where hair does not: below the chin the motion fades at once.
        bent = 1 - step(np.array(distance), -0.1, 0.85)
        rows.append(row)
        weights.append(held * (1 - down) + bent * down)
        breaths.append(
            down * step(np.array(distance), 0.05, 0.5) * (1 - step(np.array(distance), 0.5, REACH))
        )
    return np.concatenate(rows), np.concatenate(weights), np.concatenate(breaths)


def ring_triangles(count: int) -> Array:
    """(T, 3) int32: the triangles between the oval and so many rings around it."""
    n = len(OVAL)
    loops = [list(OVAL)] + [[POINTS + r * n + i for i in range(n)] for r in range(count)]
    found = []
    for inner, outer in pairwise(loops):
        for i in range(n):
            j = (i + 1) % n
            found += [(inner[i], outer[i], outer[j]), (inner[i], outer[j], inner[j])]
    return np.array(found, np.int32)


def clockwise(points: Array, corners: Array) -> Array:
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


def split(corners: Array, marked: Array, start: int) -> tuple[Array, Array]:
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


class Plate:
    """How displacements spread over a mesh: given at some vertices, as smooth as a thin plate in between.

    The mouth is no connection: what the lower lip does reaches the upper one around the corners only.

    Args:
        points: (N, 3) vertices.
        corners: (T, 3) triangles.
        fixed: (F,) the vertices at which the displacements are given.

    Attributes:
        free: The other ones, (N − F,).
        matrix: (N − F, F) float64: a free vertex's displacement as a sum of the given ones.
    """

    def __init__(self, points: Array, corners: Array, fixed: Array) -> None:
        inner = np.isin(corners, LIPS_INNER).all(1)
        a, b = np.unique(np.sort(corners[~inner][:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1), axis=0).T
        stiff = 1 / np.maximum(np.linalg.norm(points[a] - points[b], axis=1), 0.01)
        laplace = np.zeros((len(points), len(points)))
        laplace[a, b] = laplace[b, a] = -stiff
        laplace[np.diag_indices(len(points))] = -laplace.sum(1)
        laplace /= laplace.diagonal()[:, None]
        # A little membrane in the plate keeps it from swinging over.
        energy = laplace.T @ laplace + 0.05 * (laplace + laplace.T) / 2
        self._fixed = fixed
        self.free = np.setdiff1d(np.arange(len(points)), fixed)
        self.matrix = np.linalg.solve(energy[self.free][:, self.free], -energy[self.free][:, fixed])

    def spread(self, values: Array) -> Array:
        """Fills in the other vertices.

        Args:
            values: (K, N, 3): K displacements.

        Returns:
            (K, N, 3).
        """
        out = values.copy()
        out[:, self.free] = np.einsum("nf,kfc->knc", self.matrix, values[:, self._fixed])
        return out
