"""What can give way, in the order in which it is missed least.

What a swapper or a restorer can do without, it says itself (:class:`HasRungs`); this file need not know it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

from engines.analysis.topology import POINTS
from realtime.pace.governor import Rung
from realtime.tracking.track import Tracker

_TIMES: Final = 2
_EARLY: Final = 0.5
"""Periods by which a frame may come early and still count as the second one."""


class RareDetection(Rung):
    """Looks for new faces half as often. A lost one is still looked for at once.

    Args:
        tracker: Whose detector.
    """

    name = "new faces looked for half as often"
    # The detector's turn is one frame in three at the most lively, and never costs more than the rest of a frame does.
    saves = 0.25

    def __init__(self, tracker: Tracker) -> None:
        self._attention = tracker.attention

    def engage(self) -> None:
        """See :class:`~realtime.pace.governor.Rung`."""
        self._attention.rest = _TIMES

    def release(self) -> None:
        """See :class:`~realtime.pace.governor.Rung`."""
        self._attention.rest = 1


class FewerLandmarks(Rung):
    """Reads 468 landmarks in place of 478: lips and lids are less exact, at half the cost.

    Args:
        tracker: Opened with the networks for both.
    """

    name = "468 landmarks"
    # The network is the larger part of a frame, and the smaller one takes half of its time.
    saves = 0.5

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker

    def engage(self) -> None:
        """See :class:`~realtime.pace.governor.Rung`."""
        self._tracker.plain = True

    def release(self) -> None:
        """See :class:`~realtime.pace.governor.Rung`."""
        self._tracker.plain = False


class EverySecond(Rung):
    """Works on every second frame; the outputs repeat the last result in between, and count it.

    Args:
        fps: Frames a second that come.
    """

    name = "every second frame"
    # Each frame takes what it took before: there are only fewer of them.
    saves = 0.0

    def __init__(self, fps: float) -> None:
        self._least_ns = (2 - _EARLY) * 1e9 / fps
        self._last_ns: int | None = None

    def engage(self) -> None:
        """See :class:`~realtime.pace.governor.Rung`."""
        self._last_ns = None

    def release(self) -> None:
        """See :class:`~realtime.pace.governor.Rung`."""

    def wants(self, captured_ns: int) -> bool:
        """Whether it is two periods younger than the last one: where frames are dropped anyway, none is left out."""
        if self._last_ns is not None and 0 <= captured_ns - self._last_ns < self._least_ns:
            return False
        self._last_ns = captured_ns
        return True


class GivesWay(Protocol):
    """Something that a part of a pipeline can do with less work, in any package: nothing has to be imported for it.

    Attributes:
        name: What the user reads, as the end of "running with …".
        saves: Share of a frame's time that it saves at most, 0…1.
    """

    @property
    def name(self) -> str:
        """See above."""
        ...

    @property
    def saves(self) -> float:
        """See above."""
        ...

    def lower(self) -> None:
        """Works less from the next frame on; called between two frames, by the thread that works on them.

        Raises:
            DoppelcamError: It cannot; nothing has changed.
        """
        ...

    def restore(self) -> None:
        """Puts everything back."""
        ...


@runtime_checkable
class HasRungs(Protocol):
    """A part that can do with less work in some ways."""

    @property
    def gives_way(self) -> Sequence[GivesWay]:
        """Its ways, in the order in which they are missed least; the same ones every time."""
        ...


class OfPart(Rung):
    """A way of a part.

    Args:
        way: Which.
    """

    def __init__(self, way: GivesWay) -> None:
        self._way = way
        self.name = way.name
        # A rung that says it saves everything could never be left.
        self.saves = min(max(way.saves, 0.0), 0.95)

    def engage(self) -> None:
        """See :class:`~realtime.pace.governor.Rung`."""
        self._way.lower()

    def release(self) -> None:
        """See :class:`~realtime.pace.governor.Rung`."""
        self._way.restore()


def ladder(tracker: Tracker, points: int, fps: float, parts: Sequence[object] = ()) -> Sequence[Rung]:
    """The rungs there are.

    Args:
        tracker: Where to save.
        points: How many landmarks it reads.
        fps: Frames a second that come.
        parts: What else works on a frame; those that are :class:`HasRungs` give way first, in this order.
    """
    theirs = [OfPart(way) for part in parts if isinstance(part, HasRungs) for way in part.gives_way]
    fewer = [FewerLandmarks(tracker)] if points > POINTS else []
    return (*theirs, RareDetection(tracker), *fewer, EverySecond(fps))
