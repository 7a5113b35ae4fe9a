"""The same measurement over sizes of frame and face, how many faces there are, and engines: a table, and a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any, Final

import cv2
import numpy as np
from rich.table import Table
from rich.text import Text

from engines.errors import DoppelcamError, UsageError
from engines.faces import Image
from realtime.bench.group import MOST
from realtime.bench.measure import Task
from realtime.bench.result import SCHEMA, Result
from realtime.settings.config import FACE_WIDTHS, SIZES
from realtime.settings.values import read_size
from realtime.show import clean, milliseconds, table

_MOST: Final = 64
"""Cells of one sweep: each takes seconds."""

_ROOM: Final = 1.15
"""Widths of its face that a head needs beside others."""

_PLOT: Final = (960, 600)
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 40, 60, 80
_INK, _RULE, _PAPER = (60, 60, 60), (220, 220, 220), (255, 255, 255)
_COLOURS: Final = (
    (180, 119, 31),
    (14, 127, 255),
    (44, 160, 44),
    (40, 39, 214),
    (189, 103, 148),
    (75, 86, 140),
)
"""Of the lines, BGR."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement of a sweep.

    Attributes:
        size: Width and height asked for, pixels.
        face_width: Pixels.
        result: What was measured; None where that was not possible.
        why: Why not.
        engine: As asked for.
        faces: How many there are in each frame.
    """

    size: tuple[int, int]
    face_width: float
    result: Result | None
    why: str = ""
    engine: str = ""
    faces: int = 1


def read_sizes(text: str) -> list[tuple[int, int]]:
    """Reads ``640x360,1280x720``.

    Raises:
        UsageError: One of them is no size.
    """
    try:
        return [read_size(part.strip()) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(
            f"--sizes must be sizes like {SIZES}, each even and at most 7680x4320, not '{text}'.",
            "See: doppelcam bench --help",
        ) from error


def read_widths(text: str) -> list[float]:
    """Reads ``80,160``.

    Raises:
        UsageError: One of them is no width.
    """
    try:
        widths = [float(part) for part in text.split(",")]
    except ValueError:
        widths = []
    if not widths or not all(24 <= width <= 8192 for width in widths):
        raise UsageError(
            f"--face-widths must be numbers from 24 to 8192 like {FACE_WIDTHS}, not '{text}'.",
            "See: doppelcam bench --help",
        )
    return widths


def read_faces(text: str) -> list[int]:
    """Reads ``1,2,4``.

    Raises:
        UsageError: One of them is no number of faces, or is named twice.
    """
    parts = [part.strip() for part in text.split(",")]
    counts = [int(part) for part in parts if part.isascii() and part.isdecimal() and len(part) < 4]
    if len(counts) < len(parts) or len(set(counts)) < len(counts) or not all(1 <= n <= MOST for n in counts):
        raise UsageError(
            f"--faces must be numbers from 1 to {MOST} like 1,2,4, each once, not '{text}'.",
            "See: doppelcam bench --help",
        )
    return counts


def read_engines(text: str) -> list[str]:
    """Reads ``mesh,inswapper_128``.

    Raises:
        UsageError: One of them has no name, or is named twice.
    """
    engines = [part.strip() for part in text.split(",")]
    if not all(engines) or len(set(engines)) < len(engines):
        raise UsageError(
            f"--engines must be names like mesh,inswapper_128, each once, not '{text}'.",
            "See: doppelcam models list",
        )
    return engines


def sweep(
    task: Task,
    sizes: Sequence[tuple[int, int]],
    widths: Sequence[float],
    measure: Callable[[Task], Result],
    engines: Sequence[str] = (),
    faces: Sequence[int] = (1,),
) -> list[Cell]:
    """Measures every engine with every size, every number of faces and every width of them.

    Args:
        task: What is the same in all of them.
        sizes: Of the frames.
        widths: Of the face, pixels. Wider than a frame is high is left out: no camera sees that.
        measure: Measures one.
        engines: Which; that of the task by default.
        faces: How many of them side by side. What together is wider than the frame is left out.

    Raises:
        UsageError: There are too many.
    """
    engines = engines or (task.config.engine,)
    if len(sizes) * len(widths) * len(engines) * len(faces) > _MOST:
        raise UsageError(
            f"{len(sizes)} sizes, {len(widths)} widths, {len(faces)} numbers of faces and {len(engines)} engines are "
            f"more than {_MOST} measurements.",
            "Name fewer of them.",
        )
    cells = []
    for engine, size, count, width in product(engines, sizes, faces, widths):
        cell = Cell(size, width, None, "", engine, count)
        if width > size[1] or _ROOM * width * count > size[0]:
            why = "wider than the frame is high" if width > size[1] else "together wider than the frame"
            cells.append(replace(cell, why=why))
            continue
        config = replace(task.config, size=size, engine=engine, max_faces=max(task.config.max_faces, count))
        try:
            result = measure(replace(task, config=config, face_width=width, faces=count))
            cells.append(replace(cell, result=result))
        except DoppelcamError as error:
            # A face too small to be found, or an engine that is not there, is an answer too.
            cells.append(replace(cell, why=error.what))
    return cells


def sweep_table(cells: Sequence[Cell]) -> Table:
    """What a sweep found; ms, at p50 unless named."""
    several, crowds = len({cell.engine for cell in cells}) > 1, any(cell.faces > 1 for cell in cells)
    made = table(
        *(["engine"] if several else []),
        "size", *([">faces"] if crowds else []), ">face px",
        ">track", ">swap", ">blend", ">a frame", ">p95", ">age p99", ">fps", ">dropped", title="Sweep, ms",
    )  # fmt: skip
    for cell in cells:
        width, height = cell.size
        what = [
            *([clean(cell.engine)] if several else []), f"{width}×{height}",
            *([f"{cell.faces}"] if crowds else []), f"{cell.face_width:g}",
        ]  # fmt: skip
        if cell.result is None:
            made.add_row(*what, *[Text("–", "dim")] * 8)
            continue
        report = cell.result.report
        made.add_row(
            *what,
            *(milliseconds(report.stages[stage].spread.p50) for stage in ("track", "swap", "blend")),
            milliseconds(report.process.p50),
            milliseconds(report.process.p95),
            milliseconds(report.frame_age.p99),
            f"{report.fps('processed'):.1f}",
            f"{report.counts.get('dropped', 0):,}",
        )
    return made


def sweep_json(cells: Sequence[Cell]) -> dict[str, Any]:
    """The document that ``bench --sweep --json`` prints: each cell as ``bench --json`` would, and why one is empty."""
    return {
        "schema": SCHEMA,
        "sweep": [
            {
                "engine": cell.engine,
                "size": list(cell.size),
                "faces": cell.faces,
                "face_width": cell.face_width,
                "result": cell.result.as_json() if cell.result else None,
                **({"why": cell.why} if cell.why else {}),
            }
            for cell in cells
        ],
    }


def write_plot(path: Path, cells: Sequence[Cell], period_ms: float) -> None:
    """Writes :func:`plot` as a PNG.

    Raises:
        UsageError: The file cannot be written.
    """
    done, data = cv2.imencode(".png", plot(cells, period_ms))
    if not done:
        raise DoppelcamError("The plot could not be packed as PNG.")
    try:
        path.expanduser().write_bytes(data.tobytes())
    except OSError as error:
        raise UsageError(
            f"The plot {path} cannot be written: {error.strerror}.", "Name another file with --plot."
        ) from error


def plot(cells: Sequence[Cell], period_ms: float) -> Image:
    """Time of a frame (p95) over the width of the face, a line for each engine, size and number of faces.

    A broken line is the time there is.

    Args:
        cells: What was measured.
        period_ms: The time there is for a frame.

    Returns:
        H×W×3 uint8 BGR.
    """
    several, crowds = len({cell.engine for cell in cells}) > 1, any(cell.faces > 1 for cell in cells)
    lines: dict[str, list[tuple[float, float]]] = {}
    for cell in cells:
        if cell.result is not None:
            name = f"{cell.size[0]}x{cell.size[1]}" + (f" {cell.engine}" if several else "")
            if crowds:
                name += f", {cell.faces} face{'s' if cell.faces > 1 else ''}"
            lines.setdefault(name, []).append((cell.face_width, cell.result.report.process.p95))
    points = [point for line in lines.values() for point in line]
    right = max([x for x, _ in points], default=1.0) * 1.05
    top = _round_up(max([period_ms, *(y for _, y in points)]) * 1.05)
    sheet = np.full((_PLOT[1], _PLOT[0], 3), _PAPER, np.uint8)

    def at(x: float, y: float) -> tuple[int, int]:
        across, up = _PLOT[0] - _LEFT - _RIGHT, _PLOT[1] - _TOP - _BOTTOM
        return round(_LEFT + x / right * across), round(_PLOT[1] - _BOTTOM - y / top * up)

    for i in range(6):
        y = top * i / 5
        cv2.line(sheet, at(0, y), at(right, y), _RULE, 1)
        _write(sheet, f"{y:g}", at(0, y), to_the_left=True)
    for x in sorted({x for x, _ in points}):
        left, base = at(x, 0)
        cv2.line(sheet, (left, base), (left, base + 6), _INK, 1)
        _write(sheet, f"{x:g}", (left - 4 * len(f"{x:g}"), base + 24))
    _write(sheet, "time of a frame, ms (p95)", (_LEFT, 30))
    _write(sheet, "width of the face, pixels", (_LEFT, _PLOT[1] - 20))
    for x in np.linspace(0, right, 81)[:-1:2]:
        cv2.line(sheet, at(float(x), period_ms), at(float(x + right / 80), period_ms), _INK, 1)
    _write(sheet, f"{period_ms:.1f} ms: one frame's time", at(right * 0.66, period_ms + top * 0.015))
    for number, (name, line) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        for before, after in pairwise(line):
            cv2.line(sheet, at(*before), at(*after), colour, 2, cv2.LINE_AA)
        for point in line:
            cv2.circle(sheet, at(*point), 4, colour, -1, cv2.LINE_AA)
        y = _TOP - 8 + 22 * number
        cv2.line(sheet, (_LEFT + 20, y), (_LEFT + 50, y), colour, 3)
        _write(sheet, name, (_LEFT + 60, y + 5))
    return sheet


def _write(sheet: Image, text: str, place: tuple[int, int], to_the_left: bool = False) -> None:
    if to_the_left:
        place = (place[0] - 9 * len(text) - 8, place[1] + 5)
    cv2.putText(sheet, text, place, cv2.FONT_HERSHEY_SIMPLEX, 0.5, _INK, 1, cv2.LINE_AA)


def _round_up(value: float) -> float:
    """The next of 1, 2, 2.5, 5 times a power of ten."""
    power = 10.0 ** np.floor(np.log10(value))
    return float(next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value - 1e-9))
