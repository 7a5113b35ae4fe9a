"""A sink that does a virtual camera's work and throws the picture away."""

from __future__ import annotations

from realtime.frame import Frame
from realtime.sinks.i420 import I420, require_showable


class NullSink:
    """Makes the picture a virtual camera is given and drops it: a benchmark's output stage stays honest."""

    name = "null"

    def __init__(self) -> None:
        self._i420: I420 | None = None

    def open(self, size: tuple[int, int], fps: float) -> None:
        """See :class:`realtime.sinks.base.Sink`."""
        require_showable(self.name, size, fps)
        self._i420 = I420(size)

    def send(self, frame: Frame) -> None:
        """See :class:`realtime.sinks.base.Sink`."""
        if self._i420 is None:
            raise ValueError("send() before open()")
        self._i420.of(frame)

    def close(self) -> None:
        """See :class:`realtime.sinks.base.Sink`."""
        self._i420 = None
