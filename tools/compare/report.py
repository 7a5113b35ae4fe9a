"""The figures as tables, as JSON and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from engines.errors import UsageError
from realtime import __version__
from realtime.bench.machine import cpu_name, usable_cores
from realtime.show import table
from tools.compare.measures import Shift
from tools.compare.run import Row, mean_of

SCHEMA: Final = 1
BEGIN, END = "<!-- compare: begin -->", "<!-- compare: end -->"
"""Between these lines of a document the tables go."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        heading: Above it.
        text: A row's figure as it is shown.
        goal: What it should be, in words; empty if there is no such thing.
        reached: Whether a row reaches it.
    """

    heading: str
    text: Callable[[Row], str]
    goal: str = ""
    reached: Callable[[Row], bool] = lambda _: True


def _figure(
    heading: str, name: str, digits: int, least: float | None = None, most: float | None = None
) -> Column:
    def reached(row: Row) -> bool:
        value = getattr(row, name)
        return (least is None or value >= least) and (most is None or value <= most)

    goal = f"≥ {least:g}" if least is not None else f"≤ {most:g}" if most is not None else ""
    return Column(heading, lambda row: _shown(getattr(row, name), digits), goal, reached)


def _stage(heading: str, name: str, which: int, most: float | None = None) -> Column:
    goal = "" if most is None else f"≤ {most:g}"
    return Column(
        heading,
        lambda row: _shown(row.ms[name][which], 1),
        goal,
        lambda row: most is None or row.ms[name][which] <= most,
    )


TABLES: Final = (
    (
        "Likeness and expression",
        (
            Column("frames", lambda row: f"{row.frames:,}"),
            _figure("bare", "bare", 0, most=0),
            _figure("output·photo", "out_photo", 3, least=0.60),
            _figure("output·live", "out_live", 3, most=0.24),
            _figure("live·photo", "live_photo", 3),
            _figure("expression", "expression", 4, most=0.0055),
        ),
    ),
    (
        "Eyes",
        (
            _figure("gaze", "gaze_median", 3, most=0.05),
            _figure("gaze p95", "gaze_p95", 3),
            _figure("lids r", "lids_r", 2),
            _figure("lids lag", "lids_lag", 1),
            Column(
                "blinks",
                lambda row: f"{row.blinks_seen} of {row.blinks}",
                "all",
                lambda row: row.blinks_seen == row.blinks,
            ),
        ),
    ),
    (
        "Stillness, lag and edge",
        (
            _figure("face px", "face", 0),
            _figure("tremble", "tremble", 2, most=0.25),
            _figure("unfiltered", "tremble_raw", 2),
            _figure("lag ms", "lag_ms", 1, most=33.3),
            _figure("unfiltered", "lag_raw_ms", 1),
            _figure("seam", "seam", 2),
            _figure("untouched", "untouched", 0, most=0),
        ),
    ),
    (
        "Time, ms",
        (
            _stage("track", "track", 0),
            _stage("p95", "track", 1),
            _stage("swap", "swap", 0),
            _stage("p95", "swap", 1),
            _stage("blend", "blend", 0),
            _stage("p95", "blend", 1),
            _stage("all", "all", 0, most=10),
            _stage("p95", "all", 1),
        ),
    ),
)


def _shown(value: float, digits: int) -> str:
    if not math.isfinite(value):
        return "–"
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")


def as_tables(rows: Sequence[Row], jaws: Mapping[str, Shift]) -> list[Table | str]:
    """For a terminal, to be printed one after the other; what misses its goal is yellow."""
    parts: list[Table | str] = []
    for title, columns in TABLES:
        made = table("photo", "clip", *(f">{column.heading}" for column in columns), title=title)
        for row in rows:
            made.add_row(row.photo, row.clip, *(_cell(column, row) for column in columns))
        made.add_section()
        if len(rows) > 1:
            mean = mean_of(rows)
            made.add_row("mean", "", *(_cell(column, mean) for column in columns), style="bold")
        if any(column.goal for column in columns):
            made.add_row("goal", "", *(column.goal for column in columns), style="dim")
        parts += [made, ""]
    return [*parts, _jaw_line(jaws)]


def _cell(column: Column, row: Row) -> Text:
    return Text(column.text(row), style="" if column.reached(row) else "yellow")


def _jaw_line(jaws: Mapping[str, Shift]) -> str:
    if not jaws:
        return ""
    told = [
        f"{name} {'–' if found.lag is None else _shown(found.lag, 2)} frames (r {_shown(found.correlation or 0, 2)})"
        for name, found in jaws.items()
    ]
    return "Lips behind the commanded jaw of the animated portrait: " + ", ".join(told) + "."


def machine_line() -> str:
    """What it was measured on."""
    return f"doppelcam {__version__} on {cpu_name()}, {usable_cores()} cores"


def as_markdown(rows: Sequence[Row], jaws: Mapping[str, Shift]) -> str:
    """For a document."""
    lines: list[str] = []
    for title, columns in TABLES:
        lines += [f"### {title}", ""]
        lines.append("| photo | clip | " + " | ".join(column.heading for column in columns) + " |")
        lines.append("|---|---|" + "--:|" * len(columns))
        lines += [
            f"| {row.photo} | {row.clip} | " + " | ".join(column.text(row) for column in columns) + " |"
            for row in rows
        ]
        if len(rows) > 1:
            mean = mean_of(rows)
            lines.append(
                "| **mean** | | " + " | ".join(f"**{column.text(mean)}**" for column in columns) + " |"
            )
        lines += ["| goal | | " + " | ".join(column.goal for column in columns) + " |", ""]
    sizes = sorted({row.size for row in rows})
    told = ", ".join(f"{width}×{height}" for width, height in sizes)
    lines += [_jaw_line(jaws), "", f"Measured with {machine_line()}; frames of {told}."]
    return "\n".join(lines) + "\n"


def place_in(path: Path) -> tuple[str, str]:
    """What stands before and behind the place for the tables in a document.

    Raises:
        UsageError: The document is not there, or has no such place.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"The document {path} cannot be read: {error}.", "Name one that is there."
        ) from error
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise UsageError(f"{path} has no place for the tables.", f"Put the lines {BEGIN} and {END} into it.")
    return before, after


def into_document(path: Path, markdown: str) -> None:
    """Puts the tables into their place in a document.

    Raises:
        UsageError: The document is not there, has no such place, or cannot be written.
    """
    before, after = place_in(path)
    try:
        path.write_text(f"{before}{BEGIN}\n\n{markdown}\n{END}{after}", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from error


def as_json(rows: Sequence[Row], jaws: Mapping[str, Shift], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Every figure, unrounded; null where there was nothing to measure it on."""
    document = {
        "schema": SCHEMA,
        "version": __version__,
        "machine": {"cpu": cpu_name(), "cores": usable_cores()},
        "settings": dict(settings),
        "rows": [_plain(row) for row in rows],
        "mean": _plain(mean_of(rows)),
        "jaw": {name: asdict(found) for name, found in jaws.items()},
    }
    cleaned: dict[str, Any] = _without_nan(document)
    return cleaned


def _plain(row: Row) -> dict[str, Any]:
    values = asdict(row)
    values["ms"] = {name: {"p50": p50, "p95": p95} for name, (p50, p95) in row.ms.items()}
    return values


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
