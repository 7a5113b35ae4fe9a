"""The live pictures of the page: small, fifteen a second, and no work at all while nobody watches."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import cv2
import numpy as np

from engines.faces import Image
from realtime.clock import Clock
from realtime.frame import Frame

WIDTH: Final = 640
RATE: Final = 15.0
MOST_WATCHERS: Final = 6

_EARLY: Final = 0.6
"""Periods after which a frame may be the next one: at 30 frames a second every second one comes at just one period."""
_JPEG: Final = (cv2.IMWRITE_JPEG_QUALITY, 75)


class Picture:
    """One slot: the newest picture in, made small and a JPEG once, by one of those who watch.

    Args:
        clock: Time.
        painted: Whether what is offered will be painted over, so that the small picture is made while it is offered.
    """

    def __init__(self, clock: Clock, painted: bool = False) -> None:
        self._clock, self._painted = clock, painted
        self._changed = threading.Condition()
        self._making = threading.Lock()
        self._watchers = 0
        self._newest: Frame | Image | None = None
        self._number = 0
        self._next_ns = 0
        self._small: tuple[int, Image | None] = (0, None)
        self._encoded: tuple[int, bytes] = (0, b"")
        self._closed = False

    @property
    def watched(self) -> bool:
        """Whether anybody looks."""
        return self._watchers > 0

    def offer(self, frame: Frame) -> None:
        """Shows a frame, if anybody looks and it is time to. Called by the thread that has it; never waits.

        Args:
            frame: Captured, or as a sink is given it.
        """
        if not self._watchers:
            return
        now = self._clock.now_ns()
        if now < self._next_ns:
            return
        self._next_ns = now + round(_EARLY * 1e9 / RATE)
        newest = small(frame.image) if self._painted else frame
        with self._changed:
            if not self._watchers:
                return
            self._newest = newest
            self._number += 1
            self._changed.notify_all()

    @contextmanager
    def watch(self) -> Iterator[bool]:
        """Somebody looks, for as long as this is entered; gives whether there was room for another watcher."""
        with self._changed:
            room = self._watchers < MOST_WATCHERS and not self._closed
            self._watchers += room
        try:
            yield room
        finally:
            with self._changed:
                self._watchers -= room
                if not self._watchers:
                    # Whoever looks next is shown nothing of now; nor does the real face stay in memory.
                    self._newest, self._small, self._encoded = None, (0, None), (0, b"")

    def image_after(self, number: int) -> tuple[int, Image | None] | None:
        """Waits for a picture that came after this number.

        Returns:
            Its number and the small picture, H×W×3 uint8 BGR, which others share; without a picture if it was taken
            away meanwhile. None once closed.
        """
        if not self._waited(number):
            return None
        with self._making:
            return self._made()

    def newer_than(self, number: int) -> tuple[int, bytes] | None:
        """Waits for a picture that came after this number.

        Returns:
            Its number and its JPEG, empty if it was taken away meanwhile; None once closed.
        """
        if not self._waited(number):
            return None
        with self._making:
            latest, image = self._made()
            if image is None:
                return latest, b""
            if self._encoded[0] != latest:
                self._encoded = (latest, encoded(image))
            return self._encoded

    def _waited(self, number: int) -> bool:
        """Waits for a picture that came after this number; false once closed."""
        with self._changed:
            while self._number <= number and not self._closed:
                self._changed.wait()
            return not self._closed

    def _made(self) -> tuple[int, Image | None]:
        """The newest picture, small; made once, by whoever comes first."""
        with self._changed:
            newest, latest = self._newest, self._number
        if newest is not None:
            self._small = (latest, small(newest.image) if isinstance(newest, Frame) else newest)
            # The buffer behind a frame goes back to its pool.
            del newest
            with self._changed:
                if self._number == latest:
                    self._newest = None
        return self._small if self._small[1] is not None else (latest, None)

    def close(self) -> None:
        """Ends every wait."""
        with self._changed:
            self._closed, self._newest = True, None
            self._changed.notify_all()


class PageSink:
    """Shows a picture what goes out. See :class:`~realtime.sinks.base.Sink`.

    Args:
        picture: What is shown on the page.
    """

    name = "control page"

    def __init__(self, picture: Picture) -> None:
        self._picture = picture

    def open(self, size: tuple[int, int], fps: float) -> None:
        """Nothing to do; see :class:`~realtime.sinks.base.Sink`."""

    def send(self, frame: Frame) -> None:
        """See :class:`~realtime.sinks.base.Sink`."""
        self._picture.offer(frame)

    def close(self) -> None:
        """Nothing to do; see :class:`~realtime.sinks.base.Sink`."""


def small(image: Image) -> Image:
    """At most :data:`WIDTH` pixels on the longer side; a new array in any case.

    Args:
        image: H×W×3 uint8 BGR.
    """
    height, width = image.shape[:2]
    factor = WIDTH / max(width, height)
    if factor >= 1:
        return image.copy()
    size = (max(1, round(width * factor)), max(1, round(height * factor)))
    how = cv2.INTER_AREA
    if factor < 0.5:
        # Halving is what OpenCV does fastest without leaving a pixel out: a third costs twice as much at once as in two
        # steps. From four times the size on some of the pixels stand for all.
        step = int(0.5 / factor)
        image = image[::step, ::step][: height // step & ~1, : width // step & ~1]
        image = np.asarray(
            cv2.resize(image, (image.shape[1] // 2, image.shape[0] // 2), interpolation=how), np.uint8
        )
        how = cv2.INTER_LINEAR
    return np.asarray(cv2.resize(image, size, interpolation=how), np.uint8)


def encoded(image: Image) -> bytes:
    """A picture as JPEG."""
    done, jpeg = cv2.imencode(".jpg", image, _JPEG)
    return bytes(jpeg.data) if done else b""
