"""One network to ONNX. Runs by itself in the converter's environment: ``python -m ... STEP SOURCE TARGET``.

A process converts one network and ends, since tf2onnx numbers tensors through the life of the process.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tools.convert_models.recipes import OPSET


def from_tflite(source: Path) -> Any:
    """The ONNX model of a TensorFlow Lite file."""
    import tf2onnx

    return tf2onnx.convert.from_tflite(str(source), opset=OPSET)[0]


def prelu_to_relu(model: Any) -> Any:
    """`model` with every PRelu(x, s) written as Relu(x) - s * Relu(-x), in place.

    The numbers stay the same to the last bit (of the two terms one is zero), and the parts run several times
    faster in ONNX Runtime on a CPU than its PRelu.
    """
    from onnx import helper

    nodes = []
    for node in model.graph.node:
        if node.op_type != "PRelu":
            nodes.append(node)
            continue
        (x, slope), (y,) = node.input, node.output
        nodes += [
            helper.make_node("Relu", [x], [f"{y}_p"]),
            helper.make_node("Neg", [x], [f"{y}_n"]),
            helper.make_node("Relu", [f"{y}_n"], [f"{y}_r"]),
            helper.make_node("Mul", [f"{y}_r", slope], [f"{y}_m"]),
            helper.make_node("Sub", [f"{y}_p", f"{y}_m"], [y]),
        ]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def _weights(document: Any, folder: Path) -> dict[str, Any]:
    import numpy as np

    (manifest,) = document["weightsManifest"]
    raw = b"".join((folder / name).read_bytes() for name in manifest["paths"])
    weights, at = {}, 0
    for entry in manifest["weights"]:
        quantization = entry.get("quantization", {})
        if "scale" in quantization:
            raise SystemExit(f"{entry['name']} is quantized in a way this program does not know.")
        stored = np.dtype(quantization.get("dtype", entry["dtype"]))
        count = int(np.prod(entry["shape"], dtype=np.int64))
        array = np.frombuffer(raw, stored, count, at).reshape(entry["shape"])
        weights[entry["name"]] = array.astype(entry["dtype"])
        at += array.nbytes
    if at != len(raw):
        raise SystemExit(f"The weights take {at} bytes, but {len(raw)} are there.")
    return weights


def _add(graph: Any, op: str, name: str, *inputs: str) -> Any:
    node = graph.node.add(op=op, name=name)
    node.input.extend(inputs)
    node.attr["T"].type = 1  # DT_FLOAT
    return node


def _add_prelu(graph: Any, name: str, x: str, slope: str) -> None:
    # TensorFlow has no PRelu: Relu(x) + (-slope) * Relu(-x).
    _add(graph, "Relu", f"{name}/p", x)
    _add(graph, "Neg", f"{name}/n", x)
    _add(graph, "Relu", f"{name}/rn", f"{name}/n")
    _add(graph, "Neg", f"{name}/na", slope)
    _add(graph, "Mul", f"{name}/m", f"{name}/rn", f"{name}/na")
    _add(graph, "AddV2", name, f"{name}/p", f"{name}/m")


def _add_convolution(graph: Any, fused: Any) -> None:
    # A fused convolution of TensorFlow.js: convolution, bias and sometimes PRelu.
    parts = [part.decode("ascii") for part in fused.attr["fused_ops"].list.s]
    if parts not in (["BiasAdd"], ["BiasAdd", "Prelu"]):
        raise SystemExit(f"{fused.name} fuses {parts}, which this program does not know.")
    biased = fused.name if len(parts) == 1 else f"{fused.name}/BiasAdd"
    convolution = _add(graph, "Conv2D", f"{fused.name}/Conv2D", *fused.input[:2])
    for key in ("strides", "padding", "data_format", "dilations", "explicit_paddings", "use_cudnn_on_gpu"):
        convolution.attr[key].CopyFrom(fused.attr[key])
    bias = _add(graph, "BiasAdd", biased, convolution.name, fused.input[2])
    bias.attr["data_format"].CopyFrom(fused.attr["data_format"])
    if len(parts) == 2:
        _add_prelu(graph, fused.name, biased, fused.input[3])


def from_tfjs(source: Path) -> Any:
    """The ONNX model of a TensorFlow.js graph model, for a batch of one."""
    import tensorflow as tf
    import tf2onnx
    from google.protobuf import json_format

    document = json.loads(source.read_text(encoding="utf-8"))
    weights = _weights(document, source.parent)
    read = json_format.ParseDict(document["modelTopology"], tf.compat.v1.GraphDef())
    graph = tf.compat.v1.GraphDef()
    graph.versions.CopyFrom(read.versions)
    for node in read.node:
        if node.op == "_FusedConv2D":
            _add_convolution(graph, node)
        elif node.op == "Prelu":
            _add_prelu(graph, node.name, *node.input)
        else:
            copy = graph.node.add()
            copy.CopyFrom(node)
            if node.op == "Const":
                dtype = tf.dtypes.as_dtype(node.attr["dtype"].type)
                value = weights[node.name].astype(dtype.as_numpy_dtype)
                copy.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, dtype, value.shape))
            elif node.op == "Placeholder":
                copy.attr["shape"].shape.dim[0].size = 1
    signature = document["signature"]
    inputs = [tensor["name"] for tensor in signature["inputs"].values()]
    outputs = sorted(tensor["name"] for tensor in signature["outputs"].values())
    return tf2onnx.convert.from_graph_def(graph, input_names=inputs, output_names=outputs, opset=OPSET)[0]


def main() -> None:
    """Converts what the command line names."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    step, source, target = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    model = from_tfjs(source) if step == "tfjs" else from_tflite(source)
    if step == "tflite-relu":
        model = prelu_to_relu(model)
    target.write_bytes(model.SerializeToString())


if __name__ == "__main__":
    main()
