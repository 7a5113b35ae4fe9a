"""What an ONNX file says of its inputs, outputs and weights, read without a runtime and without its weights.

Only the outer fields of the protobuf are visited, and what is not asked for is stepped over, so half a gigabyte takes
a millisecond. Field numbers are those of ``onnx.proto`` (ONNX, Apache-2.0); the encoding is Google's "Protocol
Buffers: Encoding". The file may be anything: every length is checked against what is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from engines.errors import EngineError, UsageError
from engines.files import open_regular, quoted

_MODEL_GRAPH, _MODEL_OPSETS = 7, 8
_GRAPH_NODE, _GRAPH_WEIGHT, _GRAPH_INPUT, _GRAPH_OUTPUT = 1, 5, 11, 12
_VALUE_NAME, _VALUE_TYPE = 1, 2
_TENSOR_DIMS, _TENSOR_TYPE, _TENSOR_NAME = 1, 2, 8
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

_DTYPES: Final = {
    1: "float32", 2: "uint8", 3: "int8", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16", 11: "float64",
    16: "bfloat16",
}  # fmt: skip

DTYPES: Final = frozenset(_DTYPES.values())
"""Names of the types that are told apart."""

_MOST_VALUES: Final = 4096
_MOST_DIMS: Final = 64
_LONGEST_NAME: Final = 1 << 16
_TEXT: Final = {b"<": "a web page", b"{": "JSON text", b"v": "a pointer of Git LFS and not the file itself"}


@dataclass(frozen=True, slots=True)
class Value:
    """One input, output or weight.

    Attributes:
        name: As in the file.
        shape: Sizes; None for one that is left open. None where no shape is given at all.
        dtype: NumPy's name, ``bfloat16``, or empty for another one.
    """

    name: str
    shape: tuple[int | None, ...] | None
    dtype: str


@dataclass(frozen=True, slots=True)
class Graph:
    """What a model file takes and gives.

    Attributes:
        inputs: What has to be fed, in the file's order; weights that are listed as inputs are left out.
        outputs: In the file's order.
        weights: In the file's order.
        nodes: How many operations there are.
        opset: Version of ONNX's own operators.
    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    weights: tuple[Value, ...]
    nodes: int
    opset: int


class _Broken(ValueError):
    pass


def read_graph(path: Path) -> Graph:
    """Reads what a model file says of itself.

    Args:
        path: ``.onnx`` or ``.dfm``.

    Raises:
        UsageError: There is no such file, or it cannot be read.
        EngineError: It is no ONNX model, or not all of one; the sentence says what it is, where that can be told.
    """
    with open_regular(path, "a model") as file:
        first = file.read(1)
        kind = _TEXT.get(first)
        if kind or not first.strip():
            raise EngineError(f"{quoted(path)} is {kind or 'text'}, not an ONNX model.", "Download it again.")
        size = file.seek(0, 2)
        file.seek(0)
        try:
            return _model(file, size)
        except _Broken as error:
            raise EngineError(
                f"{quoted(path)} is not a whole ONNX model: {error}.", "Download it again."
            ) from error


def graph_or_none(path: Path) -> Graph | None:
    """The same, None for whatever is no ONNX model."""
    try:
        return read_graph(path)
    except (EngineError, UsageError, OSError):
        return None


def _model(file: BinaryIO, end: int) -> Graph:
    graph: Graph | None = None
    opset = 0
    for number, kind, value in _fields(file, end):
        if number == _MODEL_GRAPH and kind == _BYTES:
            if graph is not None:
                raise _Broken("it has two graphs")
            graph = _graph(file, file.tell() + value)
        elif number == _MODEL_OPSETS and kind == _BYTES:
            opset = max(opset, _opset(file, file.tell() + value))
    if graph is None or not graph.outputs or not graph.nodes:
        raise _Broken("it has no graph")
    return Graph(graph.inputs, graph.outputs, graph.weights, graph.nodes, opset)


def _opset(file: BinaryIO, end: int) -> int:
    domain, version = "", 0
    for number, kind, value in _fields(file, end):
        if number == 1 and kind == _BYTES:
            domain = _text(file, value)
        elif number == 2 and kind == _VARINT:
            version = value
    return version if domain in ("", "ai.onnx") else 0


