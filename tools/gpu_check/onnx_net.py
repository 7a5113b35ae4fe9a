"""A network's shape as an ONNX file, for whatever runtime the program itself has here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tools.gpu_check.shape import LATENT, SIDE, Conv, Shape


class _Writer:
    """Nodes and weights of one graph, named as they come."""

    def __init__(self, onnx: Any, half: bool) -> None:
        self._onnx, self.kind = onnx, np.float16 if half else np.float32
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self._random = np.random.default_rng(0)

    def constant(self, values: Any) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def random(self, *size: int) -> str:
        scale = np.sqrt(2 / np.prod(size[1:]))
        return self.constant(
            (self._random.standard_normal(size, np.float32) * np.float32(scale)).astype(self.kind)
        )

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op}{len(self.nodes)}"
        self.nodes.append(self._onnx.helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def cast(self, x: str, kind: Any) -> str:
        return self.node("Cast", x, to=self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)))


def write(onnx: Any, path: Path, shape: Shape, batch: int, half: bool = True) -> None:
    """Writes a graph with weights at random; the norms compute in single precision.

    Args:
        onnx: The package.
        path: The file.
        shape: Which layers.
        batch: Pictures at a time.
        half: Whether inputs, outputs and weights are of half precision.
    """
    g = _Writer(onnx, half)
    x = _chain(g, "target", shape.head)
    for block in shape.blocks:
        x = g.node("Add", x, _chain(g, x, block))
    x = _chain(g, x, shape.tail)
    x = g.node("Add", x, g.constant(np.array(1, g.kind)))
    g.node("Mul", x, g.constant(np.array(0.5, g.kind)))
    g.nodes[-1].output[0] = "output"
    element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(g.kind))
    values = [
        onnx.helper.make_tensor_value_info(name, element, size)
        for name, size in (
            ("target", [batch, 3, SIDE, SIDE]), ("source", [batch, LATENT]), ("output", [batch, 3, SIDE, SIDE])
        )
    ]  # fmt: skip
    graph = onnx.helper.make_graph(g.nodes, "shaped like inswapper_128", values[:2], values[2:], g.weights)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, str(path))


def _chain(g: _Writer, x: str, layers: Sequence[Conv]) -> str:
    for layer in layers:
        x = _layer(g, x, layer)
    return x


def _layer(g: _Writer, x: str, conv: Conv) -> str:
    pad = conv.kernel // 2
    if conv.doubled:
        twice = g.constant(np.array([1, 1, 2, 2], np.float32))
        x = g.node("Resize", x, "", twice, mode="linear", coordinate_transformation_mode="half_pixel")
    if conv.mirrored:
        x, pad = g.node("Pad", x, g.constant(np.array([0, 0, pad, pad] * 2, np.int64)), mode="reflect"), 0
    x = g.node(
        "Conv", x, g.random(conv.outputs, conv.inputs, conv.kernel, conv.kernel),
        g.constant(np.zeros(conv.outputs, g.kind)), kernel_shape=[conv.kernel] * 2, strides=[conv.stride] * 2,
        pads=[pad] * 4,
    )  # fmt: skip
    if conv.styled:
        x = _styled(g, x, conv.outputs)
    if conv.after == "leaky":
        return g.node("LeakyRelu", x, alpha=0.2)
    return g.node(conv.after.capitalize(), x) if conv.after else x


def _styled(g: _Writer, x: str, channels: int) -> str:
    x = g.cast(x, np.float32)
    centred = g.node("Sub", x, g.node("ReduceMean", x, axes=[2, 3], keepdims=1))
    square = g.node("ReduceMean", g.node("Mul", centred, centred), axes=[2, 3], keepdims=1)
    spread = g.node("Sqrt", g.node("Add", square, g.constant(np.array(1e-8, np.float32))))
    even = g.cast(g.node("Div", centred, spread), g.kind)
    bias = np.concatenate([np.ones(channels), np.zeros(channels)]).astype(g.kind)
    style = g.node("Gemm", "source", g.random(2 * channels, LATENT), g.constant(bias), transB=1)
    style = g.node("Unsqueeze", style, g.constant(np.array([2, 3], np.int64)))
    gain, offset = (
        g.node("Slice", style, *(g.constant(np.array([at], np.int64)) for at in (start, start + channels, 1)))
        for start in (0, channels)
    )
    return g.node("Add", g.node("Mul", even, gain), offset)
