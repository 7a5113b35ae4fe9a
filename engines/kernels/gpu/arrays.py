"""What the kernels of a card are given, checked: one that is told a wrong size writes into other memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from engines.kernels.gpu.card import GpuArray

TILE = 16
"""Pixels along the side of a tile of the mesh; as in ``common.cu``."""
THREADS = 256
"""Threads of a block that sums something up; as in ``common.cu``."""
_ACROSS, _DOWN = 32, 8

Grid = tuple[int, int, int]


def image_of(image: GpuArray) -> tuple[GpuArray, np.int32, np.int32, np.int32]:
    """A picture as the kernels take it: itself, width, height, bytes from row to row.

    Raises:
        ValueError: It is not (H, W, 3) uint8 with contiguous rows.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or image.strides[1:] != (3, 1):
        raise ValueError(f"an image is (H, W, 3) uint8 with contiguous rows, not {image.dtype} {image.shape}")
    return image, np.int32(image.shape[1]), np.int32(image.shape[0]), np.int32(image.strides[0])


def solid(what: str, array: GpuArray, dtype: DTypeLike, *shape: int | None) -> GpuArray:
    """An array, once it is known to be what it should be.

    Args:
        what: Its name, for the message.
        array: The array.
        dtype: Its type.
        shape: Its size along each axis; None is any.

    Raises:
        ValueError: It has another type or shape, or is not contiguous.
    """
    fits = len(shape) == array.ndim and all(
        w in (None, is_) for w, is_ in zip(shape, array.shape, strict=True)
    )
    if array.dtype != dtype or not fits or not array.flags.c_contiguous:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(
            f"{what} is contiguous {np.dtype(dtype)} ({wanted}), not {array.dtype} {tuple(array.shape)}"
        )
    return array


def layout_of(what: str, faces: GpuArray) -> tuple[str, tuple[Any, ...]]:
    """(N, rows, columns, 3) values in any layout, as the kernels take them.

    Args:
        what: Their name, for the message.
        faces: float32 or float16.

    Returns:
        The ending of the kernels for this type, and how many values one face, row, column and channel are on.

    Raises:
        ValueError: They have another type or shape.
    """
    ending = {"float32": "float", "float16": "half"}.get(str(faces.dtype))
    if ending is None or faces.ndim != 4 or faces.shape[3] != 3:
        raise ValueError(
            f"{what} is (N, rows, columns, 3) float32 or float16, not {faces.dtype} {tuple(faces.shape)}"
        )
    return ending, tuple(np.int64(stride // faces.dtype.itemsize) for stride in faces.strides)


def over(width: int, height: int, depth: int = 1) -> tuple[Grid, Grid]:
    """Blocks and threads for one thread a pixel."""
    return (-(-width // _ACROSS), -(-height // _DOWN), depth), (_ACROSS, _DOWN, 1)


def along(count: int, threads: int = 128) -> tuple[Grid, Grid]:
    """Blocks and threads for one thread an item."""
    return (max(-(-count // threads), 1), 1, 1), (threads, 1, 1)
