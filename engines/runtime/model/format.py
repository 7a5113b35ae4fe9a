"""The outline of an ONNX file, read from its bytes: what it takes and gives, and the files beside it that it names.

Only lengths and a few small fields are read, and the numbers of the weights are skipped, so that a file of any size
costs milliseconds, and what is wrong with it can be said before a runtime has seen it. Numbers of fields are those of
``onnx.proto`` (ONNX, Apache-2.0).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from engines.runtime.model.protobuf import Malformed, Reader, Span, Truncated

Dim = int | str | None
"""A dimension: fixed, free with a name, or free without one."""

_DEEPEST: Final = 32
_NEWEST_IR: Final = 1000
_MOST_DIMS: Final = 64
_MOST_VALUES: Final = 4096
_DTYPES: Final = {
    1: "float32", 2: "uint8", 3: "int8", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16", 11: "float64",
    16: "bfloat16",
}  # fmt: skip

DTYPES: Final = frozenset(_DTYPES.values())
"""Names of the types that are told apart."""


class Declared(NamedTuple):
    """An input or an output as the file declares it.

    Attributes:
        name: As in the file.
        shape: Its dimensions; None when it has no shape at all.
        dtype: NumPy's name of its type, ``bfloat16``, or empty for another one.
    """

    name: str
    shape: tuple[Dim, ...] | None
    dtype: str = ""


class Weight(NamedTuple):
    """A weight as the file has it.

    Attributes:
        name: As in the file.
        shape: Its sizes.
        dtype: As of :class:`Declared`.
        at: Where its ``TensorProto`` lies in the file.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    at: Span


class External(NamedTuple):
    """Weights in another file.

    Attributes:
        location: Its path as the model gives it; from outside, so not to be followed unchecked.
        end: Bytes it must have at least.
    """

    location: str
    end: int


@dataclass(frozen=True, slots=True)
class Outline:
    """What an ONNX file says of itself.

    Attributes:
        opset: Of the standard operators; 0 when it does not say.
        nodes: How many operations there are.
        inputs: Without the weights that old exporters list among them.
        outputs: In the file's order.
        weights: Likewise.
        external: Weights that lie in other files.
    """

    opset: int
    nodes: int
    inputs: tuple[Declared, ...]
    outputs: tuple[Declared, ...]
    weights: tuple[Weight, ...]
    external: tuple[External, ...]


def read_outline(data: memoryview) -> Outline:
    """Reads the outline of a model.

    Args:
        data: The whole file, (N,) bytes; may be a memory map.

    Raises:
        Malformed: These are not the bytes of an ONNX model.
        Truncated: They begin as one and are cut off.
    """
    reader = Reader(data)
    ir_version, opset = 0, 0
    graphs: list[Span] = []
    external: list[External] = []
    try:
        for number, value in reader.fields(Span(0, len(data))):
            if number == 1 and isinstance(value, int):
                ir_version = value
            elif number == 7 and isinstance(value, Span):
                graphs.append(value)
            elif number == 8 and isinstance(value, Span):
                opset = max(opset, _opset(reader, value))
    except Truncated:
        if not 0 < ir_version < _NEWEST_IR:
            raise Malformed("it does not begin as one") from None
        raise
    if not 0 < ir_version < _NEWEST_IR:
        raise Malformed("it says no version of the format")
    if not graphs:
        raise Malformed("it has no graph")
    if len(graphs) > 1:
        # A runtime would join them: what only the other one names would go unseen.
        raise Malformed("it has two graphs")
    try:
        graph = _graph(reader, graphs[0], external, 0)
    except Truncated:
        # All of the graph's bytes are there, and yet a part of it claims more than they are.
        raise Malformed("the lengths in it contradict each other") from None
    own = {weight.name for weight in graph.weights}
    inputs = tuple(one for one in graph.inputs if one.name not in own)
    if len(inputs) + len(graph.outputs) > _MOST_VALUES:
        raise Malformed("it has too many inputs")
    return Outline(opset, graph.nodes, inputs, tuple(graph.outputs), tuple(graph.weights), tuple(external))


def _opset(reader: Reader, span: Span) -> int:
    """Version of the standard operators in an ``OperatorSetIdProto``; 0 for those of somebody else."""
    domain, version = "", 0
    for number, value in reader.fields(span):
        if number == 1 and isinstance(value, Span):
            domain = reader.text(value)
        elif number == 2 and isinstance(value, int):
            version = value
    return version if domain in ("", "ai.onnx") else 0


