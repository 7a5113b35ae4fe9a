"""The types of an ONNX graph: each node computes in float16 or in float32, and casts stand where the two meet.

Every value of float32 exists in the precision in which it is made, and is cast at most once to the other one. Inputs
and outputs of the graph keep their types, and so does whatever is no float32 in the first place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

_FLOAT, _HALF = 1, 10
"""ONNX's numbers of the types."""

_LARGEST: Final = float(np.finfo(np.float16).max)
_SMALLEST: Final = float(np.finfo(np.float16).smallest_subnormal)

_ALWAYS_FLOAT: Final = {"Resize": (1, 2), "Upsample": (1,)}
"""Inputs of which ONNX allows float32 only, by their number."""


class HalfGraph:
    """Gives a graph half precision, in place.

    Args:
        onnx: The package.
        graph: Of a whole model, whose values have types (``onnx.shape_inference``).
        kept: Whether a node stays in float32.
    """

    def __init__(self, onnx: Any, graph: Any, kept: Callable[[Any], bool]) -> None:
        self._onnx, self._graph, self._kept = onnx, graph, kept
        self._weights = {weight.name: weight for weight in graph.initializer}
        self._types = {
            value.name: value.type.tensor_type.elem_type
            for value in (*graph.value_info, *graph.input, *graph.output)
        }
        self._types |= {weight.name: weight.data_type for weight in graph.initializer}
        self._outputs = {value.name for value in graph.output}
        self._nodes: list[Any] = []
        # For each value of float32: what it is called in either precision, where it is there.
        self._names: dict[tuple[str, int], str] = {
            (name, _FLOAT): name
            for name, kind in self._types.items()
            if kind == _FLOAT and self._is_given(name)
        }

    def convert(self) -> None:
        """Does it."""
        for node in self._graph.node:
            self._put(node)
        del self._graph.node[:]
        self._graph.node.extend(self._nodes)
        used = {value for node in self._nodes for value in _read_by(node)} | self._outputs
        left = [weight for weight in self._weights.values() if weight.name in used]
        del self._graph.initializer[:]
        self._graph.initializer.extend(left)
        del self._graph.value_info[:]  # of types that are no longer true

    def _is_given(self, name: str) -> bool:
        return name in self._weights or any(name == value.name for value in self._graph.input)

    def _put(self, node: Any) -> None:
        """One node, and the casts before and behind it."""
        kind = _FLOAT if self._stays(node) else _HALF
        for place, value in enumerate(node.input):
            if value and self._types.get(value) == _FLOAT:
                always = place in _ALWAYS_FLOAT.get(node.op_type, ())
                node.input[place] = self._named(value, _FLOAT if always else kind)
        for inner in _inner_reads(node):  # the graphs inside of a node go by the names of float32
            if self._types.get(inner) == _FLOAT and (inner, _HALF) in self._names:
                self._named(inner, _FLOAT)
        for attribute in node.attribute:
            if kind == _HALF and node.op_type == "Cast" and attribute.name == "to" and attribute.i == _FLOAT:
                attribute.i = _HALF
        self._nodes.append(node)
        behind = []
        for place, value in enumerate(node.output):
            if not value or self._types.get(value) != _FLOAT:
                continue
            made = value if kind == _FLOAT else f"{value}.half"
            self._names[value, kind] = node.output[place] = made
            if value in self._outputs and kind == _HALF:
                behind.append(value)
        for value in behind:
            self._named(value, _FLOAT)

    def _stays(self, node: Any) -> bool:
        """Whether a node computes in float32, or has nothing to do with it."""
        read = [self._types.get(value, 0) for value in node.input if value]
        made = [self._types.get(value, 0) for value in node.output if value]
        if (
            self._kept(node)
            or node.domain not in ("", "ai.onnx")
            or any(_inner_reads(node))
            or 0 in (*read, *made)
        ):
            return True
        # What makes floats of something else may make large ones: sizes, counts, quantised values.
        return _FLOAT not in read

    def _named(self, value: str, kind: int) -> str:
        """What a value is called in a precision; it is cast, or converted, if it is not there yet."""
        known = self._names.get((value, kind))
        if known is not None:
            return known
        if value in self._weights:
            name = f"{value}.half"
            self._weights[name] = self._halved(self._weights[value], name)
        else:
            source = self._names[value, _HALF if kind == _FLOAT else _FLOAT]
            name = value if kind == _FLOAT else f"{value}.half"
            cast = self._onnx.helper.make_node("Cast", [source], [name], name=f"cast.{name}", to=kind)
            self._nodes.append(cast)
        self._names[value, kind] = name
        return name

    def _halved(self, weight: Any, name: str) -> Any:
        """A weight in float16. What is too large becomes the largest, and what is too small does not become nought."""
        values = np.asarray(self._onnx.numpy_helper.to_array(weight), np.float32)
        small = (values != 0) & (np.abs(values) < _SMALLEST)
        if small.any():
            values = np.where(small, np.copysign(np.float32(_SMALLEST), values), values)
        half = np.clip(values, -_LARGEST, _LARGEST).astype(np.float16)
        return self._onnx.numpy_helper.from_array(half, name)


def _inner_reads(node: Any) -> set[str]:
    """Names that the graphs inside of a node read."""
    graphs = [one.g for one in node.attribute if one.HasField("g")]
    graphs += [graph for one in node.attribute for graph in one.graphs]
    return {value for graph in graphs for inner in graph.node for value in _read_by(inner)}


def _read_by(node: Any) -> Iterable[str]:
    return {*node.input, *_inner_reads(node)}


def constants_as_weights(onnx: Any, graph: Any) -> None:
    """Turns nodes that are constants into weights, so that they can be converted once."""
    left = []
    for node in graph.node:
        tensor = next((one.t for one in node.attribute if one.name == "value"), None)
        if node.op_type != "Constant" or tensor is None:
            left.append(node)
            continue
        weight = graph.initializer.add()
        weight.CopyFrom(tensor)
        weight.name = node.output[0]
    if len(left) != len(graph.node):
        del graph.node[:]
        graph.node.extend(left)
