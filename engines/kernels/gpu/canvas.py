"""Pictures that are painted on a card: they go up once, ahead of their time, and come down once, as I420.

See ``docs/gpu.md``, "The way of a frame". Two threads meet here: the one that captures sends pictures ahead on a stream
of its own (:meth:`GpuEasel.send`); the one that paints does everything else.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from engines.errors import EngineError
from engines.faces import Array, Image
from engines.kernels.canvas import Grid, Sent, Stamp, Window, mosaic
from engines.kernels.gpu.card import Card, GpuArray
from engines.kernels.gpu.faces import FaceKernels
from engines.kernels.gpu.lane import Lane
from engines.kernels.gpu.mesh import MeshKernels
from engines.kernels.gpu.parcels import Parcels
from engines.kernels.gpu.pictures import PictureKernels
from engines.kernels.planar import Planar
from engines.kernels.pool import Lease, Pool

log = logging.getLogger(__name__)

_HEAD: Final = 256
"""Bytes before the picture that comes down: flags that say what is wrong with it."""
_STAMPS: Final = 4
"""Small pictures that are kept on the card."""


@dataclass(slots=True)
class _Slot:
    """A place for one picture on the card.

    Attributes:
        image: (H, W, 3) uint8.
        there: Passed when the picture is there.
        left: Passed when nothing on the card's own stream uses it any more.
        used: Whether ``left`` was ever set.
    """

    image: GpuArray
    there: Any
    left: Any
    used: bool = False


class _Plant:
    """Everything for pictures of one size; made with the first of them."""

    def __init__(self, card: Card, size: tuple[int, int]) -> None:
        width, height = size
        self.size = size
        self.slots: Pool[_Slot] = Pool(
            lambda: _Slot(card.empty((height, width, 3), np.uint8), card.event(), card.event())
        )
        rows = height * 3 // 2
        self.out = card.empty((_HEAD + rows * width,), np.uint8)
        self.flags = self.out[:_HEAD].view(np.int32)
        self.i420 = self.out[_HEAD:].reshape(rows, width)
        self.down: Pool[Array] = Pool(lambda: card.pinned((_HEAD + rows * width,), np.uint8))
        self.bgr: Pool[Image] = Pool(lambda: np.empty((height, width, 3), np.uint8))


class GpuWork:
    """A card and what paints on it; made by :meth:`GpuEasel.open`.

    Attributes:
        card: The card.
        mesh: Paints meshes.
        faces: Crops, masks and pastes.
        pictures: Mosaics, marks, I420.
        parcels: For small numbers.
    """

    def __init__(self, card: Card) -> None:
        self.card = card
        self.lane: Lane = card.lane()
        self.mesh = MeshKernels(card, (1920, 1080))
        self.faces, self.pictures = FaceKernels(card, 1), PictureKernels(card)
        self.parcels = Parcels(card)
        self.done = card.event()
        self.laps: list[Any] = []
        self._plant: _Plant | None = None
        self._lock = threading.Lock()
        self._cells: dict[Grid, GpuArray] = {}
        self._stamps: dict[int, tuple[Stamp, GpuArray, GpuArray]] = {}

    def plant(self, image: Image) -> _Plant:
        """What pictures of this size need. Both threads ask."""
        size = image.shape[1], image.shape[0]
        with self._lock:
            if self._plant is None or self._plant.size != size:
                self._plant = _Plant(self.card, size)
            return self._plant

    def cells(self, grid: Grid) -> GpuArray:
        """Scratch for a mosaic."""
        if grid not in self._cells:
            self._cells[grid] = self.card.empty((grid[1], grid[0], 3), np.float32)
        return self._cells[grid]

    def stamp(self, stamp: Stamp) -> tuple[GpuArray, GpuArray]:
        """A small picture on the card; it is sent once."""
        known = self._stamps.get(id(stamp))
        if known is None:
            if len(self._stamps) >= _STAMPS:
                del self._stamps[next(iter(self._stamps))]
            # The stamp itself is kept too, so that no other one gets its number.
            known = stamp, self.card.array(stamp.colour), self.card.array(stamp.keep)
            self._stamps[id(stamp)] = known
        return known[1], known[2]

    def send(self, image: Image, stays: bool) -> Sent:
        """Brings a picture to the card, on the lane."""
        lease = self.plant(image).slots.lease()
        slot = lease.buffer
        if stays:
            self.lane.lock(image)
        if slot.used:
            self.lane.after(slot.left)
        self.lane.upload(image, slot.image)
        self.lane.mark(slot.there)
        return lease


class GpuEasel:
    """An :class:`~engines.kernels.canvas.Easel` on a card.

    Args:
        make: Opens the card.
        about: What it is, for people.
    """

    def __init__(self, make: Callable[[], Card], about: str = "pictures are painted on the GPU") -> None:
        self._make = make
        self.about = about
        self._work: GpuWork | None = None

    @property
    def work(self) -> GpuWork:
        """The card and its kernels, for swappers; they are opened after this and closed before.

        Raises:
            EngineError: It is not open.
        """
        if self._work is None:
            raise EngineError("The GPU is used before it was opened.")
        return self._work

    def open(self, progress: Callable[[str], None]) -> None:
        """See :class:`~engines.kernels.canvas.Easel`."""
        progress("kernels of the GPU")
        card = self._make()
        progress(f"pictures are painted on {card.name}")
        self._work = GpuWork(card)

    def send(self, image: Image, stays: bool = False) -> Sent | None:
        """See :class:`~engines.kernels.canvas.Easel`."""
        work = self._work
        if work is None:
            return None
        try:
            return work.send(image, stays)
        except Exception as error:  # the thread that paints will meet it too, and it can say so
            log.debug("a picture was not sent ahead: %s", error)
            return None

    def begin(self, image: Image, sent: Sent | None) -> GpuCanvas:
        """See :class:`~engines.kernels.canvas.Easel`."""
        work = self.work
        return GpuCanvas(work, image, sent if sent is not None else work.send(image, False))

    def close(self) -> None:
        """See :class:`~engines.kernels.canvas.Easel`."""
        work, self._work = self._work, None
        if work is None:
            return
        card = work.card
        with contextlib.suppress(EngineError):  # of a card that is lost there is nothing to be freed
            card.synchronize()
        work.lane.close()
        del work
        with contextlib.suppress(EngineError):
            card.release()


class GpuCanvas:
    """A :class:`~engines.kernels.canvas.Canvas` on a card, and what swappers of a card are handed.

    Args:
        work: The card.
        live: The picture as captured, in the memory of the host. Whoever looks and does not paint, looks at this one:
            it need not come back for that.
        sent: Its place on the card.

    Attributes:
        image: (H, W, 3) uint8 on the card: the picture to be painted.
        flags: (64,) int32 on the card, noughts: whoever finds that something is not made of numbers sets one, and the
            picture is not shown.
        work: The card and its kernels.
    """

    def __init__(self, work: GpuWork, live: Image, sent: Sent) -> None:
        self.work, self.live = work, live
        self.picture = self
        self._sent: Sent | None = sent
        self._plant = work.plant(live)
        self._laps = 0
        slot: _Slot = sent.buffer
        self.image, self.flags = slot.image, self._plant.flags
        if not work.parcels.empty:
            # The one before was given up half way.
            work.card.synchronize()
            work.parcels.restart()
        work.card.after(slot.there)
        work.card.clear(self.flags)

    @property
    def size(self) -> tuple[int, int]:
        """See :class:`~engines.kernels.canvas.Canvas`."""
        return self._plant.size

    def mosaic(self, window: Window, grid: Grid) -> None:
        """See :class:`~engines.kernels.canvas.Canvas`."""
        # The live one as well: it is what is veiled, or shown bare where the user wants that, if this one fails. It was
        # sent long ago; but it must not be written to before it is there.
        if self._sent is not None:
            self.work.card.wait(self._sent.buffer.there)
        mosaic(self.live, window, grid)
        self.work.pictures.cover(self.image, window, self.work.cells(grid))

    def stamp(self, stamp: Stamp, x: int, y: int) -> None:
        """See :class:`~engines.kernels.canvas.Canvas`."""
        colour, keep = self.work.stamp(stamp)
        self.work.pictures.sprite(self.image, colour, keep, x, y)

    def lap(self) -> Any:
        """See :class:`~engines.kernels.canvas.Canvas`. An event: what is measured is the card's time."""
        work = self.work
        if self._laps == len(work.laps):
            work.laps.append(work.card.event(timed=True))
        event = work.laps[self._laps]
        self._laps += 1
        work.card.mark(event)
        return event

    def between(self, begun: Any, ended: Any) -> int:
        """See :class:`~engines.kernels.canvas.Canvas`."""
        return self.work.card.elapsed_ns(begun, ended)

    def finish(self) -> Planar:
        """See :class:`~engines.kernels.canvas.Canvas`."""
        work, plant = self.work, self._plant
        work.pictures.to_i420(self.image, plant.i420)
        lease: Lease[Array] = plant.down.lease()
        work.card.download(plant.out, lease.buffer)
        self._leave()
        work.card.mark(work.done)
        work.card.wait(work.done)
        work.parcels.restart()
        if lease.buffer[:_HEAD].any():
            raise EngineError("The GPU made a face that is not made of numbers.")
        return Planar(lease.buffer[_HEAD:].reshape(plant.i420.shape), lease, plant.bgr)

    def drop(self) -> None:
        """See :class:`~engines.kernels.canvas.Canvas`."""
        with contextlib.suppress(Exception):  # a card that is lost uses nothing any more
            self._leave()

    def _leave(self) -> None:
        """Lets the next picture have the place, once what was begun here is done."""
        sent, self._sent = self._sent, None
        if sent is not None:
            self.work.card.mark(sent.buffer.left)
            sent.buffer.used = True
