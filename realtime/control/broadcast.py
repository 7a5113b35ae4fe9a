"""A picture of the page as video: encoded once for everybody, in a thread that lives while somebody looks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import cv2
import numpy as np

from engines.faces import Image
from realtime.clock import Clock
from realtime.control.pictures import RATE, Picture

if TYPE_CHECKING:
    from av.packet import Packet
    from av.video.codeccontext import VideoCodecContext

log = logging.getLogger(__name__)

VideoPacket: TypeAlias = "Packet[Any]"

BITRATE: Final = 800_000
"""Bits a second: at 640 pixels a face is clear, and every packet more would cost as much as the picture in it."""

_TICKS: Final = 90_000
"""Of video a second, in RTP."""
_WHOLE_EVERY: Final = round(2 * RATE)
"""Pictures after which one is whole though nobody asked: what was lost on the way is seen no longer than that."""
_WHOLE_APART: Final = round(RATE / 2)
"""Pictures between two whole ones at least, whoever asks: they are large."""


class Viewer(Protocol):
    """Who is shown a video. Called by the thread that encodes; must not wait."""

    def show(self, packet: VideoPacket, whole: bool) -> None:
        """The next picture; a whole one needs none of those before."""
        ...

    def end(self) -> None:
        """There will be no more."""
        ...


class Broadcast:
    """One picture as video, for any number of viewers. Any thread may call anything.

    Args:
        picture: What is shown.
        wanted: Whether it may be shown; asked before each.
        clock: Time.
    """

    def __init__(self, picture: Picture, wanted: Callable[[], bool], clock: Clock) -> None:
        self._picture, self._wanted, self._clock = picture, wanted, clock
        self._lock = threading.Lock()
        self._viewers: set[Viewer] = set()
        self._thread: threading.Thread | None = None
        self._started: list[threading.Thread] = []
        self._whole = False

    def join(self, viewer: Viewer) -> None:
        """Somebody looks from now on, and is shown a whole picture first."""
        with self._lock:
            self._viewers.add(viewer)
            self._whole = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="control-video", daemon=True)
                self._started = [thread for thread in self._started if thread.is_alive()] + [self._thread]
                self._thread.start()

    def leave(self, viewer: Viewer) -> None:
        """Somebody looks no more, and is not called again."""
        with self._lock:
            self._viewers.discard(viewer)

    def whole_please(self) -> None:
        """Somebody missed a picture that the next ones build upon."""
        self._whole = True

    def stop(self) -> None:
        """Waits for the thread, which ends with the picture, or with the first one that nobody is there for."""
        with self._lock:
            started = tuple(self._started)
        for thread in started:
            thread.join()

    def _run(self) -> None:
        try:
            with self._picture.watch() as room:
                if room:
                    self._show()
        except Exception:
            log.exception("The page's picture cannot be encoded as video")
        finally:
            with self._lock:
                # Where it ended for want of viewers, those of now are another thread's.
                if self._thread is threading.current_thread():
                    self._thread = None
                    for viewer in self._viewers:
                        viewer.end()
                    self._viewers.clear()

    def _show(self) -> None:
        encoder, number = Vp8Encoder(), 0
        while (newer := self._picture.image_after(number)) is not None and self._wanted():
            number, image = newer
            if image is None:
                continue
            with self._lock:
                if not self._viewers:
                    self._thread = None
                    return
                whole, self._whole = self._whole, False
            packet = encoder.encode(image, self._clock.now_ns(), whole)
            if packet is None:
                continue
            if whole and not packet.is_keyframe:
                self._whole = True  # A wish that came too early stays one.
            with self._lock:
                for viewer in self._viewers:
                    viewer.show(packet, packet.is_keyframe)


class Vp8Encoder:
    """Small pictures in, VP8 out: what every browser can show. For one thread.

    Of the encoder's settings those are taken that cost least: see *What it costs* in ``docs/control.md``.
    """

    def __init__(self) -> None:
        self._codec: VideoCodecContext | None = None
        self._size = (0, 0)
        self._since_whole = 0
        self._pts = -1

    def encode(self, image: Image, at_ns: int, whole: bool) -> VideoPacket | None:
        """One picture; of another size than the one before it is whole in any case.

        Args:
            image: H×W×3 uint8 BGR, at least 2×2; of an odd number of rows or columns the last is left out.
            at_ns: When it is shown.
            whole: Whether it may need none of those before. Not so soon after the last one that does not.
        """
        from av import VideoFrame
        from av.video.frame import PictureType

        height, width = image.shape[0] & ~1, image.shape[1] & ~1
        if self._codec is None or self._size != (width, height):
            self._codec, self._size = open_codec(width, height), (width, height)
            self._since_whole = _WHOLE_EVERY
        planes = np.asarray(cv2.cvtColor(image[:height, :width], cv2.COLOR_BGR2YUV_I420), np.uint8)
        frame = VideoFrame.from_ndarray(planes, format="yuv420p")
        # Time goes on by a tick at least, whatever the clock says.
        self._pts = max(self._pts + 1, at_ns * _TICKS // 1_000_000_000)
        frame.pts, frame.time_base = self._pts, Fraction(1, _TICKS)
        if self._since_whole >= (_WHOLE_APART if whole else _WHOLE_EVERY):
            frame.pict_type = PictureType.I
        packet = next(iter(self._codec.encode(frame)), None)
        self._since_whole = 1 if packet is not None and packet.is_keyframe else self._since_whole + 1
        return packet


def open_codec(width: int, height: int) -> VideoCodecContext:
    """libvpx, as fast as it goes and without a look ahead.

    Args:
        width: Of the pictures, pixels, even.
        height: The same.
    """
    from av import CodecContext

    codec: VideoCodecContext = CodecContext.create("libvpx", "w")
    codec.width, codec.height, codec.pix_fmt = width, height, "yuv420p"
    codec.time_base, codec.framerate = Fraction(1, _TICKS), Fraction(round(RATE), 1)
    codec.bit_rate, codec.gop_size, codec.thread_count = BITRATE, 1 << 16, 1
    codec.qmin, codec.qmax = 4, 56
    rate = str(BITRATE)
    codec.options = {
        "deadline": "realtime", "cpu-used": "-16", "lag-in-frames": "0", "static-thresh": "1",
        "minrate": rate, "maxrate": rate, "bufsize": rate, "undershoot-pct": "100", "overshoot-pct": "15",
    }  # fmt: skip
    return codec
