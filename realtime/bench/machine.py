"""What is measured on, and what a run costs it; from the standard library alone."""

from __future__ import annotations

import os
import platform
import sys
import time
from pathlib import Path


def cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """What the processor calls itself."""
    try:
        for line in cpuinfo.read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Model") and value.strip():
                return " ".join(value.split())
    except OSError:
        pass
    return platform.processor() or platform.machine() or "unknown"


def usable_cores() -> int:
    """Cores this process may use, which may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def rss_mb() -> float:
    """Memory of this process that is really there, MB; its peak where the present value is not told."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    except (OSError, ValueError, IndexError, AttributeError):
        pass
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def process_age_ms() -> float | None:
    """How long this process has lived, ms; None where the system does not tell."""
    try:
        # Behind the name, which may hold anything, the 20th field: ticks since the machine started.
        ticks = int(Path("/proc/self/stat").read_text(errors="replace").rpartition(")")[2].split()[19])
        return 1000 * (time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError, AttributeError):
        return None


class CpuMeter:
    """How busy this process keeps the machine: 100 is one core."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Starts again."""
        self._busy, self._began = time.process_time(), time.monotonic()

    def busy_ns(self) -> float:
        """Processor time of the whole process since the last reset."""
        return (time.process_time() - self._busy) * 1e9

    def percent(self) -> float:
        """Since the last reset."""
        elapsed = time.monotonic() - self._began
        return 100 * (time.process_time() - self._busy) / elapsed if elapsed > 0 else 0.0
