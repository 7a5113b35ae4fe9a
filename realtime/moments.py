"""Pairs of live and swapped pictures of the same moment, taken from a running session."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from engines.faces import Image
from realtime.frame import Frame, Kind
from realtime.sources.base import Source


@dataclass(frozen=True, slots=True)
class Pair:
    """One moment, before and after. Both pictures are read-only."""

    live: Image
    swapped: Image


class Moments:
    """Keeps a few pairs, spread over a run.

    A frame is painted over where it lies, so the live picture has to be copied before; which frames will
    reach the sink is not known then. From the moment a pair is due every live frame is copied until one of
    them comes out swapped.

    Args:
        every: Frames from one pair to the next.
        most: How many pairs to keep; the first ones stay.
    """

    _WAITING = 8

    def __init__(self, every: int, most: int) -> None:
        self._every, self._most = max(every, 1), most
        self._lock = threading.Lock()
        self._waiting: OrderedDict[int, Image] = OrderedDict()
        self._due = 0
        self.pairs: list[Pair] = []

    def live(self, frame: Frame) -> None:
        """A frame as it was captured; called before anyone paints into it."""
        with self._lock:
            if len(self.pairs) >= self._most or frame.seq < self._due:
                return
            self._waiting[frame.seq] = frame.image.copy()
            while len(self._waiting) > self._WAITING:
                self._waiting.popitem(last=False)

    def shown(self, frame: Frame) -> None:
        """A frame as a sink is given it."""
        with self._lock:
            live = self._waiting.pop(frame.seq, None)
            if live is None or frame.kind is not Kind.SWAPPED or len(self.pairs) >= self._most:
                return
            self.pairs.append(Pair(live, frame.image.copy()))
            self._due = frame.seq + self._every
            self._waiting.clear()


class WatchedSource:
    """A source whose live frames are noticed."""

    def __init__(self, source: Source, moments: Moments) -> None:
        self._source, self._moments = source, moments
        self.device = source.device
        self._take_over()

    def _take_over(self) -> None:
        self.name, self.size, self.fps = self._source.name, self._source.size, self._source.fps

    def open(self) -> None:
        """See :class:`~realtime.sources.base.Source`."""
        self._source.open()
        self._take_over()

    def read(self) -> Frame | None:
        """See :class:`~realtime.sources.base.Source`."""
        frame = self._source.read()
        if frame is not None:
            self._moments.live(frame)
        return frame

    def close(self) -> None:
        """See :class:`~realtime.sources.base.Source`."""
        self._source.close()


class MomentsSink:
    """A sink that only notices what went out."""

    name = "picture"

    def __init__(self, moments: Moments) -> None:
        self._moments = moments

    def open(self, size: tuple[int, int], fps: float) -> None:
        """Nothing to do; see :class:`~realtime.sinks.base.Sink`."""

    def send(self, frame: Frame) -> None:
        """See :class:`~realtime.sinks.base.Sink`."""
        self._moments.shown(frame)

    def close(self) -> None:
        """Nothing to do; see :class:`~realtime.sinks.base.Sink`."""
