"""Which part of a new face is shown. Masks are combined by their minimum: each may only take away."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, runtime_checkable

import cv2
import numpy as np

from engines.analysis.align import TEMPLATES
from engines.analysis.topology import OVAL
from engines.faces import Array, Face, Floats
from engines.kernels.mask import feather_convex
from engines.swap.base import Progress

_EDGE: Final = 0.06
"""Width of the slope at the border of a crop, in parts of its side."""
_SOFT: Final = 0.12
"""Width of the slope inside of a face's outline, in parts of its width."""
_POLYGON: Final = 48
_SHAPE: Final = (1.15, 0.95, 0.80)
"""Of a face: half its width in distances of the eyes; from the eyes up and from the mouth down in distances from eyes
to mouth."""
_SQUARE: Final = np.ones((3, 3), np.uint8)
EROSIONS: Final = 2


class MaskSource(Protocol):
    """Says for each pixel of a crop how far the new face may be shown there. One thread opens, uses and closes it.

    Attributes:
        name: As on the command line.
        nodes: Where its networks really run: for each network the number of nodes per provider.
        ms: What its networks take of one face, known once open.
    """

    name: str
    nodes: Mapping[str, Mapping[str, int]]
    ms: float

    def open(self, progress: Progress) -> None:
        """Loads and warms up whatever it needs.

        Raises:
            EngineError: Something it needs is missing or does not work.
        """
        ...

    def write(self, crop: Floats, face: Face, affine: Floats, out: Floats) -> None:
        """Writes the mask of one face.

        Args:
            crop: (S, S, 3) float32, B, G, R, 0…255: the aligned live face. Stays as it is.
            face: The face, with its landmarks in pixels of the frame.
            affine: (2, 3) float32, frame pixels to crop pixels.
            out: (S, S) float32, contiguous; written everywhere: 0 leaves the live pixel, 1 shows the new one.

        Raises:
            EngineError: It failed; the frame must not be trusted.
        """
        ...

    def close(self) -> None:
        """Frees everything; may be called twice."""
        ...


@runtime_checkable
class Outline(Protocol):
    """A mask that is nothing but a convex outline, which can be drawn wherever the crop is."""

    def outline(self, face: Face, affine: Floats, side: int) -> tuple[Floats, float]:
        """Its sides, as :func:`sides_of` gives them, and the width of the slope inside of them, pixels.

        Args:
            face: See :meth:`MaskSource.write`.
            affine: The same.
            side: Of the crop, pixels.
        """
        ...


