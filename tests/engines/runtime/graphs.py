"""Small networks, and files that are none."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def save(path, nodes, inputs, outputs, weights=(), opset=17, ir=8, kind=TensorProto.FLOAT):
    """Writes a model of given nodes; inputs and outputs are names with shapes."""

    def infos(named):
        return [helper.make_tensor_value_info(name, kind, shape) for name, shape in named.items()]

    graph = helper.make_graph(nodes, "graph", infos(inputs), infos(outputs), list(weights))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], producer_name="a test")
    model.ir_version = ir
    path.write_bytes(model.SerializeToString())
    return path


def double(path, shape=(1, 3, 4, 4), out=None, **more):
    """y = 2x."""
    two = numpy_helper.from_array(np.float32(2), "two")
    node = helper.make_node("Mul", ["x", "two"], ["y"], name="times_two")
    return save(path, [node], {"x": list(shape)}, {"y": list(shape) if out is None else out}, [two], **more)


def flattened(path, shape=("n", 3, None, None)):
    """y = -x, flattened by arithmetic with shapes that no optimiser can do in advance."""
    last = numpy_helper.from_array(np.int64([-1]), "last")
    first, axis = (
        numpy_helper.from_array(np.int64([0]), "first"),
        numpy_helper.from_array(np.int64(0), "axis"),
    )
    nodes = [helper.make_node("Neg", ["x"], ["a0"], name="neg_0")]
    nodes += [helper.make_node("Sin", [f"a{i}"], [f"a{i + 1}"], name=f"sin_{i}") for i in range(9)]
    nodes += [
        helper.make_node("Shape", ["a9"], ["shape"], name="shape_of"),
        helper.make_node("Gather", ["shape", "first"], ["count"], name="count_of", axis=0),
        helper.make_node("Concat", ["count", "last"], ["flat"], name="flat_of", axis=0),
        helper.make_node("Reshape", ["a9", "flat"], ["y"], name="flatten"),
    ]
    return save(path, nodes, {"x": list(shape)}, {"y": [None, None]}, [last, first, axis])


def with_external(path, location, length=4000, offset=0):
    """y = x + w, with w in a file of its own."""
    tensor = TensorProto(
        name="w", data_type=TensorProto.FLOAT, dims=[1000], data_location=TensorProto.EXTERNAL
    )
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
    return save(path, [helper.make_node("Add", ["x", "w"], ["y"])], {"x": [1000]}, {"y": [1000]}, [tensor])


def load(path):
    """The model again."""
    return onnx.load(str(path), load_external_data=False)
