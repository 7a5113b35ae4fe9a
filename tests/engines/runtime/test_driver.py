"""What the NVIDIA driver says, and what it means when it says nothing."""

from __future__ import annotations

import sys

import pytest

from engines.runtime.device import choose_device
from engines.runtime.driver import Gpu, find_driver


class Library:
    """``libcuda``, in so far as it is asked."""

    def __init__(self, init=0, cuda=12080, gpus=(("NVIDIA GeForce RTX 4090", 24, (8, 9)),), broken=()):
        self.init, self.cuda, self.gpus, self.broken = init, cuda, gpus, broken
        self.asked = []

    def cuInit(self, flags):
        self.asked.append("cuInit")
        assert flags.value == 0
        return self.init

    def cuDriverGetVersion(self, version):
        assert self.asked[0] == "cuInit"
        version._obj.value = self.cuda
        return 0

    def cuDeviceGetCount(self, count):
        count._obj.value = len(self.gpus)
        return 0

    def cuDeviceGet(self, device, index):
        if index.value in self.broken:
            return 46
        device._obj.value = index.value + 100
        return 0

    def cuDeviceGetName(self, name, length, device):
        name.value = self.gpus[device.value - 100][0].encode()[: length.value]
        return 0

    def cuDeviceTotalMem_v2(self, memory, device):
        memory._obj.value = self.gpus[device.value - 100][1] * 2**30
        return 0

    def cuDeviceGetAttribute(self, value, attribute, device):
        value._obj.value = self.gpus[device.value - 100][2][attribute.value - 75]
        return 0


def found(library=None, there=(), environment=None, platform="linux"):
    loaded = []

    def load(name):
        loaded.append(name)
        if library is None:
            raise OSError(f"{name}: cannot open shared object file")
        return library

    driver = find_driver(load, lambda path: path in there, environment or {}, platform)
    assert loaded == (
        [] if platform == "darwin" else ["nvcuda.dll" if platform == "win32" else "libcuda.so.1"]
    )
    return driver


def test_gpus_with_their_names():
    driver = found(Library(gpus=(("NVIDIA A100", 40, (8, 0)), ("NVIDIA T4", 15, (7, 5)))))
    assert driver.gpus == (Gpu(0, "NVIDIA A100", 40960, (8, 0)), Gpu(1, "NVIDIA T4", 15360, (7, 5)))
    assert driver.cuda == (12, 8)
    assert (driver.why_not, driver.fix, driver.broken) == ("", "", False)


def test_a_gpu_that_does_not_answer_is_left_out():
    driver = found(Library(gpus=(("A", 1, (8, 0)), ("B", 1, (8, 0))), broken=(0,)))
    assert [gpu.index for gpu in driver.gpus] == [1]
    assert found(Library(broken=(0,))).broken


@pytest.mark.parametrize("platform", ["linux", "win32", "darwin"])
def test_a_machine_without_is_no_fault(platform):
    driver = found(platform=platform)
    assert not driver.gpus
    assert not driver.broken
    assert "no NVIDIA driver" in driver.why_not
    assert "--device cpu" in driver.fix


@pytest.mark.parametrize(
    ("there", "said", "fix", "broken"),
    [
        (["/dev/nvidiactl"], "device is there", "libcuda", True),
        (["/dev/nvidiactl", "/.dockerenv"], "device is there", "--gpus all", True),
        (["/.dockerenv"], "no /dev/nvidiactl", "--gpus all", False),
        (["/run/.containerenv"], "no /dev/nvidiactl", "--gpus all", False),
    ],
)
def test_half_a_driver_is_told_from_none(there, said, fix, broken):
    driver = found(there=there)
    assert said in driver.why_not
    assert fix in driver.fix
    assert driver.broken == broken


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (100, "sees no GPU"),
        (34, "stub"),
        (35, "too old"),
        (803, "different versions"),
        (999, "failed"),
        (12345, "12345"),
    ],
)
def test_a_driver_that_does_not_start_says_why(result, said):
    driver = found(Library(init=result))
    assert said in driver.why_not
    assert f"cuInit gave {result}" in driver.why_not
    assert "--device cpu" in driver.fix
    assert driver.broken
    assert not driver.gpus


def test_a_variable_that_hides_every_gpu_is_named():
    driver = found(Library(init=100), environment={"CUDA_VISIBLE_DEVICES": "-1"})
    assert "CUDA_VISIBLE_DEVICES is '-1'" in driver.why_not
    assert driver.fix == "Type: unset CUDA_VISIBLE_DEVICES"


def test_something_else_of_that_name():
    driver = found(object())
    assert "not NVIDIA's" in driver.why_not
    assert driver.broken


def test_this_machine_is_asked_without_harm():
    driver = find_driver()
    assert bool(driver.gpus) != bool(driver.why_not)
    assert "tensorrt" not in sys.modules
    assert choose_device("cpu").name == "cpu"
