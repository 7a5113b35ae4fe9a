"""What is before the face, carried over what is painted there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import cv2
import numpy as np

from engines.faces import Array, Floats, Image
from engines.kernels import strokes
from engines.kernels.canvas import Window
from engines.swap.mesh.cover import Cover
from engines.swap.mesh.spectacles import PARTS, RINGS

_MARGIN: Final = 3
"""Pixels of the mask around where the frames of glasses were seen."""


class Keeper:
    """Keeps live pixels while a face is painted. Used by one thread, for one face at a time."""

    def __init__(self) -> None:
        self._live: Image = np.empty((0, 0, 3), np.uint8)
        self._amount: Array = np.empty((0, 0), np.uint8)

    def keep(self, image: Image, cover: Cover) -> tuple[slice, slice, Image, Array] | None:
        """Copies what is before the face, before anything is painted there.

        Args:
            image: The frame, BGR, not yet painted.
            cover: What is before the face.

        Returns:
            Rows and columns of the frame, the pixels there, and (H, W) uint8 how much of each is to be put back, valid
            until the next call; None if it lies outside.
        """
        place = place_of(cover, (image.shape[1], image.shape[0]))
        if place is None:
            return None
        (left, top, right, bottom), affine = place
        rows, columns = slice(top, bottom), slice(left, right)
        live, amount = self._room(bottom - top, right - left)
        if cover.window is None:
            cv2.warpAffine(
                cover.mask,
                affine,
                amount.shape[::-1],
                dst=amount,
                flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            )
        else:
            amount = cover.mask
        np.copyto(live, image[rows, columns])
        return rows, columns, live, amount

    def _room(self, height: int, width: int) -> tuple[Image, Array]:
        """Memory that stays: fresh pages for every frame would cost more than what is copied into them."""
        if self._amount.shape[0] < height or self._amount.shape[1] <= width:
            # A column more than is asked for: what is given never lies in one piece, and kernels know it as one type.
            size = (max(height, self._amount.shape[0]), max(width + 1, self._amount.shape[1]))
            self._live, self._amount = np.empty((*size, 3), np.uint8), np.empty(size, np.uint8)
        return self._live[:height, :width], self._amount[:height, :width]


def drawn(image: Image, cover: Cover) -> Cover:
    """Draws the frames of glasses, in the picture's own resolution.

    Args:
        image: The frame, BGR, not yet painted.
        cover: What is before the face.

    Returns:
        The same with frames in its mask, which is then of a part of the frame, pixel by pixel.
    """
    frames = cover.frames
    if frames is None:
        return cover
    box = cv2.boundingRect(cover.mask)
    masked = box[2] > 0
    shown = frames[frames[:, 3] > 0]
    if len(shown):
        margin = _MARGIN + shown[:, 2].max()
        low, high = shown[:, :2].min(0) - margin, shown[:, :2].max(0) + margin
        if masked:
            low, high = np.minimum(low, box[:2]), np.maximum(high, np.add(box[:2], box[2:]))
        box = (*low, *(high - low))
    place = _placed(box, cover.affine, (image.shape[1], image.shape[0]))
    if place is None:
        return replace(cover, frames=None)
    (left, top, right, bottom), affine = place
    # As what is kept never lies in one piece; see :class:`Keeper`.
    mask: Array = np.zeros((bottom - top, right - left + 1), np.uint8)[:, :-1]
    if masked:
        cv2.warpAffine(
            cover.mask, affine, mask.shape[::-1], dst=mask, flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        )
    back = cv2.invertAffineTransform(cover.affine).astype(np.float32)
    corner = np.array([left, top], np.float32)
    strokes.matte(image, frames, PARTS, RINGS, back, corner, mask)
    there = np.array([[1, 0, -left], [0, 1, -top]], np.float32)
    return Cover(mask, there, cover.vertices, window=(left, top, right, bottom))


def place_of(cover: Cover, size: tuple[int, int]) -> tuple[Window, Floats] | None:
    """The part of a frame that something is before.

    Args:
        cover: What is before the face.
        size: Width and height of the frame, pixels.

    Returns:
        Where it is, and (2, 3) float32, pixels of that part to pixels of the mask; None if nothing of it, or hardly a
        pixel, is inside.
    """
    if cover.window is not None:
        return cover.window, np.eye(2, 3, dtype=np.float32)
    return _placed(cv2.boundingRect(cover.mask), cover.affine, size)


def _placed(box: Sequence[float], onto: Floats, size: tuple[int, int]) -> tuple[Window, Floats] | None:
    """The part of a frame of some size that a box of the mask lies over; see :func:`place_of`."""
    x, y, w, h = box
    if not w or not h:
        return None
    back = cv2.invertAffineTransform(onto)
    corners = np.array([[x - 1, y - 1], [x + w, y - 1], [x + w, y + h], [x - 1, y + h]], np.float32)
    there = corners @ back[:, :2].T + back[:, 2]
    left, top = np.clip(np.floor(there.min(0)), 0, size).astype(int).tolist()
    right, bottom = np.clip(np.ceil(there.max(0)) + 1, 0, size).astype(int).tolist()
    if right - left < 2 or bottom - top < 2:
        return None
    affine = onto.astype(np.float32)
    affine[:, 2] += affine[:, :2] @ np.array([left, top], np.float32)
    return (left, top, right, bottom), affine
