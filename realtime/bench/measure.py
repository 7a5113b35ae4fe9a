"""One run of a session that is measured, and the search for the highest rate."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from engines.errors import DoppelcamError, UsageError
from engines.swap.base import Progress
from realtime.assemble import assemble
from realtime.bench.group import Group
from realtime.bench.load import SlowTracker
from realtime.bench.machine import CpuMeter, process_age_ms, rss_mb
from realtime.bench.overhead import ns_per_frame, percent
from realtime.bench.profile import Profile
from realtime.bench.result import Cold, Result
from realtime.clock import Clock, SystemClock
from realtime.pipeline import FaceTracker
from realtime.settings.config import Config
from realtime.sinks.base import Sink
from realtime.sources.base import Source

_SETTLE_NS: Final = 500_000_000
"""Frames of this time after the first swapped one are warm-up too: the cadence finds its phase."""
_ALL: Final = 0.97
"""Share of the asked rate that counts as all of it: the ends of a short run cost a frame or two."""
_NEARLY: Final = 0.98
"""Share of the faces that has to be swapped: who blinks at the wrong moment may be missed in a frame or two."""
_READY_NS: Final = 120_000_000_000


@dataclass(frozen=True, slots=True)
class Task:
    """What to measure.

    Attributes:
        config: The session.
        seconds: How long.
        slow_ms: Work added to every frame.
        face_width: Of the portrait's face, pixels; None for its own.
        faces: Portraits side by side, each of which has to be swapped in every frame.
    """

    config: Config
    seconds: float
    slow_ms: float = 0.0
    face_width: float | None = None
    faces: int = 1


def measure(
    task: Task,
    progress: Progress,
    clock: Clock | None = None,
    profile: Profile | None = None,
    watch: Callable[[Source], Source] = lambda source: source,
    more_sinks: Sequence[Sink] = (),
) -> Result:
    """Runs a session and measures it once the swap is on screen.

    Args:
        task: What to measure.
        progress: Told what is being done.
        clock: Time.
        profile: Begun and ended with the measuring.
        watch: Wraps the source.
        more_sinks: Sinks beside those of the configuration.

    Raises:
        DoppelcamError: The session failed, or fewer faces were swapped than there are.
    """
    clock = clock or SystemClock()
    imported_ms, called = process_age_ms(), clock.now_ns()
    counted: list[SlowTracker] = []

    def watched_tracker(tracker: FaceTracker) -> FaceTracker:
        counted.append(SlowTracker(tracker, task.slow_ms))
        return counted[0]

    parts = assemble(
        task.config,
        clock=clock,
        source=_portrait(task, clock),
        watch=watch,
        more_sinks=more_sinks,
        load=watched_tracker if task.slow_ms or task.faces > 1 else lambda tracker: tracker,
    )
    first: list[int] = []
    session = parts.session(progress, lambda: first.append(clock.now_ns()))
    cpu, began = CpuMeter(), clock.now_ns()
    try:
        session.start()
        while not session.ready.is_set() and not session.wait(clock.now_ns() + _SETTLE_NS // 5):
            if clock.now_ns() - began > _READY_NS:
                break
        session.wait(clock.now_ns() + _SETTLE_NS)
        progress(f"measuring for {task.seconds:g} s")
        parts.meter.reset(clock.now_ns())
        before = [(one.frames, one.faces) for one in counted]
        cpu.reset()
        if profile is not None:
            profile.begin()
        watched = time.thread_time_ns()
        session.wait(clock.now_ns() + round(task.seconds * 1e9))
        # Before it ends: the farewell of a session is not what is measured.
        watched = time.thread_time_ns() - watched
        report, load, busy, memory = session.report(), cpu.percent(), cpu.busy_ns(), rss_mb()
        if profile is not None:
            profile.end()
        nodes, size = parts.nodes(), parts.source.size
        swapped = [_mean(one, *then) for one, then in zip(counted, before, strict=True)]
    finally:
        session.stop()
    session.check()
    if not first or not report.counts.get("processed"):
        raise DoppelcamError(
            f"No face was swapped, so there is nothing to measure: none is seen in {parts.source.name}.",
            "Use a --source with a face that is large enough, or a longer one.",
        )
    if task.faces > 1 and swapped[0] < _NEARLY * task.faces:
        raise DoppelcamError(
            f"Of {task.faces} faces only {swapped[0]:.1f} were swapped, on average.",
            "Use larger faces, or fewer.",
        )
    opened = session.opened_ns or began
    return Result(
        task.config,
        parts.device.name,
        nodes,
        size,
        parts.fps,
        report,
        (first[0] - began) / 1e6,
        load,
        memory,
        cold=Cold(
            imported_ms,
            (began - called) / 1e6,
            (opened - began) / 1e6,
            (first[0] - opened) / 1e6,
        ),
        overhead_percent=percent(report.counts["processed"], ns_per_frame(clock), watched, busy),
        parts=profile.parts() if profile is not None else (),
    )


def _portrait(task: Task, clock: Clock) -> Source | None:
    """A portrait whose face has a width of its own; None where the configuration's source will do."""
    if task.face_width is None and task.faces == 1:
        return None
    kind, _, path = task.config.source.partition(":")
    if kind != "portrait":
        flag = "face-width" if task.face_width is not None else "faces"
        raise UsageError(f"--{flag} is for a portrait.", "Leave it out, or use --source portrait.")
    from pathlib import Path

    from realtime.sources.open import DEFAULT_FPS, DEFAULT_SIZE
    from realtime.sources.portrait import PortraitSource

    photo, size = Path(path).expanduser() if path else None, task.config.size or DEFAULT_SIZE
    fps, seed = task.config.fps or DEFAULT_FPS, task.config.seed
    if task.faces == 1:
        return PortraitSource(photo, size, fps, clock, seed, task.face_width)
    return Group(task.faces, photo, size, fps, clock, seed, task.face_width)


def _mean(tracker: SlowTracker, frames: int, faces: int) -> float:
    """Faces a frame since there were so many frames and faces."""
    return (tracker.faces - faces) / max(tracker.frames - frames, 1)


def keeps_up(result: Result) -> bool:
    """Whether nothing was dropped, and the source really gave what was asked of it: a slow one drops nothing."""
    report = result.report
    return not report.counts.get("dropped") and report.fps("processed") >= _ALL * result.fps


def highest_rate(holds: Callable[[float], bool], low: float, high: float, steps: int = 7) -> float | None:
    """The highest rate that holds, by bisection.

    Args:
        holds: Whether nothing is dropped at a rate. Asked twice before a rate is given up, for a machine that
            does something else for a moment drops a frame at any rate.
        low: The lowest rate of interest, frames a second.
        high: The highest.
        steps: How often the range is halved, at most.

    Returns:
        Frames a second, a whole number; None if not even ``low`` holds.
    """

    def surely(rate: float) -> bool:
        return holds(rate) or holds(rate)

    low, high = round(low), round(high)
    if not surely(low):
        return None
    if surely(high):
        return high
    for _ in range(steps):
        middle = round((low + high) / 2)
        if middle in (low, high):
            break
        low, high = (middle, high) if surely(middle) else (low, middle)
    return low
