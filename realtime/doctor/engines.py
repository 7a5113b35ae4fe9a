"""The doctor's checks of what networks run on: GPU, ONNX Runtime, packages that fit together, and each network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from engines.analysis.topology import WEIGHTS
from engines.errors import EngineError
from engines.runtime import wheels
from engines.runtime.device import CPU, Machine, choose_device
from engines.runtime.driver import Driver, find_driver
from engines.runtime.model.file import SHIPPED
from engines.runtime.open import open_network
from engines.runtime.ort import bindings as ort
from engines.runtime.rate import warm_up
from engines.runtime.trt.bindings import find_package
from engines.runtime.trt.key import driver_version, targets_of
from engines.runtime.trt.plans import PlanStore
from realtime.doctor.check import Check


def check_gpu(machine: Machine | None = None) -> Iterable[Check]:
    """Whether there is a GPU that runs networks; to have none is no fault, to have one that lies idle is.

    Args:
        machine: How to find out what there is.
    """
    machine = machine or Machine()
    driver = machine.driver()
    if not driver.gpus and not driver.broken:
        yield Check("GPU", "ok", f"none: {driver.why_not}; networks run on the CPU")
        return
    for index in [gpu.index for gpu in driver.gpus] or [0]:
        try:
            device = choose_device(f"cuda:{index}", machine)
        except EngineError as error:
            yield Check("GPU", "missing", error.what, error.fix)
        else:
            found = f"{device.name}, {device.why}: a network ran on it, {_painting(machine, index)}"
            yield Check("GPU", "ok", found)


def _painting(machine: Machine, index: int) -> str:
    """Whether pictures can be painted on a GPU too."""
    try:
        able = machine.gpus_of_cupy() > index
    except EngineError as error:
        return f"and pictures are painted on the CPU: {error.what}"
    return (
        "and pictures can be painted on it" if able else "and CuPy does not see it: pictures stay on the CPU"
    )


def check_runtime(load: Callable[[], Any] = ort.load) -> Iterable[Check]:
    """Which ONNX Runtime is installed and what it says that it can do.

    Args:
        load: Gives the module.
    """
    runtime = load()
    package = getattr(runtime, "package_name", "") or "onnxruntime"
    built_for = getattr(runtime, "cuda_version", "")
    cuda = f" for CUDA {built_for}" if built_for else ""
    providers = ", ".join(runtime.get_available_providers())
    yield Check("ONNX Runtime", "ok", f"{package} {runtime.__version__}{cuda}, built with {providers}")


def check_packages(
    found: Mapping[str, str] | None = None, cuda: tuple[int, int] | None = None
) -> Iterable[Check]:
    """Whether the packages for a GPU go together and with the driver; silent where there are none.

    Args:
        found: Versions of what is installed, by name.
        cuda: The newest CUDA that the driver supports.
    """
    found = wheels.installed() if found is None else found
    cuda = find_driver().cuda if cuda is None else cuda
    wrong = wheels.misfits(found, cuda)
    for misfit in wrong:
        yield Check("GPU packages", "missing", misfit.what, misfit.fix)
    for_gpu = [f"{name} {version}" for name, version in found.items() if name != "onnxruntime"]
    if for_gpu and not wrong:
        yield Check("GPU packages", "ok", f"{', '.join(for_gpu)} fit together")


def check_networks(folder: Path = WEIGHTS) -> Iterable[Check]:
    """Where each network of the package really runs, and how long it takes.

    Args:
        folder: Where they lie.
    """
    for path in sorted(folder.glob("*.onnx")):
        network = open_network(path, CPU, hint=SHIPPED)
        try:
            ms = warm_up(network)
            ran = " + ".join(f"{provider} {count} nodes" for provider, count in network.nodes.items())
        finally:
            network.close()
        yield Check("network", "ok", f"{network.name}: {ran}, {ms:.1f} ms")


def check_plans(
    store: PlanStore | None = None,
    driver: Callable[[], Driver] = find_driver,
    found: Mapping[str, str] | None = None,
    version: Callable[[], str] = driver_version,
) -> Iterable[Check]:
    """Which TensorRT plans there are and why one is not used; silent where there are none.

    Args:
        store: The plans.
        driver: The NVIDIA driver.
        found: Versions of what is installed, by name.
        version: Gives the driver's version.
    """
    store = store or PlanStore()
    if not store.any():
        return
    package, about = find_package(found), driver()
    targets = targets_of(about, package, version)
    for held in store.all(*targets):
        name = f"{held.note.name}, {held.note.title}" if held.note else held.note_file
        if held.state != "ready":
            again = (
                f"doppelcam engines build {held.note.name} --again"
                if held.note
                else "doppelcam engines clean"
            )
            yield Check("TensorRT plan", "missing", f"{name} is {held.state}: {held.why}", f"Type: {again}")
        elif targets:
            yield Check("TensorRT plan", "ok", f"{name} is ready")
        else:
            lack = "TensorRT is not installed" if package is None else about.why_not
            yield Check("TensorRT plan", "ok", f"{name} is there, and not used: {lack}")


ENGINE_CHECKS: Final[tuple[tuple[str, Callable[[], Iterable[Check]]], ...]] = (
    ("GPU", check_gpu),
    ("ONNX Runtime", check_runtime),
    ("GPU packages", check_packages),
    ("network", check_networks),
    ("TensorRT plan", check_plans),
)
