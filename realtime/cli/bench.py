"""``doppelcam bench``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from engines.errors import BudgetMissed, UsageError
from realtime.bench.compare import compare_table, differences, ratios, read_result
from realtime.bench.loopback import Loopback, measure_loopback
from realtime.bench.measure import Task, highest_rate, keeps_up, measure
from realtime.bench.profile import Profile
from realtime.bench.result import Result
from realtime.bench.sweep import (
    read_engines,
    read_faces,
    read_sizes,
    read_widths,
    sweep,
    sweep_json,
    sweep_table,
    write_plot,
)
from realtime.cli.live import Preparing
from realtime.cli.parser import given_flags
from realtime.settings.config import BENCH, FACE_WIDTHS, SIZES
from realtime.settings.load import from_flags, number_of
from realtime.show import (
    clean,
    counts_line,
    facts,
    latency_table,
    milliseconds,
    nodes_line,
    short_path,
    stderr,
    stdout,
    table,
)
from realtime.sources.open import DEFAULT_FPS

_SHORT_S: Final = 2.0
_RATES: Final = (5.0, 240.0)


def main(args: argparse.Namespace) -> int:
    """Measures, prints, and says whether the budgets were kept if that is asked."""
    _check(args)
    task = Task(
        config=from_flags(given_flags(args), BENCH),
        seconds=number_of("--seconds", args.seconds, 0.5, 3600),
        slow_ms=number_of("--slow", args.slow, 0, 10_000),
        face_width=number_of("--face-width", args.face_width, 24, 8192) if args.face_width else None,
    )
    if args.sweep:
        return _sweep(task, args)
    old = read_result(args.compare) if args.compare else None
    highest: float | None = None
    loopback: Loopback | None = None
    with Preparing(stderr()) as preparing, Profile() as profile:
        if args.max:
            highest, result = _highest(task, preparing)
        elif args.loopback is not None:
            result, loopback = measure_loopback(
                task,
                args.loopback,
                lambda task, watch, sinks: measure(task, preparing, watch=watch, more_sinks=sinks),
            )
        else:
            result = measure(task, preparing, profile=profile if args.profile else None)
    document = result.as_json() | ({"max_fps": highest} if args.max else {})
    if loopback is not None:
        document["loopback"] = loopback.as_json()
    if args.json:
        if old is not None:
            document["compare"] = ratios(old, document)
        print(json.dumps(document, ensure_ascii=False, indent=2))
    else:
        _show(result, document, old)
    _enforce(args, result.missed())
    return 0


def _check(args: argparse.Namespace) -> None:
    """Refuses what does not go together before anything is measured."""
    alone = [flag for flag in ("sweep", "max", "profile") if getattr(args, flag)]
    alone += ["loopback"] if args.loopback is not None else []
    if len(alone) > 1:
        raise UsageError(f"--{alone[0]} and --{alone[1]} do not go together.", "Do one after the other.")
    if args.sweep:
        wrong = next(
            (name for name in ("size", "face_width", "compare", "engine") if _given(args, name)), None
        )
        if wrong:
            flag = wrong.replace("_", "-")
            raise UsageError(
                f"--{flag} does not go with --sweep.", "Use --sizes, --faces, --face-widths and --engines."
            )
        return
    wrong = next(
        (name for name in ("sizes", "faces", "face_widths", "engines", "plot") if getattr(args, name)), None
    )
    if wrong:
        raise UsageError(f"--{wrong.replace('_', '-')} is for a sweep.", "Add --sweep.")


def _given(args: argparse.Namespace, name: str) -> bool:
    return name in given_flags(args) or bool(getattr(args, name, None))


def _enforce(args: argparse.Namespace, missed: Sequence[str]) -> None:
    if args.enforce and missed:
        raise BudgetMissed(
            f"The budget was missed: {'; '.join(missed)}.",
            "Try a smaller --size, a lower --fps, or --landmarks 468.",
        )


def _sweep(task: Task, args: argparse.Namespace) -> int:
    sizes = read_sizes(SIZES if args.sizes is None else args.sizes)
    widths = read_widths(FACE_WIDTHS if args.face_widths is None else args.face_widths)
    faces = read_faces("1" if args.faces is None else args.faces)
    engines = read_engines(args.engines) if args.engines is not None else []
    with Preparing(stderr()) as preparing:

        def one(task: Task) -> Result:
            width, height = task.config.size or (0, 0)
            those = _those(task.faces) or "a face of "
            preparing(
                f"measuring {task.config.engine}, {width}×{height} with {those}{task.face_width:g} pixels"
            )
            return measure(task, lambda _: None)

        cells = sweep(task, sizes, widths, one, engines, faces)
    if args.plot:
        write_plot(args.plot, cells, 1000 / (task.config.fps or DEFAULT_FPS))
    if args.json:
        print(json.dumps(sweep_json(cells), ensure_ascii=False, indent=2))
    else:
        console = stdout()
        console.print(sweep_table(cells))
        for why in dict.fromkeys(cell.why for cell in cells if cell.why):
            console.print(Text(f"Left out: {clean(why)}", "dim"))
        if args.plot:
            console.print(Text(f"Drawn into {short_path(args.plot)}.", "dim"))
    missed = [
        f"{cell.engine}, {cell.size[0]}x{cell.size[1]}, {_those(cell.faces)}{cell.face_width:g} px: {one}"
        for cell in cells
        if cell.result
        for one in cell.result.missed()
    ]
    _enforce(args, missed)
    return 0


def _those(faces: int) -> str:
    """How many faces, if it is more than the one there always is."""
    return "" if faces == 1 else f"{faces} faces of "


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
        ("machine", f"{clean(machine['cpu'])}, {machine['cores']} cores{_card(machine)}"),
        ("engine", f"{result.config.engine} on {result.device}"),
        *(
            ("networks" if i == 0 else "", nodes_line({name: one}))
            for i, (name, one) in enumerate(result.nodes.items())
        ),
        ("first frame", f"{result.start_to_first_frame_ms:,.0f} ms after the start{_cold(result)}"),
        ("load", f"{result.cpu_percent:.0f} % of one core, {result.rss_mb:,.0f} MB"),
        ("measuring", f"{result.overhead_percent:.2f} % of that load"),
    ]
    console.print(facts(rows))
    console.print()
    console.print(
        latency_table(result.report, f"{width}×{height} at {result.fps:g} fps, {clean(result.config.source)}")
    )
    console.print(Text(counts_line(result.report), "dim"))
    if result.parts:
        console.print()
        console.print(_parts_table(result))
    missed = result.missed()
    if missed:
        console.print(Text("Budget missed: " + "; ".join(missed) + ".", "yellow"))
    else:
        console.print(Text("Every budget met.", "green"))
    if "loopback" in document:
        console.print(Text(_seen(document["loopback"]), "bold"))
    if "max_fps" in document:
        highest = document["max_fps"]
        said = f"{highest:g} fps is the highest rate" if highest else f"not even {_RATES[0]:g} fps is a rate"
        console.print(Text(f"{said} at which nothing is dropped.", "bold"))
    if old is not None:
        console.print()
        console.print(compare_table(old, document))
        for difference in differences(old, document):
            console.print(Text(f"Not alike: {clean(difference)}.", "yellow"))


def _card(machine: Mapping[str, Any]) -> str:
    """The GPU, where there is one."""
    driver = f" (driver {machine['driver']})" if machine["driver"] else ""
    return f"; {clean(machine['gpu'])}{driver}" if machine["gpu"] else ""


def _cold(result: Result) -> str:
    """What the time before the first frame went into; of use for the first run of a process."""
    cold = result.cold
    if cold is None:
        return ""
    imported = "" if cold.import_ms is None else f"{cold.import_ms:,.0f} ms to load the program, "
    return (
        f" (before that {imported}{cold.assemble_ms:,.0f} ms for photo and parts; "
        f"networks and kernels took {cold.open_ms:,.0f} ms, the first frame {cold.first_frame_ms:,.0f} ms)"
    )


def _seen(loopback: Mapping[str, Any]) -> str:
    """What the second process saw."""
    if "://" in loopback["through"]:
        agrees = f"{loopback['beyond_ms']:.1f} ms more than"
    else:
        agrees = "as" if loopback["agrees"] else "UNLIKE what"
    backwards = f", {loopback['backwards']} of them out of order" if loopback["backwards"] else ""
    return (
        f"Another process sees a frame {loopback['p50_ms']:.1f} ms (p50) and {loopback['p99_ms']:.1f} ms (p99) after "
        f"its capture through {clean(loopback['through'])}, {agrees} frame age says; "
        f"{loopback['seen']:,} frames seen{backwards}."
    )


def _parts_table(result: Result) -> Table:
    """Where the time went inside the stages."""
    made = table("ms", "part", ">a frame", ">calls", ">p50", ">p95", title="Inside the stages")
    for stage in dict.fromkeys([*result.report.stages, ""]):
        parts = [part for part in result.parts if part.stage == stage]
        for number, part in enumerate(parts):
            made.add_row(
                (stage or "beside them") if number == 0 else "",
                part.name,
                milliseconds(result.per_frame_ms(part)),
                f"{part.calls:,}",
                milliseconds(part.p50_ms),
                milliseconds(part.p95_ms),
            )
    return made
