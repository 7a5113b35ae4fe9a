"""The builder of either flavour, through a stand-in that has what the recorded one has and nothing else."""

from __future__ import annotations

import json

import numpy as np
import pytest

from engines.errors import EngineError
from engines.runtime.trt import build_child
from engines.runtime.trt.bindings import wrap
from engines.runtime.trt.compile import compile_plan
from tests.engines.runtime.graphs import double
from tests.networks import Builder
from tests.tensorrt_fake import Gpu, cupy_for, tensorrt_for

BOTH = pytest.mark.parametrize("name", ["tensorrt", "tensorrt_rtx"])


def trt_for(gpu, name="tensorrt"):
    return wrap(name, tensorrt_for(gpu, name, "1.7.1.116" if "rtx" in name else "11.4.0.106"))


def model(tmp_path, shape=(1, 3, 4, 4)):
    return double(tmp_path / "double.onnx", shape=shape, out=shape).read_bytes()


def go_on(done, doing):
    return True


@BOTH
def test_both_flavours_build_it(name, tmp_path):
    told = []
    built = compile_plan(
        trt_for(Gpu(), name), model(tmp_path), "double", lambda *what: told.append(what) or True
    )
    assert built.plan.startswith(b"ptrt")
    assert (built.layers, built.warned) == (1, ("one warning",))
    assert [round(done, 3) for done, _ in told] == [
        0.125,
        0.25,
        0.375,
        0.5,
        0.5,
        0.625,
        0.75,
        0.875,
        1.0,
        1.0,
    ]
    assert {doing for _, doing in told} == {"Tactics", "Building"}


@pytest.mark.parametrize(("before", "after"), [(b"", b"+1"), (b"times", b"times+1"), (b"broken", b"+1")])
def test_times_of_an_earlier_build_are_used_unless_they_do_not_fit(before, after, tmp_path):
    assert compile_plan(trt_for(Gpu()), model(tmp_path), "double", go_on, before).timings == after
    assert (
        compile_plan(trt_for(Gpu(), "tensorrt_rtx"), model(tmp_path), "double", go_on, before).timings == b""
    )


@BOTH
def test_whatever_stops_it_is_said(name, tmp_path):
    with pytest.raises(EngineError, match="Could not find any implementation for node Conv_0"):
        compile_plan(trt_for(Gpu("build"), name), model(tmp_path), "double", go_on)
    with pytest.raises(EngineError, match=r"cannot be used here: .*nullptr"):
        compile_plan(trt_for(Gpu("builder"), name), model(tmp_path), "double", go_on)
    gpu = Gpu()
    with pytest.raises(EngineError, match="stopped"):
        compile_plan(trt_for(gpu, name), model(tmp_path), "double", lambda done, doing: done < 0.3)
    with pytest.raises(EngineError, match="no fixed size"):
        compile_plan(trt_for(gpu, name), model(tmp_path, ("n", 3, 4, 4)), "double", go_on)
    assert gpu.calls["built"] == 1
    b = Builder()
    b.output(b.op("Odd", b.input("x", [1])), "y", [1])
    with pytest.raises(EngineError, match=r"No importer registered for op: Odd \(operator Odd\)"):
        compile_plan(trt_for(gpu, name), b.model().SerializeToString(), "odd", go_on)


@BOTH
def test_the_process_tries_its_plan_on_the_gpu(name, tmp_path, monkeypatch):
    """All of the job, in this process and on a GPU that is not there."""
    gpu = Gpu()
    order = []
    cupy, trt = cupy_for(gpu), trt_for(gpu, name)
    monkeypatch.setattr("engines.kernels.gpu.card.load_cupy", lambda: order.append("cupy") or cupy)
    monkeypatch.setattr(build_child, "load", lambda package: order.append("tensorrt") or trt)
    inputs = [(np.full((1, 3, 4, 4), number, np.float32),) for number in range(3)]
    build_child.write_samples(tmp_path / build_child.SAMPLES, inputs)
    job = {
        "model": str(double(tmp_path / "double.onnx")), "name": "double", "folder": str(tmp_path),
        "recipe": {"precision": "fp16", "keep": ["Sqrt"]}, "shapes": {"x": [1, 3, 4, 4]}, "outputs": ["y"],
        "package": {"name": name, "version": "11.4.0.106", "cuda": 12}, "gpu": 0,
    }  # fmt: skip
    lines = []

    class Out:
        def write(self, text):
            lines.append(json.loads(text))

        def flush(self):
            pass

    build_child.work(json.loads(json.dumps(job)), build_child.Teller(Out()))
    assert order == ["cupy", "tensorrt"], "no TensorRT before a GPU was seen"
    assert [line["stage"] for line in lines if line["stage"] != "build"] == ["convert", "compare", "done"]
    assert lines[-1] == {"stage": "done", "layers": 3, "warned": ["one warning"], "tried": True}
    results = build_child.read_samples(tmp_path / build_child.RESULTS, 1)
    for (given,), (out,) in zip(inputs, results, strict=True):
        np.testing.assert_array_equal(out, 2 * given)
    assert (tmp_path / build_child.PLAN).read_bytes().startswith(b"ptrt")
    assert (tmp_path / build_child.JIT).exists() == ("rtx" in name)
    assert (tmp_path / build_child.TIMINGS).exists() == ("rtx" not in name)
    assert not gpu.memory and not gpu.alive
