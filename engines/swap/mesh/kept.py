"""What is before the face, carried over what is painted there."""

from __future__ import annotations

import cv2
import numpy as np

from engines.faces import Array, Floats, Image
from engines.kernels.canvas import Window
from engines.swap.mesh.cover import Cover


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
        cv2.warpAffine(
            cover.mask, affine, amount.shape[::-1], dst=amount, flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        )
        np.copyto(live, image[rows, columns])
        return rows, columns, live, amount

    def _room(self, height: int, width: int) -> tuple[Image, Array]:
        """Memory that stays: fresh pages for every frame would cost more than what is copied into them."""
        if self._amount.shape[0] < height or self._amount.shape[1] <= width:
            # A column more than is asked for: what is given never lies in one piece, and kernels know it as one type.
            size = (max(height, self._amount.shape[0]), max(width + 1, self._amount.shape[1]))
            self._live, self._amount = np.empty((*size, 3), np.uint8), np.empty(size, np.uint8)
        return self._live[:height, :width], self._amount[:height, :width]


def place_of(cover: Cover, size: tuple[int, int]) -> tuple[Window, Floats] | None:
    """The part of a frame that something is before.

    Args:
        cover: What is before the face.
        size: Width and height of the frame, pixels.

    Returns:
        Where it is, and (2, 3) float32, pixels of that part to pixels of the mask; None if nothing of it, or hardly a
        pixel, is inside.
    """
    x, y, w, h = cv2.boundingRect(cover.mask)
    if not w or not h:
        return None
    back = cv2.invertAffineTransform(cover.affine)
    corners = np.array([[x - 1, y - 1], [x + w, y - 1], [x + w, y + h], [x - 1, y + h]], np.float32)
    there = corners @ back[:, :2].T + back[:, 2]
    left, top = np.clip(np.floor(there.min(0)), 0, size).astype(int).tolist()
    right, bottom = np.clip(np.ceil(there.max(0)) + 1, 0, size).astype(int).tolist()
    if right - left < 2 or bottom - top < 2:
        return None
    affine = cover.affine.astype(np.float32)
    affine[:, 2] += affine[:, :2] @ np.array([left, top], np.float32)
    return (left, top, right, bottom), affine
