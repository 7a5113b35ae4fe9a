"""What is measured on, and what a run costs it. Nothing of it is loaded that would not be loaded anyway."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from engines.runtime import wheels
from engines.runtime.driver import Driver, find_driver
from engines.runtime.trt.key import driver_version

_PACKAGES: Final = (
    "av",
    "numba",
    "numpy",
    "opencv-python-headless",
    "opencv-python",
    "opencv-contrib-python",
    "pillow",
)


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


def versions(version: Callable[[str], str] = metadata.version) -> dict[str, str]:
    """Versions of Python and of every installed package that times depend on.

    Args:
        version: Gives the version of a distribution.
    """
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except metadata.PackageNotFoundError:
            continue
    return found | wheels.installed(version)


def this_machine(
    device: str = "cpu", find: Callable[[], Driver] = find_driver, version: Callable[[], str] = driver_version
) -> Mapping[str, Any]:
    """What is measured on: processor, cores, GPU and its driver.

    Args:
        device: ``cpu`` or ``cuda:N``. What runs on the processor is told of the first GPU there is, if any.
        find: Looks for the driver.
        version: The driver's version; empty where nothing tells.
    """
    driver = find()
    number = device.partition(":")[2]
    index = int(number) if number.isdecimal() else 0
    gpu = next((one.name for one in driver.gpus if one.index == index), None)
    told = version() if gpu else ""
    cuda = f"CUDA {driver.cuda[0]}.{driver.cuda[1]}" if gpu else ""
    return {
        "cpu": cpu_name(),
        "cores": usable_cores(),
        "gpu": gpu,
        "driver": (f"{told}, {cuda}" if told else cuda) or None,
    }


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
