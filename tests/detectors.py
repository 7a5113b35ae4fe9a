"""Networks of the shape of public detectors, landmark and identity networks, which see what a test has painted.

Each looks for pure red: a cell whose pixel is (255, 0, 0) in RGB scores high, whatever else it holds scores nothing.
So a face that is found where it was painted, with the score that was computed here, proves order of colours,
normalisation, padding, layout and decoding at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

STRIDES = (8, 16, 32)
SCRFD_SIDES = (2.0, 3.0, 2.5, 4.0)
"""Distances to left, top, right and bottom, in strides."""
FIVE = ((-1.0, -1.0), (1.0, -1.25), (0.25, 0.0), (-0.75, 1.0), (0.75, 1.25))
"""Of the five points, in strides (SCRFD) or in eighths of the box (YOLOFace)."""
SCRFD_RED = 3 * 127.5 / 128 - 2
"""Score of a red pixel that was fed as (x - 127.5) / 128 in RGB."""
YOLO_BOX = (64.0, 80.0)
IDENTITY = Path(__file__).parent / "data" / "mobileface.onnx"


@dataclass(frozen=True)
class Layout:
    """What differs between exporters."""

    batch: bool = True
    """Whether outputs have a batch dimension."""
    order: tuple[int, ...] = tuple(range(9))
    """Of SCRFD's outputs."""
    turned: bool = False
    """Whether YOLOFace has a row for each face in place of a column."""
    nhwc: bool = False
    free: bool = False
    """Whether height, width and batch are left open."""
    half: bool = False
    """Whether inputs and outputs are float16."""
    flat_scores: bool = False
    """Whether SCRFD's scores lack their last dimension of one."""


