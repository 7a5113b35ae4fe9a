"""Landmarks of a face that no network finds: a cartoon, a mascot, an animal. Somebody has marked a few points of it.

The marks lie in a TOML file beside the picture, ``mascot.points.toml`` beside ``mascot.png``. The canonical face is
bent to go through them: as a thin plate would (F. L. Bookstein, 1989), so that what lies between them follows smoothly.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from engines.analysis.topology import (
    LEFT_EYE_RINGS,
    LIPS_INNER,
    OVAL,
    REFINED_POINTS,
    RIGHT_EYE_RINGS,
    canonical,
    triangles,
)
from engines.errors import PhotoError
from engines.faces import Array, Floats
from engines.files import open_regular, quoted

SUFFIX: Final = ".points.toml"

MARKS: Final[Mapping[str, Mapping[str, int]]] = {
    "right_eye": {"outer": 33, "top": 159, "inner": 133, "bottom": 145},
    "left_eye": {"outer": 263, "top": 386, "inner": 362, "bottom": 374},
    "right_brow": {"outer": 70, "middle": 105, "inner": 107},
    "left_brow": {"outer": 300, "middle": 334, "inner": 336},
    "mouth": {"right": 61, "top": 0, "left": 291, "bottom": 17},
    "outline": {"right": 234, "forehead": 10, "left": 454, "chin": 152},
}
"""Which landmark each mark is. "Right" is the right of whoever is shown: the left of the picture."""

_MORE: Final[Mapping[str, Mapping[str, int]]] = {
    "nose": {"tip": 1},
    "mouth": {"open_top": 13, "open_bottom": 14},
    "outline": {"right_jaw": 172, "left_jaw": 397, "right_temple": 54, "left_temple": 284},
}
"""Marks that there may be besides."""

EXAMPLE: Final = """\
# Pixels from the left and from the top, as a picture editor shows them.
# "right" is the right of whoever is shown: the left of the picture.
right_eye  = { outer = [180, 240], top = [215, 215], inner = [250, 240], bottom = [215, 262] }
left_eye   = { outer = [420, 240], top = [385, 215], inner = [350, 240], bottom = [385, 262] }
right_brow = { outer = [165, 190], middle = [210, 165], inner = [255, 185] }
left_brow  = { outer = [435, 190], middle = [390, 165], inner = [345, 185] }
mouth      = { right = [230, 385], top = [300, 370], left = [370, 385], bottom = [300, 420] }
outline    = { right = [110, 270], forehead = [300, 90], left = [490, 270], chin = [300, 500] }
"""
"""A whole file. Besides: nose.tip; mouth.open_top and mouth.open_bottom of a mouth that is drawn open; right_jaw,
left_jaw, right_temple and left_temple of the outline."""

_LARGEST: Final = 65536
"""Bytes of a file of marks."""
_OUTSIDE: Final = 0.25
"""How far beyond the picture, in its sides, a mark may lie."""
_NARROWEST: Final = 32.0
"""Width of a marked face, pixels."""
_CREASED: Final = 0.01
"""Part of the face from which on folds are smoothed out: large eyes push their surroundings over the edge."""
_FOLDED: Final = 0.3
"""Part of the face that may be left inside out: it shows as a crease beside a very large eye, and as nothing worse."""


def marks_of(picture: Path) -> Path | None:
    """The file of marks beside a picture; None where there is none."""
    path = picture.with_name(picture.stem + SUFFIX)
    return path if path.exists() else None


def read_marks(path: Path, size: tuple[int, int]) -> Floats:
    """Reads marks and fits the canonical face to them.

    Args:
        path: The file of marks.
        size: Width and height of the picture, pixels.

    Returns:
        (478, 3) float32 landmarks, pixels of the picture.

    Raises:
        PhotoError: The file cannot be read, or a mark is missing or impossible. The sentence names it.
    """
    with open_regular(path, "a file of marked points", PhotoError) as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise PhotoError(f"{quoted(path)} is too long for a file of marked points.", _example())
    try:
        table = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as reason:
        raise PhotoError(f"{quoted(path)} is no TOML: {_plain(str(reason))}.", _example()) from None
    which, marks = [], []
    for group, names in MARKS.items():
        known = {**names, **_MORE.get(group, {})}
        for name, landmark in known.items():
            value = _value(path, table, group, name, needed=name in names)
            if value is not None:
                which.append(landmark)
                marks.append(_point(path, f"{group}.{name}", value, size))
    for group, names in _MORE.items():
        if group not in MARKS and group in table:
            for name, landmark in names.items():
                which.append(landmark)
                marks.append(_point(path, f"{group}.{name}", _value(path, table, group, name, True), size))
    _refuse_strangers(path, table)
    placed = np.array(marks)
    _check(path, dict(zip(which, placed, strict=True)))
    return _fit(path, np.array(which), placed)


def _example() -> str:
    return "A whole file of marked points:\n" + EXAMPLE


def _value(path: Path, table: Mapping[str, Any], group: str, name: str, needed: bool) -> Any:
    marks = table.get(group, {})
    if not isinstance(marks, dict):
        raise PhotoError(f"{group} in {quoted(path)} is no table of points.", _example())
    if needed and name not in marks:
        raise PhotoError(f"{quoted(path)} lacks the point {group}.{name}.", _example())
    return marks.get(name)


def _refuse_strangers(path: Path, table: Mapping[str, Any]) -> None:
    for group, marks in table.items():
        known = {**MARKS.get(group, {}), **_MORE.get(group, {})}
        stranger = next((f"{group}.{name}" for name in marks if name not in known), "") if known else group
        if stranger:
            # A typing error in the name of a point that may be left out would go unseen.
            raise PhotoError(
                f"{quoted(path)} names a point that there is none of: {_plain(stranger)}.", _example()
            )


def _point(path: Path, name: str, value: Any, size: tuple[int, int]) -> Array:
    numbers = isinstance(value, list) and len(value) == 2
    if not numbers or any(isinstance(v, bool) or not isinstance(v, int | float) for v in value):
        raise PhotoError(f"{name} in {quoted(path)} must be two numbers: [x, y].", _example())
    for v, side, way in zip(value, size, ("wide", "tall"), strict=True):
        if not math.isfinite(v) or not -_OUTSIDE * side <= v <= (1 + _OUTSIDE) * side:
            raise PhotoError(
                f"{name} in {quoted(path)} is outside of the picture, which is {side} pixels {way}.",
                "Read its place off in a picture editor, in pixels from the left and from the top.",
            )
    return np.array(value, np.float64)


def _check(path: Path, at: Mapping[int, Array]) -> None:
    """Refuses marks that cannot be a face's: mostly left and right mistaken for each other."""
    if float(np.linalg.norm(at[454] - at[234])) < _NARROWEST:
        raise PhotoError(
            f"The face marked in {quoted(path)} is less than {_NARROWEST:.0f} pixels wide.",
            "Mark a larger one, or make the picture larger.",
        )
    across, down = at[454] - at[234], at[152] - at[10]
    if across[0] * down[1] - across[1] * down[0] <= 0 or across[0] <= 0:
        raise PhotoError(
            f"The outline in {quoted(path)} is the wrong way round.",
            "Its right is the right of whoever is shown: the left of the picture. The forehead is above the chin.",
        )
    for eye, (outer, inner) in {"right_eye": (33, 133), "left_eye": (362, 263)}.items():
        if (at[inner] - at[outer]) @ across <= 0:
            raise PhotoError(
                f"The {eye} in {quoted(path)} has its corners the wrong way round.",
                "Its inner corner is the one near the nose.",
            )
    if (at[291] - at[61]) @ across <= 0:
        raise PhotoError(
            f"The mouth in {quoted(path)} is the wrong way round.",
            "Its right is the left of the picture.",
        )


