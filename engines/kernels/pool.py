"""Things that are made once and come back by themselves when nobody holds them any more."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Lease(Generic[T]):
    """Keeps one thing of a pool in use for as long as anything refers to it."""

    __slots__ = ("__weakref__", "buffer")

    def __init__(self, buffer: T) -> None:
        self.buffer = buffer


class Pool(Generic[T]):
    """Lends things of one kind; any thread may ask, and any may be the last to let go.

    Args:
        make: Makes one more, when all are lent.

    Attributes:
        allocated: How many were made.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._free: deque[T] = deque()
        self.allocated = 0

    def lease(self) -> Lease[T]:
        """One of them; what it holds is undefined."""
        try:
            buffer = self._free.pop()
        except IndexError:
            buffer = self._make()
            self.allocated += 1
        lease = Lease(buffer)
        # The deque and not the pool, so that a pool can die before what it lent.
        weakref.finalize(lease, self._free.append, buffer).atexit = False
        return lease
