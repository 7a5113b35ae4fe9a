"""Keeps a stream going: connects, sends the newest, and begins again when it breaks off."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol

from realtime.clock import Clock, StopFlag
from realtime.mailbox import Mailbox
from realtime.sinks.streams.channel import Shown
from realtime.sinks.streams.faults import StreamFault

log = logging.getLogger(__name__)

PAUSES_S: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
"""From one try to the next; the last one goes on for ever."""
STUBBORN_S: Final = 30.0
"""The pause where trying is of little use."""
STEADY_S: Final = 10.0
"""A connection that held so long makes the pauses begin anew."""
STALL_S: Final = 5.0
"""So long may a frame take to be sent; then the connection counts as dead."""

State = Literal["connecting", "on air", "waiting", "ended"]


class Sending(Protocol):
    """A connection; see :class:`~realtime.sinks.streams.channel.Channel`."""

    def begin(self, shown: Shown) -> None:
        """Connects."""
        ...

    def send(self, shown: Shown) -> None:
        """Sends a frame."""
        ...

    def finish(self) -> None:
        """Ends in good order."""
        ...

    def abort(self, why: str = "") -> None:
        """Ends now."""
        ...


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """How a stream is doing.

    Attributes:
        state: ``waiting`` is the pause before another try.
        sent: Frames sent.
        dropped: Frames left out because the network took no more, or there was no connection.
        breaks: How often it broke off or could not be begun.
        trouble: Why, the last time, without secrets; empty while on air.
    """

    state: State = "connecting"
    sent: int = 0
    dropped: int = 0
    breaks: int = 0
    trouble: str = ""


class StreamWriter:
    """The body of a stream's thread, and what others may ask of it.

    Args:
        name: The stream, for messages; without secrets.
        connect: Makes a connection that is not yet begun.
        clock: Time.

    Attributes:
        box: Where frames are left; the newest wins.
        status: How it is doing. Any thread may look.
    """

    def __init__(self, name: str, connect: Callable[[], Sending], clock: Clock) -> None:
        self.name = name
        self.box: Mailbox[Shown] = Mailbox(clock)
        self.status = StreamStatus()
        self._connect, self._clock = connect, clock
        self._stop = StopFlag(clock)
        self._channel: Sending | None = None
        self._busy_since: int | None = None
        self._said = ""

    def run(self) -> None:
        """Sends until :meth:`end`."""
        failures = 0
        try:
            while not self._stop and (shown := self.box.get()) is not None:
                began = self._clock.now_ns()
                try:
                    self._once(shown)
                    return
                except StreamFault as fault:
                    failures = 0 if self._held(began) else failures
                    self._note(fault)
                    pause = STUBBORN_S if fault.stubborn else PAUSES_S[min(failures, len(PAUSES_S) - 1)]
                    failures += 1
                if self._stop.wait_until(self._clock.now_ns() + round(pause * 1e9)):
                    return
        finally:
            self.status = replace(self.status, state="ended", dropped=self.box.dropped)

    def end(self) -> None:
        """No more frames will come: the last one is sent, if there is a connection."""
        self._stop.set()
        self.box.close()
        if self.status.state != "on air":
            self.abort("was closed")

    def abort(self, why: str) -> None:
        """Gives the connection up, whatever it does."""
        if self._channel is not None:
            self._channel.abort(why)

    def watch(self) -> None:
        """Gives a connection up that takes no more; to be called now and then by who leaves frames."""
        since = self._busy_since
        if since is not None and self._clock.now_ns() - since > STALL_S * 1e9:
            self._busy_since = None
            self.abort("does not answer")

    def _once(self, shown: Shown) -> None:
        """One connection, until it breaks off or there are no more frames."""
        self.status = replace(self.status, state="connecting")
        # Known to others before it is begun, so that they can end it.
        self._channel = channel = self._connect()
        try:
            if self._stop:
                return
            channel.begin(shown)
            self._on_air()
            while (item := self.box.get()) is not None:
                self._busy_since = self._clock.now_ns()
                try:
                    channel.send(item)
                finally:
                    self._busy_since = None
                self.status = replace(self.status, sent=self.status.sent + 1, dropped=self.box.dropped)
            channel.finish()
        finally:
            channel.abort("was closed")
            self._channel = None

    def _held(self, began_ns: int) -> bool:
        on_air = self.status.state == "on air"
        return on_air and self._clock.now_ns() - began_ns > STEADY_S * 1e9

    def _on_air(self) -> None:
        if self._said:
            log.warning("%s is on air again.", self.name)
        else:
            log.info("%s is on air.", self.name)
        self._said = ""
        self.status = replace(self.status, state="on air", sent=self.status.sent + 1, trouble="")

    def _note(self, fault: StreamFault) -> None:
        """Says each trouble once, not at every try."""
        trouble = str(fault)
        if self._stop:
            return
        if trouble != self._said:
            log.warning("%s: %s It is tried again; the camera goes on.", self.name, trouble)
        self._said = trouble
        self.status = replace(
            self.status,
            state="waiting",
            breaks=self.status.breaks + 1,
            trouble=trouble,
            dropped=self.box.dropped,
        )
