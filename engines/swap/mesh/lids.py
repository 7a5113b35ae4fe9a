"""How far live eyes are open, seen in the picture.

The 468-point network hardly sees a blink: it has shut eyes still half open. The picture tells better. An open eye has
upright edges, where white meets iris; a lid has none, whatever its colour. How strong such edges are, against what is
usual for this eye, needs no threshold for a person, a camera or a light.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from engines.faces import Floats, Patch
from engines.kernels import lids as kernels

_BOTH: Final = [33, 133, 362, 263]
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
        places = points[_BOTH, :2] @ patch.affine[:, :2].T + patch.affine[:, 2]
        ends = places.tolist()
        right, left = (self._follow(eye, _edges(patch.image, *ends[2 * eye : 2 * eye + 2])) for eye in (0, 1))
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


def _edges(image: Floats, a: Sequence[float], b: Sequence[float]) -> float | None:
    """Mean strength of upright edges across the middle of an eye between two corners; None where there is none."""
    x, y = (b[0] - a[0]) / _WIDTH, (b[1] - a[1]) / _WIDTH
    if x * x + y * y < 1e-6:
        return None
    # From the middle of the eye to the first pixel of the band.
    left, up = -_SIZE[0] / 2, _BAND.start - _SIZE[1] / 2
    first_x, first_y = (a[0] + b[0]) / 2 + left * x - up * y, (a[1] + b[1]) / 2 + left * y + up * x
    rows, columns = _BAND.stop - _BAND.start, _SIZE[0]
    return float(kernels.upright_edges(image, first_x, first_y, x, y, rows, columns))
