"""A plan on a GPU that is not there: what is called, in which order, and that nothing is allocated afterwards."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pytest

from engines.errors import EngineError
from engines.runtime.trt import bindings as trt_package
from engines.runtime.trt.bindings import wrap
from engines.runtime.trt.key import PlanKey, Target
from engines.runtime.trt.network import TensorRtNetwork
from engines.runtime.trt.plans import Loaded, Note
from tests.tensorrt_fake import Gpu, cupy_for, nothing_left, plan_of, strangers, surface, tensorrt_for

INPUTS = {"target": ([1, 3, 4, 4], "FLOAT"), "source": ([1, 8], "HALF")}
OUTPUTS = {"face": ([1, 3, 4, 4], "FLOAT"), "mask": ([1, 1, 4, 4], "FLOAT")}


def loaded(plan=None, inputs=INPUTS, outputs=OUTPUTS, runtime="tensorrt", jit=b""):
    key = PlanKey("", "fp16 v1", (), (), Target(runtime, "11.4.0.106", 12, "RTX 4090", "8.9", "570"))
    note = Note("net", key, "net.plan", 0, "", tuple(inputs), tuple(outputs))
    return Loaded(note, plan or plan_of(inputs, outputs), jit)


def opened(gpu, runtime="tensorrt", stream=0, **more):
    trt = wrap(runtime, tensorrt_for(gpu, runtime, "1.7.1.116" if "rtx" in runtime else "11.4.0.106"))
    return TensorRtNetwork("net", loaded(runtime=runtime, **more), trt, cupy_for(gpu), 0, stream)


@pytest.mark.parametrize("name", ["tensorrt", "tensorrt_rtx"])
def test_the_fakes_have_nothing_that_the_real_packages_lack(name):
    assert not strangers(name, tensorrt_for(Gpu(), name).fakes)
    assert not strangers("cupy", cupy_for(Gpu()).fakes)
    assert len(surface(name)) > 15
    assert surface(name)["IExecutionContext"]["set_tensor_address"] == ["name", "memory"]
    assert surface(name)["IExecutionContext"]["execute_async_v3"] == ["stream_handle"]
    assert surface("cupy")["runtime"]["memcpyAsync"] == ["dst", "src", "size", "kind", "stream"]
    assert "FP16" not in surface(name)["BuilderFlag"]


def test_a_fake_that_strays_is_found():
    class Runtime:
        def deserialize_cuda_engine(self, serialized_engine): ...
        def invented(self): ...

    class IExecutionContext:
        def set_tensor_address(self, tensor, memory): ...

    wrong = strangers(
        "tensorrt", {"Runtime": Runtime, "IExecutionContext": IExecutionContext, "Nobody": Runtime}
    )
    assert wrong == ["Runtime.invented", "IExecutionContext.set_tensor_address(tensor, memory)", "Nobody"]


@pytest.mark.parametrize("runtime", ["tensorrt", "tensorrt_rtx"])
def test_runs_once_plainly_and_then_as_a_graph(runtime):
    gpu = Gpu()
    with nothing_left(gpu):
        network = opened(gpu, runtime)
        assert [spec.name for spec in network.input_specs] == ["target", "source"]
        assert [spec.dtype for spec in network.input_specs] == ["float32", "float16"]
        assert [spec.shape for spec in network.output_specs] == [(1, 3, 4, 4), (1, 1, 4, 4)]
        assert network.nodes == {f"{'TensorRT-RTX' if 'rtx' in runtime else 'TensorRT'} 11.4 FP16": 7}
        assert not gpu.calls["execute"]
        for number in range(1, 6):
            network.inputs[0][...] = number
            network.run()
            assert (network.outputs[0] == 2 * number).all() and (network.outputs[1] == 2 * number).all()
            assert network.captured
        # Once to run it, once to capture it, and never again.
        assert gpu.calls["execute"] == 2
        assert gpu.calls["graph"] == 4
        assert gpu.calls["upload"] == gpu.calls["download"] == 10
        network.close()
        network.close()
        del network


def test_the_order_is_the_one_that_tensorrt_asks_for():
    gpu = Gpu()
    network = opened(gpu)
    network.run()
    steps = [
        step for step in gpu.order if step in ("address", "upload", "execute", "wait", "capture", "download")
    ]
    assert steps == ["address"] * 4 + ["upload"] * 2 + ["execute"] + ["download"] * 2 + [
        "wait",
        "capture",
        "execute",
    ]
    network.close()


def test_nothing_is_allocated_after_it_was_opened():
    gpu = Gpu()
    network = opened(gpu)
    before = gpu.calls["alloc"], gpu.calls["pinned"], gpu.calls["stream"], gpu.calls["context"]
    assert before == (4, 4, 1, 1)
    buffers = [array.ctypes.data for array in (*network.inputs, *network.outputs)]
    for _ in range(50):
        network.run()
    assert (gpu.calls["alloc"], gpu.calls["pinned"], gpu.calls["stream"], gpu.calls["context"]) == before
    assert [array.ctypes.data for array in (*network.inputs, *network.outputs)] == buffers
    network.close()


@pytest.mark.parametrize("fault", ["capture", "capture_end"])
def test_what_cannot_be_captured_runs_plainly_and_says_so(fault, caplog):
    gpu = Gpu(fault)
    network = opened(gpu)
    for number in range(1, 5):
        network.inputs[0][...] = number
        network.run()
        assert (network.outputs[0] == 2 * number).all()
    assert not network.captured
    assert "Capture" in network.why_no_graph
    assert "without a CUDA graph" in caplog.text
    assert gpu.calls["capture"] == 1, "it is tried once, not every frame"
    assert not gpu.calls["graph"]
    network.close()


def test_memory_of_the_gpu_is_read_and_written_where_it_lies():
    gpu = Gpu()
    network = opened(gpu)
    network.run()
    cupy = cupy_for(gpu)
    with cupy.cuda.Device(0):
        theirs, results = cupy.cuda.alloc(192), cupy.cuda.alloc(192)
    network.bind({0: theirs.ptr}, {0: results.ptr})
    assert not network.captured, "the graph has the old addresses in it"
    for number in range(1, 4):
        gpu.at(theirs.ptr, 192, np.float32)[:] = number
        network.inputs[0][...] = 99
        network.run()
        assert (gpu.at(results.ptr, 192, np.float32) == 2 * number).all()
    assert network.captured
    # The source and the mask are still the host's.
    uploads = gpu.calls["upload"]
    network.run()
    assert gpu.calls["upload"] == uploads + 1
    for bad in (theirs.ptr + 4, theirs.ptr + 128):
        with pytest.raises(EngineError, match="multiple of 256"):
            network.bind({0: bad}, {})
    with pytest.raises(EngineError, match="number 7"):
        network.bind({7: theirs.ptr}, {})
    network.close()


def test_on_a_stream_of_somebody_else_it_waits_only_for_what_it_copies_back():
    gpu = Gpu()
    network = opened(gpu, stream=0x1234)
    cupy = cupy_for(gpu)
    with cupy.cuda.Device(0):
        face, mask = cupy.cuda.alloc(192), cupy.cuda.alloc(64)
    network.run()
    waits = gpu.calls["waits"]
    network.run()
    assert gpu.calls["waits"] == waits + 1
    network.bind({}, {0: face.ptr, 1: mask.ptr})
    network.run()  # captures
    waits = gpu.calls["waits"]
    network.run()
    assert gpu.calls["waits"] == waits
    assert not gpu.calls["stream"] and gpu.calls["borrowed"] == 1
    network.close()


FAULTS = {
    "deserialize": "does not take the plan of net: The engine plan file is not compatible with this version",
    "context": "cannot be opened on the GPU",
    "memory": "not enough memory",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_fails_while_it_is_opened_is_said_and_leaves_nothing(fault):
    gpu = Gpu(fault)
    with pytest.raises(EngineError, match=FAULTS[fault]) as caught:
        opened(gpu)
    assert caught.value.fix
    del caught
    gc.collect()  # the traceback holds what failed in a cycle
    assert not gpu.memory and not gpu.alive


BAD = {
    "another name": (INPUTS, {"other": OUTPUTS["face"], "mask": OUTPUTS["mask"]}),
    "in memory of the host": ({**INPUTS, "source": ([1, 8], "HALF", "HOST")}, OUTPUTS),
    "a free dimension": ({**INPUTS, "source": ([-1, 8], "HALF")}, OUTPUTS),
    "a type that is no number here": ({**INPUTS, "source": ([1, 8], "FP8")}, OUTPUTS),
    "in and out the other way round": ({"face": OUTPUTS["face"], "mask": OUTPUTS["mask"]}, INPUTS),
    "garbage": (None, None),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_plan_that_is_not_what_its_note_says_is_refused(bad):
    inputs, outputs = BAD[bad]
    plan = plan_of(inputs, outputs) if inputs else b"\x00" * 64
    with pytest.raises(EngineError, match="plan of net") as caught:
        opened(Gpu(), plan=plan)
    assert "engines build" in caught.value.fix


def test_what_fails_while_it_runs_is_said_in_tensorrts_words():
    gpu = Gpu()
    network = opened(gpu)
    gpu.faults.add("execute")
    with pytest.raises(EngineError, match="CUDA error 700 launching a kernel"):
        network.run()
    network.close()
    for use in (network.run, lambda: network.bind({}, {})):
        with pytest.raises(EngineError, match="closed"):
            use()


def test_kernels_that_were_compiled_here_are_kept_and_given_again(caplog):
    gpu = Gpu()
    network = opened(gpu, "tensorrt_rtx")
    kept = network.jit()
    assert kept == b"kernels compiled here"
    network.close()
    assert network.jit() == b""
    for jit, fits in ((kept, True), (b"of another driver", False)):
        caplog.clear()
        with caplog.at_level("INFO"):
            network = opened(gpu, "tensorrt_rtx", jit=jit)
        network.run()
        assert ("do not fit" in caplog.text) != fits
        network.close()
    full = opened(gpu)
    assert full.jit() == b""
    full.close()


def test_a_thousand_opens_leave_no_memory_behind():
    gpu = Gpu()
    trt, cupy = wrap("tensorrt", tensorrt_for(gpu)), cupy_for(gpu)
    plan = loaded()

    def change():
        network = TensorRtNetwork("net", plan, trt, cupy, 0)
        network.run()
        network.run()
        network.close()

    tracemalloc.start()
    try:
        for _ in range(100):
            change()
        gc.collect()
        first = tracemalloc.get_traced_memory()[0]
        for _ in range(900):
            change()
            assert not gpu.memory and not gpu.alive
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - first
    finally:
        tracemalloc.stop()
    assert gpu.calls["context"] == 1000
    # One buffer forgotten each time would be 900 × 192 bytes at the least.
    assert grown < 30_000


def test_one_logger_serves_the_whole_process():
    module = tensorrt_for(Gpu())
    one, other = wrap("tensorrt", module), wrap("tensorrt", module)
    assert one.logger is other.logger
    one.logger.log(2, "a warning")
    one.logger.log(3, "only information")
    one.logger.log(1, "an error\n  of two lines.")
    assert other.why("nothing") == "an error of two lines"
    assert other.said() == []
    assert other.why("nothing") == "nothing"
    for number in range(1000):
        one.logger.log(1, f"error {number}")
    assert len(one.said()) <= 100


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"tensorrt-cu12": "11.4.0.106"}, ("tensorrt", 12)),
        ({"tensorrt-cu13": "11.4.0.106", "tensorrt-rtx-cu12": "1.7.1"}, ("tensorrt", 13)),
        ({"tensorrt": "11.4.0"}, ("tensorrt", 0)),
        ({"tensorrt-rtx-cu12": "1.7.1.116", "onnxruntime": "1.32.0"}, ("tensorrt_rtx", 12)),
        ({"onnxruntime": "1.32.0"}, None),
    ],
)
def test_what_is_installed_is_told_without_touching_it(found, expected):
    package = trt_package.find_package(found)
    assert (package and (package.name, package.cuda)) == expected


@pytest.mark.parametrize(
    ("name", "version"), [("tensorrt", "10.16.1"), ("tensorrt_rtx", "0.9"), ("tensorrt", "odd")]
)
def test_a_tensorrt_that_would_ignore_half_precision_is_refused(name, version):
    with pytest.raises(EngineError, match="too old"):
        wrap(name, tensorrt_for(Gpu(), name, version))
