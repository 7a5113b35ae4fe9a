"""``doppelcam bench``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from rich.text import Text

from engines.errors import BudgetMissed
from realtime.bench.compare import compare_table, differences, ratios, read_result
from realtime.bench.measure import Task, highest_rate, keeps_up, measure
from realtime.bench.result import Result
from realtime.cli.live import Preparing
from realtime.cli.parser import given_flags
from realtime.config import BENCH
from realtime.config_load import from_flags, number_of
from realtime.show import clean, counts_line, facts, latency_table, nodes_line, stderr, stdout

_SHORT_S: Final = 2.0
_RATES: Final = (5.0, 240.0)


def main(args: argparse.Namespace) -> int:
    """Measures, prints, and says whether the budgets were kept if that is asked."""
    task = Task(
        config=from_flags(given_flags(args), BENCH),
        seconds=number_of("--seconds", args.seconds, 0.5, 3600),
        slow_ms=number_of("--slow", args.slow, 0, 10_000),
        face_width=number_of("--face-width", args.face_width, 24, 8192) if args.face_width else None,
    )
    old = read_result(args.compare) if args.compare else None
    highest: float | None = None
    with Preparing(stderr()) as preparing:
        if args.max:
            highest, result = _highest(task, preparing)
        else:
            result = measure(task, preparing)
    document = result.as_json() | ({"max_fps": highest} if args.max else {})
    if args.json:
        if old is not None:
            document["compare"] = ratios(old, document)
        print(json.dumps(document, ensure_ascii=False, indent=2))
    else:
        _show(result, document, old)
    missed = result.missed()
    if args.enforce and missed:
        raise BudgetMissed(
            f"The budget was missed: {'; '.join(missed)}.",
            "Try a smaller --size, a lower --fps, or --landmarks 468.",
        )
    return 0


def _highest(task: Task, preparing: Preparing) -> tuple[float | None, Result]:
    """The highest rate at which nothing is dropped, and what was measured at it."""
    results: dict[float, Result] = {}

    def holds(rate: float) -> bool:
        preparing(f"trying {rate:g} fps")
        short = replace(task, config=replace(task.config, fps=rate), seconds=min(task.seconds, _SHORT_S))
        results[rate] = measure(short, lambda _: None)
        return keeps_up(results[rate])

    first = measure(replace(task, seconds=min(task.seconds, _SHORT_S)), preparing)
    # What one thread needs for a frame is a bound that no rate can pass.
    bound = min(_RATES[1], 1000 / max(first.report.process.p50, 1.0) * 1.05)
    highest = highest_rate(holds, _RATES[0], max(bound, _RATES[0] + 1))
    return highest, results[highest] if highest is not None else first


def _show(result: Result, document: Mapping[str, Any], old: Mapping[str, Any] | None) -> None:
    console = stdout()
    width, height = result.size
    machine = document["machine"]
    rows = [
        ("machine", f"{machine['cpu']}, {machine['cores']} cores"),
        ("engine", f"{result.config.engine} on {result.device}"),
        *(
            ("networks" if i == 0 else "", nodes_line({name: one}))
            for i, (name, one) in enumerate(result.nodes.items())
        ),
        ("first frame", f"{result.start_to_first_frame_ms:,.0f} ms after the start"),
        ("load", f"{result.cpu_percent:.0f} % of one core, {result.rss_mb:,.0f} MB"),
    ]
    console.print(facts(rows))
    console.print()
    console.print(
        latency_table(result.report, f"{width}×{height} at {result.fps:g} fps, {clean(result.config.source)}")
    )
    console.print(Text(counts_line(result.report), "dim"))
    missed = result.missed()
    if missed:
        console.print(Text("Budget missed: " + "; ".join(missed) + ".", "yellow"))
    else:
        console.print(Text("Every budget met.", "green"))
    if "max_fps" in document:
        highest = document["max_fps"]
        said = f"{highest:g} fps is the highest rate" if highest else f"not even {_RATES[0]:g} fps is a rate"
        console.print(Text(f"{said} at which nothing is dropped.", "bold"))
    if old is not None:
        console.print()
        console.print(compare_table(old, document))
        for difference in differences(old, document):
            console.print(Text(f"Not alike: {clean(difference)}.", "yellow"))
