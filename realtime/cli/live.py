"""A session while it runs: what is shown until it ends, on a terminal and elsewhere."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.status import Status
from rich.text import Text

from realtime import __version__
from realtime.assemble import Parts
from realtime.cli.lines import JsonLines
from realtime.cli.sparks import History
from realtime.cli.streams import Streamed, streams_among
from realtime.control.wanted import is_wide, wants_control
from realtime.metrics import MetricsServer
from realtime.pace.budget import Report
from realtime.session import Session, Snapshot, State
from realtime.settings.config import Config
from realtime.show import clean, counts_line, facts, latency_table, nodes_line, stderr, stdout
from realtime.sinks.base import Sink
from realtime.thermal import Thermometer

if TYPE_CHECKING:
    from realtime.control.control import Control

_GLANCE_NS: Final = 100_000_000
_REFRESH_NS: Final = 250_000_000
_PLAIN_NS: Final = 5_000_000_000
_PATIENCE_S: Final = 1.0

_STATES: Final[dict[State, tuple[str, str]]] = {
    "starting": ("starting", "dim"),
    "live": ("live", "green"),
    "veiled": ("veiled: no face that can be trusted", "yellow"),
    "lost": ("camera lost, looking for it", "yellow"),
}


class Preparing(AbstractContextManager["Preparing"]):
    """Says what is being prepared, where there is something to wait for.

    Args:
        console: Where to.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = None
        self._began: float | None = None
        self._said = ""

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._status = self._console.status("Starting …", spinner="dots")
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.done()

    def __call__(self, line: str) -> None:
        """One step, as engines tell it; called by the process thread."""
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        kernel = re.match(r"kernel (\d+/\d+)", line)
        said = (
            f"Preparing kernels for this machine (once): {kernel[1]} …"
            if kernel
            else f"{line[:1].upper()}{line[1:]} …"
        )
        if self._status is not None:
            self._status.update(Text(said))
        elif now - self._began > _PATIENCE_S and said != self._said:
            # A start that takes no time needs no words in a log.
            self._said = said
            self._console.print(said, markup=False)

    def done(self) -> None:
        """There is nothing to wait for any more; may be called twice."""
        if self._status is not None:
            self._status.stop()
            self._status = None


def introduce(console: Console, config: Config, parts: Parts) -> None:
    """What runs where; printed once everything is open."""
    width, height = parts.source.size
    fourcc = getattr(parts.source, "fourcc", "")
    source = (
        f"{parts.source.name}, {width}×{height} at {parts.source.fps:g} fps{' ' + fourcc if fourcc else ''}"
    )
    engine = (
        f"{parts.swapper.name} on {parts.device.name}{': ' + parts.device.why if parts.device.why else ''}"
    )
    lost = "the real face is SHOWN" if config.on_lost == ("passthrough",) else ", then ".join(config.on_lost)
    rows = [("source", clean(source)), ("engine", engine)]
    nodes = parts.nodes()
    for number, (network, providers) in enumerate(nodes.items()):
        rows.append(("networks" if number == 0 else "", nodes_line({network: providers})))
    rows += [
        ("sinks", clean(", ".join(sink.name for sink in parts.sinks[: len(config.sink)]))),
        ("guard", f"a face that cannot be swapped: {lost}"),
        ("label", "on, in the bottom left corner" if config.label else "off"),
    ]
    console.print(Text(f"doppelcam {__version__}", "bold"))
    console.print(facts(rows))
    if advice := getattr(parts.swapper, "advice", ""):
        console.print(Text(advice, "yellow"))


def follow(parts: Parts, config: Config, json_lines: bool = False) -> Report:
    """Runs a session to its end.

    Its state goes to stderr: on a terminal as a table that is kept up to date, elsewhere as a line now and
    then. At the end, whatever ended it, what was measured goes to stdout.

    Args:
        parts: What to run; not yet opened.
        config: What was asked for.
        json_lines: Write a line of JSON a second to stdout instead, and nothing else.

    Returns:
        What was measured.

    Raises:
        UsageError: The port of the metrics is taken.
        DoppelcamError: The first error of the session, once it has ended.
        KeyboardInterrupt: Ctrl-C, likewise.
    """
    # As they were made: the control page puts its switches before them.
    console, clock, outputs = stderr(), parts.clock, parts.sinks
    with ExitStack() as serving:
        preparing = serving.enter_context(Preparing(console))
        control = _control(parts, config) if wants_control(config, console.is_terminal, os.environ) else None
        if control is None:
            session = parts.session(preparing)
        else:
            parts = replace(parts, sinks=control.sinks)
            session = parts.session(preparing, on_captured=control.captured)
            serving.enter_context(control.begin(session))
            _say_where(console, control, config)
        if config.metrics is not None:
            metrics = serving.enter_context(MetricsServer(config.metrics, session.snapshot))
            console.print(f"Metrics: {metrics.url}", markup=False)
        lines = JsonLines(_print_line, clock.now_ns(), outputs) if json_lines else None
        try:
            session.start()
            while session.snapshot().state == "starting" and not session.wait(clock.now_ns() + _GLANCE_NS):
                if lines is not None:
                    lines.update(session.snapshot(), clock.now_ns())
            began = clock.now_ns()
            preparing.done()
            if not parts.stop:
                introduce(console, config, parts)
                _watch(session, parts, config, console, began, lines, outputs)
        finally:
            session.stop()
            preparing.done()
            if lines is None:
                summary(session.report(), parts)
            else:
                lines.end(session.snapshot())
    session.check()
    return session.report()


