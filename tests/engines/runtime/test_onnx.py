"""ONNX Runtime on the CPU: fixed buffers, shapes that are left free, and what is said when something is missing."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from engines.analysis.topology import WEIGHTS
from engines.errors import EngineError
from engines.runtime.open import open_network
from engines.runtime.ort.network import OnnxNetwork, threads_for
from tests.engines.runtime.graphs import double, flattened, save

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
    assert network.nodes["CPUExecutionProvider"] > 50
    network.close()
    network.close()


@pytest.mark.parametrize("where", [{"inputs": True}, {"outputs": True}, {"inputs": True, "outputs": True}])
def test_memory_of_somebody_else_is_read_and_written_where_it_lies(tmp_path, where):
    network = OnnxNetwork(double(tmp_path / "double.onnx"))
    theirs, results = np.full((1, 3, 4, 4), 5, np.float32), np.zeros((1, 3, 4, 4), np.float32)
    network.inputs[0][:] = 1
    network.bind(
        {0: theirs.ctypes.data} if "inputs" in where else {},
        {0: results.ctypes.data} if "outputs" in where else {},
    )
    network.run()
    taken, left = (results, network.outputs[0]) if "outputs" in where else (network.outputs[0], results)
    assert (taken == (10 if "inputs" in where else 2)).all()
    assert not left.any()
    theirs += 1
    network.run()
    assert (taken == (12 if "inputs" in where else 2)).all()
    with pytest.raises(EngineError, match="memory"):
        network.bind({7: theirs.ctypes.data}, {})
    network.close()


@pytest.mark.parametrize(
    ("declared", "asked", "shape"),
    [
        (("n", 3, 4, 4), {"batch": 4}, (4, 3, 4, 4)),
        ((None, 3, 4, 4), {"batch": 4}, (4, 3, 4, 4)),
        ((-1, 3, 4, 4), {"batch": 2}, (2, 3, 4, 4)),
        ((1, 3, 4, 4), {"batch": 4}, (1, 3, 4, 4)),
        (("n", 3, "h", "w"), {"batch": 2, "side": 8}, (2, 3, 8, 8)),
        ((1, "h", "w", 3), {"side": 6}, (1, 6, 6, 3)),
        ((1, 3, "h", "w"), {"shapes": {0: (1, 3, 5, 7)}}, (1, 3, 5, 7)),
        ((1, 3, None, None), {"shapes": {0: (1, 3, 5, 7)}, "side": 9}, (1, 3, 5, 7)),
        (("n",), {"batch": 3}, (3,)),
        ((), {}, ()),
    ],
)
def test_what_is_left_free_is_fixed(tmp_path, declared, asked, shape):
    network = open_network(double(tmp_path / "free.onnx", declared), **asked)
    assert network.input_specs[0].shape == network.output_specs[0].shape == shape
    network.inputs[0][...] = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    network.run()
    np.testing.assert_array_equal(network.outputs[0], 2 * network.inputs[0])
    network.close()


@pytest.mark.parametrize(
    ("declared", "asked", "said"),
    [
        ((1, 3, "h", "w"), {}, r"x of free is 1×3×h×w: its size is left free"),
        ((1, 3, None, 8), {"side": 8}, r"1×3×\?×8"),
        ((1, "n"), {"batch": 4, "side": 8}, r"1×n"),
        ((1, 3, 4, 4), {"shapes": {0: (1, 3, 8, 8)}}, r"is 1×3×4×4, so it cannot be 1×3×8×8"),
        ((1, 3, "h", "w"), {"shapes": {0: (1, 3, 8)}}, "cannot be 1×3×8"),
        ((1, 3, "h", "w"), {"shapes": {0: (1, 3, 0, 8)}}, "cannot be 1×3×0×8"),
        ((1, 3, "h", "w"), {"shapes": {1: (1, 3, 8, 8)}}, "has 1 inputs"),
        ((1, 3, "s", "s"), {"shapes": {0: (1, 3, 4, 8)}}, "two dimensions 's'"),
    ],
)
def test_what_cannot_be_fixed_is_said(tmp_path, declared, asked, said):
    with pytest.raises(EngineError, match=said):
        open_network(double(tmp_path / "free.onnx", declared), **asked)


def test_sizes_that_only_a_run_tells_are_those_of_a_run(tmp_path):
    network = open_network(flattened(tmp_path / "flat.onnx"), batch=2, side=8)
    assert network.output_specs[0].shape == (2, 192)
    network.inputs[0][:] = 0.5
    network.run()
    expected = np.float32(-0.5)
    for _ in range(9):
        expected = np.sin(expected)
    np.testing.assert_allclose(network.outputs[0], np.full((2, 192), expected), rtol=1e-5)
    network.close()


def test_outputs_that_come_and_go_are_refused(tmp_path):
    nodes = [helper.make_node("NonZero", ["x"], ["found"]), helper.make_node("Cast", ["found"], ["y"], to=1)]
    path = save(tmp_path / "picks.onnx", nodes, {"x": [4, 4]}, {"y": [2, None]})
    with pytest.raises(EngineError, match="depends on what"):
        OnnxNetwork(path)


@pytest.mark.parametrize("declared", [(1, 3, "h", "w"), (1, 3, 8, 8)])
@pytest.mark.parametrize("promised", [[1, 3, 9, 9], [1, 3, 8], [3, 8, 8], ["a", "b", "c", "d"], []])
def test_what_a_file_promises_of_its_outputs_is_not_believed(tmp_path, declared, promised):
    """A buffer of the promised size would be too small, or nobody would find the output by its shape."""
    network = open_network(double(tmp_path / "liar.onnx", declared, out=promised), side=8)
    assert network.output_specs[0].shape == network.outputs[0].shape == (1, 3, 8, 8)
    network.inputs[0][:] = 3
    network.run()
    assert (network.outputs[0] == 6).all()
    network.close()


def test_a_promise_that_the_runtime_holds_the_network_to_is_found_broken_before_the_first_frame(tmp_path):
    path = double(tmp_path / "liar.onnx", (1, 3, None, None), out=[1, 3, 9, 9])
    with pytest.raises(EngineError, match="y of liar is 1×3×8×8, and the file promises 1×3×9×9"):
        open_network(path, side=8)
    network = open_network(path, side=9)
    network.run()
    network.close()


def test_sizes_that_the_graph_cannot_work_with_are_said(tmp_path):
    weights = numpy_helper.from_array(np.ones((10, 2), np.float32), "w")
    path = save(tmp_path / "net.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": ["n", None]},
                {"y": ["n", None]}, [weights])  # fmt: skip
    with pytest.raises(EngineError, match=r"net failed in its first run: .*MatMul"):
        open_network(path, shapes={0: (1, 9)})


@pytest.mark.parametrize(
    "kind", [TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.UINT8, TensorProto.INT64]
)
def test_every_type_of_number(tmp_path, kind):
    path = save(
        tmp_path / "same.onnx",
        [helper.make_node("Identity", ["x"], ["y"])],
        {"x": [3]},
        {"y": [3]},
        kind=kind,
    )
    network = OnnxNetwork(path)
    network.inputs[0][:] = (1, 2, 3)
    network.run()
    assert network.outputs[0].tolist() == [1, 2, 3]
    assert network.outputs[0].dtype == network.input_specs[0].dtype == helper.tensor_dtype_to_np_dtype(kind)
    network.close()


def test_text_is_no_picture(tmp_path):
    node = helper.make_node("Identity", ["x"], ["y"])
    path = save(tmp_path / "text.onnx", [node], {"x": [3]}, {"y": [3]}, kind=TensorProto.STRING)
    with pytest.raises(EngineError, match=r"tensor\(string\)"):
        OnnxNetwork(path)


def test_a_small_network_has_one_thread_and_a_large_one_every_core():
    assert threads_for(5_000_000) == 1
    assert threads_for(500_000_000) != 1
    assert threads_for(500_000_000) >= 0
    network = open_network(MESH)
    network.run()
    network.close()


def test_without_the_runtime_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(EngineError, match="not installed") as caught:
        OnnxNetwork(MESH)
    assert "pip install 'doppelcam[cpu]'" in caught.value.fix
    assert caught.value.exit_code == 4


def test_half_a_runtime_is_none(monkeypatch):
    """Removing one of the two packages leaves the folder, and Python imports an empty one."""
    monkeypatch.setitem(sys.modules, "onnxruntime", ModuleType("onnxruntime"))
    with pytest.raises(EngineError, match="in part only") as caught:
        OnnxNetwork(MESH)
    assert "pip uninstall" in caught.value.fix


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
    with pytest.raises(EngineError, match="closed"):
        network.run()