def _fit(path: Path, which: Array, marks: Array) -> Floats:
    """(478, 3) float32: the canonical face, bent to go through marks."""
    face = canonical().astype(np.float64)
    held, moved = _with_round_eyes(*_with_lips_and_nose(which, marks))
    source = face[held, :2]
    try:
        plate = np.linalg.solve(*_equations(source, moved))
    except np.linalg.LinAlgError:
        raise PhotoError(f"The points in {quoted(path)} fit no face.", _example()) from None
    basis = np.concatenate([_bend(face[:, None, :2] - source[None]), np.ones((len(face), 1)), face[:, :2]], 1)
    placed = basis @ plate
    scale = float(np.linalg.norm(marks[list(which).index(454)] - marks[list(which).index(234)]))
    points = np.empty((REFINED_POINTS, 3), np.float32)
    points[: len(face), :2] = placed
    if _folded(points) > _CREASED:
        _relax(points, held)
    points[: len(face), 2] = face[:, 2] * (scale / float(np.ptp(face[:, 0])))
    _add_irises(points)
    if not np.isfinite(points).all() or _folded(points) > _FOLDED:
        raise PhotoError(
            f"The points in {quoted(path)} fit no face: it would be folded over.",
            "See whether two of them are exchanged; 'right' is the left of the picture.",
        )
    return points


