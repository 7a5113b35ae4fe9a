"""The still picture behind the motion: a picture laid into the frame, and what is around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import cv2
import numpy as np

from engines.faces import Array, Floats, Image

_FACE_HEIGHT: Final = 0.46
"""Where the middle of the face lies, heights of the frame from the top."""

_TALLEST: Final = 0.48
"""Height of the landmarks in the frame that a picture is not enlarged beyond: hair and chin want room to move."""
_HAIR: Final = 0.08

_BLURS: Final = (0.03, 0.09, 0.28)
"""Blur of what lies beyond the photo, in widths of the face, from its edge outwards."""

_DIM: Final = 0.18


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the photo lies in the frame.

    Attributes:
        scale: Pixels of the frame per pixel of the photo.
        x: Where the centre of the photo's first pixel lies, pixels of the frame.
        y: The same, downwards.
    """

    scale: float
    x: float
    y: float

    def of(self, points: Floats) -> Floats:
        """Landmarks (N, 3) of the photo, in the frame."""
        return np.asarray(points * self.scale + np.array([self.x, self.y, 0]), np.float32)


def place(points: Floats, size: tuple[int, int], face_width: float) -> Placement:
    """Puts a face a bit above the middle of the frame.

    Args:
        points: (N, 3) landmarks in the photo, pixels.
        size: Width and height of the frame, pixels.
        face_width: What the width of the landmarks becomes, pixels.
    """
    low, high = points[:, :2].min(0), points[:, :2].max(0)
    scale = face_width / float(high[0] - low[0])
    x, y = ((low + high) / 2 * scale).tolist()
    return Placement(scale, size[0] / 2 - x, size[1] * _FACE_HEIGHT - y)


def fitted(points: Floats, picture: tuple[int, int], size: tuple[int, int]) -> Placement:
    """Lays a whole picture into the frame: it covers it where head and hair still fit in, else more of it is shown.

    Args:
        points: (N, 3) landmarks in the picture, pixels.
        picture: Its width and height, pixels.
        size: Width and height of the frame, pixels.
    """
    low, high = points[:, :2].min(0).astype(float), points[:, :2].max(0).astype(float)
    ratios = np.array(size) / np.array(picture)
    scale = float(np.clip(_TALLEST * size[1] / max(high[1] - low[1], 1.0), ratios.min(), ratios.max()))
    # The head with its hair comes first; where the picture is larger than the frame, no edge of it comes into view.
    head = (low + high) / 2 - np.array([0, _HAIR * (high[1] - low[1])])
    corner = np.array([size[0] / 2, size[1] * _FACE_HEIGHT]) - head * scale
    spare = np.array(size) - np.array(picture) * scale
    x, y = np.where(spare >= 0, spare / 2, np.clip(corner, spare, 0)) + (scale - 1) / 2
    return Placement(scale, float(x), float(y))


def canvas(photo: Image, place: Placement, rect: tuple[int, int, int, int], face_width: float) -> Image:
    """The photo as the frame shows it, and around it what its borders suggest, ever more blurred.

    Args:
        photo: The photo.
        place: Where it lies.
        rect: Left, top, right and bottom of what is wanted, pixels of the frame; may reach beyond it.
        face_width: Width of the face in the frame, pixels.

    Returns:
        The part of the frame that ``rect`` names.
    """
    width, height = rect[2] - rect[0], rect[3] - rect[1]
    affine = np.array([[place.scale, 0, place.x - rect[0]], [0, place.scale, place.y - rect[1]]])
    out = scaled(photo, affine, (width, height))
    if place.scale > 1.3:
        _sharpen(out, place.scale)
    half = place.scale / 2
    left, top = place.x - rect[0] - half, place.y - rect[1] - half
    right, bottom = left + photo.shape[1] * place.scale, top + photo.shape[0] * place.scale
    x0, x1 = min(max(int(np.ceil(left)), 0), width), max(min(int(right), width), 0)
    y0, y1 = min(max(int(np.ceil(top)), 0), height), max(min(int(bottom), height), 0)
    strips = [(0, 0, width, y0), (0, y1, width, height), (0, y0, x0, y1), (x1, y0, width, y1)]
    strips = [strip for strip in strips if strip[0] < strip[2] and strip[1] < strip[3]]
    if strips:
        layers = _blurred(photo, affine, (width, height), face_width)
        for strip in strips:
            _fill(out, strip, (left, top, right, bottom), layers, face_width)
    return out


