"""The only thing between two threads of the live path: one slot, newest wins."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

from realtime.clock import Clock

T = TypeVar("T")


class Mailbox(Generic[T]):
    """Holds at most one item; a new one replaces an old one that nobody took, and that is counted.

    A backlog in a live path is delay that never goes away, so there is none.

    Args:
        clock: Where timeouts come from.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._condition = threading.Condition()
        self._item: T | None = None
        self._closed = False
        self.dropped = 0
        """Items replaced before anyone took them."""

    def put(self, item: T) -> None:
        """Leaves an item, in place of the one that still lies there. After :meth:`close` it is ignored."""
        with self._condition:
            if self._closed:
                return
            if self._item is not None:
                self.dropped += 1
            self._item = item
            self._condition.notify_all()

    def get(self, until_ns: int | None = None) -> T | None:
        """Takes the item; waits for one until ``until_ns``.

        Returns:
            The item, or None when the time has come or the box is closed and empty.
        """
        with self._condition:
            while self._item is None and not self._closed:
                if until_ns is not None and self._clock.now_ns() >= until_ns:
                    return None
                self._clock.wait(self._condition, until_ns)
            item, self._item = self._item, None
            return item

    def close(self) -> None:
        """Wakes whoever waits; the item that still lies there can be taken."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closed