class Graph:
    """Builds a graph, operation by operation."""

    def __init__(self, shape, layout=Layout()):
        self.nodes, self.weights, self.outputs, self.layout = [], [], [], layout
        self.kind = TensorProto.FLOAT16 if layout.half else TensorProto.FLOAT
        shape = list(shape)
        if layout.nhwc:
            shape = [shape[0], *shape[2:], shape[1]]
        if layout.free:
            shape = [size if size == 3 else f"d{place}" for place, size in enumerate(shape)]
        self.inputs = [helper.make_tensor_value_info("picture", self.kind, shape)]
        self.picture = self.op("Cast", "picture", to=TensorProto.FLOAT)
        if layout.nhwc:
            self.picture = self.op("Transpose", self.picture, perm=[0, 3, 1, 2])

    def const(self, value, dtype=np.float32):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def ints(self, *values):
        return self.const(list(values), np.int64)

    def op(self, kind, *inputs, **attributes):
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def out(self, value, shape):
        name = f"{500 - 7 * len(self.outputs)}"
        self.nodes.append(helper.make_node("Cast", [value], [name], to=self.kind))
        dims = [f"o{place}" for place in range(len(shape))] if self.layout.free else list(shape)
        self.outputs.append(helper.make_tensor_value_info(name, self.kind, dims))

    def red(self, rest, stride=1):
        """(1, 1, H/stride, W/stride): R - G - B - rest, not below 0."""
        start, end, axes = self.ints(0, 0), self.ints(1 << 20, 1 << 20), self.ints(2, 3)
        seen = self.op("Slice", self.picture, start, end, axes, self.ints(stride, stride))
        weights = self.const(np.reshape([1, -1, -1], (1, 3, 1, 1)))
        red = self.op("Conv", seen, weights, self.const([-rest]))
        return self.op("Relu", red)

    def save(self, path):
        graph = helper.make_graph(self.nodes, "made", self.inputs, self.outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        onnx.save(model, path)
        return path


def scrfd(path, height=640, width=640, layout=Layout(), stride=8, points=True):
    """An SCRFD whose heads of one stride find red cells; the first anchor is surer than the second.

    Args:
        path: Where to save it.
        height: Of its picture.
        width: The same.
        layout: What differs between exporters.
        stride: Which heads find anything.
        points: Whether it has the three outputs of five points.
    """
    graph = Graph((1, 3, height, width), layout)
    made = []
    for own in STRIDES:
        count = -(-height // own) * -(-width // own) * 2
        red = graph.op("Reshape", graph.red(2.0, own), graph.ints(1, -1, 1))
        anchors = graph.const(np.reshape([1.0, 0.9] if own == stride else [0.0, 0.0], (1, 1, 2)))
        scores = graph.op("Reshape", graph.op("Mul", red, anchors), graph.ints(1, -1, 1))
        blank = graph.op("Mul", scores, graph.const(0.0))
        sides = graph.op("Add", blank, graph.const(np.reshape(SCRFD_SIDES, (1, 1, 4))))
        five = graph.op("Add", blank, graph.const(np.reshape(FIVE, (1, 1, 10))))
        made.append(((scores, 1, count), (sides, 4, count), (five, 10, count)))
    rows = [head[kind] for kind in range(3 if points else 2) for head in made]
    for place in layout.order[: len(rows)]:
        value, size, count = rows[place]
        shape = [count, size] if size > 1 or not layout.flat_scores else [count]
        shape = [1, *shape] if layout.batch else shape
        graph.out(
            graph.op("Reshape", value, graph.ints(*(-1 if one == count else one for one in shape))), shape
        )
    return graph.save(path)


def yoloface(path, side=640, layout=Layout(), rows=20):
    """A YOLOFace whose cells of eight pixels are faces where they are red."""
    graph = Graph((1, 3, side, side), layout)
    cells = [(side // stride) ** 2 for stride in STRIDES]
    total = sum(cells)
    red = graph.op("Reshape", graph.red(0.0, 8), graph.ints(1, 1, cells[0]))
    score = graph.op("Concat", red, graph.const(np.zeros((1, 1, total - cells[0]))), axis=2)
    y, x = (8 * place.astype(np.float32) for place in np.divmod(np.arange(cells[0]), side // 8))
    box = np.zeros((1, 4, total), np.float32)
    box[0, :, : cells[0]] = [x, y, np.full_like(x, YOLO_BOX[0]), np.full_like(x, YOLO_BOX[1])]
    five = np.zeros((1, rows - 5, total), np.float32)
    for place, (dx, dy) in enumerate(FIVE[: (rows - 5) // 3]):
        five[0, 3 * place : 3 * place + 3, : cells[0]] = [x + 8 * dx, y + 8 * dy, np.full_like(x, 0.9)]
    out = graph.op("Concat", graph.const(box), score, graph.const(five), axis=1)
    shape = [1, rows, total]
    if layout.turned:
        out, shape = graph.op("Transpose", out, perm=[0, 2, 1]), [1, total, rows]
    if not layout.batch:
        out, shape = graph.op("Squeeze", out, graph.ints(0)), shape[1:]
    graph.out(out, shape)
    return graph.save(path)


def _red_place(graph, side):
    """x and y of the reddest cell, (1,) each, in cells, at its middle."""
    flat = graph.op("Reshape", graph.pooled, graph.ints(1, -1))
    best = graph.op("ArgMax", flat, axis=1, keepdims=0)
    y = graph.op("Div", best, graph.ints(side))
    x = graph.op("Sub", best, graph.op("Mul", y, graph.ints(side)))
    half = graph.const([0.5])
    return [graph.op("Add", graph.op("Cast", one, to=TensorProto.FLOAT), half) for one in (x, y)]


def fan(path, layout=Layout(), outputs=("points", "maps"), width=3, side=256):
    """A 2DFAN4 all of whose 68 points lie on what is red: a disk or a square."""
    graph = Graph((1, 3, side, side), layout)
    graph.pooled = graph.op(
        "AveragePool", graph.red(0.0), kernel_shape=[side // 64] * 2, strides=[side // 64] * 2
    )
    x, y = _red_place(graph, 64)
    for what in outputs:
        if what == "points":
            one = graph.op("Concat", x, y, *([graph.const([0.8])] if width == 3 else []), axis=0)
            many = graph.op("Add", graph.op("Reshape", one, graph.ints(1, 1, width)),
                            graph.const(np.zeros((1, 68, width))))  # fmt: skip
            graph.out(many, [1, 68, width])
        else:
            graph.out(graph.op("Add", graph.pooled, graph.const(np.zeros((1, 68, 64, 64)))), [1, 68, 64, 64])
    return graph.save(path)


def insight106(path, layout=Layout(), shape=(1, 212), side=192):
    """A 2d106det all of whose 106 points lie on what is red."""
    graph = Graph((1, 3, side, side), layout)
    graph.pooled = graph.red(0.0)
    x, y = _red_place(graph, side)
    pair = graph.op("Concat", x, y, axis=0)
    pair = graph.op("Sub", graph.op("Div", pair, graph.const([side / 2])), graph.const([1.0]))
    many = graph.op("Add", graph.op("Reshape", pair, graph.ints(1, 1, 2)), graph.const(np.zeros((1, 106, 2))))
    graph.out(graph.op("Reshape", many, graph.ints(*shape)), shape)
    return graph.save(path)


def arcface(path, layout=Layout()):
    """A real small identity network behind the inputs of ``w600k_r50``: RGB, (x - 127.5) / 127.5."""
    inner = onnx.load(IDENTITY)
    name = inner.graph.input[0].name
    graph = Graph((1, 3, 112, 112), layout)
    picture = graph.op("Transpose", graph.picture, perm=[0, 2, 3, 1])
    picture = graph.op("Add", graph.op("Mul", picture, graph.const(127.5)), graph.const(127.5))
    graph.nodes.append(helper.make_node("Identity", [picture], [name]))
    graph.nodes += inner.graph.node
    graph.weights += inner.graph.initializer
    flat = graph.op("Reshape", inner.graph.output[0].name, graph.ints(1, -1))
    graph.out(flat, [1, 256])
    return graph.save(path)
