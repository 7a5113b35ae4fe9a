"""How long a network takes here, measured while it is warmed up, so that it can be said in advance."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Final

from engines.runtime.base import Network

_PATIENCE_NS: Final = 2_000_000_000
_FEWEST: Final = 2


def warm_up(network: Network, runs: int = 3, now_ns: Callable[[], int] = time.perf_counter_ns) -> float:
    """Runs a network until its next run is as fast as any, and measures it.

    Args:
        network: Opened; runs with what its inputs hold.
        runs: How many are measured. A slow network is stopped after two, when they took two seconds.
        now_ns: Time.

    Returns:
        What one run takes: the median, ms.

    Raises:
        EngineError: It failed.
    """
    network.run()  # the first one allocates, and on a GPU chooses its algorithms
    taken: list[int] = []
    began = now_ns()
    while len(taken) < runs and (len(taken) < _FEWEST or now_ns() - began < _PATIENCE_NS):
        before = now_ns()
        network.run()
        taken.append(now_ns() - before)
    return statistics.median(taken) / 1e6


def slow_advice(engine: str, ms: float, fps: float, device: str, instead: str = "mesh") -> str:
    """What to say in advance of an engine that cannot keep the rate.

    Args:
        engine: Its name.
        ms: What its networks take of a frame, ms.
        fps: Frames a second that are wanted.
        device: What it runs on.
        instead: The engine to offer.

    Returns:
        A sentence; empty if it keeps the rate.
    """
    rate = 1000 / ms if ms > 0 else float("inf")
    if rate >= fps:
        return ""
    given = f"{rate:.1f}" if rate < 10 else f"{rate:.0f}"
    where = "this CPU" if device == "cpu" else device
    return (
        f"The engine {engine} gives about {given} frames a second on {where}, and {fps:g} are wanted. "
        f"For a smooth picture use --engine {instead}."
    )
