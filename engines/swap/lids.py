"""How far live eyes are open, seen in the picture.

The 468-point network hardly sees a blink: it has shut eyes still half open. The picture tells better. An open eye has
upright edges, where white meets iris; a lid has none, whatever its colour. How strong such edges are, against what is
usual for this eye, needs no threshold for a person, a camera or a light.
"""

from __future__ import annotations

from typing import Final

import cv2
import numpy as np

from engines.faces import Array, Floats, Patch

_CORNERS: Final = ((33, 133), (362, 263))
"""Of each eye, the corner further to the left of an upright picture, then the other one."""
_SIZE: Final = (40, 24)
_WIDTH: Final = 32.0
"""Pixels between the corners of an eye in the small picture of it."""
_BAND: Final = slice(8, 16)
"""Rows in which an iris lies, wherever it looks."""
_EDGES: Final = (0.45, 0.85)
"""Strength of the edges, of the usual one, of a shut eye and from which one is open. In clips of three people it was
0.28 to 0.53 shut, 0.5 to 0.8 half shut, and 0.88 to 1.2 open."""
_RISES: Final = 0.1
_FALLS: Final = 0.003
"""How fast the usual strength follows: it must not follow a blink, and soon forget that an eye was shut at first."""
_LEAST: Final = 0.004
"""Strength (levels of 0…1 from pixel to pixel) below which nothing can be told: a blurred or a dark face."""


class Lids:
    """Follows the eyes of one person."""

    def __init__(self) -> None:
        self._usual: list[float] = [0.0, 0.0]

    def open(self, patch: Patch, points: Floats) -> tuple[float, float]:
        """How far the right and the left eye are open.

        Args:
            patch: The crop of the frame around the face.
            points: (N, 2 or 3) landmarks, pixels of the frame.

        Returns:
            For each eye 0 shut … 1 as open as usual.
        """
        if not np.isfinite(points[:, :2]).all():
            return 1.0, 1.0
        places = points[:, :2] @ patch.affine[:, :2].T + patch.affine[:, 2]
        right, left = (self._follow(eye, _edges(patch.image, places, eye)) for eye in (0, 1))
        return right, left

    def _follow(self, eye: int, edges: float | None) -> float:
        if edges is None:
            return 1.0
        usual = self._usual[eye]
        if usual <= 0:
            usual = edges
        usual += (_RISES if edges > usual else _FALLS) * (edges - usual)
        self._usual[eye] = usual
        if usual < _LEAST:
            return 1.0
        shut, wide = _EDGES
        return min(max((edges / usual - shut) / (wide - shut), 0.0), 1.0)


def _edges(image: Floats, places: Floats, eye: int) -> float | None:
    """Mean strength of upright edges across the middle of an eye; None where there is none."""
    a, b = (places[corner].astype(np.float64) for corner in _CORNERS[eye])
    x, y = (b - a) / _WIDTH
    turn = np.array([[x, -y], [y, x]])
    if abs(np.linalg.det(turn)) < 1e-6:
        return None
    shift = (a + b) / 2 - turn @ (np.array(_SIZE) / 2)
    small = cv2.warpAffine(
        image, np.c_[turn, shift], _SIZE, flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_REPLICATE,
    )  # fmt: skip
    band: Array = cv2.cvtColor(small[_BAND], cv2.COLOR_RGB2GRAY)
    return float(np.abs(np.diff(band, axis=1)).mean())
