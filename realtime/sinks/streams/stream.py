"""A live stream as a sink: ``stream:rtmp://…`` and its kin."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from realtime.audio.feed import AudioFeed, Ear
from realtime.clock import Clock
from realtime.frame import Frame, Kind
from realtime.sinks.file import COMMENT
from realtime.sinks.i420 import require_showable
from realtime.sinks.streams.channel import Channel, Shown
from realtime.sinks.streams.link import Link, open_link, require_sender
from realtime.sinks.streams.mux import Shape, choose_encoder
from realtime.sinks.streams.target import Target, parse_target
from realtime.sinks.streams.writer import StreamStatus, StreamWriter

log = logging.getLogger(__name__)

_PATIENCE_S: Final = 2.5
"""How long the end of a stream may take; then its connection is cut."""
_CUT_S: Final = 1.0
_SMOOTH: Final = 0.05
"""Share of a new measurement in the delay of the sound: what a single late frame does is not followed."""


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """How streams are encoded.

    Attributes:
        kbps: Of the pictures, kilobits a second; None for what suits their size.
        keyframes_s: Seconds from one keyframe to the next.
        audio: What is heard with them; None for silence.
        title: Written into the stream.
    """

    kbps: int | None = None
    keyframes_s: float = 2.0
    audio: AudioFeed | None = None
    title: str = COMMENT


class StreamSink:
    """Sends every frame it can to a server, and never waits for it. See :class:`~realtime.sinks.base.Sink`.

    A thread encodes and a process sends. What goes wrong there is named and tried again; :meth:`send` fails never.

    Args:
        url: Where to.
        settings: How it is encoded.
        clock: Time.
        link: Opens a connection.

    Raises:
        UsageError: The address cannot be one, or what it needs is not installed.
    """

    def __init__(
        self,
        url: str,
        settings: StreamSettings,
        clock: Clock,
        link: Callable[[Target, Clock], Link] = open_link,
    ) -> None:
        self._target = parse_target(url)
        self.name = f"stream {self._target.shown}"
        require_sender(self._target)
        self._settings, self._clock, self._open_link = settings, clock, link
        self._writer: StreamWriter | None = None
        self._thread: threading.Thread | None = None
        self._ear: Ear | None = None
        self._size = (0, 0)
        self._delay: float | None = None
        self._seq: int | None = None
        self._last = StreamStatus()

    @property
    def status(self) -> StreamStatus:
        """How the stream is doing; how it ended once it is closed."""
        writer = self._writer
        return self._last if writer is None else writer.status

    def open(self, size: tuple[int, int], fps: float) -> None:
        """See :class:`~realtime.sinks.base.Sink`; the connection comes about later."""
        require_showable(self.name, size, fps)
        self.close()
        target, settings = self._target, self._settings
        whip = target.muxer == "whip"
        sound = ("libopus" if whip else "aac") if settings.audio is not None else ""
        shape = Shape(
            choose_encoder(size, fps),
            size,
            fps,
            settings.kbps,
            settings.keyframes_s,
            sound,
            whip,
            settings.title,
        )
        ear = None if settings.audio is None else settings.audio.listen()

        def connect() -> Channel:
            return Channel(target, shape, self._clock, lambda: self._open_link(target, self._clock), ear)

        self._ear, self._size, self._delay, self._seq = ear, size, None, None
        self._writer = StreamWriter(self.name, connect, self._clock)
        self._thread = threading.Thread(target=self._writer.run, name="stream", daemon=True)
        self._thread.start()

    def send(self, frame: Frame) -> None:
        """See :class:`~realtime.sinks.base.Sink`. Returns at once."""
        if self._writer is None:
            raise ValueError("send() before open()")
        if frame.size != self._size:
            raise ValueError(f"a frame of {frame.size} for a stream of {self._size}")
        now = self._clock.now_ns()
        self._measure(frame, now)
        self._writer.box.put(Shown(frame, now, round(self._delay or 0)))
        self._writer.watch()

    def close(self) -> None:
        """See :class:`~realtime.sinks.base.Sink`. Takes a few seconds at most, whatever the network does."""
        writer, thread = self._writer, self._thread
        if writer is not None and thread is not None:
            writer.end()
            thread.join(_PATIENCE_S)
            if thread.is_alive():
                writer.abort("was closed")
                thread.join(_CUT_S)
            if thread.is_alive():
                log.warning("%s does not end and is left behind.", self.name)
            self._last = writer.status
        self._writer = self._thread = None
        ear, self._ear = self._ear, None
        if ear is not None and self._settings.audio is not None:
            self._settings.audio.leave(ear)

    def _measure(self, frame: Frame, now_ns: int) -> None:
        """How much later than the sound a picture is shown; repeated and held ones are old on purpose."""
        if frame.kind in (Kind.HELD, Kind.SLATE) or frame.seq == self._seq:
            return
        self._seq = frame.seq
        age = now_ns - frame.captured_ns
        self._delay = age if self._delay is None else self._delay + _SMOOTH * (age - self._delay)