def scaled(photo: Array, affine: Array, size: tuple[int, int], border: int = cv2.BORDER_REFLECT) -> Array:
    """A picture of any number of channels, scaled and shifted.

    Args:
        photo: H×W or H×W×C uint8.
        affine: (2, 3): picture to result; scales and shifts only.
        size: Width and height of the result, pixels.
        border: What is beyond the picture, as OpenCV names it.
    """
    scale = float(affine[0, 0])
    matrix = affine.copy()
    if scale < 0.75:
        # Averaged first, or fine detail would alias.
        w, h = max(1, round(photo.shape[1] * scale)), max(1, round(photo.shape[0] * scale))
        fx, fy = photo.shape[1] / w, photo.shape[0] / h
        photo = np.asarray(cv2.resize(photo, (w, h), interpolation=cv2.INTER_AREA), np.uint8)
        matrix[0, 2] += scale * (fx - 1) / 2
        matrix[1, 2] += scale * (fy - 1) / 2
        matrix[0, 0], matrix[1, 1] = scale * fx, scale * fy
    return np.asarray(cv2.warpAffine(photo, matrix, size, flags=cv2.INTER_CUBIC, borderMode=border), np.uint8)


def _sharpen(image: Image, scale: float) -> None:
    """A small photo made large is soft; some of the edges come back, in place."""
    amount = min(0.6, 0.25 * (scale - 1))
    soft = cv2.GaussianBlur(image, (0, 0), 0.4 * scale)
    cv2.addWeighted(image, 1 + amount, soft, -amount, 0, dst=image)


def _blurred(
    photo: Image, affine: Array, size: tuple[int, int], face_width: float
) -> list[tuple[float, Image]]:
    """Ever more blurred versions of the mirrored photo, each with pixels as large as its blur allows."""
    layers = []
    for blur in _BLURS:
        sigma = max(blur * face_width, 1.0)
        factor = max(1.0, sigma / 3)
        w, h = max(2, round(size[0] / factor)), max(2, round(size[1] / factor))
        small = scaled(photo, affine * np.array([[w / size[0]], [h / size[1]]]), (w, h))
        small = np.asarray(
            cv2.GaussianBlur(small, (0, 0), sigma / factor, borderType=cv2.BORDER_REFLECT), np.uint8
        )
        layers.append((sigma, small))
    return layers


def _fill(
    out: Image,
    strip: tuple[int, int, int, int],
    photo: tuple[float, float, float, float],
    layers: list[tuple[float, Image]],
    face_width: float,
) -> None:
    x0, y0, x1, y1 = strip
    left, top, right, bottom = photo
    x, y = np.arange(x0, x1, dtype=np.float32), np.arange(y0, y1, dtype=np.float32)
    beyond_x = np.maximum(np.maximum(left - x, x - right), 0)
    beyond_y = np.maximum(np.maximum(top - y, y - bottom), 0)
    beyond = np.hypot(beyond_x[None], beyond_y[:, None])
    value = out[y0:y1, x0:x1].astype(np.float32)
    size = (out.shape[1], out.shape[0])
    for sigma, layer in layers:
        share = np.clip(beyond / (2.0 * sigma), 0, 1)[:, :, None]
        fx, fy = layer.shape[1] / size[0], layer.shape[0] / size[1]
        part = cv2.warpAffine(
            layer, np.array([[1 / fx, 0, (1 / fx - 1) / 2 - x0], [0, 1 / fy, (1 / fy - 1) / 2 - y0]]),
            (x1 - x0, y1 - y0), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE,
        )  # fmt: skip
        value += (part.astype(np.float32) - value) * share
    value *= (1 - _DIM * np.clip(beyond / (1.5 * face_width), 0, 1))[:, :, None]
    out[y0:y1, x0:x1] = np.clip(value + 0.5, 0, 255).astype(np.uint8)