def _control(parts: Parts, config: Config) -> Control:
    from realtime.control.control import Control

    return Control(
        config, parts.sinks, parts.pipeline, parts.tracker, parts.guard, parts.source, parts.another,
        parts.replace_swapper, parts.nodes, parts.clock,
    )  # fmt: skip


def _say_where(console: Console, control: Control, config: Config) -> None:
    if control.link:
        console.print(f"Control page: {control.link}", markup=False, soft_wrap=True)
        if is_wide(config):
            console.print(
                Text(
                    "Other machines reach it, and what is said between can be overheard: no HTTPS.", "yellow"
                )
            )
    if control.osc_port is not None:
        console.print(f"OSC: port {control.osc_port} of this machine", markup=False)


def _print_line(line: str) -> None:
    print(line, flush=True)


def _watch(
    session: Session, parts: Parts, config: Config, console: Console, began_ns: int, lines: JsonLines | None,
    outputs: Sequence[Sink],
) -> None:  # fmt: skip
    until = None if config.duration is None else began_ns + round(config.duration * 1e9)
    advised = False
    shown = (
        _OnTerminal(console, heading(parts), providers(parts.nodes()), Thermometer(), outputs)
        if console.is_terminal
        else _Plain(console, began_ns, outputs)
    )
    with shown as show:
        while True:
            now = parts.clock.now_ns()
            if until is not None and now >= until:
                return
            if session.wait(now + _REFRESH_NS if until is None else min(now + _REFRESH_NS, until)):
                return
            snapshot, now = session.snapshot(), parts.clock.now_ns()
            if lines is not None:
                lines.update(snapshot, now)
            if lines is None or console.is_terminal:
                show.update(snapshot, now)
            advice = "" if advised else getattr(parts.source, "advice", "")
            if advice:
                advised = True
                console.print(Text(advice, "yellow"))


def heading(parts: Parts) -> str:
    """What a table of latencies is about."""
    width, height = parts.source.size
    return f"{width}×{height} at {parts.fps:g} fps"


def summary(report: Report, parts: Parts) -> None:
    """What was measured, on stdout; nothing if nothing was."""
    if not report.counts.get("sent"):
        return
    console = stdout()
    console.print()
    console.print(latency_table(report, heading(parts)))
    console.print(Text(counts_line(report), "dim"))


def providers(nodes: Mapping[str, Mapping[str, int]]) -> str:
    """What the networks run on, each provider once and the one with the most nodes first."""
    totals: Counter[str] = Counter()
    for each in nodes.values():
        totals.update(each)
    return ", ".join(provider for provider, _ in totals.most_common())


class _OnTerminal(AbstractContextManager["_OnTerminal"]):
    def __init__(
        self, console: Console, title: str, runs_on: str = "", thermometer: Thermometer | None = None,
        sinks: Sequence[Sink] = (),
    ) -> None:  # fmt: skip
        self._title, self._runs_on, self._thermometer, self._sinks = title, runs_on, thermometer, sinks
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._history = History()

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def update(self, snapshot: Snapshot, now_ns: int) -> None:
        """Shows how it is going now."""
        self._history.notice(snapshot.report)
        warm = self._thermometer.read() if self._thermometer is not None else {}
        about = [clean(self._runs_on), *(f"{where} {celsius} °C" for where, celsius in warm.items())]
        below = Text(" · ".join(part for part in about if part), "dim")
        streams = [one.text() for one in streams_among(self._sinks)]
        self._live.update(
            Group(view(snapshot, self._title), *streams, "", self._history.table(), below), refresh=True
        )


class _Plain(AbstractContextManager["_Plain"]):
    def __init__(self, console: Console, began_ns: int, sinks: Sequence[Sink] = ()) -> None:
        self._console, self._due, self._sinks = console, began_ns + _PLAIN_NS, sinks

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to undo."""

    def update(self, snapshot: Snapshot, now_ns: int) -> None:
        """Says how it is going, if it is time to."""
        if now_ns < self._due:
            return
        self._due += _PLAIN_NS
        self._console.print(line(snapshot, streams_among(self._sinks)), markup=False)


def line(snapshot: Snapshot, streams: Sequence[Streamed] = ()) -> str:
    """How it is going, for a log."""
    report = snapshot.report
    age = f"frame age {report.frame_age.p50:.1f} ms" if report.frame_age.n else "no frame yet"
    rung = f" · with {snapshot.rung}" if snapshot.rung else ""
    said = f"{_STATES[snapshot.state][0]} · {age} · {counts_line(report)}{rung}"
    return " · ".join([said, *map(str, streams)])


def view(snapshot: Snapshot, title: str) -> RenderableType:
    """How it is going, for a terminal."""
    words, style = _STATES[snapshot.state]
    head = Text.assemble(("● ", style), (words, style), ("   Ctrl-C ends it", "dim"))
    if snapshot.rung:
        head.append(f"\n  frames take too long: {snapshot.rung}", "yellow")
    return Group(
        "", head, "", latency_table(snapshot.report, title), Text(counts_line(snapshot.report), "dim")
    )
