"""The canonical face out of MediaPipe's face geometry metadata.

The message, as in its public ``geometry_pipeline_metadata.proto`` and ``mesh_3d.proto``: field 1 of the
metadata is the mesh; of the mesh, field 3 is the vertex buffer (floats; x, y, z in centimetres, then u, v)
and field 4 the index buffer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a number is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and content of every field of a protocol buffer message, in order.

    Raises:
        ValueError: The message is cut off, or has a field of a kind that is not used any more.
    """
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_FIXED32, _FIXED64):
            size = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"field {key >> 3} is of unknown kind {kind}")
        if at + size > len(data):
            raise ValueError(f"field {key >> 3} is cut off")
        yield key >> 3, data[at : at + size]
        at += size


def parse(data: bytes) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Vertices and triangles of the canonical face.

    Returns:
        V, N×5 float32 (x, y, z in centimetres, u, v), and I, M×3 int64, the corners of each triangle.

    Raises:
        ValueError: It is no such message, or a triangle has a corner that is no vertex.
    """
    mesh = next((value for number, value in fields(data) if number == 1 and isinstance(value, bytes)), None)
    if mesh is None:
        raise ValueError("the message has no mesh")
    floats: list[float] = []
    corners: list[int] = []
    for number, value in fields(mesh):
        if number == 3 and isinstance(value, bytes):  # one value, or all of them packed
            floats.extend(struct.unpack(f"<{len(value) // 4}f", value))
        elif number == 4 and isinstance(value, int):
            corners.append(value)
    if not floats or len(floats) % 5 or not corners or len(corners) % 3:
        raise ValueError(f"{len(floats)} floats and {len(corners)} corners make no mesh")
    if max(corners) >= len(floats) // 5:
        raise ValueError("a triangle has a corner that is no vertex")
    return np.array(floats, np.float32).reshape(-1, 5), np.array(corners, np.int64).reshape(-1, 3)


def convert(source: Path, target: Path) -> None:
    """Writes the canonical face of `source` to the NumPy archive `target`, with V and I."""
    vertices, triangles = parse(source.read_bytes())
    np.savez(target, V=vertices, I=triangles)
