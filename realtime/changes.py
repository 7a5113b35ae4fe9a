"""What other threads want changed between two frames."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

log = logging.getLogger(__name__)


class Changes:
    """A list of calls that any thread may add to and the process thread works off."""

    def __init__(self) -> None:
        self._asked: deque[tuple[Callable[[], None], Future[None]]] = deque()
        self._lock = threading.Lock()
        self._closed = False

    def ask(self, change: Callable[[], None]) -> Future[None]:
        """Asks for a call; see :meth:`realtime.session.Session.between_frames`."""
        done: Future[None] = Future()
        with self._lock:
            if self._closed:
                done.cancel()
            else:
                self._asked.append((change, done))
        return done

    def make(self) -> None:
        """Makes every call that was asked for. One that raises is told so and harms nothing else."""
        while (asked := self._next()) is not None:
            change, done = asked
            if not done.set_running_or_notify_cancel():
                continue
            try:
                change()
            except Exception as error:
                log.warning("A change was not made: %s", error)
                done.set_exception(error)
            else:
                done.set_result(None)

    def _next(self) -> tuple[Callable[[], None], Future[None]] | None:
        with self._lock:
            return self._asked.popleft() if self._asked else None

    def close(self) -> None:
        """Cancels what was asked for and whatever will be."""
        with self._lock:
            self._closed = True
            asked, self._asked = self._asked, deque()
        for _, done in asked:
            done.cancel()
