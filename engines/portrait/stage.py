"""One picture, ready to be shown in any pose: what stands still is copied, what moves is painted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import cv2
import numpy as np

from engines.faces import Array, Floats, Image
from engines.portrait.compositor import Compositor
from engines.portrait.inside import Eyes, Mouth
from engines.portrait.mesh import PortraitMesh, Posed
from engines.portrait.raster import Rasteriser, add_noise, copy_outside, noise_strip, pack
from engines.portrait.scene import Placement, canvas, scaled
from engines.portrait.state import HeadState

_GROUNDS: Final = 4
"""Noisy still pictures that take turns; the eye finds no period in four."""
_OVERLAP: Final = 2
"""Pixels by which what moves is painted over what stands still."""


@dataclass(frozen=True, slots=True)
class Grain:
    """Noise like a sensor's.

    Attributes:
        sigma: Standard deviation, levels of 0…255.
        seed: Another seed is other noise.
    """

    sigma: float = 0.0
    seed: int = 0


class Stage:
    """A picture in a frame of one size.

    Args:
        picture: H×W×3 uint8 BGR.
        points: (468 or more, 3) float32 landmarks, pixels of the picture.
        where: Where the picture lies in the frame.
        size: Width and height of the frames, pixels.
        grain: Noise over everything; only where the picture is opaque.
        alpha: (H, W) uint8: how far the picture hides what is behind it; None where it hides everything.
        behind: What is behind and around the picture, as large as the frame; None for what its borders suggest.
        teeth: Whether its mouth has any.
    """

    def __init__(
        self, picture: Image, points: Floats, where: Placement, size: tuple[int, int], grain: Grain | None = None,
        alpha: Array | None = None, behind: Image | None = None, teeth: bool = True,
    ) -> None:  # fmt: skip
        grain = grain or Grain()
        width, height = size
        self._mesh = PortraitMesh(where.of(points))
        border = self._mesh.rest[self._mesh.border]
        low, high = np.floor(border.min(0)).astype(int) - 2, np.ceil(border.max(0)).astype(int) + 4
        rect = (min(0, int(low[0])), min(0, int(low[1])), max(width, int(high[0])), max(height, int(high[1])))
        inner = (slice(-rect[1], height - rect[1]), slice(-rect[0], width - rect[0]))
        left, top = (low - rect[:2]).tolist()
        outer = (slice(top, top + int(high[1] - low[1])), slice(left, left + int(high[0] - low[0])))
        self._strip, room = noise_strip(grain.sigma, grain.seed & 0xFFFFFFFF)
        if behind is not None:
            whole, opacity = _cut_out(picture, alpha, where, rect)
            self._grounds = [_set(whole[inner], opacity[inner], behind, border)]
        else:
            whole, opacity = canvas(picture, where, rect, self._mesh.width), None
            self._grounds = _noisy(whole[inner], self._strip, room)
        moving, coords = whole[outer], self._mesh.rest - low
        self._texture = pack(moving, room)
        self._painter: Compositor | Rasteriser
        if room:
            self._painter = Rasteriser(coords, self._mesh.triangles, self._texture, size)
        else:
            cut = None if opacity is None else opacity[outer]
            self._painter = Compositor(coords, self._mesh.triangles, moving, cut)
        origin = (int(low[0]), int(low[1]))
        self._eyes = Eyes(self._mesh, moving, origin, self._texture, room)
        self._mouth = Mouth(self._mesh, moving, origin, room, teeth)
        self._left, self._right = _extent(border, size)
        if not room:
            # What is painted translucently, if only by rounding, is painted over the picture and not over the frame.
            self._left[:], self._right[:] = width, width

    def pose(self, state: HeadState, pull: Floats | None = None) -> Posed:
        """See :meth:`PortraitMesh.pose`."""
        return self._mesh.pose(state, pull)

    def render(self, out: Image, posed: Posed, frame: int = 0) -> None:
        """Paints a whole frame; nothing of what was in it is left.

        Args:
            out: H×W×3 uint8 BGR, C-contiguous, of the stage's size.
            posed: What :meth:`pose` said.
            frame: Which noise.
        """
        # 0 1 2 3 2 0 3 1: no ground follows itself, and the order hides the period.
        ground = self._grounds[(0, 1, 2, 3, 2, 0, 3, 1)[frame % 8] % len(self._grounds)]
        copy_outside(ground, self._left, self._right, out)
        self._painter.draw(out, posed.points, self._strip, frame)
        self._eyes.paint(out, posed, self._strip, frame)
        self._mouth.paint(out, posed, self._strip, frame)


def _noisy(still: Image, strip: Array, room: int) -> list[Image]:
    grounds = [np.empty(still.shape, np.uint8) for _ in range(_GROUNDS if room else 1)]
    for n, ground in enumerate(grounds):
        add_noise(still, strip, room, -1 - n, ground)
    return grounds


def _cut_out(
    picture: Image, alpha: Array | None, where: Placement, rect: tuple[int, int, int, int]
) -> tuple[Image, Array]:
    """The picture in a part of the frame, and how opaque it is there, 0…255."""
    opaque = np.full(picture.shape[:2], 255, np.uint8) if alpha is None else alpha
    affine = np.array([[where.scale, 0, where.x - rect[0]], [0, where.scale, where.y - rect[1]]])
    size = (rect[2] - rect[0], rect[3] - rect[1])
    colours = scaled(picture, affine, size, cv2.BORDER_REPLICATE)
    return colours, scaled(opaque, affine, size, cv2.BORDER_CONSTANT)


def _set(picture: Image, opacity: Array, behind: Image, border: Array) -> Image:
    """What stands still: the picture before what is behind it, and that alone where the picture moves."""
    share = opacity.astype(np.float32)[..., None] / np.float32(255)
    whole = (behind + (picture.astype(np.float32) - behind) * share + 0.5).astype(np.uint8)
    moves: Array = np.zeros(opacity.shape, np.uint8)
    cv2.fillPoly(moves, [np.rint(border).astype(np.int32)], 1)
    moves = cv2.erode(
        moves, np.ones((2 * _OVERLAP + 1,) * 2, np.uint8), borderType=cv2.BORDER_CONSTANT, borderValue=1.0
    )  # fmt: skip
    return np.ascontiguousarray(np.where(moves[..., None] > 0, behind, whole))


def _extent(border: Array, size: tuple[int, int]) -> tuple[Array, Array]:
    """For every row, where the moving part begins and ends, a few pixels inside of its border."""
    width, height = size
    left, right = np.full(height, width, np.int32), np.zeros(height, np.int32)
    for (ax, ay), (bx, by) in zip(border, np.roll(border, -1, 0), strict=True):
        if ay > by:
            ax, ay, bx, by = bx, by, ax, ay
        rows = np.arange(max(0, int(np.ceil(ay))), min(height, int(np.floor(by)) + 1))
        if len(rows) and by > ay:
            x = ax + (rows - ay) * (bx - ax) / (by - ay)
            left[rows] = np.minimum(left[rows], np.clip(np.ceil(x) + 3, 0, width).astype(np.int32))
            right[rows] = np.maximum(right[rows], np.clip(np.floor(x) - 3, 0, width).astype(np.int32))
    return left, np.maximum(left, right)
