"""A small HTTP server: what the preview page, the control page and the metrics have in common."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler
from typing import Any

from engines.errors import DeviceError, UsageError

HOST = "127.0.0.1"
_MAX_CLIENTS = 16
_CLIENT_TIMEOUT_S = 10.0
_ACCEPT_POLL_S = 0.1
_BOUNDARY = "doppelcam-frame"
_REQUEST_S = 10.0
"""How long a client may take to say what it wants, all in all."""

_HEADERS: tuple[tuple[str, str], ...] = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    # Keeps other sites from showing what is served here in a page of theirs.
    ("Cross-Origin-Resource-Policy", "same-origin"),
    (
        "Content-Security-Policy",
        "default-src 'none'; img-src 'self'; connect-src 'self'; style-src 'unsafe-inline'; "
        "script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'",
    ),
)


class LocalServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Listens on ``127.0.0.1``; a thread accepts, and each client has one of its own, all joined by :meth:`stop`.

    Not ``http.server.HTTPServer``: that one asks the name service for this machine's name first.

    Args:
        port: To listen on; 0 takes a free one.
        handler: Answers the requests.
        name: What it serves: names its threads, and stands in messages.
        otherwise: How to ask for any free port.
        host: Address to listen on.

    Raises:
        UsageError: The port is taken or not permitted.
        DeviceError: There are no sockets on this machine.

    Attributes:
        port: The one it listens on.
    """

    # On Windows this would let two programs share the port.
    allow_reuse_address = os.name != "nt"

    def __init__(
        self, port: int, handler: type[LocalHandler], name: str, otherwise: str, host: str = HOST
    ) -> None:
        self._clients: dict[socket.socket, threading.Thread] = {}
        self._due: dict[socket.socket, float] = {}
        self._host = host
        if ":" in host:
            self.address_family = socket.AF_INET6
        self._lock = threading.Lock()
        self._name = name
        self._thread: threading.Thread | None = None
        try:
            super().__init__((host, port), handler)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES, errno.EPERM):
                raise UsageError(
                    f"The {name} cannot listen on port {port}: {error.strerror}.",
                    f"Choose another one, for example {otherwise} for any free one.",
                ) from error
            raise DeviceError(
                f"The {name} cannot open a socket on {host}: {error.strerror}.", "Go without it."
            ) from error
        self.port = int(self.server_address[1])
        self.hosts = frozenset(
            f"{name}{suffix}" for name in (HOST, "localhost") for suffix in ("", f":{self.port}")
        )

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://{f'[{self._host}]' if ':' in self._host else self._host}:{self.port}/"

    def start(self) -> None:
        """Begins to answer."""
        self._thread = threading.Thread(
            target=self.serve_forever, args=(_ACCEPT_POLL_S,), name=f"{self._name}-server", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Hangs up on everybody and joins every thread."""
        if self._thread is not None:
            self.shutdown()
            self._thread.join()
            self._thread = None
        self.server_close()
        self._hang_up()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Turns clients away beyond a number that no person reaches."""
        with self._lock:
            return len(self._clients) < _MAX_CLIENTS

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serves one client in a thread of its own, which :meth:`stop` can end."""
        thread = threading.Thread(
            target=self.process_request_thread,
            args=(request, client_address),
            name=f"{self._name}-client",
            daemon=True,
        )
        with self._lock:
            self._clients[request] = thread
            self._due[request] = time.monotonic() + _REQUEST_S
        thread.start()

    def allow(self, client: socket.socket, seconds: float | None) -> None:
        """Gives a client so long for the rest of what it says; None from now on as long as it likes."""
        with self._lock:
            if seconds is None:
                self._due.pop(client, None)
            elif client in self._clients:
                self._due[client] = time.monotonic() + seconds

    def service_actions(self) -> None:
        """Hangs up on who takes too long to say what it wants, a byte at a time."""
        now = time.monotonic()
        with self._lock:
            for client, due in self._due.items():
                if now > due:
                    with contextlib.suppress(OSError):
                        client.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        """Called once for every client, served or turned away."""
        with self._lock:
            self._clients.pop(request, None)
            self._due.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no fault and no message; anything else is."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def _hang_up(self) -> None:
        """Ends every read and write that a client's thread waits in, and joins the threads."""
        with self._lock:
            clients = dict(self._clients)
            for client in clients:
                # A client that hung up first is no fault.
                with contextlib.suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)
        for thread in clients.values():
            thread.join()


class LocalHandler(BaseHTTPRequestHandler):
    """Answers ``GET`` and ``HEAD`` of whoever asked for this very machine; subclasses say what."""

    server: LocalServer
    headers_sent = _HEADERS
    """Sent with every answer."""
    server_version = "doppelcam"
    sys_version = ""
    timeout = _CLIENT_TIMEOUT_S

    def page(self, path: str) -> None:
        """Answers a path, without its query; by default there is none."""
        self.answer(404, "text/plain", b"There is no such page.\n")

    def do_GET(self) -> None:
        """Turns strangers away, and answers everybody else."""
        self.server.allow(self.connection, None)
        if not self._from_here():
            self.answer(403, "text/plain", b"This page is for this machine only.\n")
            return
        self.page(self.path.partition("?")[0])

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not worth a line."""

    def answer(self, status: int, kind: str, body: bytes) -> None:
        """Sends a whole answer."""
        self.head(status, kind, len(body))
        if self.command != "HEAD":
            self.wfile.write(body)

    def head(self, status: int, kind: str, length: int | None) -> None:
        """Sends the head of an answer; without a length, of one that has no end."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in self.headers_sent:
            self.send_header(name, value)
        self.end_headers()

    def motion(self, pictures: Iterable[bytes]) -> None:
        """Answers with pictures, each shown in place of the one before (Motion JPEG), until there are no more.

        Args:
            pictures: JPEG files; taken one at a time, once the one before is sent. None is taken for ``HEAD``.
        """
        self.head(200, f"multipart/x-mixed-replace; boundary={_BOUNDARY}", None)
        if self.command == "HEAD":
            return
        self.wfile.write(f"--{_BOUNDARY}\r\n".encode())
        for jpeg in pictures:
            head = f"Content-Type: image/jpeg\r\nContent-Length: {len(jpeg)}\r\n\r\n".encode()
            # The next boundary comes at once: browsers show a picture only when they see it end.
            self.wfile.write(b"".join((head, jpeg, f"\r\n--{_BOUNDARY}\r\n".encode())))

    def _from_here(self) -> bool:
        """Whether the browser asked for this very host, and no other site asked for it.

        A site whose name suddenly points at 127.0.0.1 sends its own name here.
        """
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or hosts[0].strip().lower() not in self.server.hosts:
            return False
        return self.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin")
