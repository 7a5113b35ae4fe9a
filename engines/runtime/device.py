"""What networks and kernels run on, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from engines.errors import EngineError
from engines.kernels.gpu.card import load_cupy
from engines.runtime import wheels
from engines.runtime.driver import Driver, Gpu, find_driver
from engines.runtime.ort import bindings as ort
from engines.runtime.ort.session import Place, open_session
from engines.runtime.trt.bindings import find_package

_CPU_FIX: Final = "Use --device cpu, or --device auto."


@dataclass(frozen=True, slots=True)
class Device:
    """What networks and kernels run on.

    Attributes:
        name: ``cpu`` or ``cuda:N``.
        why: What it is, or why it was taken where the user left the choice.
        may_fall_back: Whether the CPU may take the place of a GPU: where the user left the choice.
    """

    name: str
    why: str = ""
    may_fall_back: bool = False

    @property
    def kind(self) -> str:
        """``cpu`` or ``cuda``."""
        return self.name.partition(":")[0]

    @property
    def index(self) -> int:
        """Which one of its kind."""
        return int(self.name.partition(":")[2] or 0)


CPU = Device("cpu")


@dataclass(frozen=True, slots=True)
class Machine:
    """How to find out what there is; tests put in a machine of their own.

    Attributes:
        driver: The NVIDIA driver.
        runtime: ONNX Runtime made ready for CUDA, and the libraries it lacks. Asked only where there is a GPU.
        installed: Versions of the packages that matter.
        gpus_of_cupy: How many GPUs CuPy finds; asked only where there is one, and TensorRT.
    """

    driver: Callable[[], Driver] = find_driver
    runtime: Callable[[], tuple[Any, Sequence[str]]] = ort.load_for_cuda
    installed: Callable[[], Mapping[str, str]] = wheels.installed
    gpus_of_cupy: Callable[[], int] = lambda: int(load_cupy().cuda.runtime.getDeviceCount())


def choose_device(
    asked: str,
    machine: Machine | None = None,
    able: Sequence[str] = ("cpu", "cuda"),
    who: str = "This engine",
) -> Device:
    """What to run on; never something else than was asked for.

    Args:
        asked: ``cpu``, ``cuda``, ``cuda:N``, or ``auto`` for a GPU that really works, else the CPU.
        machine: How to find out what there is.
        able: Kinds of device that what is to run can use.
        who: What is to run, for the message.

    Raises:
        EngineError: It is not there or does not work; never for ``auto``.
    """
    machine = machine or Machine()
    if asked == "auto":
        return _whatever_works(machine, able, who)
    kind, colon, number = asked.partition(":")
    if kind not in ("cpu", "cuda") or (colon and (kind == "cpu" or not number.isdecimal())):
        raise EngineError(f"There is no device '{asked}'.", "Use --device auto, cpu, cuda or cuda:N.")
    if kind not in able:
        raise EngineError(
            f"The device {asked} was asked for, and {_small(who)} does not run on it.",
            f"Use --device {able[0]}, or --device auto.",
        )
    if kind == "cpu":
        return CPU
    try:
        return _gpu(int(number or 0), machine)
    except _Lacking as lack:
        raise EngineError(f"The device {asked} was asked for, and {_small(lack.why)}.", lack.fix) from lack


class _Lacking(Exception):
    """Why a GPU cannot be used, as the end of a sentence, and what helps."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(why)
        self.why = why.strip().rstrip(".")
        self.fix = f"{fix.strip().rstrip('.')}. Or use --device cpu." if fix else _CPU_FIX
        if "--device cpu" in fix:
            self.fix = fix


def _whatever_works(machine: Machine, able: Sequence[str], who: str) -> Device:
    if "cuda" not in able:
        return Device("cpu", f"{_small(who)} runs on the CPU")
    try:
        return replace(_gpu(0, machine), may_fall_back=True)
    except _Lacking as lack:
        return Device("cpu", lack.why)
    except Exception as error:  # whatever a broken installation throws, there is always the CPU
        return Device("cpu", f"looking for a GPU failed: {type(error).__name__}: {error}")


