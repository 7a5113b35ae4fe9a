"""What each stage took, how often that was too much, and how old a frame was when it left."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from realtime.pace.stages import DEFAULT_BUDGET_MS, STAGES


@dataclass(frozen=True, slots=True)
class Spread:
    """How a duration is spread, ms; ``recent`` is the median of the latest eight."""

    n: int
    p50: float
    p95: float
    p99: float
    max: float
    recent: float = 0.0


@dataclass(frozen=True, slots=True)
class StageReport:
    """One stage: its spread, its budget in ms, and how often it went over."""

    spread: Spread
    budget_ms: float
    over: int


@dataclass(frozen=True, slots=True)
class Report:
    """Everything measured since the meter was made or reset.

    Attributes:
        stages: By name, in the order a frame passes them.
        process: track + swap + blend of each frame, together.
        frame_age: Capture to the return of the first sink's send.
        counts: captured, processed, sent, dropped, repeated, held, veiled, … by name.
        seconds: How long it was measured.
    """

    stages: Mapping[str, StageReport]
    process: Spread
    frame_age: Spread
    counts: Mapping[str, int]
    seconds: float

    def fps(self, count: str) -> float:
        """How many of ``count`` there were a second."""
        return self.counts.get(count, 0) / self.seconds if self.seconds > 0 else 0.0


_RECENT = 8


class _Series:
    """The last durations of one kind, ns, in a ring; written by one thread."""

    __slots__ = ("budget_ns", "maximum", "n", "over", "ring")

    def __init__(self, capacity: int, budget_ms: float = 0.0) -> None:
        self.ring: NDArray[np.int64] = np.zeros(capacity, np.int64)
        self.budget_ns = budget_ms * 1e6
        self.clear()

    def clear(self) -> None:
        self.n = self.over = self.maximum = 0

    def add(self, ns: int) -> None:
        self.ring[self.n % len(self.ring)] = ns
        self.maximum = max(self.maximum, ns)
        self.over += self.budget_ns > 0 and ns > self.budget_ns
        self.n += 1

    def spread(self) -> Spread:
        kept = self.ring[: min(self.n, len(self.ring))]
        if not len(kept):
            return Spread(0, 0.0, 0.0, 0.0, 0.0)
        p50, p95, p99 = np.percentile(kept, (50, 95, 99)) / 1e6
        recent = self.latest() / 1e6
        return Spread(self.n, float(p50), float(p95), float(p99), self.maximum / 1e6, recent)

    def latest(self) -> int:
        n = self.n
        latest = np.take(self.ring, range(n - min(n, _RECENT), n), mode="wrap")
        return round(float(np.median(latest))) if len(latest) else 0


class Meter:
    """Collects durations and counts. Each duration is written by one thread; any may count, or ask for a report.

    Args:
        now_ns: The clock's time when measuring starts.
        budget_ms: Budget of each stage, ms.
        window: How many of the latest durations the percentiles are taken from. Memory does not grow.
    """

    def __init__(
        self, now_ns: int, budget_ms: Mapping[str, float] = DEFAULT_BUDGET_MS, window: int = 1 << 15
    ) -> None:
        self._stages = {stage: _Series(window, budget_ms.get(stage, 0.0)) for stage in STAGES}
        self._process = _Series(window)
        self._age = _Series(window)
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._started = now_ns

    def stage(self, stage: str, ns: int) -> None:
        """One frame's time in one stage."""
        self._stages[stage].add(ns)

    def process(self, ns: int) -> None:
        """One frame's time from the mailbox to the guard."""
        self._process.add(ns)

    def age(self, ns: int) -> None:
        """One frame's time from capture to sent."""
        self._age.add(ns)

    def latest_age(self) -> int:
        """Frame age of late, ns: the median of the last frames; 0 before the first. Cheap; from any thread."""
        return self._age.latest()

    def count(self, name: str, n: int = 1) -> None:
        """Counts something."""
        with self._lock:  # Two recordings on one disk are lost at the same moment.
            self._counts[name] += n

    def reset(self, now_ns: int) -> None:
        """Forgets what was measured, for instance the frames of a warm-up."""
        for series in (*self._stages.values(), self._process, self._age):
            series.clear()
        with self._lock:
            self._counts.clear()
        self._started = now_ns

    def report(self, now_ns: int) -> Report:
        """What was measured so far."""
        return Report(
            stages={
                name: StageReport(series.spread(), series.budget_ns / 1e6, int(series.over))
                for name, series in self._stages.items()
            },
            process=self._process.spread(),
            frame_age=self._age.spread(),
            counts=self._counted(),
            seconds=(now_ns - self._started) / 1e9,
        )

    def _counted(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)
