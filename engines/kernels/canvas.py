"""Where a picture lies while it is painted: here, or on a GPU. Whoever paints need not know.

An :class:`Easel` takes a picture as captured and gives a :class:`Canvas`. What is written on it is written where the
picture is. :meth:`Canvas.finish` gives what came of it, in the memory of the host, in the form in which it came.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import cv2

from engines.errors import EngineError
from engines.faces import Image
from engines.kernels.planar import Planar
from engines.kernels.pool import Lease

Sent: TypeAlias = Lease[Any]
"""A picture that was sent ahead; whoever holds it keeps its place."""

Window: TypeAlias = tuple[int, int, int, int]
"""Left, top, right and bottom of a part of a picture, pixels; the last two exclusive."""

Grid: TypeAlias = tuple[int, int]
"""Columns and rows of a mosaic."""


class Stamp(Protocol):
    """A small picture with opacity.

    Attributes:
        colour: (h, w, 3) uint8 BGR, multiplied by the opacity.
        keep: (h, w, 3) uint8: 255 less the opacity.
    """

    colour: Image
    keep: Image

    def paint(self, image: Image, x: int, y: int) -> None:
        """Blends itself into a picture of the host with its corner at (x, y); what lies outside is cut off."""
        ...


class Canvas(Protocol):
    """One picture while it is painted; belongs to the thread that began it.

    Attributes:
        live: (H, W, 3) uint8 BGR: the picture as captured, in the memory of the host, for those who look and do not
            paint. Where painting is done on the host it is the picture that is painted.
        picture: What swappers of this device are handed to paint into.
    """

    live: Image
    picture: Any

    @property
    def size(self) -> tuple[int, int]:
        """Width and height, pixels."""
        ...

    def mosaic(self, window: Window, grid: Grid) -> None:
        """Lays a coarse mosaic over a part of the picture, and of :attr:`live`, which may be shown in its place.

        Args:
            window: Where; inside of the picture, and not empty.
            grid: How coarse.
        """
        ...

    def stamp(self, stamp: Stamp, x: int, y: int) -> None:
        """Blends a small picture with its corner at (x, y); what lies outside is cut off."""
        ...

    def lap(self) -> Any:
        """Marks this moment of the work, to be told apart from another by :meth:`between`."""
        ...

    def between(self, begun: Any, ended: Any) -> int:
        """What went by between two laps, ns. To be asked after :meth:`finish`."""
        ...

    def finish(self) -> Image | Planar:
        """What was painted, once it is there and whole.

        Raises:
            EngineError: The device failed, or what was painted is not made of numbers. The picture must not be shown.
        """
        ...

    def drop(self) -> None:
        """Gives the picture up; does nothing after :meth:`finish`, and never fails."""
        ...


class Easel(Protocol):
    """Makes canvases. One thread opens, begins and closes; :meth:`send` is for the one that captures.

    Attributes:
        about: What it is, for people.
    """

    about: str

    def open(self, progress: Callable[[str], None]) -> None:
        """Makes everything ready.

        Raises:
            EngineError: The device does not work.
        """
        ...

    def send(self, image: Image, stays: bool = False) -> Sent | None:
        """Starts to bring a picture to where it will be painted, before anybody has time for it. Never fails and
        hardly waits: what goes wrong here goes wrong again in :meth:`begin`.

        Args:
            image: (H, W, 3) uint8 BGR, contiguous. It stays as it is until it is begun or given up.
            stays: Whether its memory comes again with other pictures, so that it is worth being made ready for it.
        """
        ...

    def begin(self, image: Image, sent: Sent | None) -> Canvas:
        """A canvas with this picture; the one before it was finished or dropped.

        Args:
            image: (H, W, 3) uint8 BGR, contiguous.
            sent: What :meth:`send` gave for it.

        Raises:
            EngineError: The device failed.
        """
        ...

    def close(self) -> None:
        """Frees everything; may be called twice."""
        ...


class HostCanvas:
    """A :class:`Canvas` in the memory of the host: the frame's own array, nothing is copied.

    Args:
        image: (H, W, 3) uint8 BGR, rows contiguous; painted in place.
        now_ns: Time.
    """

    __slots__ = ("_now", "live", "picture")

    def __init__(self, image: Image, now_ns: Callable[[], int] = lambda: 0) -> None:
        self.live = self.picture = image
        self._now = now_ns

    @property
    def size(self) -> tuple[int, int]:
        """See :class:`Canvas`."""
        return self.live.shape[1], self.live.shape[0]

    def mosaic(self, window: Window, grid: Grid) -> None:
        """See :class:`Canvas`."""
        mosaic(self.live, window, grid)

    def stamp(self, stamp: Stamp, x: int, y: int) -> None:
        """See :class:`Canvas`."""
        stamp.paint(self.live, x, y)

    def lap(self) -> int:
        """See :class:`Canvas`."""
        return self._now()

    def between(self, begun: int, ended: int) -> int:
        """See :class:`Canvas`."""
        return ended - begun

    def finish(self) -> Image:
        """See :class:`Canvas`."""
        return self.live

    def drop(self) -> None:
        """See :class:`Canvas`."""


class HostEasel:
    """An :class:`Easel` for pictures that stay where they are.

    Args:
        now_ns: Time, for the laps.
    """

    about = "pictures are painted on the CPU"

    def __init__(self, now_ns: Callable[[], int] = lambda: 0) -> None:
        self._now = now_ns

    def open(self, progress: Callable[[str], None]) -> None:
        """See :class:`Easel`."""

    def send(self, image: Image, stays: bool = False) -> None:
        """See :class:`Easel`."""

    def begin(self, image: Image, sent: Sent | None) -> HostCanvas:
        """See :class:`Easel`."""
        if sent is not None:
            raise EngineError("A picture that was sent to a GPU was to be painted on the CPU.")
        return HostCanvas(image, self._now)

    def close(self) -> None:
        """See :class:`Easel`."""


def mosaic(image: Image, window: Window, grid: Grid) -> None:
    """Lays a coarse mosaic over a part of a picture, in place; see :meth:`Canvas.mosaic`."""
    left, top, right, bottom = window
    region = image[top:bottom, left:right]
    cells = cv2.resize(region, grid, interpolation=cv2.INTER_AREA)
    cv2.resize(cells, (right - left, bottom - top), dst=region, interpolation=cv2.INTER_LINEAR)
