"""The last seconds of every stage as a row of small bars."""

from __future__ import annotations

from collections import deque
from typing import Final

from rich.table import Table
from rich.text import Text

from realtime.pace.budget import Report
from realtime.show import milliseconds

BARS: Final = "▁▂▃▄▅▆▇█"
WIDTH: Final = 40
"""Bars in a row: ten seconds at four a second."""


class History:
    """Remembers what each stage took lately."""

    def __init__(self) -> None:
        self._rows: dict[str, deque[float]] = {}
        self._budgets: dict[str, float] = {}

    def notice(self, report: Report) -> None:
        """Takes in how it is now."""
        for name, stage in report.stages.items():
            self._notice(name, stage.spread.recent, stage.spread.n, stage.budget_ms)
        self._notice("frame age", report.frame_age.recent, report.frame_age.n, 0.0)

    def table(self) -> Table:
        """A row of bars for each stage; yellow over its budget."""
        made = Table.grid(padding=(0, 2))
        made.add_column(style="dim", no_wrap=True, min_width=9)
        made.add_column(no_wrap=True, width=WIDTH)
        made.add_column(justify="right", no_wrap=True)
        for name, values in self._rows.items():
            made.add_row(name, bars(list(values), self._budgets[name]), f"{milliseconds(values[-1])} ms")
        return made

    def _notice(self, name: str, ms: float, n: int, budget_ms: float) -> None:
        if n:
            self._rows.setdefault(name, deque(maxlen=WIDTH)).append(ms)
            self._budgets[name] = budget_ms


def bars(values: list[float], budget_ms: float = 0.0) -> Text:
    """One bar for each value.

    The highest bar is the budget, so that rows can be compared with what they may take; what is over it is as high and
    yellow. Without a budget it is the largest value.

    Args:
        values: Not negative.
        budget_ms: In the unit of the values; 0 for none.
    """
    highest = budget_ms or max(values, default=0.0) or 1.0
    made = Text()
    for value in values:
        step = min(int(value / highest * len(BARS)), len(BARS) - 1)
        made.append(BARS[step], "yellow" if budget_ms and value > budget_ms else "")
    return made
