"""Outputs that can be turned off and on while the others go on."""

from __future__ import annotations

import logging
from typing import Final, Literal

from engines.errors import DoppelcamError
from realtime.clock import Clock
from realtime.frame import Frame
from realtime.shown.slate import Slate
from realtime.sinks.base import Sink

log = logging.getLogger(__name__)

Off = Literal["slate", "pause", "close"]
"""What an output does while it is off. A virtual camera goes on with a slate, since programs that lose their camera
rarely look for it again; a recording pauses, since to open it anew would begin it anew; a stream ends."""

OFF: Final[dict[str, Off]] = {"virtualcam": "slate", "preview": "slate", "stream": "close"}
"""By the kind of sink; the others pause."""

_CAPTION: Final = "Camera is off"


class Switch:
    """A sink that somebody may turn off. See :class:`~realtime.sinks.base.Sink`.

    Args:
        sink: Used by the output thread only, as ever.
        off: What it does meanwhile.
        clock: Time.

    Attributes:
        on: Whether it is wanted; any thread may set it.
        problem: Why it does not come on again; empty while all is well.
    """

    def __init__(self, sink: Sink, off: Off, clock: Clock) -> None:
        self.name = sink.name
        self.on = True
        self.problem = ""
        self._sink, self._off, self._clock = sink, off, clock
        self._slate = Slate()
        self._format: tuple[tuple[int, int], float] = ((0, 0), 0.0)
        self._open = False

    def open(self, size: tuple[int, int], fps: float) -> None:
        """See :class:`~realtime.sinks.base.Sink`."""
        self._format = size, fps
        self._sink.open(size, fps)
        self.name = self._sink.name
        self._open = True

    def send(self, frame: Frame) -> None:
        """See :class:`~realtime.sinks.base.Sink`. Once it was on, a sink that does not open again ends nothing else."""
        if self.on:
            if self._open or self._reopened():
                self._sink.send(frame)
        elif self._off == "slate":
            self._sink.send(self._slate.show(frame.size, _CAPTION, self._clock.now_ns()))
        elif self._off == "close" and self._open:
            self._open = False
            self._sink.close()

    def close(self) -> None:
        """See :class:`~realtime.sinks.base.Sink`."""
        self._open = False
        self._sink.close()

    def _reopened(self) -> bool:
        try:
            self._sink.open(*self._format)
        except DoppelcamError as error:
            log.warning("%s does not come on again: %s", self.name, error)
            self._sink.close()
            self.on, self.problem = False, str(error)
            return False
        self._open, self.problem = True, ""
        return True
