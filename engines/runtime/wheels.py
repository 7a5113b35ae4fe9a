"""Which packages are installed, and whether they fit together and to the driver.

ONNX Runtime's CPU and GPU packages own the same folder: whichever was installed last replaces the other without a word.
CUDA, cuDNN, CuPy and TensorRT each come for one major version of CUDA, and must all be for the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Final

RUNTIMES: Final = (
    "onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-directml", "onnxruntime-qnn",
    "onnxruntime-training", "onnxruntime-migraphx",
)  # fmt: skip
"""Packages that bring the module ``onnxruntime``."""

_OTHERS: Final = (
    "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x", "tensorrt-cu12", "tensorrt-cu13", "tensorrt-rtx-cu12",
    "tensorrt-rtx-cu13", "tensorrt",
)  # fmt: skip

_TOO_NEW_FOR_CUDA_12: Final = (1, 27)
"""From this version on onnxruntime-gpu is built for CUDA 13."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """Packages that do not go together.

    Attributes:
        what: Which, and why.
        fix: The line that mends it.
    """

    what: str
    fix: str


def installed(version: Callable[[str], str] = metadata.version) -> dict[str, str]:
    """Versions of those packages that are installed, of all that matter here."""
    found = {}
    for name in (*RUNTIMES, *_OTHERS):
        try:
            found[name] = version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def extra_for(cuda: tuple[int, int]) -> str:
    """The extra of this program for a driver.

    Args:
        cuda: The newest CUDA that the driver supports.
    """
    return "gpu-cu13" if cuda >= (13, 0) else "gpu"


def install_line(cuda: tuple[int, int], found: Mapping[str, str]) -> str:
    """What to type to get the GPU's packages, over whatever is installed.

    Args:
        cuda: The newest CUDA that the driver supports.
        found: As :func:`installed`.
    """
    present = [name for name in RUNTIMES if name in found]
    # pip would leave the other package's files, or take them away with it, so both have to go first.
    first = f"pip uninstall -y {' '.join(present)}; then " if present else ""
    return f"Type: {first}pip install 'doppelcam[{extra_for(cuda)}]'"


def shadowed(found: Mapping[str, str]) -> str:
    """What is wrong where several packages bring ONNX Runtime; empty if one or none does.

    Args:
        found: As :func:`installed`.
    """
    present = [name for name in RUNTIMES if name in found]
    if len(present) < 2:
        return ""
    return f"{' and '.join(present)} are both installed, and one hides the other"


def misfits(found: Mapping[str, str], cuda: tuple[int, int]) -> list[Misfit]:
    """Packages that cannot work together or with the driver.

    Args:
        found: As :func:`installed`.
        cuda: The newest CUDA that the driver supports; (0, 0) where there is none.
    """
    wrong = []
    line = install_line(cuda, found)
    if hidden := shadowed(found):
        wrong.append(Misfit(hidden, line if cuda > (0, 0) else _cpu_line(found)))
    majors = _majors(found)
    if len(set(majors.values())) > 1:
        listed = ", ".join(f"{name} for CUDA {major}" for name, major in majors.items())
        wrong.append(Misfit(f"packages for different versions of CUDA: {listed}", line))
    newer = [name for name, major in majors.items() if major > cuda[0] > 0]
    if newer:
        need = "needs" if len(newer) == 1 else "need"
        what = f"{', '.join(newer)} {need} CUDA {max(majors.values())}, and the driver's most is {cuda[0]}.{cuda[1]}"
        wrong.append(Misfit(what, f"Update NVIDIA's driver, or {line[0].lower()}{line[1:]}"))
    return wrong


def _cpu_line(found: Mapping[str, str]) -> str:
    present = " ".join(name for name in RUNTIMES if name in found)
    return f"Type: pip uninstall -y {present}; then pip install 'doppelcam[cpu]'"


def _majors(found: Mapping[str, str]) -> dict[str, int]:
    """For each package that is bound to one, its major version of CUDA."""
    majors = {}
    for name, version in found.items():
        built_for = re.search(r"-(?:cuda|cu)(\d+)x?$", name)
        if built_for:
            majors[name] = int(built_for[1])
        elif name == "onnxruntime-gpu":
            number = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
            majors[name] = 13 if number >= _TOO_NEW_FOR_CUDA_12 else 12
    return majors
