"""The outline of an ONNX file, read from its bytes: versions, inputs, and the files beside it that it names.

ONNX is a protocol buffer (``onnx.proto3``); this reads only its lengths and a few small fields and skips the weights,
so that a file of any size costs milliseconds, and what is wrong with it can be said before a runtime has seen it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

Dim = int | str | None
"""A dimension: fixed, free with a name, or free without one."""

_MOST_FIELDS: Final = 5_000_000
_DEEPEST: Final = 32
_NEWEST_IR: Final = 1000
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class Malformed(Exception):
    """The bytes are no ONNX model."""


class Truncated(Exception):
    """The bytes begin as an ONNX model and end too early.

    Args:
        promised: How many bytes there should be at least.
    """

    def __init__(self, promised: int) -> None:
        super().__init__(f"{promised} bytes are promised")
        self.promised = promised


class GraphInput(NamedTuple):
    """An input as the file declares it.

    Attributes:
        name: As in the file.
        shape: Its dimensions; None when it has no shape at all.
    """

    name: str
    shape: tuple[Dim, ...] | None


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
        ir_version: Of the format.
        opset: Of the standard operators; 0 when it does not say.
        producer: The program that wrote it.
        inputs: Without the weights that old exporters list among them.
        external: Weights that lie in other files.
    """

    ir_version: int
    opset: int
    producer: str
    inputs: tuple[GraphInput, ...]
    external: tuple[External, ...]


class _Span(NamedTuple):
    start: int
    end: int


