"""The outline of an ONNX file: the same as ``onnx`` reads, and no hostile byte gets past it."""

from __future__ import annotations

import contextlib
import random

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from engines.analysis.topology import WEIGHTS
from engines.runtime.model.format import External, read_outline
from engines.runtime.model.protobuf import Malformed, Truncated
from tests.engines.runtime.graphs import double, flattened, load, save, with_external

OWN = sorted(WEIGHTS.glob("*.onnx"))


def outline(data):
    return read_outline(memoryview(data))


def as_onnx_reads(model):
    weights = {one.name for one in model.graph.initializer}
    shapes = {}
    for one in model.graph.input:
        if one.name not in weights:
            dims = one.type.tensor_type.shape.dim
            shapes[one.name] = tuple(
                dim.dim_param or None
                if dim.HasField("dim_param")
                else dim.dim_value
                if dim.dim_value > 0
                else None
                for dim in dims
            )
    return shapes


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.stem)
def test_networks_of_the_package(path):
    model = load(path)
    found = outline(path.read_bytes())
    assert (found.opset, found.nodes) == (model.opset_import[0].version, len(model.graph.node))
    assert {one.name: one.shape for one in found.inputs} == as_onnx_reads(model)
    data = path.read_bytes()
    at = [one.at for one in found.weights]
    assert [TensorProto.FromString(data[one.start : one.end]) for one in at] == list(model.graph.initializer)
    assert found.external == ()


@pytest.mark.parametrize(
    "shape", [(1, 3, 4, 4), ("n", 3, "h", "w"), (None, 3), (-1, 0, 4), ("", 2), (2**31, 1), ()]
)
def test_dimensions_of_every_kind(tmp_path, shape):
    found = outline(double(tmp_path / "net.onnx", shape).read_bytes())
    expected = tuple(
        dim if (isinstance(dim, int) and 0 < dim < 2**31) or (isinstance(dim, str) and dim) else None
        for dim in shape
    )
    assert found.inputs == (("x", expected, "float32"),)


def test_weights_that_old_exporters_list_among_the_inputs_are_none(tmp_path):
    weights = numpy_helper.from_array(np.float32([2]), "two")
    path = save(tmp_path / "old.onnx", [helper.make_node("Mul", ["x", "two"], ["y"])], {"two": [1], "x": [4]},
                {"y": [4]}, [weights], ir=3)  # fmt: skip
    assert outline(path.read_bytes()).inputs == (("x", (4,), "float32"),)


def test_own_operators_do_not_count_as_the_standards_version(tmp_path):
    model = load(double(tmp_path / "net.onnx"))
    model.opset_import.add(domain="com.microsoft", version=99)
    assert outline(model.SerializeToString()).opset == 17


def test_weights_in_other_files_are_found_wherever_they_hide(tmp_path):
    def tensor(name, location):
        made = TensorProto(name=name, data_type=1, dims=[1], data_location=TensorProto.EXTERNAL)
        made.external_data.add(key="location", value=location)
        made.external_data.add(key="length", value="4")
        return made

    inner = helper.make_graph([helper.make_node("Identity", ["w"], ["z"])], "inner", [],
                              [helper.make_tensor_value_info("z", 1, [1])], [tensor("w", "in_a_branch")])  # fmt: skip
    nodes = [
        helper.make_node("Constant", [], ["c"], value=tensor("", "in_an_attribute")),
        helper.make_node("If", ["x"], ["y"], then_branch=inner, else_branch=inner),
    ]
    sparse = onnx.SparseTensorProto(values=tensor("s", "in_a_sparse_one"), dims=[1])
    path = save(tmp_path / "hides.onnx", nodes, {"x": [1]}, {"y": [1]}, [tensor("v", "as_a_weight")])
    model = load(path)
    model.graph.sparse_initializer.append(sparse)
    found = outline(model.SerializeToString()).external
    assert {one.location for one in found} == {
        "in_a_branch", "in_an_attribute", "as_a_weight", "in_a_sparse_one",
    }  # fmt: skip
    assert {one.end for one in found} == {4}
    path = with_external(tmp_path / "far.onnx", "w.bin", length=4000, offset=96)
    assert outline(path.read_bytes()).external == (External("w.bin", 4096),)


def test_a_second_graph_that_a_runtime_would_join_to_the_first(tmp_path):
    far, near = (tmp_path / name for name in ("far.onnx", "near.onnx"))
    data = with_external(far, "../w.bin").read_bytes() + double(near).read_bytes()
    with pytest.raises(Malformed, match="two graphs"):
        outline(data)


def test_cut_off_anywhere_it_is_cut_off_or_no_model(tmp_path):
    data = flattened(tmp_path / "net.onnx").read_bytes()
    whole = outline(data)
    promised = set()
    for length in range(len(data)):
        try:
            found = outline(data[:length])
            # What comes after the graph is the version of the operators, a few bytes.
            assert length > len(data) - 8
            assert found.inputs == whole.inputs
        except Malformed:
            assert length < 30
        except Truncated as cut:
            promised.add(cut.promised)
            assert length < cut.promised <= len(data)
    assert len(promised) > 1


@pytest.mark.parametrize("seed", range(20))
def test_no_bytes_crash_it_or_hold_it_up(seed):
    chance = random.Random(seed)
    data = bytearray((WEIGHTS / "face_mesh_468.onnx").read_bytes()[: chance.randrange(1, 60_000)])
    for _ in range(chance.choice((1, 10, 1000))):
        data[chance.randrange(len(data))] = chance.randrange(256)
    for attempt in (bytes(data), chance.randbytes(5000), b"\x08\x07" + chance.randbytes(5000)):
        with contextlib.suppress(Malformed, Truncated):
            outline(attempt)


def test_graphs_inside_of_graphs_have_an_end():
    data = b""
    for _ in range(200):
        # A graph with a node with an attribute with a graph.
        for tag in (b"\x32", b"\x2a", b"\x0a"):
            data = tag + _varint(len(data)) + data
    with pytest.raises(Malformed, match="too deep"):
        outline(b"\x08\x07\x3a" + _varint(len(data)) + data)


def test_so_many_parts_that_nobody_would_wait_for_them(monkeypatch):
    monkeypatch.setattr("engines.runtime.model.protobuf._MOST_FIELDS", 1000)
    body = b"\x50\x00" * 2000
    with pytest.raises(Malformed, match="too many"):
        outline(b"\x08\x07\x3a" + _varint(len(body)) + body)


def test_so_many_inputs_that_no_message_could_list_them(tmp_path):
    model = load(double(tmp_path / "net.onnx"))
    for number in range(4096):
        model.graph.input.append(helper.make_tensor_value_info(f"x{number}", 1, [1]))
    with pytest.raises(Malformed, match="too many inputs"):
        outline(model.SerializeToString())


def _varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
