"""A recording beside a camera: when the disk is full it ends, and the camera goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable

from engines.errors import DeviceError
from realtime.frame import Frame
from realtime.sinks.base import Sink

log = logging.getLogger(__name__)


class SpareSink:
    """A sink that may be lost while others go on. See :class:`~realtime.sinks.base.Sink`.

    What it refuses at the start is still an error: nobody has begun to rely on it, and it can be mended.

    Args:
        sink: The one that may be lost.
        count: Called once for each loss, by the thread that uses it.
    """

    def __init__(self, sink: Sink, count: Callable[[], None] = lambda: None) -> None:
        self.sink = sink
        self._count = count
        self.name = sink.name
        self.lost = ""
        """Why it was lost; empty while it is not."""

    def open(self, size: tuple[int, int], fps: float) -> None:
        """See :class:`~realtime.sinks.base.Sink`."""
        self.lost = ""
        self.sink.open(size, fps)

    def send(self, frame: Frame) -> None:
        """See :class:`~realtime.sinks.base.Sink`; after a loss it does nothing."""
        if self.lost:
            return
        try:
            self.sink.send(frame)
        except DeviceError as error:
            self._lose(error)
            self.close()

    def close(self) -> None:
        """See :class:`~realtime.sinks.base.Sink`."""
        try:
            self.sink.close()
        except DeviceError as error:
            self._lose(error)

    def _lose(self, error: DeviceError) -> None:
        if not self.lost:
            self.lost = str(error)
            self._count()
            log.warning("%s The camera goes on without this file.", error)
