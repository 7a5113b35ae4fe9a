"""The picture and its latency on a page, for this machine only."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from importlib import resources

import cv2

from realtime.frame import Frame
from realtime.local_http import LocalHandler, LocalServer
from realtime.pace.budget import Report
from realtime.sinks.i420 import require_showable
from realtime.stats import stats_of
from realtime.thermal import Thermometer

DEFAULT_PORT = 8765

_JPEG = (cv2.IMWRITE_JPEG_QUALITY, 80)


class _Stage:
    """Where the newest frame stands: one slot, any number of watchers, newest wins."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._frame: Frame | None = None
        self._shown = 0
        self._closed = False

    def show(self, frame: Frame) -> None:
        """Puts a frame in place of the last one; never waits for a watcher."""
        with self._changed:
            self._frame = frame
            self._shown += 1
            self._changed.notify_all()

    def newer_than(self, shown: int) -> tuple[Frame, int] | None:
        """Waits for a frame that came after number ``shown``; None once closed."""
        with self._changed:
            while not self._closed and (self._frame is None or self._shown <= shown):
                self._changed.wait()
            if self._closed or self._frame is None:
                return None
            return self._frame, self._shown

    def newest(self) -> Frame | None:
        """The frame that stands there, if any."""
        with self._changed:
            return self._frame

    def close(self) -> None:
        """Ends every wait and lets the frame go."""
        with self._changed:
            self._closed, self._frame = True, None
            self._changed.notify_all()


class PreviewSink:
    """Serves the stream and a latency table on ``http://127.0.0.1``; almost free while nobody watches.

    The one sink with threads of its own: a browser decides when it connects, so they live and die with the
    server here and not in the session. All of them are joined by :meth:`close`.

    Args:
        port: To listen on; 0 takes a free one.
        report: What was measured so far; called from the server's threads.
        thermometer: How warm the machine is; its own by default.
    """

    def __init__(
        self, port: int, report: Callable[[], Report], thermometer: Thermometer | None = None
    ) -> None:
        self.name = f"preview on port {port}" if port else "preview"
        self._port = port
        self._report = report
        self._thermometer = thermometer or Thermometer()
        self._server: _Server | None = None
        self._stage = _Stage()

    @property
    def url(self) -> str:
        """The page's address; empty while closed."""
        return self._server.url if self._server else ""

    def open(self, size: tuple[int, int], fps: float) -> None:
        """See :class:`realtime.sinks.base.Sink`."""
        require_showable("The preview", size, fps)
        self.close()
        page = resources.files("realtime.sinks").joinpath("preview_page.html").read_bytes()
        self._stage = _Stage()
        self._server = _Server(self._port, page, self._stage, self._report, self._thermometer)
        self._server.start()

    def send(self, frame: Frame) -> None:
        """See :class:`realtime.sinks.base.Sink`. Hands the frame over; encoding is the watchers' work."""
        if self._server is None:
            raise ValueError("send() before open()")
        self._stage.show(frame)

    def close(self) -> None:
        """See :class:`realtime.sinks.base.Sink`."""
        server, self._server = self._server, None
        self._stage.close()
        if server is not None:
            server.stop()


class _Server(LocalServer):
    def __init__(
        self, port: int, page: bytes, stage: _Stage, report: Callable[[], Report], thermometer: Thermometer
    ) -> None:
        self.page, self.thermometer = page, thermometer
        self.stage = stage
        self.report = report
        super().__init__(port, _Handler, "preview", "--sink preview:0")


class _Handler(LocalHandler):
    server: _Server

    def page(self, path: str) -> None:
        """Answers the page, the numbers or the stream."""
        if path == "/":
            self.answer(200, "text/html; charset=utf-8", self.server.page)
        elif path == "/stats.json":
            frame = self.server.stage.newest()
            shown = frame and {"kind": frame.kind.value, "seq": frame.seq, "size": list(frame.size)}
            warm = self.server.thermometer.read()
            stats = stats_of(self.server.report()) | {"frame": shown, "celsius": warm}
            self.answer(200, "application/json", json.dumps(stats).encode())
        elif path == "/stream.mjpg":
            self.motion(self._pictures())
        else:
            super().page(path)

    def _pictures(self) -> Iterator[bytes]:
        shown = 0
        while (newer := self.server.stage.newer_than(shown)) is not None:
            frame, shown = newer
            ok, jpeg = cv2.imencode(".jpg", frame.image, _JPEG)
            # Not held while a slow client takes its time: the buffer behind it goes back to its pool.
            del frame, newer
            if ok:
                yield jpeg.tobytes()
