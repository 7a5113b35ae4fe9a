"""Faces that are followed and not swapped: whoever they belong to, they are not shown by accident.

It may be the user who came back after somebody else had taken the place.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engines.faces import Face
from engines.kernels.canvas import Canvas

_CELLS: Final = (5, 6)
_MARGIN: Final = 0.25
"""How far the mosaic reaches over the landmarks, of the face's size: hair and ears are covered too."""


def cover(canvas: Canvas, face: Face) -> None:
    """Lays a coarse mosaic over one face.

    Args:
        canvas: The picture.
        face: The face; it may lie partly outside of the picture.
    """
    low, high = face.points[:, :2].min(0), face.points[:, :2].max(0)
    margin = (high - low) * _MARGIN
    x0, y0 = np.clip(np.floor(low - margin), 0, canvas.size).astype(int).tolist()
    x1, y1 = np.clip(np.ceil(high + margin), 0, canvas.size).astype(int).tolist()
    if x1 - x0 >= 1 and y1 - y0 >= 1:
        canvas.mosaic((x0, y0, x1, y1), _CELLS)
