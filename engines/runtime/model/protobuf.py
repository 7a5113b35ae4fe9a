"""Protocol buffers, as far as lengths and small fields go: whatever is not asked for is stepped over.

The encoding is Google's "Protocol Buffers: Encoding". The bytes may be anything: every length is checked against what
is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

_MOST_FIELDS: Final = 5_000_000
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class Malformed(Exception):
    """The bytes are not what they should be."""


class Truncated(Exception):
    """The bytes begin well and end too early.

    Args:
        promised: How many bytes there should be at least.
    """

    def __init__(self, promised: int) -> None:
        super().__init__(f"{promised} bytes are promised")
        self.promised = promised


class Span(NamedTuple):
    """Where the bytes of a field lie."""

    start: int
    end: int


class Reader:
    """Walks over a protocol buffer; hostile input can neither run it out of bounds nor keep it for long."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._left = _MOST_FIELDS

    def fields(self, span: Span) -> Iterator[tuple[int, int | Span]]:
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
                yield number, Span(at, at + length)
                at += length
            elif wire in (_FIXED64, _FIXED32):
                at += 8 if wire == _FIXED64 else 4
                if at > span.end:
                    raise Truncated(at)
            else:
                raise Malformed(f"a field has the unknown kind {wire}")

    def numbers(self, span: Span) -> Iterator[int]:
        """The numbers of a packed field."""
        at = span.start
        while at < span.end:
            value, at = self._varint(at, span.end)
            yield value

    def text(self, span: Span) -> str:
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
