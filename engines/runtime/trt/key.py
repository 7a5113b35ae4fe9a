"""What a plan is for: the model and how it was made ready, the shapes, TensorRT, the GPU, and its driver."""

from __future__ import annotations

import ctypes
import hashlib
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from engines.errors import EngineError
from engines.runtime.driver import Driver
from engines.runtime.shapes import shown_shape
from engines.runtime.trt.bindings import Package

_PROC: Final = "/proc/driver/nvidia/version"


@dataclass(frozen=True, slots=True)
class Target:
    """What of a machine a plan is bound to.

    Attributes:
        runtime: ``tensorrt`` or ``tensorrt_rtx``.
        version: Of it.
        cuda: The major version of CUDA that it is for.
        gpu: The GPU's name.
        sm: Its compute capability, as ``8.9``.
        driver: The driver's version.
    """

    runtime: str
    version: str
    cuda: int
    gpu: str
    sm: str
    driver: str


@dataclass(frozen=True, slots=True)
class PlanKey:
    """All that a plan depends on.

    Attributes:
        model: The file's sha256.
        recipe: :attr:`~engines.runtime.trt.fp16.Recipe.text`.
        shapes: Of every input, in the file's order.
        flags: What the builder was told.
        target: The machine.
    """

    model: str
    recipe: str
    shapes: tuple[tuple[int, ...], ...]
    flags: tuple[str, ...]
    target: Target

    @property
    def digest(self) -> str:
        """sha256 of all of it."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def why_stale(key: PlanKey, model: str, shapes: Sequence[Sequence[int]], target: Target) -> str:
    """Why a plan does not fit here, as the end of a sentence; empty if it does.

    Args:
        key: What it was built for.
        model: The sha256 of the model there is.
        shapes: The shapes that are wanted.
        target: This machine.
    """
    was, now = key.target, target
    gpus = f"{was.gpu} (SM {was.sm})", f"{now.gpu} (SM {now.sm})"
    wanted = tuple(tuple(shape) for shape in shapes)
    for what, before, here in (
        ("model", key.model[:12], model[:12]),
        ("shapes", _shown(key.shapes), _shown(wanted)),
        ("TensorRT", f"{was.runtime} {was.version}", f"{now.runtime} {now.version}"),
        ("CUDA", str(was.cuda), str(now.cuda)),
        ("GPU", *gpus),
        ("driver", was.driver, now.driver),
    ):
        if before != here:
            return f"it was built for another {what}: {before}, and here it is {here}"
    return ""


def _shown(shapes: Sequence[Sequence[int]]) -> str:
    return " ".join(shown_shape(shape) for shape in shapes)


def target_of(driver: Driver, gpu: int, package: Package, version: Callable[[], str] | None = None) -> Target:
    """This machine, as a plan is bound to it.

    Args:
        driver: What there is of NVIDIA.
        gpu: Number of the GPU.
        package: TensorRT.
        version: Gives the driver's version.

    Raises:
        EngineError: There is no such GPU.
    """
    found = next((one for one in driver.gpus if one.index == gpu), None)
    if found is None:
        raise EngineError(
            f"There is no GPU cuda:{gpu}{': ' + driver.why_not if driver.why_not else ''}.", driver.fix
        )
    # Without the driver's own version that of its CUDA still tells an update of any size.
    named = (version or driver_version)() or f"CUDA {driver.cuda[0]}.{driver.cuda[1]}"
    sm = f"{found.capability[0]}.{found.capability[1]}"
    return Target(package.name, package.version, package.cuda or driver.cuda[0], found.name, sm, named)


def targets_of(
    driver: Driver, package: Package | None, version: Callable[[], str] | None = None
) -> tuple[Target, ...]:
    """This machine, once for each of its GPUs; empty where it has none, or no TensorRT."""
    if package is None:
        return ()
    return tuple(target_of(driver, gpu.index, package, version) for gpu in driver.gpus)


def driver_version(
    load: Callable[[str], Any] = ctypes.CDLL, proc: str = _PROC, platform: str = sys.platform
) -> str:
    """The driver's version, as ``570.86.10``, from NVML or the kernel module; empty where neither tells.

    Args:
        load: Loads a library.
        proc: Where the kernel module says it.
        platform: As ``sys.platform``.
    """
    text = ctypes.create_string_buffer(96)
    try:
        nvml = load("nvml.dll" if platform == "win32" else "libnvidia-ml.so.1")
        if nvml.nvmlInit_v2() == 0:
            try:
                if nvml.nvmlSystemGetDriverVersion(text, ctypes.c_uint(len(text))) == 0:
                    return text.value.decode("ascii", "replace")
            finally:
                nvml.nvmlShutdown()
    except (OSError, AttributeError):
        pass
    try:
        told = re.search(r"\b\d{3,}\.\d+(?:\.\d+)?\b", Path(proc).read_text("utf-8", "replace"))
    except OSError:
        return ""
    return told[0] if told else ""