class _Plain:
    """A mask that needs nothing to be opened."""

    def __init__(self) -> None:
        self.nodes: Mapping[str, Mapping[str, int]] = {}
        self.ms = 0.0

    def open(self, progress: Progress) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to free."""


class Box(_Plain):
    """The whole crop but for a soft border, so that its edge is never seen."""

    name = "box"

    def __init__(self) -> None:
        super().__init__()
        self._kept: Floats = np.empty((0, 0), np.float32)

    def write(self, crop: Floats, face: Face, affine: Floats, out: Floats) -> None:
        """See :class:`MaskSource`."""
        if self._kept.shape != out.shape:
            self._kept = np.empty_like(out)
            feather_convex(self._kept, *self.outline(face, affine, out.shape[0]))
        out[:] = self._kept

    def outline(self, face: Face, affine: Floats, side: int) -> tuple[Floats, float]:
        """See :class:`Outline`."""
        last = side - 1
        return sides_of(np.array([[0, 0], [last, 0], [last, last], [0, last]])), _EDGE * side


class Ellipse(_Plain):
    """An ellipse where a template expects the face.

    Args:
        template: Of the crop.
    """

    name = "ellipse"

    def __init__(self, template: str) -> None:
        super().__init__()
        points = TEMPLATES[template]
        eyes, mouth = points[:2].mean(0), points[3:].mean(0)
        half, up, down = _SHAPE
        apart, long = float(points[1, 0] - points[0, 0]), float(mouth[1] - eyes[1])
        top, bottom = float(eyes[1]) - up * long, float(mouth[1]) + down * long
        turn = np.linspace(0, 2 * np.pi, _POLYGON, endpoint=False)
        middle = np.array([(eyes[0] + mouth[0]) / 2, (top + bottom) / 2])
        radii = np.array([half * apart, (bottom - top) / 2])
        self._outline = middle + radii * np.stack([np.cos(turn), np.sin(turn)], 1)
        self._width = 2 * radii[0]

    def write(self, crop: Floats, face: Face, affine: Floats, out: Floats) -> None:
        """See :class:`MaskSource`."""
        feather_convex(out, *self.outline(face, affine, out.shape[0]))

    def outline(self, face: Face, affine: Floats, side: int) -> tuple[Floats, float]:
        """See :class:`Outline`."""
        return sides_of(self._outline * side), float(_SOFT * self._width * side)


class Oval(_Plain):
    """The outline of the tracked face."""

    name = "oval"

    def write(self, crop: Floats, face: Face, affine: Floats, out: Floats) -> None:
        """See :class:`MaskSource`."""
        feather_convex(out, *self.outline(face, affine, out.shape[0]))

    def outline(self, face: Face, affine: Floats, side: int) -> tuple[Floats, float]:
        """See :class:`Outline`."""
        outline = outline_of(face, affine)
        return sides_of(outline), _SOFT * float(np.ptp(outline[:, 0]))


def outline_mask(name: str, template: str) -> MaskSource:
    """The outline of a name.

    Args:
        name: One of :data:`~engines.swap.masks.choice.OUTLINES`.
        template: Of the crop.
    """
    made: Mapping[str, Callable[[], MaskSource]] = {
        "oval": Oval, "ellipse": partial(Ellipse, template), "box": Box
    }  # fmt: skip
    return made[name]()


class Masks:
    """Several masks of one crop as one.

    Args:
        sources: Where they come from.
        side: Of the crop, pixels.
    """

    def __init__(self, sources: Sequence[MaskSource], side: int) -> None:
        self._sources = sources
        self._one = np.empty((side, side), np.float32)

    def narrow(self, crop: Floats, face: Face, affine: Floats, mask: Floats) -> None:
        """Takes from a mask what any of the sources takes.

        Args:
            crop: See :meth:`MaskSource.write`.
            face: The same.
            affine: The same.
            mask: (S, S) float32, narrowed in place.
        """
        for source in self._sources:
            source.write(crop, face, affine, self._one)
            np.minimum(mask, self._one, out=mask)


def soften(mask: Floats, sigma: float) -> None:
    """Takes the edge off a network's hard mask: two pixels are taken away and the rest is blurred.

    Args:
        mask: (S, S) float32, changed in place.
        sigma: Of the blur, for a mask of 256 pixels.
    """
    cv2.erode(mask, _SQUARE, dst=mask, iterations=EROSIONS, borderType=cv2.BORDER_REPLICATE)
    cv2.GaussianBlur(mask, (0, 0), sigma * mask.shape[0] / 256, dst=mask, borderType=cv2.BORDER_REPLICATE)


def outline_of(face: Face, affine: Floats) -> Floats:
    """(36, 2) float32: the outline of a face in pixels of the crop."""
    points = face.points[list(OVAL), :2]
    return np.asarray(points @ affine[:, :2].T + affine[:, 2], np.float32)


def sides_of(outline: Array) -> Floats:
    """The sides of the convex hull of some points.

    Args:
        outline: (N, 2) pixels.

    Returns:
        (E, 5) float32: a, b, c with ``a·x + b·y + c`` the distance to a side, positive inside; the rows that it
        reaches from and to. None if the points are on a line.
    """
    hull = cv2.convexHull(np.ascontiguousarray(outline, np.float32)).reshape(-1, 2).astype(np.float64)
    along = np.roll(hull, -1, 0) - hull
    length = np.hypot(along[:, 0], along[:, 1])
    real = length > 1e-6
    if np.count_nonzero(real) < 3:
        return np.empty((0, 5), np.float32)
    rows = np.sort(np.stack([hull[:, 1], np.roll(hull[:, 1], -1)], 1), 1)[real]
    hull, along = hull[real], along[real] / length[real, None]
    inwards = np.stack([-along[:, 1], along[:, 0]], 1)
    if float((inwards * (hull.mean(0) - hull)).sum()) < 0:
        inwards = -inwards
    return np.concatenate([inwards, -(inwards * hull).sum(1, keepdims=True), rows], 1).astype(np.float32)
