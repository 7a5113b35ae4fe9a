"""The process that builds a plan: started by :mod:`engines.runtime.trt.build`, told its job on stdin, tells on stdout.

A build takes minutes and gigabytes, may end the process, and cannot be interrupted from inside. Each line it tells is
one JSON object.
"""

from __future__ import annotations

import json
import os
import sys
import time
import zipfile
from pathlib import Path
from typing import Any, Final, TextIO

import numpy as np

from engines.errors import DoppelcamError, EngineError
from engines.faces import Array
from engines.runtime.trt.bindings import Package, TensorRt, load
from engines.runtime.trt.compile import compile_plan
from engines.runtime.trt.fp16 import Recipe, make_ready
from engines.runtime.trt.key import PlanKey, Target
from engines.runtime.trt.parity import run_on
from engines.runtime.trt.plans import Loaded, Note

PLAN, JIT, TIMINGS, RESULTS, SAMPLES = "plan", "jit", "timings", "results.npz", "samples.npz"
"""Names of the files of a job, in its folder."""

_EVERY_NS: Final = 200_000_000


class Teller:
    """Tells how far the job is, at most five times a second.

    Args:
        out: Where.
    """

    def __init__(self, out: TextIO) -> None:
        self._out, self._next = out, 0

    def tell(self, **what: Any) -> None:
        """Tells one thing."""
        self._out.write(json.dumps(what) + "\n")
        self._out.flush()

    def step(self, done: float, doing: str) -> bool:
        """See :data:`~engines.runtime.trt.compile.Report`; stops the build when nobody listens any more."""
        now = time.monotonic_ns()
        if now < self._next:
            return True
        self._next = now + _EVERY_NS
        try:
            self.tell(stage="build", done=round(done, 3), doing=doing)
        except OSError:
            return False
        return True


def work(job: dict[str, Any], teller: Teller) -> None:
    """Does a job.

    Args:
        job: ``model``, ``name``, ``folder``, ``recipe``, ``shapes`` (by input), ``outputs``, ``package``, and ``gpu``,
            which is None where there is none to try the plan on.
        teller: Told how far it is, and at the end the number of layers, the warnings and whether the plan was tried.

    Raises:
        EngineError: It cannot be done.
    """
    folder, name = Path(job["folder"]), str(job["name"])
    recipe = Recipe(job["recipe"]["precision"], tuple(job["recipe"]["keep"]))
    package = Package(**job["package"])
    gpu = None if job["gpu"] is None else int(job["gpu"])
    cupy = None
    if gpu is not None:
        from engines.kernels.gpu.card import load_cupy

        cupy = load_cupy()  # before TensorRT, which does not bear to find no GPU
        cupy.cuda.Device(gpu).use()
    teller.tell(stage="convert")
    ready = make_ready(Path(job["model"]), recipe, job["shapes"])
    trt = load(package)
    timings = folder / TIMINGS
    known = timings.read_bytes() if timings.exists() else b""
    teller.tell(stage="build", done=0.0, doing="reading the network")
    built = compile_plan(trt, ready, name, teller.step, known, for_this_gpu=gpu is not None)
    del ready
    (folder / PLAN).write_bytes(built.plan)
    if built.timings:
        timings.write_bytes(built.timings)
    tried = cupy is not None and gpu is not None and (folder / SAMPLES).exists()
    if tried:
        teller.tell(stage="compare")
        _try(job, built.plan, trt, cupy, gpu or 0, folder)
    teller.tell(stage="done", layers=built.layers, warned=list(built.warned), tried=tried)


def _try(job: dict[str, Any], plan: bytes, trt: TensorRt, cupy: Any, gpu: int, folder: Path) -> None:
    """Runs the plan on the samples, and keeps what it gives."""
    from engines.runtime.trt.network import TensorRtNetwork

    names, package = tuple(job["shapes"]), job["package"]
    target = Target(package["name"], package["version"], package["cuda"], "", "", "")
    key = PlanKey("", job["recipe"]["precision"], (), (), target)
    note = Note(str(job["name"]), key, "", len(plan), "", names, tuple(job["outputs"]))
    network = TensorRtNetwork(note.name, Loaded(note, plan), trt, cupy, gpu)
    try:
        results: dict[str, Array] = {}
        for number, inputs in enumerate(read_samples(folder / SAMPLES, len(names))):
            for place, out in enumerate(run_on(network, inputs)):
                results[f"{number}_{place}"] = out
        np.savez(folder / RESULTS, **results)  # type: ignore[arg-type]
        jit = network.jit()
    finally:
        network.close()
    if jit:
        (folder / JIT).write_bytes(jit)


def write_samples(path: Path, samples: list[tuple[Array, ...]]) -> None:
    """Writes inputs, or outputs, of several runs."""
    arrays = {
        f"{number}_{place}": one for number, each in enumerate(samples) for place, one in enumerate(each)
    }
    np.savez(path, **arrays)  # type: ignore[arg-type]


def read_samples(path: Path, width: int) -> list[tuple[Array, ...]]:
    """Reads them again.

    Args:
        path: The file.
        width: How many there are of each run.

    Raises:
        EngineError: The file is broken.
    """
    try:
        with np.load(path, allow_pickle=False) as table:
            count = len(table.files) // max(width, 1)
            return [tuple(table[f"{number}_{place}"] for place in range(width)) for number in range(count)]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise EngineError(f"What was to be compared cannot be read: {error}.") from error


def main() -> int:
    """Reads a job on stdin and does it."""
    # Libraries print as they like; what they print must not be taken for what we tell.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    teller = Teller(out)
    try:
        work(json.loads(sys.stdin.read()), teller)
    except DoppelcamError as error:
        teller.tell(stage="failed", what=error.what, fix=error.fix)
        return error.exit_code
    except MemoryError:
        teller.tell(
            stage="failed", what="There is not enough memory to build it.", fix="Close other programs."
        )
        return EngineError.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