class _Graph(NamedTuple):
    nodes: int
    inputs: list[Declared]
    outputs: list[Declared]
    weights: list[Weight]


def _graph(reader: Reader, span: Span, external: list[External], depth: int) -> _Graph:
    """A ``GraphProto``; adds what its weights and those of the graphs inside it name."""
    if depth > _DEEPEST:
        raise Malformed("graphs are nested too deep")
    nodes = 0
    inputs: list[Declared] = []
    outputs: list[Declared] = []
    weights: list[Weight] = []
    for number, value in reader.fields(span):
        if not isinstance(value, Span):
            continue
        if number == 1:
            nodes += 1
            _node(reader, value, external, depth)
        elif number == 5:
            weights.append(_tensor(reader, value, external))
        elif number == 11:
            inputs.append(_value(reader, value))
        elif number == 12:
            outputs.append(_value(reader, value))
        elif number == 15:
            _sparse(reader, value, external)
    return _Graph(nodes, inputs, outputs, weights)


def _node(reader: Reader, span: Span, external: list[External], depth: int) -> None:
    for number, value in reader.fields(span):
        if number != 5 or not isinstance(value, Span):
            continue
        for part, inner in reader.fields(value):
            if not isinstance(inner, Span):
                continue
            if part in (5, 10):
                _tensor(reader, inner, external)
            elif part in (6, 11):
                _graph(reader, inner, external, depth + 1)
            elif part in (22, 23):
                _sparse(reader, inner, external)


def _sparse(reader: Reader, span: Span, external: list[External]) -> None:
    for number, value in reader.fields(span):
        if number in (1, 2) and isinstance(value, Span):
            _tensor(reader, value, external)


def _tensor(reader: Reader, span: Span, external: list[External]) -> Weight:
    """A ``TensorProto``: its sizes, type, name and place; its numbers are stepped over."""
    name, dtype, entries = "", "", {}
    dims: list[int] = []
    for number, value in reader.fields(span):
        if number == 1:
            # One by one or packed, as the writer likes it.
            for size in reader.numbers(value) if isinstance(value, Span) else (value,):
                dims.append(size)
                if len(dims) > _MOST_DIMS:
                    raise Malformed("a weight has too many sizes")
        elif number == 2 and isinstance(value, int):
            dtype = _DTYPES.get(value, "")
        elif number == 8 and isinstance(value, Span):
            name = reader.text(value)
        elif number == 13 and isinstance(value, Span):
            parts = {
                part: reader.text(inner) for part, inner in reader.fields(value) if isinstance(inner, Span)
            }
            entries[parts.get(1, "")] = parts.get(2, "")
    if "location" in entries:
        end = sum(int(text) for key in ("offset", "length") if (text := entries.get(key, "")).isdecimal())
        external.append(External(entries["location"], end))
    return Weight(name, tuple(dims), dtype, span)


def _value(reader: Reader, span: Span) -> Declared:
    """A ``ValueInfoProto``."""
    name, shape, dtype = "", None, ""
    for number, value in reader.fields(span):
        if not isinstance(value, Span):
            continue
        if number == 1:
            name = reader.text(value)
        elif number == 2:
            for tensor in _parts(reader, value, 1):
                shape, dtype = _type(reader, tensor)
    return Declared(name, shape, dtype)


def _type(reader: Reader, span: Span) -> tuple[tuple[Dim, ...] | None, str]:
    """Shape and type in a ``TypeProto.Tensor``."""
    shape: tuple[Dim, ...] | None = None
    dtype = ""
    for number, value in reader.fields(span):
        if number == 1 and isinstance(value, int):
            dtype = _DTYPES.get(value, "")
        elif number == 2 and isinstance(value, Span):
            shape = tuple(_dim(reader, dim) for dim in _parts(reader, value, 1))
    return shape, dtype


def _parts(reader: Reader, span: Span, wanted: int) -> Iterator[Span]:
    for number, value in reader.fields(span):
        if number == wanted and isinstance(value, Span):
            yield value


def _dim(reader: Reader, span: Span) -> Dim:
    found: Dim = None
    for number, value in reader.fields(span):
        if number == 1 and isinstance(value, int):
            # Exporters write 0 or -1 for "any".
            found = value if 0 < value < 2**31 else None
        elif number == 2 and isinstance(value, Span):
            found = reader.text(value) or None
    return found
