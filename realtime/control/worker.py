"""One thread that prepares whatever takes longer than a frame, one thing after the other.

What nobody waits for yet is done when nothing else is to be done.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from engines.errors import DoppelcamError

log = logging.getLogger(__name__)

MOST_WAITING: Final = 32

_PATIENCE_S: Final = 10.0
"""How long an engine that is being opened is waited for at the end."""


class Ended(BaseException):
    """Ends what is being prepared; not an ``Exception``, so that nobody takes it for a failure."""


class Worker:
    """Does jobs in the order in which they were asked for, in a thread of its own; those for later after all others.

    Args:
        cleanup: Called by the thread at its end.
    """

    def __init__(self, cleanup: Callable[[], None] = lambda: None) -> None:
        self._cleanup = cleanup
        self._jobs: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._later: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._changed = threading.Condition()
        self._ended = False
        self._thread: threading.Thread | None = None
        self.doing = ""
        """What is being prepared, for a person; empty when nothing is."""

    def start(self) -> None:
        """Begins to work."""
        self._thread = threading.Thread(target=self._run, name="control-worker", daemon=True)
        self._thread.start()

    def ask(self, job: Callable[[], Any], *, later: bool = False) -> Future[Any]:
        """Asks for a job.

        Args:
            job: Called by the thread.
            later: Whether nobody waits for it.

        Returns:
            Its result, later; cancelled when the worker ends before.

        Raises:
            DoppelcamError: Too much was asked for already.
        """
        done: Future[Any] = Future()
        with self._changed:
            if self._ended:
                done.cancel()
            elif len(jobs := self._later if later else self._jobs) >= MOST_WAITING:
                raise DoppelcamError("Too much is waiting to be prepared.", "Try again in a moment.")
            else:
                jobs.append((job, done))
                self._changed.notify_all()
        return done

    def say(self, line: str) -> None:
        """Told what is being prepared, as engines tell it; ends the job when the worker is to end."""
        if self._ended:
            raise Ended
        self.doing = line

    def end(self) -> None:
        """No more jobs: what waits is cancelled, and what is being prepared ends at its next step."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def stop(self) -> None:
        """Ends the thread and waits for it."""
        self.end()
        if self._thread is not None:
            self._thread.join(_PATIENCE_S)
            if self._thread.is_alive():
                log.warning("%s does not return and is left behind", self._thread.name)
            self._thread = None

    def _run(self) -> None:
        try:
            while (job := self._next()) is not None:
                self._do(*job)
                del job
        finally:
            self._cleanup()

    def _next(self) -> tuple[Callable[[], Any], Future[Any]] | None:
        with self._changed:
            while not (self._jobs or self._later or self._ended):
                self._changed.wait()
            if not self._ended:
                return (self._jobs or self._later).popleft()
            for jobs in (self._jobs, self._later):
                for _, done in jobs:
                    done.cancel()
                jobs.clear()
            return None

    def _do(self, job: Callable[[], Any], done: Future[Any]) -> None:
        if not done.set_running_or_notify_cancel():
            return
        try:
            done.set_result(job())
        except Ended:
            done.set_exception(DoppelcamError("The session ended."))
        except Exception as error:
            if not isinstance(error, DoppelcamError):
                log.exception("A change could not be prepared")
            done.set_exception(error)
        finally:
            self.doing = ""
