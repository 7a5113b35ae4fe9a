"""From TensorRT to CUDA to the CPU: what is taken, what is said, and what is never touched too early."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from engines.errors import EngineError
from engines.files import sha256_of
from engines.runtime import open as opening
from engines.runtime.device import CPU, Device, Machine, choose_device
from engines.runtime.driver import Driver, Gpu
from engines.runtime.open import open_network
from engines.runtime.ort.network import OnnxNetwork
from engines.runtime.trt.bindings import wrap
from engines.runtime.trt.key import PlanKey, Target
from engines.runtime.trt.network import TensorRtNetwork
from engines.runtime.trt.parity import Verdict
from engines.runtime.trt.planned import Plans
from engines.runtime.trt.plans import Note, PlanStore
from tests.engines.runtime.cuda_runtime import CPU as CPU_PROVIDER
from tests.engines.runtime.cuda_runtime import CudaRuntime
from tests.engines.runtime.graphs import double
from tests.tensorrt_fake import Gpu as FakeGpu
from tests.tensorrt_fake import cupy_for, plan_of, tensorrt_for

DRIVER = Driver((Gpu(0, "NVIDIA GeForce RTX 4090", 24564, (8, 9)),), (12, 8))
TARGET = Target("tensorrt", "11.4.0.106", 12, "NVIDIA GeForce RTX 4090", "8.9", "570.86")
GOOD = Verdict(True)
GPU = Device("cuda:0", may_fall_back=True)


def burns(*about):
    raise AssertionError("touched too early")


@pytest.fixture
def path(tmp_path):
    return double(tmp_path / "double.onnx")


@pytest.fixture
def world(tmp_path):
    """A machine on which everything works; tests break it."""
    gpu = FakeGpu()
    return gpu, Plans(
        PlanStore(tmp_path / "plans"), lambda: DRIVER, lambda: "570.86", lambda: {"tensorrt-cu12": "11.4.0.106"},
        lambda: cupy_for(gpu), lambda package: wrap(package.name, tensorrt_for(gpu)),
    )  # fmt: skip


def keep(plans, path, shape=(1, 3, 4, 4), verdict=GOOD, target=TARGET, plan=None):
    shape = list(shape)
    key = PlanKey(sha256_of(path), "fp16 v1", (tuple(shape),), (), target)
    made = plan or plan_of({"x": (shape, "FLOAT")}, {"y": (shape, "FLOAT")})
    plans.store.put(Note(path.stem, key, "", 0, "", ("x",), ("y",), verdict), made)


@pytest.fixture
def cuda(monkeypatch):
    """Stands in for ONNX Runtime's networks: on a GPU they work, or raise what is set."""

    class Cuda:
        def __init__(self):
            self.error, self.opened = None, []

        def __call__(self, path, *, device=CPU, sizes=None, hint=None, stream=0):
            self.opened.append(device.name)
            if device.kind == "cuda" and self.error:
                raise self.error
            network = OnnxNetwork(path, sizes=sizes, hint=hint)
            if device.kind == "cuda":
                network.nodes = {"CUDAExecutionProvider": 1}
            return network

    made = Cuda()
    monkeypatch.setattr(opening, "OnnxNetwork", made)
    return made


def opened(path, plans, device=GPU, **more):
    said = []
    network = open_network(path, device, progress=said.append, plans=plans, **more)
    return network, " ".join(said)


def test_a_plan_that_is_ready_is_taken(path, world, cuda):
    gpu, plans = world
    keep(plans, path)
    network, said = opened(path, plans)
    assert isinstance(network, TensorRtNetwork)
    assert network.nodes == {"TensorRT 11.4 FP16": 7}
    assert said == "" and cuda.opened == []
    network.inputs[0][...] = 3
    network.run()
    assert (network.outputs[0] == 6).all()
    network.close()
    assert not gpu.memory


def spoiled(path, plans, what):
    """Plans that are of no use, in one way each."""
    if what == "not installed":
        return replace(plans, installed=lambda: {"onnxruntime-gpu": "1.26.0"}, cupy=burns, tensorrt=burns)
    if what == "no plan":
        return replace(plans, cupy=burns, tensorrt=burns)
    if what == "of another GPU":
        keep(plans, path, target=replace(TARGET, gpu="NVIDIA T4", sm="7.5"))
        return replace(plans, cupy=burns, tensorrt=burns)
    if what == "refused":
        keep(plans, path, verdict=Verdict(False, "it is black"))
        return replace(plans, cupy=burns, tensorrt=burns)
    keep(plans, path, plan=b"not a plan" if what == "does not open" else None)
    if what == "no CuPy":

        def none():
            raise EngineError("CuPy finds no GPU.")

        return replace(plans, cupy=none, tensorrt=burns)
    return plans


REASONS = {
    "not installed": "TensorRT is not installed",
    "no plan": "There is no TensorRT plan of double. Type: doppelcam engines build",
    "of another GPU": "another GPU: NVIDIA T4 (SM 7.5)",
    "refused": "it is black",
    "no CuPy": "CuPy finds no GPU",
    "does not open": "does not take the plan",
}


