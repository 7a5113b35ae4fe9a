"""What bends a portrait's mesh: for each thing a face does, how far every vertex goes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
)
from engines.faces import Array
from engines.portrait.surface import Plate

FIELDS: Final = (
    "jaw", "press", "smile", "pucker", "lip", "brow", "frown", "right_lid", "left_lid", "breath",
)  # fmt: skip
"""What of a :class:`HeadState` bends the mesh; each has one displacement per vertex."""

_JAW_ANGLE: Final = 0.3
CHIN: Final = (152, 148, 377, 176, 400, 175, 171, 396, 199, 208, 428, 200)
_NOSE: Final = (1, 2, 4, 5, 6, 195, 197, 168, 98, 327, 97, 326, 48, 278, 49, 279, 129, 358)
_CHEEKS: Final = (50, 280, 101, 330, 36, 266)
_FOREHEAD: Final = (10, 338, 297, 332, 284, 251, 21, 54, 103, 67, 109, 162, 389)

_LIPS: Final = (*LIPS_OUTER, *LIPS_INNER, *LIPS_BETWEEN[0], *LIPS_BETWEEN[1])
_EYES: Final = tuple(i for rings in (RIGHT_EYE_RINGS, LEFT_EYE_RINGS) for ring in rings for i in ring)

CONTROLS: Final = tuple(sorted({*_LIPS, *CHIN, *_CHEEKS, *_NOSE, *RIGHT_BROW, *LEFT_BROW} - {*_EYES}))
"""Vertices that can be pulled one by one; the rest of the face goes along."""


def pulls_of(own: Array, corners: Array) -> Array:
    """(vertices, controls) float64: how far a vertex goes with each of :data:`CONTROLS`."""
    near, inside, far, upper_oval = _near(own, corners)
    still = sorted({*_EYES, *_FOREHEAD, *upper_oval, *far} - {*CONTROLS})
    fixed = np.array([*CONTROLS, *still])
    plate = Plate(own[:near], inside, fixed)
    out = np.zeros((len(own), len(CONTROLS)))
    out[plate.free] = plate.matrix[:, : len(CONTROLS)]
    out[list(CONTROLS), np.arange(len(CONTROLS))] = 1
    return out


def _near(own: Array, corners: Array) -> tuple[int, Array, range, list[int]]:
    """How many vertices expressions reach, their triangles, the outermost of them, and the upper part of the oval."""
    # Expressions end before the outer rings, which need no solving then.
    near = POINTS + 6 * len(OVAL)
    inside = corners[(corners < near).all(1)]
    far = range(POINTS + 4 * len(OVAL), near)
    return near, inside, far, [i for i in OVAL if own[i, 1] < own[13, 1] - 0.12]


def fields_of(own: Array, corners: Array, breaths: Array) -> Array:
    """(fields, vertices, 3): the displacement of every vertex at the full amount of each field."""
    out = np.zeros((len(FIELDS), len(own), 3))
    near, inside, far, upper_oval = _near(own, corners)
    for given, fixed in (
        (_mouth_fields(own), _unique(_LIPS, CHIN, _NOSE, _CHEEKS, _EYES, upper_oval, far)),
        (_brow_fields(own), _unique(RIGHT_BROW, LEFT_BROW, _EYES, _FOREHEAD, _NOSE[:8], _LIPS, OVAL, far)),
    ):
        which = [FIELDS.index(name) for name in given]
        values = np.stack(list(given.values()))[:, :near]
        out[which, :near] = Plate(own[:near], inside, fixed).spread(values)
    for name, rings in (("right_lid", RIGHT_EYE_RINGS), ("left_lid", LEFT_EYE_RINGS)):
        out[FIELDS.index(name)] = _lids(own, rings)
    out[FIELDS.index("breath"), POINTS:, 1] = -0.012 * breaths
    return out


def _mouth_fields(own: Array) -> dict[str, Array]:
    """Displacements (vertices, 3) of lips and chin; the rest of each is zero."""
    chin = list(CHIN)
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
    (near, far), (under, deep) = zip(*(columns(ring) for ring in rings[1:]), strict=True)
    for outer, inner, parts in ((far, near, (0.12, 0.55)), (deep, under, (-0.04, -0.1))):
        room = np.linalg.norm(own[outer] - own[inner], axis=1)
        # Skin is drawn out to twice its length at most: what is drawn close above a large eye is a brow.
        for ring, part, most in ((outer, parts[0], 0.5 * room), (inner, parts[1], room)):
            long = np.maximum(np.linalg.norm(part * gap, axis=1), 1e-9)
            out[ring[1:-1]] = (part * gap * np.minimum(1, most / long)[:, None])[1:-1]
    return out


def lash_edges(rings: Sequence[Sequence[int]], corners: Array) -> tuple[Array, Array]:
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
