"""Building: a process of its own that may do anything, and a folder in which nothing is ever half-written."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engines.catalogue.claim import claimed
from engines.errors import DoppelcamError, EngineError
from engines.files import sha256_of
from engines.runtime.ort.network import OnnxNetwork
from engines.runtime.trt import build_child
from engines.runtime.trt.bindings import Package, find_package
from engines.runtime.trt.build import LOCK, Job, build
from engines.runtime.trt.fp16 import recipe_for
from engines.runtime.trt.parity import sample
from engines.runtime.trt.plans import PlanStore
from tests.engines.runtime.graphs import double
from tests.engines.runtime.test_fp16 import swapper
from tests.engines.runtime.test_plans import HERE

ROOT = Path(__file__).parents[3]

CHILD = """
import io, json, os, sys, time
import numpy as np
job = json.loads(sys.stdin.read())
def tell(**what):
    print(json.dumps(what), flush=True)
def done(**more):
    tell(stage="done", layers=5, warned=[], tried="RESULTS" in globals(), **more)
def plan(data=b"ptrt a plan"):
    open("plan", "wb").write(data)
def results(change):
    globals()["RESULTS"] = True
    with np.load("samples.npz") as table:
        np.savez("results.npz", **{name: change(table[name]) for name in table.files})
"""


def child(text):
    """A process that builds, or does not."""
    return [sys.executable, "-c", CHILD + textwrap.dedent(text)]


@pytest.fixture
def store(tmp_path):
    return PlanStore(tmp_path / "plans")


@pytest.fixture
def job(tmp_path):
    path = double(tmp_path / "double.onnx")
    network = OnnxNetwork(path)
    rng = np.random.default_rng(0)
    samples = [sample(network, [rng.random((1, 3, 4, 4))]) for _ in range(2)]
    network.close()
    return Job(
        "double", path, sha256_of(path), recipe_for("double"), {"x": (1, 3, 4, 4)}, ("y",),
        Package("tensorrt", HERE.version, 12), HERE, 0, samples,
    )  # fmt: skip


def silent(doing, done):
    pass


def left(store):
    """What the folder has besides its key and its lock."""
    return sorted(
        path.name for path in store.folder.path.iterdir() if path.name not in (".key", f".{LOCK}.claim")
    )


GOOD = child("""
    tell(stage="convert"); tell(stage="build", done=0.25, doing="tactics"); plan(); results(lambda x: 2 * x)
    open("jit", "wb").write(b"kernels"); open("timings", "wb").write(b"times")
    tell(stage="compare"); done()
