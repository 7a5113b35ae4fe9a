"""The picture and its latency on a page, for this machine only."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from importlib import resources
from typing import Any

import cv2

from engines.errors import DeviceError, UsageError
from realtime.budget import Report, Spread
from realtime.frame import Frame
from realtime.sinks.i420 import require_showable

DEFAULT_PORT = 8765

_HOST = "127.0.0.1"
_MAX_CLIENTS = 16
_CLIENT_TIMEOUT_S = 10.0
_ACCEPT_POLL_S = 0.1
_BOUNDARY = "doppelcam-frame"
_JPEG = (cv2.IMWRITE_JPEG_QUALITY, 80)

_HEADERS = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    # Keeps other sites from showing the stream in a page of theirs.
    ("Cross-Origin-Resource-Policy", "same-origin"),
    (
        "Content-Security-Policy",
        "default-src 'none'; img-src 'self'; connect-src 'self'; style-src 'unsafe-inline'; "
        "script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'",
    ),
)


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
    """

    def __init__(self, port: int, report: Callable[[], Report]) -> None:
        self.name = f"preview on port {port}" if port else "preview"
        self._port = port
        self._report = report
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self._stage = _Stage()

    @property
    def url(self) -> str:
        """The page's address; empty while closed."""
        return f"http://{_HOST}:{self._server.port}/" if self._server else ""

    def open(self, size: tuple[int, int], fps: float) -> None:
        """See :class:`realtime.sinks.base.Sink`."""
        require_showable("The preview", size, fps)
        self.close()
        page = resources.files("realtime.sinks").joinpath("preview_page.html").read_bytes()
        self._stage = _Stage()
        try:
            self._server = _Server(self._port, page, self._stage, self._report)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES, errno.EPERM):
                raise UsageError(
                    f"The preview cannot listen on port {self._port}: {error.strerror}.",
                    "Choose another one, for example --sink preview:0 for any free one.",
                ) from error
            raise DeviceError(
                f"The preview cannot open a socket on this machine: {error.strerror}.", "Use another sink."
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_ACCEPT_POLL_S,), name="preview-server", daemon=True
        )
        self._thread.start()

    def send(self, frame: Frame) -> None:
        """See :class:`realtime.sinks.base.Sink`. Hands the frame over; encoding is the watchers' work."""
        if self._server is None:
            raise ValueError("send() before open()")
        self._stage.show(frame)

    def close(self) -> None:
        """See :class:`realtime.sinks.base.Sink`."""
        server, self._server = self._server, None
        thread, self._thread = self._thread, None
        self._stage.close()
        if server is None:
            return
        if thread is not None:
            server.shutdown()
            thread.join()
        server.server_close()
        server.hang_up()


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Not ``http.server.HTTPServer``: that one asks the name service for this machine's name first."""

    # On Windows this would let two programs share the port.
    allow_reuse_address = os.name != "nt"

    def __init__(self, port: int, page: bytes, stage: _Stage, report: Callable[[], Report]) -> None:
        self.page = page
        self.stage = stage
        self.report = report
        self._clients: dict[socket.socket, threading.Thread] = {}
        self._lock = threading.Lock()
        super().__init__((_HOST, port), _Handler)
        self.port = int(self.server_address[1])
        self.hosts = frozenset(
            f"{host}{suffix}" for host in (_HOST, "localhost") for suffix in ("", f":{self.port}")
        )

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Turns clients away beyond a number that no person reaches."""
        with self._lock:
            return len(self._clients) < _MAX_CLIENTS

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serves one client in a thread of its own, which :meth:`hang_up` can end."""
        thread = threading.Thread(
            target=self.process_request_thread,
            args=(request, client_address),
            name="preview-client",
            daemon=True,
        )
        with self._lock:
            self._clients[request] = thread
        thread.start()

    def shutdown_request(self, request: Any) -> None:
        """Called once for every client, served or turned away."""
        with self._lock:
            self._clients.pop(request, None)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """Ends every read and write that a client's thread waits in, and joins the threads."""
        with self._lock:
            clients = dict(self._clients)
            for client in clients:
                # A client that hung up first is no fault.
                with contextlib.suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)
        for thread in clients.values():
            thread.join()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is no fault and no message; anything else is."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "doppelcam"
    sys_version = ""
    timeout = _CLIENT_TIMEOUT_S

    def do_GET(self) -> None:
        """Answers the page, the numbers or the stream."""
        if not self._from_here():
            self._answer(403, "text/plain", b"This page is for this machine only.\n")
            return
        path = self.path.partition("?")[0]
        if path == "/":
            self._answer(200, "text/html; charset=utf-8", self.server.page)
        elif path == "/stats.json":
            stats = stats_of(self.server.report(), self.server.stage.newest())
            self._answer(200, "application/json", json.dumps(stats).encode())
        elif path == "/stream.mjpg":
            self._stream()
        else:
            self._answer(404, "text/plain", b"There is no such page.\n")

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not worth a line."""

    def _from_here(self) -> bool:
        """Whether the browser asked for this very host, and no other site asked for it.

        A site whose name suddenly points at 127.0.0.1 sends its own name here.
        """
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or hosts[0].strip().lower() not in self.server.hosts:
            return False
        return self.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin")

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self._head(status, kind, len(body))
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, status: int, kind: str, length: int | None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in _HEADERS:
            self.send_header(name, value)
        self.end_headers()

    def _stream(self) -> None:
        self._head(200, f"multipart/x-mixed-replace; boundary={_BOUNDARY}", None)
        if self.command == "HEAD":
            return
        self.wfile.write(f"--{_BOUNDARY}\r\n".encode())
        shown = 0
        while (newer := self.server.stage.newer_than(shown)) is not None:
            frame, shown = newer
            ok, jpeg = cv2.imencode(".jpg", frame.image, _JPEG)
            # Not held while a slow client takes its time: the buffer behind it goes back to its pool.
            del frame, newer
            if not ok:
                continue
            head = f"Content-Type: image/jpeg\r\nContent-Length: {jpeg.size}\r\n\r\n".encode()
            # The next boundary comes at once: browsers show a picture only when they see it end.
            self.wfile.write(b"".join((head, jpeg.tobytes(), f"\r\n--{_BOUNDARY}\r\n".encode())))


def stats_of(report: Report, frame: Frame | None) -> dict[str, Any]:
    """What the page's table shows, as JSON can hold it.

    Args:
        report: What was measured so far.
        frame: The frame on show, if any.
    """
    stages: Mapping[str, Any] = {
        name: _spread(stage.spread) | {"budget_ms": round(stage.budget_ms, 3), "over": stage.over}
        for name, stage in report.stages.items()
    }
    return {
        "stages": stages,
        "process": _spread(report.process),
        "frame_age": _spread(report.frame_age),
        "counts": dict(report.counts),
        "fps": {name: round(report.fps(name), 2) for name in ("captured", "processed", "sent")},
        "seconds": round(report.seconds, 3),
        "frame": {"kind": frame.kind.value, "seq": frame.seq, "size": list(frame.size)} if frame else None,
    }


def _spread(spread: Spread) -> dict[str, float]:
    return {
        "n": spread.n,
        "p50_ms": round(spread.p50, 3),
        "p95_ms": round(spread.p95, 3),
        "p99_ms": round(spread.p99, 3),
        "max_ms": round(spread.max, 3),
    }