def _with_lips_and_nose(which: Array, marks: Array) -> tuple[Array, Array]:
    """Marks, and those that may be left out: the inner border of shut lips, and the nose."""
    at = dict(zip(which.tolist(), marks, strict=True))
    if 13 not in at and 14 not in at:
        # Two landmarks on one place would bend the plate without end, so they are a hair apart, as lips are.
        middle, hair = (at[0] + at[17]) / 2, (at[17] - at[0]) * 0.02
        at |= {13: middle - hair, 14: middle + hair}
    elif 13 not in at or 14 not in at:
        other = at[13] if 13 in at else at[14]
        at.setdefault(13, (at[0] + other) / 2)
        at.setdefault(14, (at[17] + other) / 2)
    if 1 not in at:
        # Tip and root of a nose, where it is in people between eyes and mouth: large eyes would push it into the lips.
        eyes, mouth = (at[133] + at[362]) / 2, at[0]
        high, low = float(canonical()[[133, 362], 1].mean()), float(canonical()[0, 1])
        for landmark in (1, 2):
            at[landmark] = eyes + (mouth - eyes) * (float(canonical()[landmark, 1]) - high) / (low - high)
    return np.array(list(at)), np.array(list(at.values()))


def _with_round_eyes(which: Array, marks: Array) -> tuple[Array, Array]:
    """Marks, and the rest of both eyes' borders: an arc each above and below, as most eyes are drawn."""
    at = dict(zip(which.tolist(), marks, strict=True))
    for ring, top, bottom in ((RIGHT_EYE_RINGS[0], 159, 145), (LEFT_EYE_RINGS[0], 386, 374)):
        first, last = at[ring[0]], at[ring[8]]
        start, end = canonical()[ring[0], 0], canonical()[ring[8], 0]
        middle = (first + last) / 2
        for i in (*range(1, 8), *range(9, 16)):
            summit = at[bottom] if i < 8 else at[top]
            t = 2 * float((canonical()[ring[i], 0] - start) / (end - start)) - 1
            at.setdefault(
                ring[i], middle + t * (last - first) / 2 + math.sqrt(max(1 - t * t, 0)) * (summit - middle)
            )
    return np.array(list(at)), np.array(list(at.values()))


def _bend(offsets: Array) -> Array:
    """The thin plate's r² log r, of offsets (…, 2)."""
    square = np.einsum("...d,...d->...", offsets, offsets)
    return np.asarray(0.5 * square * np.log(np.maximum(square, 1e-12)))


def _equations(source: Array, moved: Array) -> tuple[Array, Array]:
    n = len(source)
    left, right = np.zeros((n + 3, n + 3)), np.zeros((n + 3, 2))
    # A plate a little softer than the marks are exact: a hand marks to a pixel or two.
    left[:n, :n] = _bend(source[:, None] - source[None]) + 0.05 * np.eye(n)
    left[:n, n], left[:n, n + 1 :] = 1, source
    left[n:, :n] = left[:n, n:].T
    right[:n] = moved
    return left, right


def _relax(points: Floats, held: Array) -> None:
    """Puts every vertex that is not marked into the middle of its neighbours, in place: a plate swings over between
    an eye and a brow or a mouth that are drawn close together, a stretched net does not (W. T. Tutte, 1963)."""
    face, corners = canonical().astype(np.float64), triangles()
    # A net would be drawn tight across the round of an eye: what lies around it stays where the plate has it.
    rings = {v for eye in (RIGHT_EYE_RINGS, LEFT_EYE_RINGS) for ring in eye for v in ring}
    fixed = np.array(sorted({*held.tolist(), *OVAL, *rings}))
    free = np.setdiff1d(np.arange(len(face)), fixed)
    a, b = np.unique(np.sort(corners[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1), axis=0).T
    pull = np.zeros((len(face), len(face)))
    pull[a, b] = pull[b, a] = 1 / np.maximum(np.linalg.norm(face[a] - face[b], axis=1), 0.01)
    net = np.diag(pull.sum(1)) - pull
    right = -net[free][:, fixed] @ points[fixed, :2].astype(np.float64)
    points[free, :2] = np.linalg.solve(net[free][:, free], right)


def _add_irises(points: Floats) -> None:
    """An iris in the middle of each eye, as large as it is in people."""
    for start, rings in ((468, RIGHT_EYE_RINGS), (473, LEFT_EYE_RINGS)):
        ring = points[list(rings[0])]
        middle, radius = ring.mean(0), 0.2 * float(np.linalg.norm(ring[8, :2] - ring[0, :2]))
        points[start : start + 5] = middle
        points[start + 1 : start + 5, :2] += radius * np.array([[1, 0], [0, -1], [-1, 0], [0, 1]], np.float32)


def _folded(points: Floats) -> float:
    """Which part of the canonical face's area lies the wrong way round in the picture."""
    corners = triangles()[~np.isin(triangles(), LIPS_INNER).all(1)]

    def areas(xy: Array) -> Array:
        a, b, c = (xy[corners[:, i], :2].astype(np.float64) for i in range(3))
        return np.asarray((b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0])

    right, now = areas(canonical()), areas(points)
    wrong = np.abs(now)[np.sign(now) != np.sign(right)].sum()
    return float(wrong / max(np.abs(now).sum(), 1e-9))


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)[:120]
