"""The doctor's checks of the machine itself: its clock, how its processor saves power, and the folders kept on disk."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from engines.catalogue.store import default_folder
from engines.runtime.trt.folder import default_plan_folder
from realtime.doctor.check import Check
from realtime.show import short_path

_READINGS: Final = 20_000
_COARSE_NS: Final = 1_000_000
"""A clock that goes in steps of more than this cannot time a stage, which takes a few ms."""
_SLOW_NS: Final = 5_000
"""Asking for the time takes less than this, or measuring costs too much; without hardware it is a µs and more."""
_GOVERNORS: Final = Path("/sys/devices/system/cpu")
_THRIFTY: Final = ("powersave", "conservative")
_DRIVERS_OF_THEIR_OWN: Final = ("intel_pstate", "amd-pstate-epp", "amd_pstate_epp")
"""With these ``powersave`` is the usual setting, and follows the load all the same."""


def check_clock(now_ns: Callable[[], int] = time.monotonic_ns, readings: int = _READINGS) -> Iterable[Check]:
    """Whether the clock is fine enough to time stages, and never goes back.

    Args:
        now_ns: The monotonic time.
        readings: How often to ask.
    """
    before = began = now_ns()
    step: int | None = None
    back = False
    for _ in range(readings):
        now = now_ns()
        back = back or now < before
        if now > before:
            step = now - before if step is None else min(step, now - before)
        before = now
    each = (before - began) / readings
    if back:
        yield Check(
            "clock", "failed", "the monotonic time goes back: no latency here can be believed",
            "Update the system's kernel, or the hypervisor that it runs in.",
        )  # fmt: skip
    elif step is None or step > _COARSE_NS:
        found = "it stands still" if step is None else f"it goes in steps of {step / 1e6:.1f} ms"
        yield Check("clock", "missing", f"{found}: short stages cannot be timed", _clock_fix())
    elif each > _SLOW_NS:
        yield Check("clock", "missing", f"asking for the time takes {each / 1e3:.1f} µs", _clock_fix())
    else:
        yield Check("clock", "ok", f"steps of {step} ns or less, {each:.0f} ns to ask, never back")


def _clock_fix() -> str:
    if sys.platform.startswith("linux"):
        return (
            "See /sys/devices/system/clocksource/clocksource0/current_clocksource; tsc or kvm-clock is best."
        )
    return "Compare latencies with care."


def check_power(root: Path = _GOVERNORS) -> Iterable[Check]:
    """Whether the processor is told to save power; silent where the system does not say.

    Args:
        root: Where Linux says it.
    """
    told: dict[str, int] = {}
    for path in sorted(root.glob("cpu[0-9]*/cpufreq/scaling_governor")):
        driver = _word(path.with_name("scaling_driver"))
        name = _word(path)
        if name and not (name == "powersave" and driver in _DRIVERS_OF_THEIR_OWN):
            told[name] = told.get(name, 0) + 1
    thrifty = [name for name in told if name in _THRIFTY]
    if thrifty:
        found = f"the governor {thrifty[0]} keeps {told[thrifty[0]]} cores slow: frames take longer than they need"
        yield Check("power", "missing", found, "sudo cpupower frequency-set -g schedutil")
    elif told:
        yield Check("power", "ok", f"the processor's governor is {', '.join(told)}")


def _word(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace").strip()[:40]
    except OSError:
        return ""


def check_folders(folders: Mapping[str, Path] | None = None) -> Iterable[Check]:
    """Whether what is kept on disk can be written by this user, and by nobody else.

    Args:
        folders: What is kept, and where.
    """
    folders = folders or {"networks": default_folder(), "plans": default_plan_folder()}
    fine = []
    for what, folder in folders.items():
        there = nearest(folder)
        if not os.access(there, os.W_OK | os.X_OK):
            found = f"{short_path(there)} cannot be written, where {what} are kept"
            yield Check("folders", "missing", found, f"sudo chown -R $USER '{there}'")
        elif there == folder and _open_to_others(folder):
            found = f"others can write in {short_path(folder)}, where {what} are kept"
            yield Check("folders", "failed", found, f"chmod go-w '{folder}'")
        else:
            fine.append(short_path(folder))
    if len(fine) == len(folders):
        yield Check("folders", "ok", f"{', '.join(fine)}: yours alone")


def nearest(folder: Path) -> Path:
    """The folder, or the one it would be made in."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def _open_to_others(folder: Path) -> bool:
    mode = folder.stat().st_mode
    return hasattr(os, "getuid") and bool(mode & (stat.S_IWGRP | stat.S_IWOTH))


MACHINE_CHECKS: Final[tuple[tuple[str, Callable[[], Iterable[Check]]], ...]] = (
    ("clock", check_clock),
    ("power", check_power),
    ("folders", check_folders),
)
