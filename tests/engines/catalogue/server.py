"""A web server on this machine that has every fault a web server can have."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Fault = Callable[[BaseHTTPRequestHandler, bytes], None]


@dataclass
class Site:
    """What the server has and does.

    Attributes:
        files: Content by path.
        plan: By path, how the next requests are answered, one after the other; afterwards as a good server does.
        always: By path, how every request is answered.
        asked: Every request: its path and its headers.
        release: Ends the faults that hang.
    """

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    plan: dict[str, list[Fault]] = field(default_factory=dict)
    always: dict[str, Fault] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)

    def ranges(self) -> list[str | None]:
        """The part asked for by each request, None for all of it."""
        return [headers.get("Range") for _, headers in self.asked]


@contextlib.contextmanager
def serving() -> Iterator[Site]:
    """Runs it, and ends it with all of its threads."""
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append((self.path, dict(self.headers)))
            planned = site.plan.get(self.path)
            fault = planned.pop(0) if planned else site.always.get(self.path, good())
            with contextlib.suppress(ConnectionError):
                fault(self, site.files.get(self.path, b""))
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    site.url = f"http://127.0.0.1:{server.server_port}/"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        site.release.set()
        server.shutdown()
        thread.join()
        server.server_close()


def good(etag: str | None = '"one"', ranges: bool = True) -> Fault:
    """Answers as it should: 200, 206 with If-Range, 416, 404."""

    def answer(handler: BaseHTTPRequestHandler, data: bytes) -> None:
        if not data:
            handler.send_error(404)
            return
        asked = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
        same = handler.headers.get("If-Range") in (None, etag)
        start = int(asked[1]) if asked and ranges and same else 0
        if start >= len(data):
            handler.send_response(416)
            handler.send_header("Content-Range", f"bytes */{len(data)}")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        _head(handler, len(data) - start, etag)
        handler.wfile.write(data[start:])

    return answer


def cut(share: float = 0.5, etag: str | None = '"one"', length: bool = True) -> Fault:
    """Closes the connection before all of what it announced was sent."""

    def answer(handler: BaseHTTPRequestHandler, data: bytes) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
        start = int(asked[1]) if asked else 0
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        _head(handler, len(data) - start if length else None, etag)
        handler.wfile.write(data[start : start + max(1, int((len(data) - start) * share))])

    return answer


def status(code: int, **headers: str) -> Fault:
    """Answers with a status and nothing else."""

    def answer(handler: BaseHTTPRequestHandler, _: bytes) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


def page(kind: str = "text/html", text: bytes = b"<!DOCTYPE html><html>Please log in</html>") -> Fault:
    """Answers 200 with a web page."""

    def answer(handler: BaseHTTPRequestHandler, _: bytes) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)

    return answer


def hang(site: Site, after: int = 100) -> Fault:
    """Sends a little, then nothing any more."""

    def answer(handler: BaseHTTPRequestHandler, data: bytes) -> None:
        handler.send_response(200)
        _head(handler, len(data), '"one"')
        handler.wfile.write(data[:after])
        handler.wfile.flush()
        site.release.wait(20)

    return answer


def headers(length: int | None = None, **more: str) -> Fault:
    """Answers with the file, but announces what it is told to."""

    def answer(handler: BaseHTTPRequestHandler, data: bytes) -> None:
        handler.send_response(200)
        for name, value in more.items():
            handler.send_header(name.replace("_", "-"), value)
        if length is not None:
            handler.send_header("Content-Length", str(length))
        handler.end_headers()
        handler.wfile.write(data)

    return answer


def raw(answer_bytes: bytes) -> Fault:
    """Answers with these bytes, whatever they are."""

    def answer(handler: BaseHTTPRequestHandler, _: bytes) -> None:
        handler.wfile.write(answer_bytes)

    return answer


def _head(handler: BaseHTTPRequestHandler, length: int | None, etag: str | None) -> None:
    handler.send_header("Content-Type", "application/octet-stream")
    if length is not None:
        handler.send_header("Content-Length", str(length))
    if etag:
        handler.send_header("ETag", etag)
    handler.end_headers()
