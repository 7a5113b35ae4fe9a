"""NVIDIA's own compiler, which needs no card, on the kernels: what it says, and what a kernel takes.

python -m tests.engines.kernels.nvrtc      a table of registers and spills, for each generation of cards
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from engines.kernels.gpu import card as gpu

GENERATIONS = {75: "Turing", 80: "A100", 86: "Ampere", 89: "Ada", 90: "Hopper", 120: "Blackwell"}


@dataclass(frozen=True)
class Compiled:
    ok: bool
    log: str

    @property
    def complaints(self) -> list[str]:
        """Lines of the log that are no figures."""
        return [line for line in self.log.splitlines() if line.strip(" \0") and not line.startswith("ptxas ")]

    @property
    def figures(self) -> dict[str, tuple[int, int, int]]:
        """Of each kernel: registers, bytes spilled, bytes of stack."""
        found = {}
        for part in self.log.split("Compiling entry function '")[1:]:
            name = part.split("'", 1)[0]
            stack, stores, loads = (
                int(re.search(rf"(\d+) bytes {what}", part)[1])
                for what in ("stack frame", "spill stores", "spill loads")
            )
            found[name] = (int(re.search(r"Used (\d+) registers", part)[1]), stores + loads, stack)
        return found


@cache
def library() -> ctypes.CDLL | None:
    """NVRTC as pip brings it; None where it is not installed."""
    try:
        spec = importlib.util.find_spec("nvidia.cuda_nvrtc")
    except ModuleNotFoundError:
        return None
    places = list(spec.submodule_search_locations or []) if spec else []
    for place in places:
        for path in sorted((Path(place) / "lib").glob("libnvrtc.so.*")):
            return ctypes.CDLL(str(path))
    return None


def compiled(generation: int, source: str, *options: str) -> Compiled:
    """A text compiled to machine code for one generation of cards."""
    nvrtc, program = library(), ctypes.c_void_p()
    assert nvrtc is not None
    assert (
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"doppelcam.cu", 0, None, None) == 0
    )
    # The last one is CuPy's own, whatever it is told.
    given = [f"-arch=sm_{generation}", *gpu.OPTIONS, *options, "-ftz=true"]
    result = nvrtc.nvrtcCompileProgram(
        program, len(given), (ctypes.c_char_p * len(given))(*(option.encode() for option in given))
    )
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return Compiled(result == 0, log.value.decode())


def main() -> int:
    if library() is None:
        print("NVRTC is not installed here: pip install nvidia-cuda-nvrtc-cu12")
        return 0
    figures = {sm: compiled(sm, gpu.source(), "--ptxas-options=-v").figures for sm in GENERATIONS}
    print(f"{'registers (bytes spilled)':<24}" + "".join(f"{f'sm_{sm}':>10}" for sm in figures))
    for name in gpu.KERNELS:
        cells = [(found[name][0], found[name][1]) for found in figures.values()]
        row = (f"{registers} ({spilled})" if spilled else str(registers) for registers, spilled in cells)
        print(f"{name:<24}" + "".join(f"{cell:>10}" for cell in row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
