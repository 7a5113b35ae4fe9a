"""Where time comes from. Everything that waits, waits through a clock, so that tests can move time by hand."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Monotonic time and interruptible waits."""

    def now_ns(self) -> int:
        """Nanoseconds since an arbitrary start; never goes back."""
        ...

    def wait(self, condition: threading.Condition, until_ns: int | None) -> None:
        """Waits until notified, or until ``until_ns``. The caller holds the condition and checks what it waits for."""
        ...


class SystemClock:
    """The machine's monotonic clock."""

    def now_ns(self) -> int:
        """See :class:`Clock`."""
        return time.monotonic_ns()

    def wait(self, condition: threading.Condition, until_ns: int | None) -> None:
        """See :class:`Clock`."""
        if until_ns is None:
            condition.wait()
            return
        left = until_ns - time.monotonic_ns()
        if left > 0:
            condition.wait(left / 1e9)


class ManualClock:
    """Time that moves only when told to. Waits end when time is moved past them or when notified."""

    def __init__(self, start_ns: int = 0) -> None:
        self._now = start_ns
        self._lock = threading.Condition()
        self._waiting: list[threading.Condition] = []

    def now_ns(self) -> int:
        """See :class:`Clock`."""
        return self._now

    def wait(self, condition: threading.Condition, until_ns: int | None) -> None:
        """See :class:`Clock`."""
        if until_ns is not None and until_ns <= self._now:
            return
        with self._lock:
            self._waiting.append(condition)
            self._lock.notify_all()
        try:
            condition.wait()
        finally:
            with self._lock:
                self._waiting.remove(condition)

    def advance(self, ns: int) -> None:
        """Moves time forward and wakes everyone who waits, so that they look again."""
        with self._lock:
            self._now += ns
            waiting = list(self._waiting)
        for condition in waiting:
            with condition:
                condition.notify_all()

    def settle(self, waiters: int, timeout: float = 10.0) -> None:
        """Returns once ``waiters`` threads wait on this clock; for tests that move time step by step."""
        with self._lock:
            if not self._lock.wait_for(lambda: len(self._waiting) >= waiters, timeout):
                raise TimeoutError(f"{len(self._waiting)} threads wait, not {waiters}")


class StopFlag:
    """Asks every thread of a session to end, and ends their waits."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._condition = threading.Condition()
        self._set = False

    def __bool__(self) -> bool:
        return self._set

    def set(self) -> None:
        """Raises the flag and wakes everyone in :meth:`wait_until`."""
        with self._condition:
            self._set = True
            self._condition.notify_all()

    def wait_until(self, until_ns: int) -> bool:
        """Waits until the given time or until the flag is raised; returns whether it is raised."""
        with self._condition:
            while not self._set and self._clock.now_ns() < until_ns:
                self._clock.wait(self._condition, until_ns)
            return self._set
