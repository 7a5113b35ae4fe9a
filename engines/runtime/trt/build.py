"""A model in, a plan out: built in a process of its own, compared with the model, and kept. Never done inside a run."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from engines.catalogue.claim import claimed
from engines.errors import EngineError
from engines.runtime.trt import build_child as child
from engines.runtime.trt.bindings import Package, brief
from engines.runtime.trt.compile import FLAGS
from engines.runtime.trt.fp16 import Recipe
from engines.runtime.trt.key import PlanKey, Target
from engines.runtime.trt.parity import Embed, Sample, Verdict, judge
from engines.runtime.trt.plans import Note, PlanStore, parts_of

LOCK: Final = "build"
_TAIL: Final = 2000

Progress = Callable[[str, float | None], None]
"""Takes what is being done, and how much of it is done, 0…1, where that is known."""


@dataclass(frozen=True, slots=True)
class Job:
    """What to build.

    Attributes:
        name: Of the model, for a person.
        model: The file.
        sha256: Its sum.
        recipe: How it is made ready.
        shapes: Of every input by name, in the file's order.
        outputs: Names of the outputs, in the file's order.
        package: TensorRT.
        target: The machine.
        gpu: Number of the GPU; None builds without one, which only TensorRT-RTX can, and leaves the plan unproven.
        samples: What the model gives in float32 for some faces.
        embed: Tells whose face a picture shows, where an embedder is at hand.
    """

    name: str
    model: Path
    sha256: str
    recipe: Recipe
    shapes: Mapping[str, tuple[int, ...]]
    outputs: tuple[str, ...]
    package: Package
    target: Target
    gpu: int | None = 0
    samples: Sequence[Sample] = field(default=(), repr=False)
    embed: Embed | None = None

    @property
    def key(self) -> PlanKey:
        """What the plan is for."""
        return PlanKey(self.sha256, self.recipe.text, tuple(self.shapes.values()), FLAGS, self.target)


@dataclass(frozen=True, slots=True)
class Built:
    """What came of a job.

    Attributes:
        note: What is kept beside the plan.
        warned: What TensorRT warned of.
        new: Whether it was built now; else there was one already.
    """

    note: Note
    warned: tuple[str, ...] = ()
    new: bool = True


def build(
    job: Job,
    store: PlanStore,
    progress: Progress,
    again: bool = False,
    command: Sequence[str] = (sys.executable, "-P", "-m", "engines.runtime.trt.build_child"),
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Built:
    """Builds a plan, compares it with the model and keeps both the plan and the verdict.

    Nothing of the folder changes before all of it is done; whatever interrupts it, ``KeyboardInterrupt`` too, ends the
    process that builds and removes what it wrote.

    Args:
        job: What to build.
        store: Where to keep it.
        progress: Told how far it is.
        again: Even if there is one.
        command: What to start, in tests.
        now: The time, for the note.

    Raises:
        EngineError: It cannot be built.
        DoppelcamError: Another process builds.
    """
    folder = store.folder
    folder.make()
    # One at a time: builds measure kernels, and would measure each other.
    with claimed(folder.path / LOCK):
        there = [one for one in store.all(job.target) if one.note and one.note.key == job.key]
        if there and there[0].note and there[0].state in ("ready", "refused") and not again:
            return Built(there[0].note, new=False)
        began = now()
        with _workplace(store) as place:
            timings = _timings_name(job.target)
            with contextlib.suppress(EngineError):
                (place / child.TIMINGS).write_bytes(folder.read(timings, 1 << 30))
            if job.samples:
                child.write_samples(place / child.SAMPLES, [one.inputs for one in job.samples])
            told = _run(job, place, progress, command)
            verdict = _judged(job, place) if told["tried"] else None
            note = Note(
                job.name, job.key, "", 0, "", tuple(job.shapes), job.outputs, verdict, layers=int(told["layers"]),
                seconds=round((now() - began).total_seconds(), 1), built=began.isoformat(timespec="seconds"),
            )  # fmt: skip
            jit = place / child.JIT
            note = store.put(
                note, (place / child.PLAN).read_bytes(), jit.read_bytes() if jit.exists() else b""
            )
            if (place / child.TIMINGS).exists():
                folder.write(timings, (place / child.TIMINGS).read_bytes())
    return Built(note, tuple(map(str, told["warned"])))


@contextlib.contextmanager
def _workplace(store: PlanStore) -> Iterator[Path]:
    for left in list(
        parts_of(store)
    ):  # of a build that was killed; there can be only one now, and it is ours
        shutil.rmtree(left, ignore_errors=True)
    place = Path(tempfile.mkdtemp(prefix=".building-", dir=store.folder.path))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _timings_name(target: Target) -> str:
    gpu = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in target.gpu)[:40]
    return f"{target.runtime}-{target.version}-{gpu}-{target.sm}.timings"


def _judged(job: Job, place: Path) -> Verdict:
    given = child.read_samples(place / child.RESULTS, len(job.outputs))
    return judge(job.samples, given, job.embed)


def _run(job: Job, place: Path, progress: Progress, command: Sequence[str]) -> dict[str, Any]:
    """Runs the process that builds, and returns what it told last.

    Raises:
        EngineError: It failed.
    """
    text = json.dumps({
        "model": str(job.model), "name": job.name, "folder": str(place), "recipe": asdict(job.recipe),
        "shapes": job.shapes, "outputs": job.outputs, "package": asdict(job.package), "gpu": job.gpu,
    })  # fmt: skip
    root = str(Path(__file__).parents[3])
    paths = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    # A group of its own: Ctrl-C reaches only us, and we end it.
    apart: dict[str, Any] = (
        {"creationflags": 0x200} if sys.platform == "win32" else {"start_new_session": True}
    )
    with (place / "log").open("w+b") as log:
        process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=place,
            env={**os.environ, "PYTHONPATH": paths}, **apart,
        )  # fmt: skip
        last: dict[str, Any] = {}
        try:
            with contextlib.suppress(BrokenPipeError):
                _hand_over(process, text)
            for line in process.stdout or ():
                last = _heard(line, last, progress)
            code = process.wait()
        finally:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()
        if last.get("stage") == "failed":
            raise EngineError(str(last.get("what", "")), str(last.get("fix", "")))
        if code != 0 or last.get("stage") != "done":
            log.seek(max(0, log.tell() - _TAIL))
            lines = log.read().decode("utf-8", "replace").strip().splitlines()
            ended = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
            said = f": {brief(lines[-1])}" if lines else ""
            raise EngineError(
                f"The process that builds the plan of {job.name} {ended}{said}.",
                "It may have run out of memory: close other programs and try again.",
            )
    return last


def _hand_over(process: subprocess.Popen[bytes], text: str) -> None:
    if process.stdin:
        with process.stdin:
            process.stdin.write(text.encode())


def _heard(line: bytes, last: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """One line of the process; what is none of ours is left out."""
    try:
        told = json.loads(line)
    except ValueError:
        return last
    if not isinstance(told, dict):
        return last
    stage = told.get("stage")
    if stage == "convert":
        progress("converting the network", None)
    elif stage == "build":
        done = told.get("done")
        progress(brief(told.get("doing", "")), float(done) if isinstance(done, int | float) else None)
    elif stage == "compare":
        progress("comparing it with the model", None)
    return told
