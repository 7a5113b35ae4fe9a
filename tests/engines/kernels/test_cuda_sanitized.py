"""All tests of the CUDA kernels once more, with the compiler watching every address and every number."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines.kernels.cuda_host import COMPILER, SANITIZE, needs_compiler

ROOT = Path(__file__).parents[3]
TESTS = [f"tests/engines/kernels/test_cuda_{name}.py" for name in ("pictures", "mesh", "faces", "masks")]

PROBE = """
import numpy as np
from tests.engines.kernels.cuda_stand_in import Desk
desk = Desk()
short = desk.card.empty((8, 8, 3), np.uint8)
# What the checks of the program would refuse: a kernel that is told the picture has one row more.
desk.card.launch("paint_sprite", (1, 2, 1), (32, 8, 1), short, *map(np.int32, (8, 9, 24)),
                 *desk.there(np.zeros((9, 8, 3), np.uint8), np.zeros((9, 8, 3), np.uint8)),
                 *map(np.int32, (8, 9, 0, 0)))
print("nothing was found")
"""


def runtimes():
    """The sanitizers' libraries, as g++ would link them; empty where they are not installed."""
    found = []
    for name in ("libasan.so", "libubsan.so"):
        told = subprocess.run(
            [COMPILER, f"-print-file-name={name}"], capture_output=True, text=True, check=True
        )
        path = Path(told.stdout.strip())
        if not path.is_absolute():
            return []
        found.append(str(path.resolve()))
    return found


def watched(*command):
    libraries = runtimes()
    if not libraries:
        pytest.skip("g++ has no sanitizers here")
    environment = {
        **os.environ, SANITIZE: "1", "LD_PRELOAD": " ".join(libraries),
        # Python itself never frees everything.
        "ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1",
    }  # fmt: skip
    environment.pop("PYTEST_XDIST_WORKER", None)
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


@needs_compiler
@pytest.mark.slow
@pytest.mark.timeout(700)
@pytest.mark.skipif(sys.platform != "linux", reason="the sanitizers are loaded as on Linux")
def test_no_kernel_reads_or_writes_what_is_not_its_own():
    done = watched("-m", "pytest", "-q", "-x", "-p", "no:xdist", "-p", "no:cacheprovider", *TESTS)
    assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]
    assert " passed" in done.stdout


@needs_compiler
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the sanitizers are loaded as on Linux")
def test_a_write_behind_the_end_would_be_found():
    done = watched("-c", PROBE)
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr
    assert "nothing was found" not in done.stdout
