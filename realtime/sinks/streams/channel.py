"""One connection of a stream: pictures and sound in, bytes into a process that sends them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final, NamedTuple

from realtime.audio.align import Aligner
from realtime.audio.feed import Ear
from realtime.clock import Clock
from realtime.frame import Frame
from realtime.sinks.streams.faults import StreamFault, fault_of
from realtime.sinks.streams.link import Link
from realtime.sinks.streams.mux import Mux, Shape
from realtime.sinks.streams.target import Target

CONNECT_S: Final = 10.0
_FINISH_S: Final = 1.5
_LEAD_NS: Final = 100_000_000
"""The stream begins this much before its first picture: an encoder of sound begins before the sound."""
_AHEAD_NS: Final = 100_000_000
"""Sound is sent up to this much before its picture, as far as it is there: a muxer holds a picture back until it has
the sound beside it. It is there, because its picture takes longer."""


class Shown(NamedTuple):
    """A frame, when it was shown, and how much older than that the newest pictures are.

    Attributes:
        frame: Shared: read it only.
        at_ns: When the output showed it.
        delay_ns: Measured from capture to then: how much later than the sound its picture comes.
    """

    frame: Frame
    at_ns: int
    delay_ns: int


class Channel:
    """A connection from its beginning to its end. :meth:`abort` may be called by any thread, the rest by one.

    Args:
        target: Where to.
        shape: What the stream consists of.
        clock: Time.
        link: Opens the connection.
        ear: What is heard; None for a stream without sound.
    """

    def __init__(
        self, target: Target, shape: Shape, clock: Clock, link: Callable[[], Link], ear: Ear | None = None
    ) -> None:
        self._target, self._shape, self._clock, self._ear = target, shape, clock, ear
        self._open_link = link
        self._link: Link | None = None
        self._mux: Mux | None = None
        self._aligner: Aligner | None = None
        self._start_ns = 0
        self._aborted = ""

    def begin(self, shown: Shown) -> None:
        """Connects, and sends a first frame.

        Raises:
            StreamFault: It did not come about.
        """
        try:
            self._link = self._open_link()
            if self._aborted:
                raise OSError(self._aborted)
            self._mux = Mux(self._shape, self._link)
            self._start_ns = shown.at_ns - _LEAD_NS
            if self._ear is not None:
                self._ear.take()
                self._aligner = Aligner(self._start_ns, _LEAD_NS + _AHEAD_NS)
            self._put(shown)
            if self._link.await_ready(self._clock.now_ns() + round(CONNECT_S * 1e9)):
                return
            # It may have said why.
            self._link.abort()
            raise OSError("" if self._link.said() else "does not answer")
        except (OSError, ValueError) as error:
            raise self._fault(error) from error

    def send(self, shown: Shown) -> None:
        """Sends a frame, and the sound up to it.

        Raises:
            StreamFault: The connection broke off.
        """
        try:
            self._put(shown)
        except (OSError, ValueError) as error:
            raise self._fault(error) from error

    def finish(self) -> None:
        """Ends in good order, if that is possible in time."""
        if self._mux is None or self._link is None:
            return
        with contextlib.suppress(OSError, ValueError):
            self._mux.finish()
        self._mux = None
        self._link.finish(_FINISH_S)

    def abort(self, why: str = "was closed") -> None:
        """Ends now; whatever waits in another method ends with a fault. May be called twice."""
        self._aborted = self._aborted or why
        if self._link is not None:
            self._link.abort()

    def _put(self, shown: Shown) -> None:
        """A picture, and the sound beside it."""
        if self._mux is None:
            raise ValueError("send() before begin()")
        if self._ear is not None and self._aligner is not None:
            for block in self._ear.take():
                self._aligner.push(block, shown.delay_ns)
            self._mux.sound(*self._aligner.pull(shown.at_ns + _AHEAD_NS))
        self._mux.picture(shown.frame.image, shown.at_ns - self._start_ns)

    def _fault(self, error: Exception) -> StreamFault:
        """What the process said explains it better than the pipe that broke."""
        if self._link is not None:
            self._link.abort()
        said = "" if self._link is None else self._link.said()
        return fault_of(self._target, self._aborted or said or str(error))
