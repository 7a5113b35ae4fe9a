"""A second stream of a card, on which another thread sends pictures ahead while the first one works."""

from __future__ import annotations

import logging
import threading
import weakref
from typing import Any, Final

import numpy as np

from engines.errors import EngineError
from engines.faces import Array

log = logging.getLogger(__name__)

_TO_CARD: Final = 1
_PORTABLE: Final = 1


class Errors:
    """A context in which what CuPy raises becomes an :class:`EngineError`: RuntimeErrors, and MemoryErrors when there
    is no room."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, _trace: Any) -> None:
        if isinstance(error, MemoryError):
            raise EngineError(
                f"The GPU has not enough memory: {error}", "Close what else uses it."
            ) from error
        if isinstance(error, RuntimeError):
            raise EngineError(
                f"The GPU failed: {error}", "Run again; if it stays, use --device cpu."
            ) from error


class Lane:
    """Uploads beside the card's own stream; one thread. Made by :meth:`engines.kernels.gpu.card.Card.lane`.

    Args:
        cupy: CuPy.
        index: Number of the card.
    """

    def __init__(self, cupy: Any, index: int) -> None:
        self._cupy = cupy
        # Of its own: CuPy's object remembers which card was current before, for one thread.
        self._device = cupy.cuda.Device(index)
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._locked: dict[int, weakref.finalize[..., Any]] = {}
        self._refused: set[int] = set()
        self._guard = threading.Lock()

    def upload(self, host: Array, array: Any) -> None:
        """Copies to the card; returns before it is done when ``host`` is page-locked.

        Args:
            host: Contiguous; of the shape and type of ``array``.
            array: On the card.
        """
        copy = self._cupy.cuda.runtime.memcpyAsync
        with Errors(), self._device:
            copy(array.data.ptr, host.ctypes.data, host.nbytes, _TO_CARD, self._stream.ptr)

    def after(self, event: Any) -> None:
        """Lets this stream wait for an event of the card's."""
        with Errors(), self._device:
            self._stream.wait_event(event)

    def mark(self, event: Any) -> None:
        """Sets an event behind everything that is on this stream."""
        with Errors(), self._device:
            event.record(self._stream)

    def lock(self, host: Array) -> None:
        """Page-locks memory of the processor for as long as it lives, so that it is copied without being waited for.

        Where the system refuses, copies are slower, and that is all.

        Args:
            host: An array over memory that comes again: to lock it takes longer than to copy it.
        """
        owner = host
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        place = owner.ctypes.data
        if place in self._locked or place in self._refused:
            return
        try:
            with self._device:
                self._cupy.cuda.runtime.hostRegister(place, owner.nbytes, _PORTABLE)
        except RuntimeError as error:
            log.debug("memory of frames is not page-locked: %s", error)
            self._refused.add(place)
            return
        done = weakref.finalize(owner, self._unlock, place)
        done.atexit = False
        with self._guard:
            self._locked[place] = done

    def close(self) -> None:
        """Unlocks everything."""
        with self._guard:
            left = list(self._locked.values())
        for done in left:
            done()

    def _unlock(self, place: int) -> None:
        """Called by whichever thread lets the memory go, right before it is freed."""
        with self._guard:
            self._locked.pop(place, None)
        try:
            with self._cupy.cuda.Device(self._device.id):
                # What is on its way still reads it.
                self._stream.synchronize()
                self._cupy.cuda.runtime.hostUnregister(place)
        except RuntimeError as error:
            log.debug("memory of frames is not unlocked: %s", error)