def _graph(file: BinaryIO, end: int) -> Graph:
    inputs: list[Value] = []
    outputs: list[Value] = []
    weights: list[Value] = []
    nodes = 0
    for number, kind, value in _fields(file, end):
        if kind != _BYTES:
            continue
        if number == _GRAPH_NODE:
            nodes += 1
        elif number in (_GRAPH_INPUT, _GRAPH_OUTPUT):
            (inputs if number == _GRAPH_INPUT else outputs).append(_value(file, file.tell() + value))
        elif number == _GRAPH_WEIGHT:
            weights.append(_tensor(file, file.tell() + value))
        if len(inputs) + len(outputs) > _MOST_VALUES or len(weights) > 100 * _MOST_VALUES:
            raise _Broken("it has too many inputs")
    own = {weight.name for weight in weights}
    fed = tuple(value for value in inputs if value.name not in own)
    return Graph(fed, tuple(outputs), tuple(weights), nodes, 0)


def _value(file: BinaryIO, end: int) -> Value:
    """``ValueInfoProto``: a name, and a type of which only tensors are read."""
    name, dtype, shape = "", "", None
    for number, kind, value in _fields(file, end):
        if kind != _BYTES:
            continue
        if number == _VALUE_NAME:
            name = _text(file, value)
        elif number == _VALUE_TYPE:
            for inner, wire, length in _fields(file, file.tell() + value):
                if inner == 1 and wire == _BYTES:
                    dtype, shape = _tensor_type(file, file.tell() + length)
    return Value(name, shape, dtype)


def _tensor_type(file: BinaryIO, end: int) -> tuple[str, tuple[int | None, ...] | None]:
    dtype, shape = "", None
    for number, kind, value in _fields(file, end):
        if number == 1 and kind == _VARINT:
            dtype = _DTYPES.get(value, "")
        elif number == 2 and kind == _BYTES:
            dims: list[int | None] = []
            for inner, wire, length in _fields(file, file.tell() + value):
                if inner == 1 and wire == _BYTES:
                    dims.append(_dim(file, file.tell() + length))
            shape = tuple(dims)
    return dtype, shape


def _dim(file: BinaryIO, end: int) -> int | None:
    size: int | None = None
    for number, kind, value in _fields(file, end):
        if number == 1 and kind == _VARINT and 0 < value < 1 << 31:
            size = value
    return size


def _tensor(file: BinaryIO, end: int) -> Value:
    """``TensorProto``: its sizes, type and name; its numbers are stepped over."""
    name, dtype = "", ""
    dims: list[int] = []
    for number, kind, value in _fields(file, end):
        if number == _TENSOR_DIMS and kind == _VARINT:
            dims.append(value)
            if len(dims) > _MOST_DIMS:
                raise _Broken("a weight has too many sizes")
        elif number == _TENSOR_DIMS and kind == _BYTES:
            packed = file.tell() + value
            while file.tell() < packed:
                dims.append(_varint(file, packed))
                if len(dims) > _MOST_DIMS:
                    raise _Broken("a weight has too many sizes")
        elif number == _TENSOR_TYPE and kind == _VARINT:
            dtype = _DTYPES.get(value, "")
        elif number == _TENSOR_NAME and kind == _BYTES:
            name = _text(file, value)
    return Value(name, tuple(dims), dtype)


def _fields(file: BinaryIO, end: int) -> Iterator[tuple[int, int, int]]:
    """Number, wire type and value of each field up to ``end``; for one of bytes its length, the file standing at
    its beginning. However much of it the caller reads, the next field is found."""
    while (place := file.tell()) < end:
        key = _varint(file, end)
        number, kind = key >> 3, key & 7
        if not number or kind not in (_VARINT, _FIXED64, _BYTES, _FIXED32):
            raise _Broken(f"there is no sense in it from byte {place} on")
        value = _varint(file, end) if kind in (_VARINT, _BYTES) else 8 if kind == _FIXED64 else 4
        after = file.tell() + (0 if kind == _VARINT else value)
        if after > end:
            raise _Broken(f"it ends {after - end:,} bytes too early")
        yield number, kind, value
        if file.tell() != after:
            file.seek(after)


def _varint(file: BinaryIO, end: int) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte or file.tell() > end:
            raise _Broken("it ends within a number")
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
    raise _Broken("a number has no end")


def _text(file: BinaryIO, length: int) -> str:
    if length > _LONGEST_NAME:
        raise _Broken("a name is too long")
    return file.read(length).decode("utf-8", "replace")
