"""Two results of ``bench --json`` side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from engines.errors import UsageError
from engines.files import open_regular, quoted
from realtime.bench.result import SCHEMA
from realtime.pace.stages import STAGES
from realtime.show import table

_LARGEST: Final = 1 << 20
_NOISE: Final = 0.05
"""Ratios nearer to 1 than this say nothing."""

_ROWS: Final[tuple[tuple[str, tuple[str, ...], bool], ...]] = (
    *((f"{stage} p50", ("stages", stage, "p50_ms"), False) for stage in STAGES),
    ("track + swap + blend p50", ("process_ms", "p50"), False),
    ("track + swap + blend p95", ("process_ms", "p95"), False),
    ("frame age p50", ("frame_age_ms", "p50"), False),
    ("frame age p99", ("frame_age_ms", "p99"), False),
    ("start to first frame", ("start_to_first_frame_ms",), False),
    ("fps processed", ("fps", "processed"), True),
    ("frames dropped", ("frames", "dropped"), False),
    ("cpu %", ("cpu_percent",), False),
    ("memory MB", ("rss_mb",), False),
)
"""What is compared: its name, where it stands, and whether more is better."""


_SAME: Final = (
    *(("machine", key) for key in ("cpu", "cores", "gpu")),
    *(("config", key) for key in ("source", "engine", "device", "size", "fps")),
)
"""What must be alike for a comparison to mean something."""


def read_result(path: Path) -> dict[str, Any]:
    """Reads an earlier result.

    Raises:
        UsageError: It is not one, or of another schema.
    """
    with open_regular(path, "a result of bench --json") as file:
        data = file.read(_LARGEST)
    try:
        document = json.loads(data)
    except ValueError as error:
        raise UsageError(
            f"{quoted(path)} is not JSON.", "Make it with: doppelcam bench --json > old.json"
        ) from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise UsageError(f"{quoted(path)} is not a result of bench, schema {SCHEMA}.",
                         "Make it with: doppelcam bench --json > old.json")  # fmt: skip
    return document


def ratios(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, dict[str, float | None]]:
    """Old, new and new / old of everything both have; the ratio is None where the old one is zero."""
    found: dict[str, dict[str, float | None]] = {}
    for name, where, _ in _ROWS:
        before, after = _at(old, where), _at(new, where)
        if before is not None and after is not None:
            found[name] = {"old": before, "new": after, "ratio": round(after / before, 3) if before else None}
    return found


def _value(document: Mapping[str, Any], where: tuple[str, ...]) -> Any:
    value: Any = document
    for key in where:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _at(document: Mapping[str, Any], where: tuple[str, ...]) -> float | None:
    value = _value(document, where)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def compare_table(old: Mapping[str, Any], new: Mapping[str, Any]) -> Table:
    """The two side by side; green is better, yellow is worse."""
    made = table("ms unless named", ">old", ">new", ">new / old", title="Compared")
    more_is_better: dict[str, bool] = {name: better for name, _, better in _ROWS}
    for name, row in ratios(old, new).items():
        ratio = row["ratio"]
        said = Text("–" if ratio is None else f"{ratio:.2f}", _style(ratio, more_is_better[name]))
        made.add_row(name, f"{row['old']:,.2f}", f"{row['new']:,.2f}", said)
    return made


def _style(ratio: float | None, more_is_better: bool) -> str:
    if ratio is None or abs(ratio - 1) <= _NOISE:
        return "dim"
    return "green" if (ratio > 1) == more_is_better else "yellow"


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What of machine and configuration is not the same, so that nobody compares apples with pears."""
    said = []
    for where in _SAME:
        before, after = _value(old, where), _value(new, where)
        if before != after:
            said.append(f"{where[-1]}: {before} then, {after} now")
    return said
