"""The ``.cu`` files built by g++ for this processor: every kernel as a function that is launched on NumPy memory."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from engines.kernels.gpu import card as gpu

HERE = Path(__file__).parent
BUILDS = Path(__file__).parents[3] / ".pytest_cache" / "cuda"
COMPILER = shutil.which("g++")

SANITIZE = "DOPPELCAM_CUDA_SANITIZE"
"""Set in the environment, the sanitizers watch; their runtime must be loaded first, as test_cuda_sanitized.py does."""

needs_compiler = pytest.mark.skipif(
    COMPILER is None, reason="there is no g++ here to run the CUDA kernels on the processor with"
)


@cache
def build() -> ctypes.CDLL:
    """The kernels as a library; made once and kept until a source changes."""
    flags = ["-std=c++17", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    if os.environ.get(SANITIZE):
        flags += ["-g", "-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all"]
    text = f'#include "{HERE / "cuda_shim.h"}"\n{gpu.source()}#line 1 "host"\n'
    text += "".join(f"HOST_KERNEL({name})\n" for name in gpu.KERNELS)
    sum_ = hashlib.sha256(
        text.encode() + (HERE / "cuda_shim.h").read_bytes() + repr(flags).encode()
    ).hexdigest()
    library = BUILDS / f"{sum_[:24]}.so"
    if not library.exists():
        BUILDS.mkdir(parents=True, exist_ok=True)
        # Several test processes may build at once; whoever is last replaces the same thing.
        mine = library.with_suffix(f".{os.getpid()}")
        done = subprocess.run(
            [COMPILER, *flags, "-x", "c++", "-", "-o", mine],
            input=text, capture_output=True, text=True, timeout=110, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        mine.replace(library)
    return ctypes.CDLL(str(library))


def kernel(name: str):
    """A kernel as CuPy gives it: called with a grid, a block and its arguments."""
    library = build()
    launch = getattr(library, f"launch_{name}")
    told = getattr(library, f"signature_{name}")
    launch.restype, told.restype = None, ctypes.c_char_p
    wanted = told().decode().split()
    triple = ctypes.c_uint * 3

    def run(grid, block, arguments):
        given = [_code(argument) for argument in arguments]
        assert given == wanted, f"{name} takes {wanted} and was given {given}"
        assert len(grid) == len(block) == 3
        assert np.prod(block) <= 1024
        assert all(0 < size < 65536 for size in grid[1:])
        assert grid[0] > 0
        cells = [_cell(argument) for argument in arguments]
        pointers = (ctypes.c_void_p * len(cells))(*(ctypes.addressof(cell) for cell in cells))
        launch(triple(*grid), triple(*block), pointers)

    return run


def _code(argument) -> str:
    """What an argument is, as the shim names it; a half is its bits."""
    if isinstance(argument, np.generic):
        return f"{argument.dtype.kind}{argument.dtype.itemsize}"
    kind = "u2" if argument.dtype == np.float16 else f"{argument.dtype.kind}{argument.dtype.itemsize}"
    return f"*{kind}"


def _cell(argument) -> ctypes.Array:
    """Memory that holds an argument as a kernel's launch wants it."""
    if isinstance(argument, np.generic):
        return ctypes.create_string_buffer(argument.tobytes(), argument.dtype.itemsize)
    return ctypes.create_string_buffer(bytes(ctypes.c_void_p(argument.data.ptr)), 8)
