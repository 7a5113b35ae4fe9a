"""Rotated square crops, read without aliasing and without memory of their own."""

from __future__ import annotations

import math

import cv2
import numpy as np

from engines.analysis.feed import put_rgb
from engines.faces import Array, Floats, Image, Region


def affine_of(region: Region, side: int) -> Floats:
    """The matrix that lays a region of the frame over a square patch.

    Args:
        region: Where the face is, pixels of the frame.
        side: Side of the patch, pixels.

    Returns:
        (2, 3) float32, frame pixels to patch pixels.
    """
    scale = side / region.size
    cos, sin = math.cos(region.angle) * scale, math.sin(region.angle) * scale
    half = side / 2
    return np.array(
        [
            [cos, sin, half - cos * region.x - sin * region.y],
            [-sin, cos, half + sin * region.x - cos * region.y],
        ],
        np.float32,
    )


def inverse_of(affine: Floats) -> Floats:
    """The inverse of a 2×3 affine matrix.

    Args:
        affine: (2, 3) float32.

    Returns:
        (2, 3) float32.
    """
    (a, b, x), (c, d, y) = affine.tolist()
    k = 1.0 / (a * d - b * c)
    return np.array([[d * k, -b * k, (b * y - d * x) * k], [-c * k, a * k, (c * x - a * y) * k]], np.float32)


class Cropper:
    """Cuts rotated squares out of frames into one buffer.

    A face of 430 px read into 192 px by bilinear taps alone skips two pixels of three: sensor noise and lashes
    alias, and landmarks tremble. So the region is halved first as often as it can be (a fast path of OpenCV, where
    thirds are five times slower) and only the rest is done by the warp.

    Args:
        side: Side of the patch, pixels.
    """

    def __init__(self, side: int) -> None:
        self.side = side
        self._bytes = np.empty((side, side, 3), np.uint8)
        self._halves: list[Image] = []

    def read(self, image: Image, region: Region, out: Array, mean: float, std: float) -> Floats:
        """Reads one region as RGB.

        Args:
            image: The frame, BGR.
            region: What to read; parts outside of the frame repeat its border.
            out: (side, side, 3) of any float type and layout, filled in place with RGB.
            mean: Of values 0…255.
            std: The same.

        Returns:
            (2, 3) float32: frame pixels to patch pixels.
        """
        affine = affine_of(region, self.side)
        source, local = self._shrunk(image, region, affine)
        cv2.warpAffine(
            source, local, (self.side, self.side), dst=self._bytes,
            flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE,
        )  # fmt: skip
        put_rgb(out, self._bytes, mean, std)
        return affine

    def _shrunk(self, image: Image, region: Region, affine: Floats) -> tuple[Image, Floats]:
        """The part of the image that holds the region, halved while it is more than twice as fine as the patch."""
        halvings = int(math.log2(max(region.size / self.side, 1)))
        k = 1 << halvings
        height, width = image.shape[:2]
        # Up to k pixels are lost to whole numbers below, and the warp needs a neighbour beyond the last one it reads.
        reach = region.size / 2 * (abs(math.cos(region.angle)) + abs(math.sin(region.angle))) + 2 * k
        x0, y0 = max(0, int(region.x - reach)), max(0, int(region.y - reach))
        w = (min(width, int(region.x + reach)) - x0) // k * k
        h = (min(height, int(region.y + reach)) - y0) // k * k
        if not halvings or w < 2 * k or h < 2 * k:
            return image, affine
        part: Image = image[y0 : y0 + h, x0 : x0 + w]
        for level in range(halvings):
            w, h = w // 2, h // 2
            half = self._room(level, h, w)
            cv2.resize(part, (w, h), dst=half, interpolation=cv2.INTER_AREA)
            part = half
        # Pixel centres: pixel i of the small picture is pixel k·i + (k − 1)/2 of the large one.
        local = affine.copy()
        local[:, :2] *= k
        corner = np.array([x0 + (k - 1) / 2, y0 + (k - 1) / 2], np.float32)
        local[:, 2] = affine[:, :2] @ corner + affine[:, 2]
        return part, local

    def _room(self, level: int, height: int, width: int) -> Image:
        """Memory for one halving; it grows to the largest face seen and stays."""
        while len(self._halves) <= level:
            self._halves.append(np.empty((0, 0, 3), np.uint8))
        room = self._halves[level]
        if room.shape[0] < height or room.shape[1] < width:
            room = np.empty((height + 64, width + 64, 3), np.uint8)
            self._halves[level] = room
        return room[:height, :width]
