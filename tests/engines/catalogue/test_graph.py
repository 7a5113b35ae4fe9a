"""What is read of a model file without a runtime, and what is said of a file that is none."""

from __future__ import annotations

import random

import onnx
import pytest
from onnx import TensorProto, helper

from engines.analysis.topology import WEIGHTS
from engines.catalogue.graph import graph_or_none, read_graph
from engines.errors import DoppelcamError, EngineError, UsageError
from tests.engines.catalogue.networks import network, put


@pytest.mark.parametrize("path", sorted(WEIGHTS.glob("*.onnx")), ids=lambda path: path.stem)
def test_it_reads_what_the_official_reader_reads(path):
    graph, model = read_graph(path), onnx.load(path)

    def dims(value):
        return tuple(dim.dim_value or None for dim in value.type.tensor_type.shape.dim)

    assert [(v.name, v.shape) for v in graph.inputs] == [(v.name, dims(v)) for v in model.graph.input]
    assert [(v.name, v.shape) for v in graph.outputs] == [(v.name, dims(v)) for v in model.graph.output]
    assert [(w.name, w.shape) for w in graph.weights] == [
        (w.name, tuple(w.dims)) for w in model.graph.initializer
    ]
    assert (graph.nodes, graph.opset) == (len(model.graph.node), model.opset_import[0].version)
    assert {v.dtype for v in graph.inputs} == {"float32"}


def test_sizes_left_open_and_other_types(tmp_path):
    path = put(
        tmp_path, "a.onnx", network([["batch", 3, "h", "w"]], [["batch", 512]], dtype=TensorProto.FLOAT16)
    )
    graph = read_graph(path)
    assert graph.inputs[0].shape == (None, 3, None, None)
    assert graph.outputs[0].shape == (None, 512)
    assert graph.inputs[0].dtype == "float16"


def test_weights_that_old_exporters_list_as_inputs_are_none(tmp_path):
    path = put(
        tmp_path, "a.onnx", network([[1, 3, 8, 8], [1, 512]], [[1, 3, 8, 8]], [[512, 512]], legacy=True)
    )
    graph = read_graph(path)
    assert [value.name for value in graph.inputs] == ["in0", "in1"]
    assert ("emap", (512, 512)) in [(weight.name, weight.shape) for weight in graph.weights]


def test_an_output_without_a_shape(tmp_path):
    node = helper.make_node("Identity", ["x"], ["y"])
    value = helper.make_tensor_value_info
    graph = helper.make_graph([node], "g", [value("x", 1, [1])], [helper.make_empty_tensor_value_info("y")])
    path = put(tmp_path, "a.onnx", helper.make_model(graph).SerializeToString())
    assert read_graph(path).outputs[0].shape is None


GOOD = network([[1, 3, 16, 16], [1, 512]], [[1, 3, 16, 16]], [[512, 2]])


@pytest.mark.parametrize(("data", "says"), [
    (b"<!DOCTYPE html><html>404</html>", "a web page"), (b'{"error": "gone"}', "JSON text"),
    (b"version https://git-lfs.github.com/spec/v1", "Git LFS"), (b"\n\nsome text", "text"),
    (b"\x00" * 4096, "zeros"), (b"PK\x03\x04zip", "a ZIP archive"),
    (GOOD[:-1], "ends"), (GOOD[: len(GOOD) // 2], "ends"), (GOOD[:3], "ends"), (b"\x08", "does not begin"),
    (b"\x08\x08", "no graph"),
    (b"\xff" * 40, "not a whole ONNX model"), (GOOD + GOOD, "two graphs"), (GOOD + b"\x00", "the number 0"),
    (onnx.ModelProto(ir_version=8).SerializeToString(), "no graph"),
    (onnx.ModelProto(ir_version=8, graph=onnx.GraphProto(name="x")).SerializeToString(), "no graph"),
])  # fmt: skip
def test_a_file_that_is_no_model_gets_the_sentence_it_deserves(tmp_path, data, says):
    path = put(tmp_path, "thing.onnx", data)
    with pytest.raises(EngineError, match=says) as found:
        read_graph(path)
    assert "thing.onnx" in found.value.what
    assert found.value.fix
    assert graph_or_none(path) is None


def test_a_file_that_is_not_there_or_empty_or_a_folder(tmp_path):
    for path in (tmp_path / "none.onnx", put(tmp_path, "empty.onnx", b""), tmp_path):
        with pytest.raises(UsageError):
            read_graph(path)
        assert graph_or_none(path) is None


def test_no_damage_gets_further_than_an_error_of_ours(tmp_path):
    rng = random.Random(1)
    whole = 0
    for _ in range(500):
        data = bytearray(GOOD)
        for _ in range(rng.randint(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path = put(
            tmp_path, "x.onnx", bytes(data[: rng.randint(1, len(data))] if rng.random() < 0.3 else data)
        )
        try:
            graph = read_graph(path)
            whole += 1
            assert all(
                isinstance(value.name, str) for value in (*graph.inputs, *graph.outputs, *graph.weights)
            )
        except DoppelcamError:
            pass
    assert 0 < whole < 500


def test_a_weight_with_sizes_without_end_is_refused(tmp_path):
    endless = onnx.TensorProto(dims=[1] * 100_000, name="w")
    model = onnx.load_from_string(GOOD)
    model.graph.initializer.append(endless)
    with pytest.raises(EngineError, match="too many"):
        read_graph(put(tmp_path, "a.onnx", model.SerializeToString()))
