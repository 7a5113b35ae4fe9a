"""What is measured, for Prometheus: ``http://127.0.0.1:PORT/metrics``, for this machine only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self, get_args

from realtime import __version__
from realtime.local_http import LocalHandler, LocalServer
from realtime.pace.budget import Spread
from realtime.session import Snapshot, State


class MetricsServer(AbstractContextManager["MetricsServer"]):
    """Serves metrics while it is entered.

    Args:
        port: To listen on; 0 takes a free one.
        snapshot: How the session is doing; called from the server's threads.

    Raises:
        UsageError: When entered, if the port is taken.
        DeviceError: When entered, if there are no sockets on this machine.
    """

    def __init__(self, port: int, snapshot: Callable[[], Snapshot]) -> None:
        self._port, self._snapshot = port, snapshot
        self._server: _Server | None = None

    @property
    def url(self) -> str:
        """Where the metrics are; empty while it is not entered."""
        return f"{self._server.url}metrics" if self._server is not None else ""

    def __enter__(self) -> Self:
        self._server = _Server(self._port, self._snapshot)
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.stop()


class _Server(LocalServer):
    def __init__(self, port: int, snapshot: Callable[[], Snapshot]) -> None:
        self.snapshot = snapshot
        super().__init__(port, _Handler, "metrics", "--metrics 0")


class _Handler(LocalHandler):
    server: _Server

    def page(self, path: str) -> None:
        """Answers the metrics."""
        if path != "/metrics":
            super().page(path)
            return
        body = metrics_text(self.server.snapshot()).encode()
        self.answer(200, "text/plain; version=0.0.4; charset=utf-8", body)


def metrics_text(snapshot: Snapshot) -> str:
    """A snapshot in Prometheus' text format. Seconds, not ms: that is the custom there."""
    report = snapshot.report
    stages = report.stages
    spreads: Mapping[str, Spread] = {
        **{f'doppelcam_stage_seconds|stage="{name}"': stage.spread for name, stage in stages.items()},
        "doppelcam_frame_seconds|": report.process,
        "doppelcam_frame_age_seconds|": report.frame_age,
    }
    lines: list[str] = []

    def metric(name: str, kind: str, about: str, samples: Iterable[tuple[str, float]]) -> None:
        lines.extend((f"# HELP {name} {about}", f"# TYPE {name} {kind}"))
        lines.extend(
            f"{name}{{{labels}}} {value:.9g}" if labels else f"{name} {value:.9g}"
            for labels, value in samples
        )

    def quantiles(name: str) -> Iterable[tuple[str, float]]:
        for key, spread in spreads.items():
            owner, _, labels = key.partition("|")
            if owner == name and spread.n:
                for quantile, ms in (
                    ("0.5", spread.p50),
                    ("0.95", spread.p95),
                    ("0.99", spread.p99),
                    ("1", spread.max),
                ):
                    yield ",".join(filter(None, (labels, f'quantile="{quantile}"'))), ms / 1e3

    metric("doppelcam_info", "gauge", "Which version runs.", [(f'version="{__version__}"', 1)])
    metric("doppelcam_up_seconds", "gauge", "How long it is measured.", [("", report.seconds)])
    metric(
        "doppelcam_state", "gauge", "1 for the state the session is in.",
        [(f'state="{state}"', snapshot.state == state) for state in get_args(State)],
    )  # fmt: skip
    metric("doppelcam_frames_total", "counter", "Frames by what became of them, and other events.",
           [(f'what="{name}"', n) for name, n in sorted(report.counts.items())])  # fmt: skip
    metric("doppelcam_stage_seconds", "gauge", "Time of a stage.", quantiles("doppelcam_stage_seconds"))
    metric("doppelcam_stage_budget_seconds", "gauge", "What a stage may take.",
           [(f'stage="{name}"', stage.budget_ms / 1e3) for name, stage in stages.items()])  # fmt: skip
    metric("doppelcam_stage_over_total", "counter", "Frames in which a stage took more than it may.",
           [(f'stage="{name}"', stage.over) for name, stage in stages.items()])  # fmt: skip
    metric("doppelcam_frame_seconds", "gauge", "Time of tracking, swapping and blending together.",
           quantiles("doppelcam_frame_seconds"))  # fmt: skip
    metric(
        "doppelcam_frame_age_seconds",
        "gauge",
        "From capture to sent.",
        quantiles("doppelcam_frame_age_seconds"),
    )
    steps = report.counts.get("steps_down", 0) - report.counts.get("steps_up", 0)
    metric(
        "doppelcam_rungs",
        "gauge",
        "How many things have given way because frames take too long.",
        [("", steps)],
    )
    return "\n".join(lines) + "\n"
