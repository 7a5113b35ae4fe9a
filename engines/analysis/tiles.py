"""Where else a face may be, when a look at the whole frame finds none.

A detector sees the frame shrunk to its own few pixels, upright, and cut off at the border. So it misses heads that lie
or hang, faces that are half out of the picture, and small ones. Each of them is found by another look:

- the whole frame **turned** by a half or a quarter;
- the frame with its **edges mirrored** outwards, which makes half a face a whole one;
- **tiles** that overlap by more than the faces they are for, upright and upside down.

One look costs what the detectors cost, so a caller takes one a frame: :class:`Search` says which is next. Tiles in
which something moves come first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from engines.analysis.networks import FindsFaces
from engines.faces import Detection, Floats, Image

WORK: Final = 640
"""Longest side that a detector is given, pixels: more than any of them reads, and cheap to turn."""
_LEAST_TILE: Final = 320
"""Side of the smallest tiles, pixels. In larger frames it is a third of the longer side: at 1080p faces from 40 pixels
on are found."""
_OVERLAP: Final = 0.17
"""Share of a tile that its neighbour sees too: larger faces are found in the whole frame."""
_MIRRORED: Final = 0.25
"""Width of the mirrored edges, in shorter sides of the frame."""
_TURNS: Final = {1: cv2.ROTATE_90_CLOCKWISE, 2: cv2.ROTATE_180, 3: cv2.ROTATE_90_COUNTERCLOCKWISE}


@dataclass(frozen=True, slots=True, eq=False)
class Glimpse:
    """A small picture of a frame, and the way back to it.

    Attributes:
        picture: H×W×3 uint8 BGR; may share the memory of the frame.
        back: (2, 3): from it to the upright picture.
        margin: Pixels by which that is larger than the window of the frame.
        scale: Its pixels per pixel of the frame.
        offset: (2,) where the window begins, pixels of the frame.
    """

    picture: Image
    back: Floats
    margin: int
    scale: float
    offset: Floats

    def apart_from(self, image: Image) -> Glimpse:
        """The same in memory of its own, so that the frame may change."""
        shared = np.may_share_memory(self.picture, image)
        return replace(self, picture=self.picture.copy()) if shared else self

    def detect(self, detector: FindsFaces) -> list[Detection]:
        """See :meth:`Look.detect`."""

        def frame(points: Floats) -> Floats:
            upright = _at(points, self.back) - np.float32(self.margin)
            return np.asarray(upright / np.float32(self.scale) + self.offset, np.float32)

        return [
            Detection(frame(found.centre), found.size / self.scale, frame(found.keypoints), found.score)
            for found in detector.detect(self.picture)
        ]


@dataclass(frozen=True, slots=True)
class Look:
    """One way to look at a frame.

    Attributes:
        window: Left, top, width and height of what is looked at, pixels of the frame.
        turns: Quarters clockwise by which it is turned before.
        mirrored: Whether its edges are mirrored outwards.
        whole: Whether the window is the whole frame.
    """

    window: tuple[int, int, int, int]
    turns: int = 0
    mirrored: bool = False
    whole: bool = True

    def take(self, image: Image) -> Glimpse:
        """What a detector sees this way.

        Args:
            image: The frame, BGR, H×W×3 uint8.
        """
        left, top, width, height = self.window
        seen: Image = image[top : top + height, left : left + width]
        plain = self.whole and not self.turns and not self.mirrored
        seen, scale = _sampled(seen) if plain else _shrunk(seen)
        margin = 0
        if self.mirrored:
            margin = max(1, round(_MIRRORED * min(seen.shape[:2])))
            seen = np.asarray(
                cv2.copyMakeBorder(seen, margin, margin, margin, margin, cv2.BORDER_REFLECT), np.uint8
            )
        turned: Image = np.ascontiguousarray(
            cv2.rotate(seen, _TURNS[self.turns]) if self.turns else seen, np.uint8
        )
        back = self._back(seen.shape[1], seen.shape[0])
        return Glimpse(turned, back, margin, scale, np.array([left, top], np.float32))

    def detect(self, detector: FindsFaces, image: Image) -> list[Detection]:
        """What a detector finds this way.

        Args:
            detector: Any.
            image: The frame, BGR, H×W×3 uint8.

        Returns:
            Detections in pixels of the frame as it is, the largest first; key points turned back with it.
        """
        return self.take(image).detect(detector)

    def _back(self, width: int, height: int) -> Floats:
        """(2, 3): from the turned picture to the one before."""
        rows = {
            0: ((1, 0, 0), (0, 1, 0)),
            1: ((0, 1, 0), (-1, 0, height)),
            2: ((-1, 0, width), (0, -1, height)),
            3: ((0, -1, width), (1, 0, 0)),
        }
        return np.array(rows[self.turns], np.float32)


class Search:
    """Goes through every other look at frames of one size, round and round. Used by one thread."""

    def __init__(self) -> None:
        self._size = (0, 0)
        self._left: list[Look] = []
        self._in_order = False

    def next(self, size: tuple[int, int], moving: NDArray[np.bool_] | None = None) -> Look:
        """The look that is due.

        Args:
            size: Width and height of the frame, pixels.
            moving: (rows, columns): where a grid over the frame changed of late; None if that is not known.
        """
        if size != self._size or not self._left:
            self._size, self._left = size, looks(*size)
        # Every second time in order, so that nothing waits for what always moves.
        self._in_order = not self._in_order
        if moving is None or self._in_order:
            return self._left.pop(0)
        stirs = [0 if look.whole else _stirring(look, size, moving) for look in self._left]
        return self._left.pop(int(np.argmax(stirs)))


def looks(width: int, height: int) -> list[Look]:
    """Every other way to look at a frame, the likeliest first.

    Args:
        width: Of the frame, pixels.
        height: Of the frame, pixels.
    """
    whole = (0, 0, width, height)
    wholes = [Look(whole, mirrored=True), Look(whole, 2), Look(whole, 1), Look(whole, 3)]
    tiles = _tiles(width, height)
    upright = [Look(tile, whole=False) for tile in tiles]
    hanging = [Look(tile, 2, whole=False) for tile in tiles]
    # Between two of the whole frame there are two tiles: a head that hangs is no likelier than a small one.
    mixed: list[Look] = []
    for look in wholes:
        mixed += [look, *upright[:2]]
        del upright[:2]
    return [*mixed, *upright, *hanging]


def _sampled(picture: Image) -> tuple[Image, float]:
    """The picture at no more than :data:`WORK` pixels, read in a single pass, and its pixels per pixel of before.

    That is three samples a pixel of what our detectors read, as many as they take themselves of a frame.
    """
    scale = WORK / max(picture.shape[:2])
    if scale >= 1:
        return picture, 1.0
    size = (max(1, round(picture.shape[1] * scale)), max(1, round(picture.shape[0] * scale)))
    return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_LINEAR), np.uint8), scale


def _shrunk(picture: Image) -> tuple[Image, float]:
    """The picture at no more than :data:`WORK` pixels, and its pixels per pixel of before."""
    scale = 1.0
    # Averaging: what is skipped here no later step can bring back. By halves it takes a fifth of the time.
    while max(picture.shape[:2]) >= 2 * WORK and min(picture.shape[:2]) > 1:
        height, width = picture.shape[0] // 2, picture.shape[1] // 2
        even = picture[: 2 * height, : 2 * width]
        picture = np.asarray(cv2.resize(even, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
        scale /= 2
    left = WORK / max(picture.shape[:2])
    if left < 1:
        size = (max(1, round(picture.shape[1] * left)), max(1, round(picture.shape[0] * left)))
        picture = np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_LINEAR), np.uint8)
        scale *= left
    return picture, scale


def _tiles(width: int, height: int) -> list[tuple[int, int, int, int]]:
    side = max(_LEAST_TILE, -(-max(width, height) // 3))
    if max(width, height) <= side:
        return []
    overlap = round(_OVERLAP * side)
    w, h = min(side, width), min(side, height)
    return [(x, y, w, h) for y in _starts(height, h, overlap) for x in _starts(width, w, overlap)]


def _starts(length: int, side: int, overlap: int) -> list[int]:
    count = max(1, -(-(length - overlap) // (side - overlap))) if length > side else 1
    return [round(i * (length - side) / max(1, count - 1)) for i in range(count)]


def _stirring(look: Look, size: tuple[int, int], moving: NDArray[np.bool_]) -> int:
    left, top, width, height = look.window
    rows, columns = moving.shape
    x0, x1 = left * columns // size[0], -(-(left + width) * columns // size[0])
    y0, y1 = top * rows // size[1], -(-(top + height) * rows // size[1])
    return int(np.count_nonzero(moving[y0:y1, x0:x1]))


def _at(points: Floats, affine: Floats) -> Floats:
    return np.asarray(points @ affine[:, :2].T + affine[:, 2], np.float32)