class _Reader:
    """Walks over a protocol buffer; hostile input can neither run it out of bounds nor keep it for long."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._left = _MOST_FIELDS

    def fields(self, span: _Span) -> Iterator[tuple[int, int | _Span]]:
        """Every field of a message: its number, and its value or where its bytes lie."""
        at = span.start
        while at < span.end:
            self._left -= 1
            if self._left < 0:
                raise Malformed("it has too many parts")
            tag, at = self._varint(at, span.end)
            number, wire = tag >> 3, tag & 7
            if number == 0:
                raise Malformed("a field has the number 0")
            if wire == _VARINT:
                value, at = self._varint(at, span.end)
                yield number, value
            elif wire == _BYTES:
                length, at = self._varint(at, span.end)
                if at + length > span.end:
                    raise Truncated(at + length)
                yield number, _Span(at, at + length)
                at += length
            elif wire in (_FIXED64, _FIXED32):
                at += 8 if wire == _FIXED64 else 4
                if at > span.end:
                    raise Truncated(at)
            else:
                raise Malformed(f"a field has the unknown kind {wire}")

    def text(self, span: _Span) -> str:
        """A string."""
        return bytes(self._data[span.start : span.end]).decode("utf-8", "replace")

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        value = 0
        for shift in range(0, 70, 7):
            if at >= end:
                raise Truncated(at + 1)
            byte = self._data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF, at
        raise Malformed("a number has no end")


def read_outline(data: memoryview) -> Outline:
    """Reads the outline of a model.

    Args:
        data: The whole file, (N,) bytes; may be a memory map.

    Raises:
        Malformed: These are not the bytes of an ONNX model.
        Truncated: They begin as one and are cut off.
    """
    reader = _Reader(data)
    ir_version, opset, producer = 0, 0, ""
    graphs: list[_Span] = []
    external: list[External] = []
    try:
        for number, value in reader.fields(_Span(0, len(data))):
            if number == 1 and isinstance(value, int):
                ir_version = value
            elif number == 2 and isinstance(value, _Span):
                producer = reader.text(value)[:80]
            elif number == 7 and isinstance(value, _Span):
                graphs.append(value)
            elif number == 8 and isinstance(value, _Span):
                opset = max(opset, _opset(reader, value))
    except Truncated:
        if not 0 < ir_version < _NEWEST_IR:
            raise Malformed("it does not begin as one") from None
        raise
    if not 0 < ir_version < _NEWEST_IR:
        raise Malformed("it says no version of the format")
    if not graphs:
        raise Malformed("it holds no graph")
    try:
        inputs = _graph(reader, graphs[-1], external, 0)
    except Truncated:
        # All of the graph's bytes are there, and yet a part of it claims more than they are.
        raise Malformed("the lengths in it contradict each other") from None
    return Outline(ir_version, opset, producer, inputs, tuple(external))


def _opset(reader: _Reader, span: _Span) -> int:
    """Version of the standard operators in an ``OperatorSetIdProto``; 0 for those of somebody else."""
    domain, version = "", 0
    for number, value in reader.fields(span):
        if number == 1 and isinstance(value, _Span):
            domain = reader.text(value)
        elif number == 2 and isinstance(value, int):
            version = value
    return version if domain in ("", "ai.onnx") else 0


def _graph(reader: _Reader, span: _Span, external: list[External], depth: int) -> tuple[GraphInput, ...]:
    """Inputs of a ``GraphProto``; adds what its weights and those of the graphs inside it name."""
    if depth > _DEEPEST:
        raise Malformed("graphs are nested too deep")
    inputs: list[GraphInput] = []
    weights: set[str] = set()
    for number, value in reader.fields(span):
        if not isinstance(value, _Span):
            continue
        if number == 1:
            _node(reader, value, external, depth)
        elif number == 5:
            weights.add(_tensor(reader, value, external))
        elif number == 11:
            inputs.append(_input(reader, value))
        elif number == 15:
            _sparse(reader, value, external)
    return tuple(one for one in inputs if one.name not in weights)


def _node(reader: _Reader, span: _Span, external: list[External], depth: int) -> None:
    for number, value in reader.fields(span):
        if number != 5 or not isinstance(value, _Span):
            continue
        for part, inner in reader.fields(value):
            if not isinstance(inner, _Span):
                continue
            if part in (5, 10):
                _tensor(reader, inner, external)
            elif part in (6, 11):
                _graph(reader, inner, external, depth + 1)
            elif part in (22, 23):
                _sparse(reader, inner, external)


def _sparse(reader: _Reader, span: _Span, external: list[External]) -> None:
    for number, value in reader.fields(span):
        if number in (1, 2) and isinstance(value, _Span):
            _tensor(reader, value, external)


def _tensor(reader: _Reader, span: _Span, external: list[External]) -> str:
    """Name of a ``TensorProto``."""
    name, entries = "", {}
    for number, value in reader.fields(span):
        if not isinstance(value, _Span):
            continue
        if number == 8:
            name = reader.text(value)
        elif number == 13:
            parts = {
                part: reader.text(inner) for part, inner in reader.fields(value) if isinstance(inner, _Span)
            }
            entries[parts.get(1, "")] = parts.get(2, "")
    if "location" in entries:
        end = sum(int(text) for key in ("offset", "length") if (text := entries.get(key, "")).isdecimal())
        external.append(External(entries["location"], end))
    return name


def _input(reader: _Reader, span: _Span) -> GraphInput:
    """A ``ValueInfoProto``."""
    name, shape = "", None
    for number, value in reader.fields(span):
        if not isinstance(value, _Span):
            continue
        if number == 1:
            name = reader.text(value)
        elif number == 2:
            shape = _shape(reader, value)
    return GraphInput(name, shape)


def _shape(reader: _Reader, span: _Span) -> tuple[Dim, ...] | None:
    """Shape in a ``TypeProto``: tensor_type (1), shape (2), its dimensions (1)."""
    for outer in _parts(reader, span, 1):
        for shape in _parts(reader, outer, 2):
            return tuple(_dim(reader, dim) for dim in _parts(reader, shape, 1))
    return None


def _parts(reader: _Reader, span: _Span, wanted: int) -> Iterator[_Span]:
    for number, value in reader.fields(span):
        if number == wanted and isinstance(value, _Span):
            yield value


def _dim(reader: _Reader, span: _Span) -> Dim:
    found: Dim = None
    for number, value in reader.fields(span):
        if number == 1 and isinstance(value, int):
            # Exporters write 0 or -1 for "any".
            found = value if 0 < value < 2**31 else None
        elif number == 2 and isinstance(value, _Span):
            found = reader.text(value) or None
    return found
