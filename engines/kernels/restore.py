"""What a restorer changed, on the CPU: kept in 16 bits with five binary places, added to later faces.

Conventions as in :mod:`engines.kernels.cpu`. The pictures are those of the restorer's crop.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import njit

from engines.faces import Array, Floats, Image

PLACES: Final = 32
"""What one level is: 255 of them fit into 16 bits with room to spare."""
_SAME, _OTHER = 14, 46
"""Levels by which a picture may have changed for its details to be kept wholly, and from which they are dropped."""

_njit = njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})


@_njit
def changed(restored, scale, offset, given, shown, out):  # type: ignore[no-untyped-def]
    """What a restorer changed.

    Args:
        restored: (H, W, 3) float32, any strides, B, G, R: what it gave …
        scale: (3,) float32: … times this …
        offset: (3,) float32: … plus this is 0…255.
        given: (H, W, 3) uint8: what it was shown.
        shown: (H, W) float32, 0…1: how far a change counts.
        out: (H, W, 4) int16, filled: differences of three channels, and nothing.

    Returns:
        Whether everything that it gave was finite.
    """
    strange, nought, white = 0, np.float32(0), np.float32(255)
    for y in range(given.shape[0]):
        for c in range(3):
            for x in range(given.shape[1]):
                value = restored[y, x, c] * scale[c] + offset[c]
                strange += not abs(value) < np.float32(1e30)
                apart = min(max(value, nought), white) - np.float32(given[y, x, c])
                out[y, x, c] = np.int16(np.rint(apart * shown[y, x] * np.float32(PLACES)))
    return strange == 0


@_njit
def carry(difference, then, now, out):  # type: ignore[no-untyped-def]
    """What of a change still fits a picture that came later: nothing where the picture itself is another one.

    Args:
        difference: (H, W, 4) int16 of :func:`changed`.
        then: (H, W, 3) uint8: the picture that was changed.
        now: (H, W, 3) uint8: the later one.
        out: (H, W, 4) int16, filled.
    """
    for y in range(then.shape[0]):
        for x in range(then.shape[1]):
            apart = np.int64(0)
            for c in range(3):
                # Signed before they are subtracted: the compiler keeps bytes unsigned.
                levels = np.int64(now[y, x, c]) - np.int64(then[y, x, c])
                apart = np.maximum(apart, np.abs(levels))
            weight = np.minimum(np.maximum(_OTHER - apart, 0), _OTHER - _SAME)
            for c in range(3):
                out[y, x, c] = np.int16(np.int64(difference[y, x, c]) * weight // (_OTHER - _SAME))
            out[y, x, 3] = 0


def warm_up() -> None:
    """Compiles what keeps changes, or loads it from the disk."""
    picture: Image = np.zeros((4, 4, 3), np.uint8)
    shown: Floats = np.ones((4, 4), np.float32)
    out: Array = np.zeros((4, 4, 4), np.int16)
    planar: Floats = np.zeros((3, 4, 4), np.float32)
    one = np.ones(3, np.float32)
    for restored in (planar.transpose(1, 2, 0), planar[::-1].transpose(1, 2, 0),
                     planar.transpose(1, 2, 0).copy()):  # fmt: skip
        changed(restored, one, one, picture, shown, out)
    carry(out, picture, picture, out)
