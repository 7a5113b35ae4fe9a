"""The device that was asked for, or the reason and the fix; and ``auto``, which never fails."""

from __future__ import annotations

import tomllib
from pathlib import Path

import onnxruntime
import pytest

from engines.errors import EngineError
from engines.runtime.device import Device, Machine, choose_device, run_a_small_network
from engines.runtime.driver import Driver, Gpu
from engines.runtime.ort.session import Place, open_session
from engines.runtime.wheels import extra_for
from tests.engines.runtime.cuda_runtime import CPU, CUDA, CudaRuntime

RTX = Gpu(0, "NVIDIA GeForce RTX 4090", 24564, (8, 9))
T4 = Gpu(1, "NVIDIA T4", 15360, (7, 5))
GPU_WHEEL = {"onnxruntime-gpu": "1.26.0"}


def machine(driver=None, runtime=None, installed=GPU_WHEEL, lacking=()):
    """A machine with two GPUs where all is well, but for what is given."""
    driver = driver or Driver((RTX, T4), (12, 8))
    runtime = runtime or CudaRuntime()

    def load():
        assert driver.gpus, "the runtime is touched before a GPU was seen"
        if isinstance(runtime, Exception):
            raise runtime
        return runtime, list(lacking)

    return Machine(lambda: driver, load, lambda: installed)


NO_DRIVER = Driver(
    why_not="there is no NVIDIA driver (no /dev/nvidiactl)", fix="Install it, or use --device cpu."
)

FAULTS = {
    "no driver": (machine(NO_DRIVER), "there is no NVIDIA driver", "Install it"),
    "the CPU's package": (
        machine(runtime=CudaRuntime(providers=(CPU,)), installed={"onnxruntime": "1.32.0"}),
        "has no CUDA in it", "Type: pip uninstall -y onnxruntime; then pip install 'doppelcam[gpu]'",
    ),
    "the CPU's package over the GPU's": (
        machine(runtime=CudaRuntime(providers=(CPU,)), installed={"onnxruntime": "1.32.0", **GPU_WHEEL}),
        "onnxruntime and onnxruntime-gpu are both installed, and one hides the other",
        "Type: pip uninstall -y onnxruntime onnxruntime-gpu; then pip install 'doppelcam[gpu]'",
    ),
    "no runtime": (
        machine(runtime=EngineError("ONNX Runtime is not installed, so no network can run."), installed={}),
        "ONNX Runtime is not installed", "Type: pip install 'doppelcam[gpu]'",
    ),
    "no runtime, new driver": (
        machine(Driver((RTX,), (13, 0)), EngineError("ONNX Runtime is not installed."), {}),
        "not installed", "Type: pip install 'doppelcam[gpu-cu13]'",
    ),
    "old driver": (
        machine(runtime=CudaRuntime(cuda="13.0")),
        "built for CUDA 13, and the driver supports 12.8 at most", "Update NVIDIA's driver, or type: pip uninstall",
    ),
    "libraries": (
        machine(runtime=CudaRuntime(loads=False), lacking=["libcublasLt.so.12", "libcudnn.so.9"]),
        "CUDA's libraries cannot be loaded: libcublasLt.so.12, libcudnn.so.9", "Type: pip install 'doppelcam[gpu]'",
    ),
    "a provider that does not load": (
        machine(runtime=CudaRuntime(loads=False)), f"could not load its {CUDA}", "doctor",
    ),
    "a provider that leaves it to the CPU": (machine(runtime=CudaRuntime(silent=True)), "to the CPU", "doctor"),
    "a provider that fails": (
        machine(runtime=CudaRuntime(fails=RuntimeError("CUDNN_STATUS_NOT_INITIALIZED"))),
        "CUDNN_STATUS_NOT_INITIALIZED", "doctor",
    ),
    "a provider that counts wrong": (machine(runtime=CudaRuntime(wrong=True)), "it came out wrong", "doctor"),
}  # fmt: skip


