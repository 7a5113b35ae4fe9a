"""``doppelcam run --json``: one line of JSON a second, for whoever watches from outside."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from realtime.cli.streams import streams_among
from realtime.session import Snapshot
from realtime.sinks.base import Sink
from realtime.stats import stats_of

SCHEMA: Final = 1
_EVERY_NS: Final = 1_000_000_000
_RATES: Final = ("captured", "processed", "sent")


class JsonLines:
    """Writes how a session is doing, once a second; rates are of the time since the line before.

    Args:
        write: Gets each line, without its end.
        now_ns: The time. The first line is due a second later.
        sinks: Where frames go; how streams among them are doing is told, too.
    """

    def __init__(self, write: Callable[[str], None], now_ns: int, sinks: Sequence[Sink] = ()) -> None:
        self._write, self._sinks = write, sinks
        self._due = now_ns + _EVERY_NS
        self._before: tuple[Mapping[str, int], float] = ({}, 0.0)

    def update(self, snapshot: Snapshot, now_ns: int) -> None:
        """Writes a line, if it is time to."""
        if now_ns < self._due:
            return
        # What was missed is not made up for: two lines within a moment would say the same.
        self._due += (1 + (now_ns - self._due) // _EVERY_NS) * _EVERY_NS
        self._line(snapshot, snapshot.state)

    def end(self, snapshot: Snapshot) -> None:
        """The last line, whenever it comes: its state is ``ended``, and its rates are of the whole session."""
        self._before = ({}, 0.0)
        self._line(snapshot, "ended")

    def _line(self, snapshot: Snapshot, state: str) -> None:
        report = snapshot.report
        counts, seconds = self._before
        if report.seconds < seconds:
            counts, seconds = {}, 0.0  # The engines were opened in between, and counting began anew.
        passed = report.seconds - seconds
        self._before = (dict(report.counts), report.seconds)
        now = {
            name: round((report.counts.get(name, 0) - counts.get(name, 0)) / passed, 2) if passed > 0 else 0.0
            for name in _RATES
        }
        document = {
            "schema": SCHEMA,
            "state": state,
            "ready": snapshot.ready,
            "rung": snapshot.rung,
            **stats_of(report),
            "fps": now,
            "streams": [one.as_json() for one in streams_among(self._sinks)],
        }
        self._write(json.dumps(document, ensure_ascii=False))