def _small(text: str) -> str:
    # A name in capitals stays as it is.
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def _gpu(index: int, machine: Machine) -> Device:
    """A GPU that has just run a network.

    Raises:
        _Lacking: There is none that does.
    """
    driver = machine.driver()
    if not driver.gpus:
        raise _Lacking(driver.why_not, driver.fix)
    gpu = next((one for one in driver.gpus if one.index == index), None)
    if gpu is None:
        there = ", ".join(f"cuda:{one.index} ({one.name})" for one in driver.gpus)
        raise _Lacking(f"there is only {there}", "")
    found = machine.installed()
    install = wheels.install_line(driver.cuda, found)
    try:
        runtime, missing = machine.runtime()
    except EngineError as error:
        raise _Lacking(error.what, install) from error
    if ort.CUDA_PROVIDER not in runtime.get_available_providers():
        if plans := _runs_plans(index, found, machine):
            return Device(f"cuda:{index}", f"{gpu.name}, driver for CUDA {_dotted(driver.cuda)}, {plans}")
        without = f"{runtime.package_name or 'onnxruntime'} {runtime.__version__} has no CUDA in it"
        raise _Lacking(wheels.shadowed(found) or without, install)
    built_for = _major(getattr(runtime, "cuda_version", ""))
    if built_for > driver.cuda[0]:
        why = f"onnxruntime-gpu is built for CUDA {built_for}, and the driver supports {_dotted(driver.cuda)} at most"
        raise _Lacking(why, f"Update NVIDIA's driver, or {_small(install)}")
    try:
        run_a_small_network(runtime, index)
    except Exception as error:
        if missing:
            listed = ", ".join(missing)
            add = wheels.install_line((built_for, 0), {})
            raise _Lacking(f"CUDA's libraries cannot be loaded: {listed}", add) from error
        text = error.what if isinstance(error, EngineError) else ort.brief(error)
        raise _Lacking(f"no network runs on it: {_small(text)}", "Type: doppelcam doctor") from error
    return Device(f"cuda:{index}", _about(gpu, driver, runtime))


def _runs_plans(index: int, found: Mapping[str, str], machine: Machine) -> str:
    """What runs plans of TensorRT on a GPU where ONNX Runtime has no CUDA; empty if nothing does."""
    package = find_package(found)
    if package is None or wheels.shadowed(found):
        return ""
    try:
        return f"{package.title} for networks that have a plan" if machine.gpus_of_cupy() > index else ""
    except EngineError:
        return ""


def _about(gpu: Gpu, driver: Driver, runtime: Any) -> str:
    return f"{gpu.name}, driver for CUDA {_dotted(driver.cuda)}, onnxruntime-gpu {runtime.__version__}"


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _major(version: str) -> int:
    number = str(version).partition(".")[0]
    return int(number) if number.isdecimal() else 0


# ONNX, opset 13: y = Conv(x, w), x and y 1×1×4×4, w 1×1×3×3 of ones, padded by one.
_CONVOLUTION: Final = bytes.fromhex(
    "080712003ab4010a3c0a01780a01771201791a01632204436f6e762a150a0c6b65726e656c5f736861706540034003a001072a110a04706164"
    "734001400140014001a00107120570726f62652a33080108010803080310014201774a240000803f0000803f0000803f0000803f0000803f00"
    "00803f0000803f0000803f0000803f5a1b0a017812160a14080112100a0208010a0208010a0208040a020804621b0a017912160a1408011210"
    "0a0208010a0208010a0208040a02080442040a00100d"
)


def run_a_small_network(runtime: Any, gpu: int | None) -> None:
    """Runs a convolution, since a provider may load and fail only when it has something to do.

    Args:
        runtime: ONNX Runtime.
        gpu: Number of the GPU; None for the CPU.

    Raises:
        EngineError: It ran elsewhere, or came out wrong.
        Exception: Of the runtime's own classes, when it failed.
    """
    session, _ = open_session(runtime, _CONVOLUTION, Place(gpu), "A small network")
    found = np.asarray(session.run(None, {"x": np.ones((1, 1, 4, 4), np.float32)})[0])
    corner = found.reshape(-1)[:2].tolist() if found.size == 16 else []
    if corner != [4.0, 6.0]:
        raise EngineError(f"it came out wrong: {corner}")