@pytest.mark.parametrize(("there", "said", "fix"), FAULTS.values(), ids=FAULTS)
def test_a_gpu_that_cannot_be_had_is_an_error_by_name_and_a_reason_for_auto(there, said, fix):
    for asked in ("cuda", "cuda:0"):
        with pytest.raises(EngineError) as caught:
            choose_device(asked, there)
        assert caught.value.exit_code == 4
        assert caught.value.what.startswith(f"The device {asked} was asked for, and ")
        assert said in caught.value.what
        assert fix in caught.value.fix
        assert "--device cpu" in caught.value.fix
        assert ".." not in caught.value.what + caught.value.fix
    auto = choose_device("auto", there)
    assert auto.name == "cpu"
    assert said in auto.why


@pytest.mark.parametrize(("asked", "name", "gpu"), [("cuda", "cuda:0", RTX), ("cuda:0", "cuda:0", RTX),
                                                    ("cuda:1", "cuda:1", T4), ("auto", "cuda:0", RTX)])  # fmt: skip
def test_a_gpu_is_taken_once_it_has_run_a_network(asked, name, gpu):
    runtime = CudaRuntime()
    device = choose_device(asked, machine(runtime=runtime))
    assert device.name == name
    assert (device.kind, device.index) == ("cuda", gpu.index)
    assert gpu.name in device.why
    assert "CUDA 12.8" in device.why
    assert "onnxruntime-gpu 1.26.0" in device.why
    [(names, options, strict)] = runtime.opened
    assert (names, strict) == ([CUDA], True)
    assert options[CUDA]["device_id"] == str(gpu.index)


def test_libraries_that_are_missing_and_not_missed_are_no_fault():
    assert choose_device("auto", machine(lacking=["libnvrtc.so.12"])).name == "cuda:0"


def test_a_number_too_high_lists_those_there_are():
    with pytest.raises(
        EngineError, match=r"there is only cuda:0 \(NVIDIA GeForce RTX 4090\), cuda:1 \(NVIDIA T4\)"
    ):
        choose_device("cuda:2", machine())


@pytest.mark.parametrize("asked", ["", "tpu", "cuda:", "cuda:x", "cuda:-1", "cpu:0", "CUDA"])
def test_what_is_no_device(asked):
    with pytest.raises(EngineError, match="There is no device") as caught:
        choose_device(asked, machine())
    assert "cuda:N" in caught.value.fix


def test_auto_outlives_anything():
    def burns():
        raise MemoryError("no more")

    assert "MemoryError" in choose_device("auto", Machine(driver=burns)).why
    assert choose_device("auto", machine(runtime=OSError("bad image"))).name == "cpu"


def test_the_cpu_is_taken_without_a_look_at_anything():
    def burns():
        raise AssertionError

    assert choose_device("cpu", Machine(burns, burns, burns)) == Device("cpu")
    only = choose_device("auto", Machine(burns, burns, burns), able=("cpu",), who="The engine mesh")
    assert only == Device("cpu", "the engine mesh runs on the CPU")
    with pytest.raises(EngineError, match="the engine mesh does not run on it") as caught:
        choose_device("cuda", machine(), able=("cpu",), who="The engine mesh")
    assert "--device cpu" in caught.value.fix


def test_the_small_network_is_one_that_the_real_runtime_runs():
    run_a_small_network(onnxruntime, None)
    with pytest.raises(EngineError, match="came out wrong"):
        run_a_small_network(CudaRuntime(wrong=True), 0)
    with pytest.raises(EngineError, match=f"no {CUDA}"):
        run_a_small_network(onnxruntime, 0)


def test_the_real_runtime_counts_its_nodes():
    from engines.runtime.device import _CONVOLUTION

    session, nodes = open_session(onnxruntime, _CONVOLUTION, Place(), "A small network")
    assert nodes == {CPU: 1}
    assert session.get_providers() == [CPU]


@pytest.mark.parametrize("cuda", [(11, 8), (12, 0), (12, 9), (13, 0), (14, 1)])
def test_the_lines_to_type_name_extras_that_exist(cuda):
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    extras = project["optional-dependencies"]
    assert "cpu" in extras
    wanted = extras[extra_for(cuda)]
    assert any(one.startswith("onnxruntime-gpu") for one in wanted)
    assert any("cu13" in one or "cuda13" in one for one in wanted) == (cuda >= (13, 0))
