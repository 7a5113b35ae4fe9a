"""The NVIDIA driver, asked directly: what is there, before anything that needs it is touched.

ONNX Runtime's GPU build, CuPy and TensorRT fail in strange ways on a machine without a driver, so this comes first. It
uses the CUDA driver API (``cuda.h``) through ctypes and makes no context: no memory of a GPU is taken.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_INSTALL: Final = "Install NVIDIA's driver, or use --device cpu."
_SAME: Final = "Install libcuda of the same version as the driver, or use --device cpu."
_CONTAINER: Final = "Start the container with --gpus all (NVIDIA Container Toolkit), or use --device cpu."
_RESTART: Final = "Restart the machine, so that the driver's parts fit together, or use --device cpu."
_UPDATE: Final = "Update NVIDIA's driver, or use --device cpu."

_NO_DEVICE: Final = 100
_FAULTS: Final[Mapping[int, tuple[str, str]]] = {
    3: ("the driver does not start", _RESTART),
    34: ("libcuda is the stub of a toolkit, not a driver", _INSTALL),
    35: ("the driver is too old", _UPDATE),
    46: ("the GPU is busy or locked", "End what holds it, or use --device cpu."),
    _NO_DEVICE: ("the driver sees no GPU", "Look what nvidia-smi says, or use --device cpu."),
    802: ("the GPU is not ready yet", "Try again in a minute, or use --device cpu."),
    803: ("the driver's library and its kernel module are of different versions", _RESTART),
    804: ("the driver does not support this GPU", _UPDATE),
    999: ("the driver failed", _RESTART),
}
"""Of ``CUresult``."""

_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU.

    Attributes:
        index: As in ``cuda:N``.
        name: What it calls itself.
        memory_mb: All of its memory, MB.
        capability: Compute capability, as (8, 9).
    """

    index: int
    name: str
    memory_mb: int
    capability: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Driver:
    """What the machine has of NVIDIA.

    Attributes:
        gpus: Every GPU; empty where none can be used.
        cuda: The newest CUDA that the driver supports, as (12, 8).
        why_not: Why none can be used.
        fix: What helps.
        broken: Whether something of NVIDIA is there all the same: then this is a fault, and not just a machine without.
    """

    gpus: tuple[Gpu, ...] = ()
    cuda: tuple[int, int] = (0, 0)
    why_not: str = ""
    fix: str = ""
    broken: bool = False


def find_driver(
    load: Callable[[str], Any] = ctypes.CDLL,
    exists: Callable[[str], bool] = lambda path: Path(path).exists(),
    environment: Mapping[str, str] = os.environ,
    platform: str = sys.platform,
) -> Driver:
    """Looks for the driver and its GPUs. Never fails.

    Args:
        load: Loads a library.
        exists: Whether a path is there.
        environment: Variables; ``CUDA_VISIBLE_DEVICES`` can hide every GPU.
        platform: As ``sys.platform``.
    """
    if platform == "darwin":
        return Driver(why_not="there is no NVIDIA driver for this system", fix="Use --device cpu.")
    name = "nvcuda.dll" if platform == "win32" else "libcuda.so.1"
    try:
        library = load(name)
    except OSError:
        return _none(name, exists, platform)
    try:
        return _ask(library, environment)
    except AttributeError as error:
        return Driver(why_not=f"{name} is not NVIDIA's: {error}", fix=_INSTALL, broken=True)


def _none(name: str, exists: Callable[[str], bool], platform: str) -> Driver:
    """Why there is no library."""
    if platform == "win32":
        return Driver(why_not=f"there is no NVIDIA driver ({name} cannot be loaded)", fix=_INSTALL)
    inside = exists("/.dockerenv") or exists("/run/.containerenv")
    if not exists("/dev/nvidiactl"):
        why = f"there is no NVIDIA driver (no /dev/nvidiactl, and {name} cannot be loaded)"
        return Driver(why_not=why, fix=_CONTAINER if inside else _INSTALL)
    why = f"the GPU's device is there (/dev/nvidiactl), and the driver's {name} cannot be loaded"
    return Driver(why_not=why, fix=_CONTAINER if inside else _SAME, broken=True)


def _ask(library: Any, environment: Mapping[str, str]) -> Driver:
    result = int(library.cuInit(ctypes.c_uint(0)))
    if result == _NO_DEVICE and "CUDA_VISIBLE_DEVICES" in environment:
        hidden = environment["CUDA_VISIBLE_DEVICES"]
        why = f"the driver sees no GPU, since CUDA_VISIBLE_DEVICES is {hidden!r}"
        return Driver(why_not=why, fix="Type: unset CUDA_VISIBLE_DEVICES", broken=True)
    if result:
        why, fix = _FAULTS.get(result, ("the driver failed", _RESTART))
        return Driver(why_not=f"{why} (cuInit gave {result})", fix=fix, broken=True)
    version, count = ctypes.c_int(), ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(version))
    library.cuDeviceGetCount(ctypes.byref(count))
    cuda = (version.value // 1000, version.value % 1000 // 10)
    gpus = tuple(gpu for index in range(count.value) if (gpu := _gpu(library, index)))
    if not gpus:
        why, fix = _FAULTS[_NO_DEVICE]
        return Driver(cuda=cuda, why_not=why, fix=fix, broken=True)
    return Driver(gpus, cuda)


def _gpu(library: Any, index: int) -> Gpu | None:
    device, memory = ctypes.c_int(), ctypes.c_size_t()
    if library.cuDeviceGet(ctypes.byref(device), ctypes.c_int(index)):
        return None
    name = ctypes.create_string_buffer(128)
    library.cuDeviceGetName(name, ctypes.c_int(len(name) - 1), device)
    library.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    parts = []
    for attribute in (_CAPABILITY_MAJOR, _CAPABILITY_MINOR):
        value = ctypes.c_int()
        library.cuDeviceGetAttribute(ctypes.byref(value), ctypes.c_int(attribute), device)
        parts.append(value.value)
    shown = name.value.decode("utf-8", "replace") or f"GPU {index}"
    return Gpu(index, shown, memory.value // 2**20, (parts[0], parts[1]))
