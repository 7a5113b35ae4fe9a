"""Every figure as a function of landmarks and pictures; no networks here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import cv2
import numpy as np

from engines.analysis.topology import LEFT_IRIS, OVAL, POINTS, RIGHT_IRIS, canonical
from engines.faces import Array, Floats, Image

FACE_WIDTH: Final = 430
"""Stillness is told for a face of this many pixels: a head and shoulders at 1080p."""

_OUTER_EYES: Final = (33, 263)
_EYES: Final = (
    (33, 133, RIGHT_IRIS[0], ((160, 144), (159, 145), (158, 153))),
    (263, 362, LEFT_IRIS[0], ((387, 373), (386, 374), (385, 380))),
)
"""Of each eye: outer corner, inner corner, centre of the iris, and pairs of upper and lower lid."""
_MARGIN: Final = 0.25
_SHUT: Final = 0.6
_LEAST_CHANGE: Final = 1e-6
_FOLLOWS: Final = 0.4
_BAND: Final = 0.03
_ACROSS: Final = 13
_ALONG: Final = 8


def aligned(points: Floats) -> Array:
    """Takes pose, place and size out of a mesh: the best similarity onto the canonical face.

    Args:
        points: (468 or more, 3) landmarks, any unit.

    Returns:
        (468, 3) float64 around its own centre, in units of the canonical mesh.
    """
    mesh = points[:POINTS].astype(np.float64)
    target = canonical().astype(np.float64)
    mesh, target = mesh - mesh.mean(0), target - target.mean(0)
    u, s, vt = np.linalg.svd(mesh.T @ target)
    signs = np.array([1.0, 1.0, np.sign(np.linalg.det(u @ vt))])
    scale = float((s * signs).sum() / (mesh * mesh).sum())
    return np.asarray(scale * mesh @ (u * signs @ vt))


def expression_error(live: Sequence[Floats], output: Sequence[Floats]) -> float:
    """How far the output's expression is from the live one.

    Each mesh is aligned to the canonical one and compared with the median of its own clip, so that another shape of
    face is no error and only what moves counts.

    Args:
        live: (468, 3) landmarks of the live face in each frame.
        output: The same of the output.

    Returns:
        Mean difference over points and frames, in distances between the outer corners of the eyes.
    """
    moved = []
    for meshes in (live, output):
        flat = np.stack([aligned(mesh)[:, :2] for mesh in meshes])
        moved.append(flat - np.median(flat, 0))
    right, left = canonical()[list(_OUTER_EYES), :2].astype(np.float64)
    return float(np.abs(moved[1] - moved[0]).mean() / np.linalg.norm(right - left))


def untouched(live: Image, output: Image, points: Floats) -> int:
    """The largest difference of any pixel outside the face's box, widened by a quarter on each side.

    Args:
        live: The frame before.
        output: The frame after.
        points: Landmarks of the live face.
    """
    height, width = live.shape[:2]
    low, high = points[:POINTS, :2].min(0), points[:POINTS, :2].max(0)
    reach = _MARGIN * (high - low)
    x0, y0 = np.clip((low - reach).astype(int), 0, (width, height))
    x1, y1 = np.clip((high + reach).astype(int), 0, (width, height))
    outside = (np.s_[:y0], np.s_[y1:], np.s_[y0:y1, :x0], np.s_[y0:y1, x1:])
    differences = [cv2.absdiff(live[part], output[part]).max() for part in outside if live[part].size]
    return int(max(differences, default=0))


def gaze(points: Floats) -> Array:
    """Where each iris is between the corners of its eye.

    Args:
        points: (478, 2 or 3) landmarks.

    Returns:
        (2, 2) float64: for the right and the left eye, how far along the line from the outer to the inner corner
        and how far off it, in widths of the eye.
    """
    flat = points[:, :2].astype(np.float64)
    found = []
    for outer, inner, iris, _ in _EYES:
        axis = flat[inner] - flat[outer]
        seen = flat[iris] - flat[outer]
        found.append(np.array([seen @ axis, axis[0] * seen[1] - axis[1] * seen[0]]) / max(axis @ axis, 1e-9))
    return np.stack(found)


def opening(points: Floats) -> float:
    """How far the lids are apart: the mean of both eyes, in widths of the eye.

    Args:
        points: (478, 2 or 3) landmarks.
    """
    flat = points[:, :2].astype(np.float64)

    def apart(a: int, b: int) -> float:
        return float(np.linalg.norm(flat[a] - flat[b]))

    ratios = [
        np.mean([apart(upper, lower) for upper, lower in lids]) / max(apart(outer, inner), 1e-9)
        for outer, inner, _, lids in _EYES
    ]
    return float(np.mean(ratios))


@dataclass(frozen=True, slots=True)
class Shift:
    """How one series follows another.

    Attributes:
        lag: Frames by which it is late; None where it does not follow.
        correlation: Pearson's, once moved by that much; None where one of the two does not move.
        together: Pearson's as they are.
    """

    lag: float | None
    correlation: float | None
    together: float | None


def shift(series: Sequence[float] | Array, reference: Sequence[float] | Array, most: int = 8) -> Shift:
    """How many frames a series is behind its reference, to a fraction of one.

    Args:
        series: One number a frame.
        reference: As many; NaN in either is a frame that was not seen.
        most: The largest lag looked for, frames, either way.
    """
    a, b = np.asarray(series, np.float64), np.asarray(reference, np.float64)
    most = min(most, a.size // 2)
    lags = range(-most, most + 1)
    found = np.array(
        [_pearson(a[max(k, 0) : len(a) + min(k, 0)], b[max(-k, 0) : len(b) + min(-k, 0)]) for k in lags]
    )
    if np.isnan(found[most]) or np.isnan(found).all():
        return Shift(None, None, None)
    peak = int(np.nanargmax(found))
    lag, height = float(lags[peak]), float(found[peak])
    if height < _FOLLOWS:
        return Shift(None, height, float(found[most]))
    if 0 < peak < len(lags) - 1 and np.isfinite(found[peak - 1 : peak + 2]).all():
        before, here, after = found[peak - 1 : peak + 2]
        bend = before - 2 * here + after
        lag += float(0.5 * (before - after) / bend) if bend < 0 else 0.0
    return Shift(lag, height, float(found[most]))


def _pearson(a: Array, b: Array) -> float:
    seen = np.isfinite(a) & np.isfinite(b)
    if seen.sum() < 4:
        return float("nan")
    a, b = a[seen] - a[seen].mean(), b[seen] - b[seen].mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if min(a.std(), b.std()) > _LEAST_CHANGE else float("nan")


def shut(openings: Sequence[float] | Array) -> Array:
    """(N,) bool: in which frames the eyes are shut, that is less open than 60 % of what is usual for them."""
    values = np.asarray(openings, np.float64)
    return np.nan_to_num(values, nan=np.inf) < _SHUT * np.nanmedian(values)


def blinks(live: Sequence[float], output: Sequence[float]) -> tuple[int, int]:
    """How many blinks the live face made, and in how many of them the output's eyes were shut in a same frame.

    Args:
        live: Opening of the live lids in each frame; NaN where not seen.
        output: The same of the output.
    """
    if not np.isfinite(live).any() or not np.isfinite(output).any():
        return 0, 0
    before, after = shut(live), shut(output)
    edges = np.diff(np.concatenate([[0], before.astype(np.int8), [0]]))
    runs = list(zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1), strict=True))
    return len(runs), sum(bool(after[start:end].any()) for start, end in runs)


def tremble(meshes: Sequence[Array], width: float) -> float:
    """How much a mesh trembles that should stand still.

    Args:
        meshes: (N, 2) vertices of each frame, pixels.
        width: Width of the face, pixels.

    Returns:
        How far a vertex is from its mean place, root mean square over frames, mean over vertices; pixels of a face
        430 px wide.
    """
    stack = np.stack(meshes).astype(np.float64)
    away = ((stack - stack.mean(0)) ** 2).sum(2).mean(0)
    return float(np.sqrt(away).mean() * FACE_WIDTH / width)


def edge(image: Image, points: Floats) -> float:
    """Mean gradient across the oval of the face, in a band of 3 % of the face's width on either side.

    Args:
        image: BGR.
        points: Landmarks of the live face.

    Returns:
        Levels a pixel, mean of the three colours. The output's over the live picture's says whether a seam shows.
    """
    oval = points[list(OVAL), :2].astype(np.float64)
    following = np.roll(oval, -1, 0)
    t = (np.arange(_ALONG) + 0.5)[:, None, None] / _ALONG
    base = (oval + t * (following - oval)).reshape(-1, 2)
    along = np.broadcast_to(following - oval, (_ALONG, *oval.shape)).reshape(-1, 2)
    normal = (
        np.stack([along[:, 1], -along[:, 0]], 1) / np.maximum(np.linalg.norm(along, axis=1), 1e-9)[:, None]
    )
    reach = _BAND * float(np.ptp(points[:POINTS, 0]))
    steps = np.linspace(-reach, reach, _ACROSS)
    where = (base[:, None] + steps[None, :, None] * normal[:, None]).astype(np.float32)
    height, width = image.shape[:2]
    inside = ((where >= 0) & (where <= (width - 1, height - 1))).all((1, 2))
    if not inside.any():
        return 0.0
    kept = where[inside]
    profile = cv2.remap(
        image, kept[:, :, 0], kept[:, :, 1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    )
    return float(np.abs(np.diff(profile.astype(np.float64), axis=1)).mean() / (steps[1] - steps[0]))