""")


def test_a_plan_is_built_compared_and_kept(store, job):
    told = []
    built = build(job, store, lambda doing, done: told.append((doing, done)), command=GOOD)
    assert built.new and built.note.verdict.passed
    assert built.note.verdict.figures["output 0: largest error"] < 1e-6
    assert told == [
        ("converting the network", None),
        ("tactics", 0.25),
        ("comparing it with the model", None),
    ]
    found = store.load("double", job.sha256, [(1, 3, 4, 4)], HERE)
    assert (found.plan, found.jit, found.note.layers) == (b"ptrt a plan", b"kernels", 5)
    assert (found.note.inputs, found.note.outputs) == (("x",), ("y",))
    assert sorted(Path(name).suffix for name in left(store)) == [".jit", ".json", ".plan", ".timings"]


def test_what_is_there_is_not_built_again_unless_asked(store, job):
    build(job, store, silent, command=GOOD)
    fails = child("sys.exit(9)")
    assert not build(job, store, silent, command=fails).new
    with pytest.raises(EngineError, match="ended with 9"):
        build(job, store, silent, again=True, command=fails)
    assert store.all(HERE)[0].state == "ready", "what was there stays"
    other = replace(job, recipe=recipe_for("double", "fp32"))
    assert build(other, store, silent, command=GOOD).new
    assert len(store.all(HERE)) == 2


def test_times_of_the_last_build_are_given_to_the_next(store, job):
    build(job, store, silent, command=GOOD)
    again = child("""
        assert open("timings", "rb").read() == b"times"
        open("timings", "wb").write(b"times and more"); plan(); results(lambda x: 2 * x); done()
    """)
    build(job, store, silent, again=True, command=again)
    assert next(store.folder.path.glob("*.timings")).read_bytes() == b"times and more"


REFUSED = {"black": "x * 0", "NaN": "x * float('nan')", "something else": "2 * x[..., ::-1]"}


@pytest.mark.parametrize("what", REFUSED)
def test_a_plan_that_gives_other_pictures_is_kept_as_refused(store, job, what):
    text = f"plan(); results(lambda x: {REFUSED[what]}); done()"
    built = build(job, store, silent, command=child(text))
    assert not built.note.verdict.passed
    assert store.all(HERE)[0].state == "refused"
    assert not build(job, store, silent, command=child("sys.exit(9)")).new, "it would be refused again"
    with pytest.raises(EngineError, match="compared with the model"):
        store.load("double", job.sha256, [(1, 3, 4, 4)], HERE)


def test_a_plan_that_could_not_be_tried_is_unproven(store, job):
    assert build(job, store, silent, command=child("plan(); done()")).note.verdict is None
    assert store.all(HERE)[0].state == "unproven"
    assert build(job, store, silent, command=GOOD).note.verdict.passed, "and is built again"


FAULTS = {
    "crash": ("import ctypes, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ended by signal 11"),
    "no memory": ("import signal; plan(); os.kill(os.getpid(), signal.SIGKILL)", "ended by signal 9"),
    "error": ("raise RuntimeError('something odd')", "RuntimeError: something odd"),
    "nothing told": ("plan()", "ended with 0"),
    "told to fail": (
        "tell(stage='failed', what='TensorRT cannot read it.', fix='Export.'); sys.exit(4)",
        "cannot read",
    ),
    "garbage": ("os.write(1, bytes(range(256)) * 100 + b'\\n[1]\\n{\\n'); sys.exit(3)", "ended with 3"),
    "nobody listens": ("sys.stdin.close(); sys.exit(5)", "ended with 5"),
    "results of another shape": (
        "plan(); np.savez('results.npz', a=1); RESULTS = 1; done()",
        "cannot be read",
    ),
    "results with code": (
        "plan(); np.savez('results.npz', **{'0_0': np.array([{}], object)}, allow_pickle=True); RESULTS = 1; done()",
        "cannot be read",
    ),
}


@pytest.mark.skipif(os.name == "nt", reason="signals are those of Unix")
@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_the_process_does_the_folder_stays_clean(store, job, fault):
    text, expected = FAULTS[fault]
    with pytest.raises(EngineError, match=expected):
        build(job, store, silent, command=child(text))
    assert left(store) == []


@pytest.mark.skipif(os.name == "nt", reason="signals are those of Unix")
def test_ctrl_c_ends_the_process_and_leaves_nothing(store, job):
    pids = []

    def interrupt(doing, done):
        pids.append(int(doing))
        raise KeyboardInterrupt

    endless = child("plan(); tell(stage='build', done=0.1, doing=str(os.getpid())); time.sleep(600)")
    with pytest.raises(KeyboardInterrupt):
        build(job, store, interrupt, command=endless)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
    assert left(store) == []
    assert build(job, store, silent, command=GOOD).new, "the lock is free"


def test_what_a_killed_build_left_is_removed_by_the_next(store, job):
    store.folder.make()
    leftover = store.folder.path / ".building-x1"
    leftover.mkdir()
    (leftover / "plan").write_bytes(b"half a plan")
    build(job, store, silent, command=GOOD)
    assert not leftover.exists()


def test_only_one_builds_at_a_time(store, job):
    store.folder.make()
    with claimed(store.folder.path / LOCK), pytest.raises(DoppelcamError, match="Another doppelcam"):
        build(job, store, silent, command=GOOD)


@pytest.mark.skipif(os.name == "nt", reason="modes are those of Unix")
def test_nothing_is_built_into_a_folder_that_others_can_write(store, job):
    store.folder.make()
    store.folder.path.chmod(0o777)
    with pytest.raises(EngineError, match="Others can write"):
        build(job, store, silent, command=GOOD)


def test_samples_are_read_as_they_were_written(tmp_path):
    samples = [(np.float32([[number]]), np.arange(3, dtype=np.int64) + number) for number in range(12)]
    build_child.write_samples(tmp_path / "s.npz", samples)
    for wrote, read in zip(samples, build_child.read_samples(tmp_path / "s.npz", 2), strict=True):
        assert all(
            np.array_equal(one, other) and one.dtype == other.dtype
            for one, other in zip(wrote, read, strict=True)
        )
    (tmp_path / "s.npz").write_bytes(b"PK\x03\x04 not a zip")
    with pytest.raises(EngineError, match="cannot be read"):
        build_child.read_samples(tmp_path / "s.npz", 2)


class Out:
    def __init__(self, fails=False):
        self.lines, self.fails = [], fails

    def write(self, text):
        if self.fails:
            raise BrokenPipeError
        self.lines.append(json.loads(text))

    def flush(self):
        pass


def test_a_build_that_nobody_listens_to_stops():
    assert build_child.Teller(Out()).step(0.1, "x")
    assert not build_child.Teller(Out(fails=True)).step(0.1, "x")
    out = Out()
    teller = build_child.Teller(out)
    for number in range(10_000):
        assert teller.step(number / 10_000, "x")
    assert 1 <= len(out.lines) < 1000


@pytest.mark.slow
def test_the_real_process_builds_a_real_plan(store, tmp_path):
    """With TensorRT-RTX, which needs no GPU for that; so the plan cannot be tried."""
    package = find_package()
    if package is None or package.name != "tensorrt_rtx":
        pytest.skip("tensorrt-rtx is not installed: pip install tensorrt-rtx-cu12")
    path = swapper(tmp_path / "swapper.onnx")
    target = replace(HERE, runtime=package.name, version=package.version)
    shapes = {"target": (1, 3, 32, 32), "source": (1, 16)}
    job = Job(
        "swapper", path, sha256_of(path), recipe_for("swapper"), shapes, ("face",), package, target, gpu=None
    )
    told = []
    built = build(job, store, lambda doing, done: told.append((doing, done)))
    assert built.warned == ()
    assert built.note.layers > 20 and built.note.size > 10_000
    assert built.note.verdict is None
    assert store.all(target)[0].state == "unproven"
    assert told[0] == ("converting the network", None)
    assert ("reading the network", 0.0) in told
    broken = replace(job, model=tmp_path / "none.onnx", sha256="0" * 64)
    with pytest.raises(EngineError, match=r"none\.onnx"):
        build(broken, store, silent)
    # A module of this name where the user stands is not what is run.
    (tmp_path / "numpy.py").write_text("raise SystemExit('hijacked')")
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        assert build(job, store, silent, again=True).new
    finally:
        os.chdir(before)