@pytest.mark.parametrize("what", REASONS)
def test_without_a_plan_cuda_runs_it_and_the_reason_is_said(path, world, cuda, what):
    network, said = opened(path, spoiled(path, world[1], what))
    assert network.nodes == {"CUDAExecutionProvider": 1}
    assert "ONNX Runtime with CUDA" in said and REASONS[what] in said
    assert cuda.opened == ["cuda:0"]
    network.close()


@pytest.mark.parametrize("what", REASONS)
def test_without_cuda_the_cpu_runs_it_where_the_user_left_the_choice(path, world, cuda, what):
    cuda.error = EngineError("This ONNX Runtime has no CUDA.")
    plans = spoiled(path, world[1], what)
    network, said = opened(path, plans)
    assert network.nodes == {"CPUExecutionProvider": 1}
    assert "runs on the CPU" in said and "no CUDA" in said and REASONS[what] in said
    network.close()
    with pytest.raises(EngineError, match="no CUDA") as caught:
        opened(path, plans, Device("cuda:0"))
    assert REASONS[what].split(". Type")[0] in caught.value.what
    assert cuda.opened[-1] == "cuda:0", "never the CPU in its place"


def test_on_the_cpu_nobody_looks_for_plans(path):
    network, said = opened(path, burns, CPU)
    assert said == ""
    network.close()


def test_a_broken_model_is_said_to_be_broken_whatever_runs_it(tmp_path, world, cuda):
    missing = tmp_path / "none.onnx"
    with pytest.raises(EngineError, match="missing"):
        opened(missing, world[1])


def test_shapes_are_those_that_were_asked_for(tmp_path, world, cuda):
    path = double(tmp_path / "double.onnx", shape=("n", 3, 4, 4), out=("n", 3, 4, 4))
    keep(world[1], path, (4, 3, 4, 4))
    network, said = opened(path, world[1], batch=4)
    assert isinstance(network, TensorRtNetwork) and said == ""
    assert network.inputs[0].shape == (4, 3, 4, 4)
    network.close()
    network, said = opened(path, world[1], batch=1)
    assert "another shapes" in said
    network.close()


def test_a_stream_is_handed_on(path, world, cuda):
    gpu, plans = world
    keep(plans, path)
    network, _ = opened(path, plans, stream=0x99)
    assert gpu.calls["borrowed"] == 1
    network.close()


def machine(installed, count=1, driver=DRIVER):
    runtime = CudaRuntime(providers=(CPU_PROVIDER,))
    return Machine(lambda: driver, lambda: (runtime, []), lambda: installed, lambda: count)


RTX = {"onnxruntime": "1.32.0", "tensorrt-rtx-cu12": "1.7.1.116"}


def test_a_gpu_counts_where_only_tensorrt_can_use_it():
    device = choose_device("auto", machine(RTX))
    assert (device.name, device.may_fall_back) == ("cuda:0", True)
    assert "TensorRT-RTX 1.7 for networks that have a plan" in device.why
    assert not choose_device("cuda", machine(RTX)).may_fall_back


@pytest.mark.parametrize(
    "bad",
    [
        machine({"onnxruntime": "1.32.0"}),
        machine(RTX, count=0),
        machine({**RTX, "onnxruntime-gpu": "1.26.0"}),
        Machine(lambda: Driver(why_not="none"), burns, lambda: RTX, burns),
    ],
)
def test_and_not_where_it_cannot(bad):
    assert choose_device("auto", bad).name == "cpu"
    with pytest.raises(EngineError):
        choose_device("cuda", bad)


def test_numbers_go_through_unchanged(path, world, cuda):
    keep(world[1], path)
    network, _ = opened(path, world[1])
    values = np.random.default_rng(0).random((1, 3, 4, 4)).astype(np.float32)
    network.inputs[0][...] = values
    for _ in range(3):
        network.run()
        np.testing.assert_allclose(network.outputs[0], 2 * values)
    network.close()


def test_a_model_is_read_whole_at_the_first_start_and_when_it_changed(path, world, cuda, monkeypatch):
    _, plans = world
    keep(plans, path)
    read = []
    monkeypatch.setattr("engines.sums.sha256_of", lambda what: read.append(what) or sha256_of(what))
    for _ in range(3):
        network, said = opened(path, plans)
        network.close()
        assert said == "" and read == [path]
    double(path, [1, 3, 8, 8])
    _, said = opened(path, plans)
    assert "another model" in said and len(read) == 2


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="rights of other users")
def test_nothing_is_remembered_in_a_folder_that_others_can_write_in(path, world, cuda):
    _, plans = world
    keep(plans, path)
    folder = plans.store.folder.path
    folder.chmod(0o777)
    _, said = opened(path, plans)
    assert "Others can write" in said
    assert not (folder / ".seen.json").exists()
