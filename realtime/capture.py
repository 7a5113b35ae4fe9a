"""Reads the source: keeps the time of those that have none, and gets lost ones back."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import cv2
import numpy as np

from engines.errors import DeviceError
from realtime.clock import Clock, StopFlag
from realtime.frame import Frame, FramePool
from realtime.pace.budget import Meter
from realtime.sources.base import Source

log = logging.getLogger(__name__)

FIRST_WAIT_NS, LONGEST_WAIT_NS = 250_000_000, 4_000_000_000
STALLED_NS = 2_000_000_000
"""After so long without a picture a device counts as lost, although its driver still blocks: some do for ten
seconds, and some for ever."""


class Capture:
    """One source, read by one thread.

    Args:
        source: Opened, read and closed here.
        clock: Time.
        meter: Gets the time in read, and the counts ``captured`` and ``late``.
        stop: Ends every wait.
        reconnect_s: How long a lost device is looked for; None for as long as the session lasts.

    Attributes:
        size: Width and height of every frame, both even. Known after :meth:`open`.
        opening: Whether the source is being opened right now, which no driver lets be broken off. Any thread may look.
    """

    def __init__(
        self, source: Source, clock: Clock, meter: Meter, stop: StopFlag, reconnect_s: float | None = None
    ) -> None:
        self._source = source
        self._clock = clock
        self._meter = meter
        self._stop = stop
        self._patience_ns = None if reconnect_s is None else round(reconnect_s * 1e9)
        self._fit = Fit((2, 2))
        self.size = (0, 0)
        self.opening = False
        self._gone = False
        self._asked_ns: int | None = None

    @property
    def lost(self) -> bool:
        """Whether the device is gone, or has given nothing for too long. Any thread may look."""
        asked = self._asked_ns
        return self._gone or (asked is not None and self._clock.now_ns() - asked > STALLED_NS)

    def open(self) -> None:
        """Opens the source for the first time.

        Raises:
            DeviceError: The device is missing, busy, not permitted, or gives pictures of no size.
            UsageError: The file cannot be read.
        """
        self._open_source()
        width, height = self._source.size
        self.size = (width & ~1, height & ~1)  # No virtual camera and few files take odd sizes.
        if min(self.size) < 2:
            raise DeviceError(f"{self._source.name} gives pictures of {width}x{height}.")
        self._fit = Fit(self.size)

    def frames(self) -> Iterator[Frame]:
        """Every frame at its time, until the source ends or the session is stopped.

        Raises:
            DeviceError: A lost device did not come back in time.
        """
        # 1 kHz is faster than any source; a rate of nothing would never show anything.
        period = 1e9 / min(max(self._source.fps, 0.1), 1e3)
        due = float(self._clock.now_ns())
        while not self._stop:
            if not self._source.device:
                if self._stop.wait_until(round(due)):
                    return
                late = self._clock.now_ns() - due
                if late > period:
                    self._meter.count("late")
                    due += late
                due += period
            frame = self._read()
            if frame is None:
                return
            yield frame

    def close(self) -> None:
        """Lets the source go."""
        self._source.close()

    def _open_source(self) -> None:
        self.opening = True
        try:
            self._source.open()
        finally:
            self.opening = False

    def _read(self) -> Frame | None:
        """The next frame; gets a lost device back first. None at the end."""
        try:
            return self._one()
        except DeviceError as error:
            if not self._source.device:
                raise
            log.warning("%s", error)
            self._gone = True
            return self._again(error)

    def _one(self) -> Frame | None:
        began = self._clock.now_ns()
        if self._source.device:
            self._asked_ns = began
        try:
            frame = self._source.read()
        finally:
            self._asked_ns = None
        self._meter.stage("capture", self._clock.now_ns() - began)
        if frame is None:
            return None
        self._meter.count("captured")
        return self._fit(frame)

    def _again(self, error: DeviceError) -> Frame | None:
        """Opens the device again and again, less and less often, until it gives a picture."""
        began, wait_ns = self._clock.now_ns(), FIRST_WAIT_NS
        while True:
            self._source.close()
            now = self._clock.now_ns()
            if self._patience_ns is not None and now - began >= self._patience_ns:
                seconds = self._patience_ns / 1e9
                raise DeviceError(
                    f"{self._source.name} was lost and did not come back within {seconds:g} s. {error.what}",
                    error.fix,
                )
            until = now + wait_ns
            if self._patience_ns is not None:
                until = min(until, began + self._patience_ns)
            if self._stop.wait_until(until):
                return None
            wait_ns = min(wait_ns * 2, LONGEST_WAIT_NS)
            try:
                self._open_source()
                frame = self._one()
            except DeviceError as again:
                log.debug("not back yet: %s", again)
                error = again
                continue
            self._gone = False
            log.info("%s is back", self._source.name)
            return frame


class Fit:
    """Makes every frame of one size, writeable and contiguous; costs nothing when it already is.

    An odd last row or column is cut off. A device that comes back with another size is resized: the sinks
    cannot change theirs while someone watches.

    Args:
        size: Width and height, pixels.
    """

    def __init__(self, size: tuple[int, int]) -> None:
        self._size = size
        self._pool = FramePool(size)

    def __call__(self, frame: Frame) -> Frame:
        """The frame in this size."""
        image, (width, height) = frame.image, self._size
        given = frame.size
        if given == self._size and image.flags.c_contiguous and image.flags.writeable:
            return frame
        lease = self._pool.lease()
        if (given[0] & ~1, given[1] & ~1) == self._size:
            np.copyto(lease.buffer, image[:height, :width])
        else:
            cv2.resize(image, self._size, dst=lease.buffer, interpolation=cv2.INTER_AREA)
        return replace(frame, picture=lease.buffer, lease=lease)
