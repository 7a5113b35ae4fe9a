"""The proportions of the photo on the live face: where nose, brows, cheeks and jaw sit, not how they move.

Both faces are laid over the canonical one. What is left between the photo and the live person's usual shape is who
they are; what is left between the live person's shape now and their usual one is expression, and is not touched.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engines.analysis.topology import (
    LEFT_EYE_RINGS,
    LIPS_BETWEEN,
    LIPS_INNER,
    LIPS_OUTER,
    OVAL,
    POINTS,
    RIGHT_EYE_RINGS,
    canonical,
)
from engines.faces import Floats

_FALL: Final = 2.0
"""Within this distance of a point that must stay (cm of the canonical face) the offset fades out."""
_LEARN: Final = 30
"""Frames over which the live person's usual shape is averaged at first."""
_FOLLOW: Final = 1 / 1800
"""How fast it follows afterwards, part of the way per frame: slower than any expression lasts."""


def align(points: Floats) -> tuple[Floats, Floats]:
    """Lays a mesh over the canonical face.

    Args:
        points: (N, 3) landmarks, pixels.

    Returns:
        (468, 3) float32, the mesh in centimetres of the canonical face, and (3, 3) float32, the matrix that takes
        offsets there back to pixels of the frame.
    """
    live = points[:POINTS].astype(np.float64)
    target = canonical().astype(np.float64)
    live -= live.mean(0)
    target = target - target.mean(0)
    # Umeyama 1991: the similarity of least squares.
    u, s, vt = np.linalg.svd(live.T @ target)
    sign = np.array([1.0, 1.0, np.sign(np.linalg.det(u @ vt))])
    rotation = (u * sign) @ vt
    scale = float((s * sign).sum() / np.einsum("nd,nd->", live, live))
    return (scale * live @ rotation).astype(np.float32), (rotation.T / scale).astype(np.float32)


def _freedom() -> Floats:
    """(468, 1) float32: how much of the offset each vertex may take, 0…1.

    The oval stays where the live head ends; lids and inner lips stay on the live eyes and teeth.
    """
    fixed = [
        *OVAL,
        *LEFT_EYE_RINGS[0],
        *RIGHT_EYE_RINGS[0],
        *LEFT_EYE_RINGS[1],
        *RIGHT_EYE_RINGS[1],
        *LIPS_INNER,
    ]
    near = np.linalg.norm(canonical()[:, None] - canonical()[fixed][None], axis=2).min(1)
    t = np.clip(near / _FALL, 0, 1)
    freedom: Floats = (t * t * (3 - 2 * t)).astype(np.float32)
    lips = [*LIPS_OUTER, *LIPS_BETWEEN[0], *LIPS_BETWEEN[1]]
    freedom[lips] *= 0.25
    return freedom[:, None]


class Proportions:
    """Moves the vertices of one live face towards the proportions of a photo.

    Args:
        photo: (N, 3) landmarks of the photo.
        strength: 0 leaves the live shape, 1 takes the photo's wherever it may.
    """

    def __init__(self, photo: Floats, strength: float) -> None:
        self._photo = align(photo)[0]
        self._weight = _freedom() * np.float32(strength)
        self._usual: Floats | None = None
        self._seen = 0

    def offset(self, points: Floats) -> Floats:
        """What to add to the live landmarks.

        Args:
            points: (N, 3) landmarks of this frame.

        Returns:
            (468, 3) float32 pixels.
        """
        now, back = align(points)
        self._seen += 1
        if self._usual is None:
            self._usual = now
        else:
            rate = 1 / self._seen if self._seen <= _LEARN else _FOLLOW
            self._usual += np.float32(rate) * (now - self._usual)
        return np.asarray((self._weight * (self._photo - self._usual)) @ back, np.float32)
