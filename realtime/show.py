"""How things look on a terminal: one kind of table, one use of colour, units in the heading."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.box import Box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from realtime.pace.budget import Report, Spread, StageReport

_PIPED_WIDTH: Final = 110

_LINES: Final = Box("    \n    \n ── \n    \n ── \n ── \n    \n    \n")
"""A rule under the heading and between sections, and nothing else."""

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def stdout() -> Console:
    """Where data goes."""
    return _console(stderr=False)


def stderr() -> Console:
    """Where log, progress and mistakes go."""
    return _console(stderr=True)


def _console(stderr: bool) -> Console:
    piped = not (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, highlight=False, soft_wrap=piped, width=_PIPED_WIDTH if piped else None)


def clean(text: str) -> str:
    """Names from devices and files, without what a terminal would obey."""
    return _CONTROL.sub("?", text)


def short_path(path: Path) -> str:
    """A path as a person would say it: from here or from home, where that is shorter."""
    path = path.absolute()
    for root, prefix in ((Path.cwd(), ""), (Path.home(), "~/")):
        if path.is_relative_to(root) and path != root:
            return clean(prefix + str(path.relative_to(root)))
    return clean(str(path))


def table(*columns: str, title: str = "") -> Table:
    """An empty table.

    Args:
        columns: Headings; one that starts with ``>`` is a column of numbers and is set to the right.
        title: Above it, to the left.
    """
    made = Table(
        box=_LINES, title=title or None, title_justify="left", title_style="bold", header_style="dim",
        border_style="dim", pad_edge=False, padding=(0, 1), show_edge=False,
    )  # fmt: skip
    for column in columns:
        made.add_column(column.removeprefix(">"), justify="right" if column.startswith(">") else "left",
                        no_wrap=column.startswith(">"), overflow="fold")  # fmt: skip
    return made


def milliseconds(ms: float) -> str:
    """A duration in ms for a column of them."""
    return f"{ms:,.2f}"


def latency_table(report: Report, title: str) -> Table:
    """What each stage took against its budget, and how old frames were when they left, ms."""
    made = table("ms", ">budget", ">p50", ">p95", ">p99", ">max", ">over", title=title)
    for name, stage in report.stages.items():
        made.add_row(name, f"{stage.budget_ms:.1f}", *_spread(stage.spread), _over(stage))
    made.add_section()
    made.add_row("track + swap + blend", "", *_spread(report.process), "")
    made.add_row("frame age", "", *_spread(report.frame_age), "", style="bold")
    return made


def _spread(spread: Spread) -> tuple[str, ...]:
    if not spread.n:
        return ("–",) * 4
    return tuple(milliseconds(ms) for ms in (spread.p50, spread.p95, spread.p99, spread.max))


def _over(stage: StageReport) -> Text:
    return Text(f"{stage.over:,}", style="yellow" if stage.over else "dim")


_COUNTS: Final = (
    "dropped",
    "repeated",
    "held",
    "veiled",
    "slate",
    "bare",
    "duplicates",
    "left_out",
    "recognitions",
    "recordings_lost",
)


def counts_line(report: Report) -> str:
    """How many frames went out, at which rate, and what became of the others."""
    counts = report.counts
    parts = [
        f"{counts.get('sent', 0):,} frames out in {report.seconds:.1f} s",
        f"{report.fps('sent'):.1f} fps",
    ]
    parts += [f"{counts[name]:,} {name.replace('_', ' ')}" for name in _COUNTS if counts.get(name)]
    if not counts.get("dropped"):
        parts.append("none dropped")
    return " · ".join(parts)


def nodes_line(nodes: Mapping[str, Mapping[str, int]]) -> str:
    """Where each network really runs."""
    return ", ".join(
        f"{network}: " + " + ".join(f"{provider} {count} nodes" for provider, count in providers.items())
        for network, providers in nodes.items()
    )


def facts(rows: Sequence[tuple[str, str]]) -> Table:
    """Names and what they are, without a heading."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in rows:
        made.add_row(name, Text(value))
    return made
