"""What was measured, its power against the card's roofline, and how it is written down."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

RATES: Final = {
    "memory": "GB/s", "up": "GB/s", "down": "GB/s", "up pageable": "GB/s", "down pageable": "GB/s",
    "fp16": "TFLOP/s", "fp32": "TFLOP/s",
}  # fmt: skip
"""What a card can do at most, as it was measured on it, and in which unit."""


@dataclass(frozen=True)
class Row:
    """One thing that was done.

    Attributes:
        part: Which part of the check it belongs to.
        name: What it was.
        ms: How long it took, milliseconds; None for what has no time.
        spread: Half the distance between the tenth and the ninetieth percentile, milliseconds.
        work: What it had to move and to compute: bytes for ``memory``, ``up`` and ``down``, operations for ``fp16``
            and ``fp32``.
        good: Whether it was right; None where nothing was compared.
        value: What was measured instead of a time.
        unit: Of the value.
        note: Anything else worth knowing; for what could not be run, why.
        ran: False for what could not be run.
    """

    part: str
    name: str
    ms: float | None = None
    spread: float = 0.0
    work: dict[str, float] = field(default_factory=dict)
    good: bool | None = None
    value: float | None = None
    unit: str = ""
    note: str = ""
    ran: bool = True


def rate(row: Row) -> tuple[str, float] | None:
    """A row that says what the card can do at most: which of :data:`RATES`, and how much."""
    if row.part == "rates" and row.value is not None and row.name in RATES:
        return row.name, row.value
    return None


def floor_ms(work: dict[str, float], rates: dict[str, float]) -> tuple[float, str] | None:
    """The least time that work can take on this card.

    Moving and computing go on at once, so the slowest of them counts; what goes over the bus comes before or after.

    Args:
        work: See :class:`Row`.
        rates: See :data:`RATES`.

    Returns:
        Milliseconds, and which rate they come from; None where a rate is not known.
    """
    if not work or any(not rates.get(kind) for kind in work):
        return None
    scale = {kind: 1e9 if RATES[kind] == "GB/s" else 1e12 for kind in work}
    times = {kind: 1e3 * amount / (rates[kind] * scale[kind]) for kind, amount in work.items()}
    bus = sum(time for kind, time in times.items() if kind in ("up", "down"))
    inside = {kind: time for kind, time in times.items() if kind not in ("up", "down")}
    slowest = max(times, key=times.__getitem__)
    return bus + max(inside.values(), default=0.0), slowest


def report(about: dict[str, object], rows: Sequence[Row]) -> dict[str, object]:
    """Everything as it is written to JSON."""
    rates = dict(found for row in rows if (found := rate(row)))
    lines = []
    for row in rows:
        line = asdict(row)
        least = floor_ms(row.work, rates)
        if least and row.ms:
            line |= {"floor_ms": least[0], "floor_of": least[1], "power": least[0] / row.ms}
        lines.append(line)
    return {
        "about": about, "rates": rates, "rows": lines,
        "wrong": [f"{row.part}: {row.name}" for row in rows if row.good is False],
        "not_run": [f"{row.part}: {row.name}: {row.note}" for row in rows if not row.ran],
    }  # fmt: skip


def to_json(report_: dict[str, object]) -> str:
    """With a line break at its end; no number that JSON does not know."""
    return json.dumps(_plain(report_), indent=1, allow_nan=False) + "\n"


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value


def table(report_: dict[str, object]) -> str:
    """The same for people."""
    about, rows = report_["about"], report_["rows"]
    assert isinstance(about, dict)
    assert isinstance(rows, list)
    out = [f"{key}: {value}" for key, value in about.items()]
    part = None
    for row in rows:
        if row["part"] != part:
            part = row["part"]
            out += ["", f"{part:<34}{'ms':>9}{'±':>8}{'floor':>9}{'power':>7}"]
        out.append(_line(row))
    for title, key in (("WRONG", "wrong"), ("could not be run", "not_run")):
        found = report_[key]
        assert isinstance(found, list)
        if found:
            out += ["", f"{title}:", *(f"  {line}" for line in found)]
    return "\n".join(out) + "\n"


def _line(row: dict[str, object]) -> str:
    cells = f"  {row['name']:<32}"
    if not row["ran"]:
        return f"{cells}{'not run':>9}"
    if row["ms"] is not None:
        cells += f"{row['ms']:9.3f}{row['spread']:8.3f}"
        cells += f"{row['floor_ms']:9.3f}{row['power']:7.0%}" if "power" in row else " " * 16
    elif row["value"] is not None:
        cells += f"{row['value']:9.4g} {row['unit']}"
    verdict = {True: "right", False: "WRONG", None: ""}[row["good"]]  # type: ignore[index]
    return "  ".join(filter(None, (cells, verdict, str(row["note"])))).rstrip()


def from_json(lines: Iterable[dict[str, object]]) -> list[Row]:
    """Rows that another process wrote down."""
    return [Row(**line) for line in lines]  # type: ignore[arg-type]
