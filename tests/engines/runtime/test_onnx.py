"""ONNX Runtime: fixed buffers, and what is said when something is missing or broken."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from engines.analysis.topology import WEIGHTS
from engines.errors import EngineError
from engines.runtime.onnx import OnnxNetwork, runtime_version

MESH = WEIGHTS / "face_mesh_468.onnx"


def test_runs_from_the_same_buffers_into_the_same_buffers():
    network = OnnxNetwork(MESH)
    buffers = [array.ctypes.data for array in (*network.inputs, *network.outputs)]
    rng = np.random.default_rng(0)
    seen = []
    for _ in range(3):
        network.inputs[0][:] = rng.random(network.inputs[0].shape)
        network.run()
        seen.append(np.concatenate([out.ravel().copy() for out in network.outputs]))
    assert [array.ctypes.data for array in (*network.inputs, *network.outputs)] == buffers
    assert np.isfinite(seen).all()
    assert not np.allclose(seen[0], seen[1])
    rng = np.random.default_rng(0)
    network.inputs[0][:] = rng.random(network.inputs[0].shape)
    network.run()
    np.testing.assert_array_equal(np.concatenate([out.ravel() for out in network.outputs]), seen[0])
    network.close()


@pytest.mark.parametrize("path", sorted(WEIGHTS.glob("*.onnx")), ids=lambda path: path.stem)
def test_says_what_it_is_and_where_it_runs(path):
    network = OnnxNetwork(path)
    assert network.name == path.stem
    for specs, arrays in ((network.input_specs, network.inputs), (network.output_specs, network.outputs)):
        assert [spec.shape for spec in specs] == [array.shape for array in arrays]
        assert [spec.dtype for spec in specs] == [array.dtype.name for array in arrays]
        assert all(size > 0 for spec in specs for size in spec.shape)
    assert list(network.nodes) == ["CPUExecutionProvider"]
    assert network.nodes["CPUExecutionProvider"] >= 0
    network.close()
    network.close()


@pytest.mark.parametrize(
    "content", [b"", b"<!DOCTYPE html><html>404</html>", b"\x00" * 4096, MESH.read_bytes()[:50_000]]
)
def test_a_file_that_is_no_model_is_named(content, tmp_path):
    path = tmp_path / "downloaded.onnx"
    path.write_bytes(content)
    with pytest.raises(EngineError, match=r"downloaded\.onnx"):
        OnnxNetwork(path)


def test_a_missing_file_is_named_with_the_fix(tmp_path):
    with pytest.raises(EngineError, match=r"nowhere\.onnx is missing") as caught:
        OnnxNetwork(tmp_path / "nowhere.onnx")
    assert caught.value.fix
    with pytest.raises(EngineError, match="missing"):
        OnnxNetwork(tmp_path)


def test_without_the_runtime_it_says_what_to_install(monkeypatch):
    assert runtime_version()
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert runtime_version() is None
    with pytest.raises(EngineError, match="not installed") as caught:
        OnnxNetwork(MESH)
    assert "pip install 'doppelcam[cpu]'" in caught.value.fix


def test_a_failure_while_running_is_an_engine_error():
    network = OnnxNetwork(MESH)

    class Broken:
        def run_with_iobinding(self, binding):
            raise RuntimeError("out of memory")

    real, network._session = network._session, Broken()
    with pytest.raises(EngineError, match=r"face_mesh_468 failed: out of memory"):
        network.run()
    del real
    network.close()
