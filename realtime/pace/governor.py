"""What gives way when a frame takes longer than the next one takes to come.

A ladder of rungs, each of which saves some work and costs some quality. The governor goes down one at a time while
frames are late, and up one at a time once there is room again. It knows no clock, no thread and no part of the
pipeline: it is told when each frame was taken, begun and done, and it calls the rungs it was given.

Why it does not swing: every rung says what share of a frame's time it saves at most. It is left only if the time that
would be needed without it is expected to be well within the period, so what made it necessary cannot be the same as
what makes it seem needless. For a load that changes on its own, each return that did not last doubles the patience
before the next one.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

from engines.errors import DoppelcamError

log = logging.getLogger(__name__)

WINDOW: Final = 15
"""Frames over which the load is judged: half a second at 30 fps."""
ROOM: Final = 0.7
"""Share of the period that a frame may be expected to take for a rung to be left."""
CALM: Final = 10
"""Windows in a row in which there has to be room before a rung is left."""
MOST_PATIENCE: Final = 16
"""How many times as long it may become when returns do not last."""
_LASTED: Final = 4
"""A return that holds for so many times the patience it took has lasted."""
_WAITS: Final = 20
"""Windows over which the shortest wait is remembered: what is under way longer is late, and not just far away."""


class Rung(ABC):
    """One thing that can give way. Called by the process thread, between two frames.

    Attributes:
        name: What the user reads, as the end of "running with …".
        saves: Share of a frame's time that it saves at most, 0…1.
    """

    name: str = ""
    saves: float = 0.0

    @abstractmethod
    def engage(self) -> None:
        """Gives way.

        Raises:
            DoppelcamError: It cannot; nothing has changed.
        """

    @abstractmethod
    def release(self) -> None:
        """Puts everything back."""

    def wants(self, captured_ns: int) -> bool:
        """Whether the frame that was captured then shall be worked on while this rung is in use."""
        return True


class Governor:
    """Goes up and down a ladder of rungs. Used by one thread; :attr:`rung` may be read from any.

    Args:
        rungs: In the order in which they give way.
        fps: Frames a second that come.
        count: Told ``steps_down`` and ``steps_up``.
    """

    def __init__(
        self, rungs: Sequence[Rung], fps: float, count: Callable[[str], None] = lambda name: None
    ) -> None:
        self._left = list(rungs)
        self._used: list[Rung] = []
        self._period = 1e9 / fps
        self._count = count
        self._loads: list[float] = []
        self._delays: list[int] = []
        self._shortest: deque[int] = deque(maxlen=_WAITS)
        self._settling = False
        self._calm = 0
        self._patience = CALM
        self._since_up: int | None = None
        self.rung = ""
        """Names of the rungs in use, in the order in which they gave way; empty when nothing had to."""

    @property
    def depth(self) -> int:
        """How many rungs are in use."""
        return len(self._used)

    def replace(self, rungs: Sequence[Rung]) -> None:
        """Other rungs from now on, for what gave way may be gone; those in use are left. Between two frames only.

        Args:
            rungs: In the order in which they give way.
        """
        while self._used:
            self._used.pop().release()
        self._left = list(rungs)
        self._calm, self._since_up, self._settling = 0, None, True
        self.rung = ""

    def wants(self, captured_ns: int) -> bool:
        """Whether to work on the frame that was captured then; if not, viewers see the last result once more."""
        return all([rung.wants(captured_ns) for rung in self._used])

    def worked(self, captured_ns: int, began_ns: int, done_ns: int) -> None:
        """One frame was worked on.

        Args:
            captured_ns: When it was taken.
            began_ns: When work on it began.
            done_ns: When it was done.
        """
        self._loads.append((done_ns - began_ns) / self._period)
        self._delays.append(began_ns - captured_ns)
        if len(self._loads) < WINDOW:
            return
        # What a camera itself needs to deliver a picture cannot be saved here; the shortest wait is that.
        self._shortest.append(min(self._delays))
        late = (median(self._delays) - min(self._shortest)) / self._period
        load = max(median(self._loads), late)
        self._loads.clear()
        self._delays.clear()
        if self._settling:
            self._settling = False  # This window began while the step was being made.
        else:
            self._judge(load)

    def _judge(self, load: float) -> None:
        if self._since_up is not None:
            self._since_up += 1
            if self._since_up > _LASTED * self._patience:
                self._since_up, self._patience = None, CALM
        if load > 1:
            self._calm = 0
            self._down(load)
            return
        expected = load / (1 - self._used[-1].saves) if self._used else 0.0
        self._calm = self._calm + 1 if expected < ROOM else 0
        if self._used and self._calm >= self._patience:
            self._up(load)

    def _down(self, load: float) -> None:
        while self._left:
            rung = self._left.pop(0)
            try:
                rung.engage()
            except DoppelcamError as error:
                # It is not tried again: a rung that breaks at every step would be worse than none.
                log.warning("Cannot give way with %s: %s", rung.name, error)
                continue
            self._used.append(rung)
            if self._since_up is not None:
                self._patience = min(2 * self._patience, MOST_PATIENCE * CALM)
                self._since_up = None
            self._stepped("steps_down", load)
            return

    def _up(self, load: float) -> None:
        rung = self._used.pop()
        rung.release()
        self._left.insert(0, rung)
        self._calm, self._since_up = 0, 0
        self._stepped("steps_up", load)

    def _stepped(self, name: str, load: float) -> None:
        self._settling = True
        self.rung = ", ".join(rung.name for rung in self._used)
        self._count(name)
        log.info("A frame takes %.0f %% of its time: running with %s", 100 * load, self.rung or "everything")
