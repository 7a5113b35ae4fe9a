"""The live eyes and the live mouth in openings that have the photo's shape.

Lids and lips of the photo do not lie exactly where the live ones do. What shows between them, eyeballs, teeth and
tongue, has to be the live person's, or gaze, blinks and speech would be lost. So before the photo is painted over the
face, the live picture of each opening is laid, triangle by triangle, to where the opening is going to be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import cv2
import numpy as np

from engines.analysis.topology import (
    LEFT_EYE_RINGS,
    LIPS_BETWEEN,
    LIPS_INNER,
    POINTS,
    RIGHT_EYE_RINGS,
    triangles,
)
from engines.faces import Array, Floats, Image
from engines.kernels import cpu

EYES: Final = ((*RIGHT_EYE_RINGS[0], *RIGHT_EYE_RINGS[1]), (*LEFT_EYE_RINGS[0], *LEFT_EYE_RINGS[1]))
"""Each eye's opening and the lids around it, which the photo is feathered over."""
MOUTH: Final = ((*LIPS_INNER, *LIPS_BETWEEN[1]),)
_MARGIN: Final = 2


@dataclass(slots=True)
class Opening:
    """The live picture of one opening, and where it belongs.

    Attributes:
        texture: (H, W, 4) uint8 B, G, R, 255.
        uv: (468, 2) float32: where each vertex lies in it, texels; true for those of the opening.
        triangles: (T, 3) int32.
        eye: 0 for the right one, 1 for the left one, None for the mouth.
        corner: Column and row of the frame at which it was taken.
        colours: (256, 3) uint8: the colour that each brightness was given; None for none.
        strength: How much of that, 0…1.
    """

    texture: Image
    uv: Floats
    triangles: Array
    eye: int | None
    corner: tuple[int, int] = (0, 0)
    colours: Array | None = None
    strength: float = 0.0


class Openings:
    """Takes openings out of the live frame and lays them where they go.

    Args:
        groups: Vertices of each opening, its border and the ring around it.
    """

    def __init__(self, groups: Sequence[tuple[int, ...]]) -> None:
        corners = triangles()
        self._groups = [
            (
                np.array(group),
                np.ascontiguousarray(corners[np.isin(corners, group).all(1)]),
                EYES.index(group) if group in EYES else None,
            )
            for group in groups
        ]
        self._plain = np.ones((POINTS, 4), np.float32)
        self._plain[:, 3] = 1 / 255

    def take(self, image: Image, points: Floats) -> list[Opening]:
        """Copies the openings out of a frame that was not painted into yet.

        Args:
            image: The frame, BGR.
            points: (N, 3) live landmarks, pixels.
        """
        height, width = image.shape[:2]
        taken = []
        for vertices, corners, eye in self._groups:
            there = points[vertices, :2]
            low = np.floor(there.min(0)).astype(int) - _MARGIN
            high = np.ceil(there.max(0)).astype(int) + _MARGIN + 1
            x0, y0 = max(0, int(low[0])), max(0, int(low[1]))
            x1, y1 = min(width, int(high[0])), min(height, int(high[1]))
            if x1 - x0 < 2 or y1 - y0 < 2:
                continue
            texture = np.asarray(cv2.cvtColor(image[y0:y1, x0:x1], cv2.COLOR_BGR2BGRA), np.uint8)
            uv = np.ascontiguousarray(points[:POINTS, :2] - np.array([x0, y0], np.float32))
            taken.append(Opening(texture, uv, corners, eye, (x0, y0)))
        return taken

    def put(self, image: Image, openings: Sequence[Opening], xy: Floats) -> None:
        """Lays openings to where they go.

        Args:
            image: The frame, painted in place.
            openings: As taken from it.
            xy: (468, 2) float32: where each vertex goes, pixels.
        """
        for opening in openings:
            cpu.composite(image, opening.texture, xy, opening.uv, self._plain, opening.triangles)
