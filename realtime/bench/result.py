"""The outcome of a benchmark, and whether it stayed within its budgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from realtime import __version__
from realtime.bench.machine import this_machine, versions
from realtime.bench.profile import Part
from realtime.pace.budget import Report, Spread, StageReport
from realtime.settings.config import Config

SCHEMA: Final = 1
_FRAMES: Final = (
    "captured", "processed", "sent", "dropped", "repeated", "left_out", "skipped_detection", "duplicates",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cold:
    """What comes before the first frame, once.

    Attributes:
        import_ms: From the start of the process until the benchmark began; None where the system does not tell, and
            without meaning for any but the first run of a process.
        assemble_ms: Reading photos and making parts.
        open_ms: From the start of the session until camera, networks and kernels were ready.
        first_frame_ms: From then to the first swapped frame sent.
    """

    import_ms: float | None
    assemble_ms: float
    open_ms: float
    first_frame_ms: float


@dataclass(frozen=True, slots=True)
class Result:
    """One run.

    Attributes:
        config: What was run.
        device: What it really ran on.
        nodes: For each network, how many nodes on which provider.
        size: Width and height of the frames, as the source gave them.
        fps: Frames a second that were sent.
        report: What was measured once the swap was on screen.
        start_to_first_frame_ms: From the start of the session to the first swapped frame sent.
        cpu_percent: Of this process; 100 is one core.
        rss_mb: Memory of this process.
        cold: What came before; everything else is warm.
        overhead_percent: Share of the work that was measuring.
        parts: Where the time went inside the stages; empty if that was not asked.
    """

    config: Config
    device: str
    nodes: Mapping[str, Mapping[str, int]]
    size: tuple[int, int]
    fps: float
    report: Report
    start_to_first_frame_ms: float
    cpu_percent: float
    rss_mb: float
    cold: Cold | None = None
    overhead_percent: float = 0.0
    parts: Sequence[Part] = ()

    def missed(self) -> list[str]:
        """Every budget that was missed, each as a sentence; a stage keeps its own if 95 of 100 frames do."""
        missed = []
        for name, stage in self.report.stages.items():
            if not stage.spread.n:
                missed.append(f"{name} was never reached")
            elif stage.spread.p95 > stage.budget_ms > 0:
                missed.append(f"{name} took {stage.spread.p95:.1f} ms (p95) of {stage.budget_ms:.1f}")
        period = 1000 / self.fps
        if self.report.process.p95 > period:
            missed.append(
                f"a frame took {self.report.process.p95:.1f} ms (p95), one comes every {period:.1f}"
            )
        return missed

    def per_frame_ms(self, part: Part) -> float:
        """What a part takes of each frame on average, ms: one that runs seldom takes little."""
        frames = self.report.process.n
        return part.total_ms / frames if frames else 0.0

    def _part(self, part: Part) -> dict[str, Any]:
        return {
            "stage": part.stage,
            "part": part.name,
            "calls": part.calls,
            "per_frame_ms": round(self.per_frame_ms(part), 4),
            "p50_ms": round(part.p50_ms, 4),
            "p95_ms": round(part.p95_ms, 4),
        }

    def as_json(self) -> dict[str, Any]:
        """The document that ``bench --json`` prints."""
        report, counts = self.report, self.report.counts
        return {
            "schema": SCHEMA,
            "version": __version__,
            "machine": dict(this_machine(self.device)),
            "versions": versions(),
            "config": {
                "source": self.config.source,
                "engine": self.config.engine,
                "device": self.device,
                "size": list(self.size),
                "fps": _whole(self.fps),
                "seconds": _whole(round(report.seconds, 1)),
            },
            "providers": {network: _main(providers) for network, providers in self.nodes.items()},
            "stages": {name: _stage(stage) for name, stage in report.stages.items()},
            "process_ms": _spread(report.process, ""),
            "frame_age_ms": _spread(report.frame_age, ""),
            "start_to_first_frame_ms": round(self.start_to_first_frame_ms, 1),
            "cold": None if self.cold is None else _cold(self.cold),
            "frames": {name: counts.get(name, 0) for name in _FRAMES},
            "fps": {name: round(report.fps(name), 2) for name in ("processed", "sent")},
            "cpu_percent": round(self.cpu_percent, 1),
            "rss_mb": round(self.rss_mb, 1),
            "overhead_percent": round(self.overhead_percent, 3),
            **({"profile": [self._part(part) for part in self.parts]} if self.parts else {}),
            "budget_met": not self.missed(),
        }


def _cold(cold: Cold) -> dict[str, float | None]:
    return {name: None if ms is None else round(ms, 1) for name, ms in asdict(cold).items()}


def _main(providers: Mapping[str, int]) -> str:
    """The provider that runs most of a network; the others follow."""
    return "+".join(sorted(providers, key=lambda provider: -providers[provider]))


def _whole(number: float) -> float | int:
    return int(number) if number == int(number) else number


def _spread(spread: Spread, suffix: str) -> dict[str, float]:
    values = {"p50": spread.p50, "p95": spread.p95, "p99": spread.p99, "max": spread.max}
    return {name + suffix: round(value, 3) for name, value in values.items()}


def _stage(stage: StageReport) -> dict[str, float]:
    return {
        "n": stage.spread.n,
        **_spread(stage.spread, "_ms"),
        "budget_ms": round(stage.budget_ms, 3),
        "over": stage.over,
    }
