"""Faces that are followed and not swapped: whoever they belong to, they are not shown by accident.

It may be the user who came back after somebody else had taken the place.
"""

from __future__ import annotations

from typing import Final

import cv2
import numpy as np

from engines.faces import Face, Image

_CELLS: Final = (5, 6)
_MARGIN: Final = 0.25
"""How far the mosaic reaches over the landmarks, of the face's size: hair and ears are covered too."""


def cover(image: Image, face: Face) -> None:
    """Lays a coarse mosaic over one face, in place.

    Args:
        image: The frame, BGR.
        face: The face; it may lie partly outside of the frame.
    """
    low, high = face.points[:, :2].min(0), face.points[:, :2].max(0)
    margin = (high - low) * _MARGIN
    height, width = image.shape[:2]
    x0, y0 = np.clip(np.floor(low - margin), 0, (width, height)).astype(int).tolist()
    x1, y1 = np.clip(np.ceil(high + margin), 0, (width, height)).astype(int).tolist()
    if x1 - x0 < 1 or y1 - y0 < 1:
        return
    region = image[y0:y1, x0:x1]
    cells = cv2.resize(region, _CELLS, interpolation=cv2.INTER_AREA)
    cv2.resize(cells, (x1 - x0, y1 - y0), dst=region, interpolation=cv2.INTER_LINEAR)
