"""A new face laid over the live one: baked into a small texture once, then painted in one pass."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import cv2
import numpy as np

from engines.faces import Array, Floats, Image
from engines.kernels.paste import LIMITS, average, bake, paste
from engines.kernels.warp import inverse

_SHOWN: Final = 24
"""Of 255: what is covered less belongs to the edge, and the edge is Poisson's own business."""


@dataclass(frozen=True, slots=True)
class NeuralLayer:
    """What is painted over one face; valid until the next one is made.

    Attributes:
        texture: (h, w, 4) uint8, B, G, R and opacity.
        affine: (2, 3) float64, frame pixels to texels.
        limits: (8,) float64: which part of the texture can be seen at all; see :func:`engines.kernels.paste.bake`.
    """

    texture: Array
    affine: Array
    limits: Array


class Baker:
    """Makes layers; one thread.

    Args:
        side: Of faces and masks, pixels.
    """

    def __init__(self, side: int) -> None:
        self._bytes = np.empty(side * side * 4, np.uint8)
        self._small = np.empty((side // 2) ** 2 * 4, np.float32)
        self._limits = np.empty(LIMITS)

    def bake(
        self, face: Floats, mask: Floats, scale: Floats, offset: Floats, affine: Floats
    ) -> NeuralLayer | None:
        """Makes a layer.

        Args:
            face: (S, S, 3) float32, B, G, R.
            mask: (S, S) float32, 0…1.
            scale: (3,) float32: factor of a channel …
            offset: (3,) float32: … and what is added then, for 0…255.
            affine: (2, 3), frame pixels to face pixels.

        Returns:
            The layer; None if something in it is not finite.
        """
        if not (np.isfinite(scale).all() and np.isfinite(offset).all()):
            return None
        side = face.shape[0]
        block, texels = blocks_of(affine, side)
        if block > 1:
            side //= block
            pixels = side * side
            small_face = self._small[: 3 * pixels].reshape(side, side, 3)
            small_mask = self._small[3 * pixels : 4 * pixels].reshape(side, side)
            average(face, mask, block, small_face, small_mask)
            face, mask = small_face, small_mask
        texture = self._bytes[: side * side * 4].reshape(side, side, 4)
        if not bake(face, mask, scale, offset, texture, self._limits):
            return None
        return NeuralLayer(texture, texels, self._limits)


def blocks_of(affine: Floats, side: int) -> tuple[int, Array]:
    """How coarse a texture is enough for a face: one that is far away would glitter, sampled from a large crop.

    Args:
        affine: (2, 3), frame pixels to face pixels.
        side: Of the face, pixels.

    Returns:
        How many pixels of the face, across and down, are one texel; and (2, 3) float64, frame pixels to texels.
    """
    block = min(max(1, int(math.hypot(affine[0, 0], affine[1, 0]) + 0.35)), side // 2)
    texels = np.asarray(affine, np.float64).copy()
    # Texel i is the middle of a block.
    texels[:, 2] -= (block - 1) / 2
    return block, texels / block


def paint(image: Image, layer: NeuralLayer) -> None:
    """Blends a layer into the frame, in the face's region only."""
    paste(image, layer.texture, layer.affine, layer.limits)


def paint_poisson(image: Image, layer: NeuralLayer) -> None:
    """Blends a layer's gradients into the frame (P. Pérez and others, "Poisson Image Editing", 2003): no seam, in tens
    of milliseconds, so for files. Where the face is too small or cut off by the frame, it is painted plainly.
    """
    area = _region(image, layer)
    if area is not None:
        left, top, right, bottom = area
        region = image[top:bottom, left:right]
        affine = layer.affine.copy()
        affine[:, 2] += affine[:, :2] @ np.array([left, top], np.float64)
        size = (right - left, bottom - top)
        warped = cv2.warpAffine(
            layer.texture,
            affine,
            size,
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_CONSTANT,
        )
        shown = np.where(warped[:, :, 3] > _SHOWN, np.uint8(255), np.uint8(0))
        # What touches the edge of the region would be pinned to nothing.
        shown[[0, -1]], shown[:, [0, -1]] = 0, 0
        box = cv2.boundingRect(shown)
        if box[2] > 2 and box[3] > 2:
            # The function lays the middle of the mask's box on this point.
            centre = (box[0] + box[2] // 2, box[1] + box[3] // 2)
            cloned = cv2.seamlessClone(
                np.ascontiguousarray(warped[:, :, :3]),
                np.ascontiguousarray(region),
                shown,
                centre,
                cv2.NORMAL_CLONE,
            )
            soft = warped[:, :, 3:].astype(np.float32) / np.float32(255)
            region[:] = np.rint(region + soft * (cloned.astype(np.float32) - region)).astype(np.uint8)
            return
    paint(image, layer)


def _region(image: Image, layer: NeuralLayer) -> tuple[int, int, int, int] | None:
    """Left, top, right and bottom of what a layer covers, and a pixel more; None if that leaves the frame."""
    low_u, high_u, low_v, high_v = layer.limits[:4].tolist()
    if not (low_u <= high_u and low_v <= high_v):
        return None
    corners = (
        np.array([[u, v, 1] for u in (low_u, high_u) for v in (low_v, high_v)]) @ inverse(layer.affine).T
    )
    left, top = (np.floor(corners.min(0)) - 1).astype(int).tolist()
    right, bottom = (np.ceil(corners.max(0)) + 2).astype(int).tolist()
    height, width = image.shape[:2]
    inside = left >= 0 and top >= 0 and right <= width and bottom <= height
    return (left, top, right, bottom) if inside else None
