"""The doctor on what networks run on: a fault has a fix, and a machine without a GPU is no fault."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

import pytest

from engines.analysis.topology import WEIGHTS
from engines.errors import EngineError
from engines.runtime.device import Machine
from engines.runtime.driver import Driver, Gpu
from realtime.doctor.engines import check_gpu, check_networks, check_packages, check_runtime

GPUS = (Gpu(0, "NVIDIA GeForce RTX 4090", 24564, (8, 9)), Gpu(1, "NVIDIA T4", 15360, (7, 5)))


def test_no_gpu_is_said_and_is_well():
    nothing = Machine(driver=lambda: Driver(why_not="there is no NVIDIA driver"))
    (check,) = check_gpu(nothing)
    assert (check.state, check.fix) == ("ok", "")
    assert "no NVIDIA driver; networks run on the CPU" in check.found


@pytest.mark.parametrize("driver", [
    Driver(why_not="the driver is too old (cuInit gave 35)", fix="Update it, or use --device cpu.", broken=True),
    Driver(GPUS, (12, 8)),
])  # fmt: skip
def test_one_that_lies_idle_is_a_finding_with_a_fix(driver):
    def missing():
        raise EngineError("ONNX Runtime is not installed.")

    checks = list(check_gpu(Machine(lambda: driver, missing, dict)))
    assert len(checks) == max(1, len(driver.gpus))
    for check in checks:
        assert check.state == "missing"
        assert (driver.why_not or "not installed") in check.found
        assert "--device cpu" in check.fix


def test_each_one_that_works_is_named():
    from tests.engines.runtime.cuda_runtime import CudaRuntime

    there = Machine(lambda: Driver(GPUS, (12, 8)), lambda: (CudaRuntime(), []), dict)
    first, second = check_gpu(there)
    assert (first.state, second.state) == ("ok", "ok")
    assert "cuda:0, NVIDIA GeForce RTX 4090" in first.found
    assert "cuda:1, NVIDIA T4" in second.found
    assert "a network ran on it" in first.found


def test_the_runtime_with_what_it_was_built_for():
    fake = SimpleNamespace(
        package_name="onnxruntime-gpu", __version__="1.26.0", cuda_version="12.8",
        get_available_providers=lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"],
    )  # fmt: skip
    (check,) = check_runtime(lambda: fake)
    assert (
        check.found
        == "onnxruntime-gpu 1.26.0 for CUDA 12.8, built with CUDAExecutionProvider, CPUExecutionProvider"
    )
    (check,) = check_runtime()
    assert "CPUExecutionProvider" in check.found


def test_packages_that_hide_each_other_are_found():
    (check,) = check_packages({"onnxruntime": "1.32.0", "onnxruntime-gpu": "1.26.0"}, (0, 0))
    assert (check.state, "hides" in check.found) == ("missing", True)
    assert "pip uninstall -y onnxruntime onnxruntime-gpu" in check.fix
    (check,) = check_packages({"onnxruntime-gpu": "1.26.0", "cupy-cuda12x": "14.2"}, (12, 8))
    assert (check.state, check.found) == ("ok", "onnxruntime-gpu 1.26.0, cupy-cuda12x 14.2 fit together")
    assert list(check_packages({"onnxruntime": "1.32.0"}, (0, 0))) == []


def test_every_network_of_the_package_is_run_and_counted():
    checks = list(check_networks())
    assert [check.found.split(":")[0] for check in checks] == sorted(
        path.stem for path in WEIGHTS.glob("*.onnx")
    )
    assert all("CPUExecutionProvider" in check.found and check.found.endswith(" ms") for check in checks)


def test_a_network_that_is_damaged_is_named(tmp_path):
    shutil.copy(WEIGHTS / "face_mesh_468.onnx", tmp_path / "a.onnx")
    (tmp_path / "b.onnx").write_bytes((WEIGHTS / "face_mesh_468.onnx").read_bytes()[:1000])
    checks = check_networks(tmp_path)
    assert next(checks).state == "ok"
    with pytest.raises(EngineError, match=r"b\.onnx' is cut off") as caught:
        next(checks)
    assert "Install doppelcam again" in caught.value.fix
