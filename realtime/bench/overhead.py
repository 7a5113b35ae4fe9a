"""What measuring itself costs."""

from __future__ import annotations

import time
from typing import Final

from realtime.clock import Clock
from realtime.pace.budget import Meter
from realtime.pace.stages import STAGES

_ROUNDS: Final = 20
_FRAMES: Final = 50
_COUNTS: Final = ("captured", "processed", "sent", "skipped_detection")
_LOOKS: Final = 12
"""How often the time is asked for a frame."""


def ns_per_frame(clock: Clock) -> float:
    """What times and counts of one frame cost, ns of processor time: the best of a few rounds on this machine.

    Args:
        clock: What the session is timed with.
    """
    meter, best = Meter(0), float("inf")
    for _ in range(_ROUNDS):
        began = time.thread_time_ns()
        for n in range(_FRAMES):
            for _ in range(_LOOKS):
                clock.now_ns()
            for stage in STAGES:
                meter.stage(stage, n)
            meter.process(n)
            meter.age(n)
            for name in _COUNTS:
                meter.count(name)
        best = min(best, (time.thread_time_ns() - began) / _FRAMES)
    return best


def percent(frames: int, per_frame_ns: float, waiting_ns: int, busy_ns: float) -> float:
    """Share of a run's work that was measuring.

    Args:
        frames: How many were measured.
        per_frame_ns: What each of them cost to measure.
        waiting_ns: Processor time of the thread that only watched.
        busy_ns: Processor time of the whole run, measuring included.
    """
    return 100 * (frames * per_frame_ns + waiting_ns) / busy_ns if busy_ns > 0 else 0.0
