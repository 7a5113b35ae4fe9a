"""Sends to one sink, so many times a second, whatever happens upstream."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from engines.errors import DoppelcamError
from realtime.clock import Clock, StopFlag
from realtime.frame import Frame, Kind
from realtime.mailbox import Mailbox
from realtime.pace.budget import Meter
from realtime.pace.cadence import Cadence
from realtime.shown import slate
from realtime.shown.guard import Standby
from realtime.shown.slate import Slate
from realtime.sinks.base import Sink


class Published(NamedTuple):
    """A frame of the process thread, and when it was ready."""

    frame: Frame
    at_ns: int


class Upstream(NamedTuple):
    """What an output may show when nothing is published.

    Attributes:
        live: The newest captured frame; None when it must not be used.
        reason: What a slate says.
    """

    live: Frame | None
    reason: str


class Output:
    """One sink, fed by one thread from a mailbox of its own: a slow file does not hold up the camera.

    Args:
        sink: Opened, fed and closed here.
        standby: What to show when nothing new comes.
        fps: Sends a second.
        size: Width and height, pixels, both even.
        clock: Time.
        stop: Ends every wait.
        upstream: Asked for what may stand in.
        meter: Gets ages, times and counts; None for all but the first sink, whose figures are the session's.
        on_first_swap: Called once, by the output thread, after the first swapped frame was sent.

    Attributes:
        box: Where the process thread leaves frames.
        showing: What the last frame sent shows; None before the first. Any thread may look.
    """

    def __init__(
        self,
        sink: Sink,
        standby: Standby,
        fps: float,
        size: tuple[int, int],
        clock: Clock,
        stop: StopFlag,
        upstream: Callable[[], Upstream],
        meter: Meter | None = None,
        on_first_swap: Callable[[], None] | None = None,
    ) -> None:
        self.sink = sink
        self.box: Mailbox[Published] = Mailbox(clock)
        self.showing: Kind | None = None
        self._standby = standby
        self._fps, self._size = fps, size
        self._cadence = Cadence(fps)
        self._clock = clock
        self._stop = stop
        self._upstream = upstream
        self._meter = meter
        self._on_first_swap = on_first_swap
        self._sent: Frame | None = None

    def run(self) -> None:
        """Opens the sink, sends until the session ends, and closes it. The body of the output thread.

        Raises:
            DeviceError: The sink cannot be opened or takes no more.
            UsageError: The sink's target cannot be written.
            DoppelcamError: A live frame reached the output; a slate was sent instead.
        """
        try:
            self.sink.open(self._size, self._fps)
            self._cadence.begin(self._clock.now_ns())
            while self.step():
                pass
            if self._upstream().reason == slate.STOPPED:
                self._farewell()
        finally:
            self.sink.close()

    def step(self) -> bool:
        """One tick: waits for it, sends one frame.

        Returns:
            False when the session has ended and nothing is left to send.
        """
        cadence, clock = self._cadence, self._clock
        if self._stop.wait_until(cadence.opens_ns):
            return False
        before = self.box.get(cadence.opens_ns)
        item = self.box.get(cadence.closes_ns if before is None else cadence.tick_ns) or before
        if item is None and (self._stop or self.box.closed):
            return False
        now = clock.now_ns()
        if item is not None:
            cadence.arrived(item.at_ns)
            self._standby.published(item.frame, now)
        upstream = self._upstream()
        frame = self._standby.show(upstream.live, now, self._size, upstream.reason)
        if frame.kind is Kind.LIVE:
            self._farewell()
            raise DoppelcamError(
                "A picture that nobody had judged reached the output; it was not sent.",
                "This is a fault of doppelcam: please report it.",
            )
        self.sink.send(frame)
        after = clock.now_ns()
        if self._meter is not None:
            self._measure(self._meter, frame, now, after)
        self._sent, self.showing = frame, frame.kind
        if frame.kind is Kind.SWAPPED and self._on_first_swap is not None:
            call, self._on_first_swap = self._on_first_swap, None
            call()
        cadence.advance(after)
        return True

    def _measure(self, meter: Meter, frame: Frame, began: int, ended: int) -> None:
        new = frame is not self._sent
        meter.stage("output", ended - began)
        meter.count("sent")
        if not new:
            meter.count("repeated")
        if frame.kind is not Kind.SWAPPED:
            meter.count(frame.kind.value)
        # A held or repeated picture is old on purpose, and a slate has no age.
        if new and frame.kind not in (Kind.HELD, Kind.SLATE):
            meter.age(ended - frame.captured_ns)

    def _farewell(self) -> None:
        """The last picture says that it is the last one, and not a face that stopped moving."""
        frame = Slate().show(self._size, slate.STOPPED, self._clock.now_ns())
        self.sink.send(frame)
        self.showing = frame.kind
