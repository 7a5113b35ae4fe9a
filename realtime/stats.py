"""What was measured, in words that JSON can hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from realtime.pace.budget import Report, Spread


def stats_of(report: Report) -> dict[str, Any]:
    """Everything in a report: spreads in ms, counts, and frames a second since the measuring began."""
    stages: Mapping[str, Any] = {
        name: _spread(stage.spread) | {"budget_ms": round(stage.budget_ms, 3), "over": stage.over}
        for name, stage in report.stages.items()
    }
    return {
        "stages": stages,
        "process": _spread(report.process),
        "frame_age": _spread(report.frame_age),
        "counts": dict(report.counts),
        "fps": {name: round(report.fps(name), 2) for name in ("captured", "processed", "sent")},
        "seconds": round(report.seconds, 3),
    }


def _spread(spread: Spread) -> dict[str, float]:
    return {
        "n": spread.n,
        "p50_ms": round(spread.p50, 3),
        "p95_ms": round(spread.p95, 3),
        "p99_ms": round(spread.p99, 3),
        "max_ms": round(spread.max, 3),
        "recent_ms": round(spread.recent, 3),
    }
