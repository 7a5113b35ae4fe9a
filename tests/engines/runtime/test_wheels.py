"""Packages that hide each other or are for different versions of CUDA."""

from __future__ import annotations

from importlib import metadata

import pytest

from engines.runtime.wheels import installed, misfits, shadowed

GOOD = {
    "gpu": {"onnxruntime-gpu": "1.26.0", "cupy-cuda12x": "14.2.0", "tensorrt-cu12": "11.4.0"},
    "gpu-cu13": {"onnxruntime-gpu": "1.31.1", "cupy-cuda13x": "14.2.0", "tensorrt-cu13": "11.4.0"},
    "rtx": {"onnxruntime": "1.32.0", "cupy-cuda12x": "14.2.0", "tensorrt-rtx-cu12": "1.7.0"},
    "cpu": {"onnxruntime": "1.32.0"},
    "none": {},
}


@pytest.mark.parametrize("found", GOOD.values(), ids=GOOD)
def test_each_extra_fits(found):
    assert misfits(found, (13, 1)) == []
    assert shadowed(found) == ""


@pytest.mark.parametrize(
    ("found", "cuda", "said", "fix"),
    [
        ({"onnxruntime": "1.32.0", "onnxruntime-gpu": "1.26.0"}, (12, 8), "both installed",
         "pip uninstall -y onnxruntime onnxruntime-gpu; then pip install 'doppelcam[gpu]'"),
        ({"onnxruntime": "1.32.0", "onnxruntime-gpu": "1.31.0"}, (13, 0), "both installed", "'doppelcam[gpu-cu13]'"),
        ({"onnxruntime": "1.32.0", "onnxruntime-openvino": "1.24.1"}, (0, 0), "both installed", "'doppelcam[cpu]'"),
        ({"onnxruntime-gpu": "1.27.0", "cupy-cuda12x": "14.2"}, (13, 0),
         "onnxruntime-gpu for CUDA 13, cupy-cuda12x for CUDA 12", "gpu-cu13"),
        ({"cupy-cuda12x": "14.2", "cupy-cuda13x": "14.2"}, (13, 0), "different versions of CUDA", "gpu-cu13"),
        ({"onnxruntime-gpu": "1.26.0", "tensorrt-cu13": "11.4"}, (13, 0), "tensorrt-cu13 for CUDA 13", "gpu-cu13"),
        ({"onnxruntime-gpu": "1.31.1"}, (12, 4), "needs CUDA 13, and the driver's most is 12.4", "'doppelcam[gpu]'"),
        ({"onnxruntime-gpu": "1.26.0"}, (11, 8), "needs CUDA 12, and the driver's most is 11.8", "Update NVIDIA"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said_with_the_line_that_mends_it(found, cuda, said, fix):
    assert any(said in one.what and fix in one.fix for one in misfits(found, cuda)), misfits(found, cuda)


def test_only_what_is_installed_is_listed():
    versions = {"onnxruntime": "1.2", "cupy-cuda12x": "14.2", "numpy": "2"}

    def version(name):
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    assert installed(version) == {"onnxruntime": "1.2", "cupy-cuda12x": "14.2"}
    assert "onnxruntime" in installed()
