"""The control page's server: lets people in, keeps everybody else out, and hands requests to the API."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import socket
import time
from collections.abc import Callable, Iterator
from importlib import resources
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from realtime.control.api import ROUTES, refusal
from realtime.control.desk import Desk
from realtime.control.pictures import Picture
from realtime.control.route import LARGEST_JSON, PICTURES, Answer, Call, Route
from realtime.control.security import COOKIE, Access, Guest, TooMany, host_allowed
from realtime.local_http import LocalHandler, LocalServer

log = logging.getLogger(__name__)

_BODY_S: Final = 30.0
"""How long a photo may take to come, all in all."""
_BLOCK: Final = 1 << 16

_CSP: Final = (
    "default-src 'none'; img-src 'self' blob:; connect-src 'self'; style-src 'self'; script-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_ASSETS: Final = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/control.css": ("control.css", "text/css; charset=utf-8"),
    "/control.js": ("control.js", "text/javascript; charset=utf-8"),
    "/picture.js": ("picture.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    "/login": ("login.html", "text/html; charset=utf-8"),
}
_FOR_STRANGERS: Final = ("/control.css", "/icon.svg", "/login")


class ControlHttp(LocalServer):
    """Serves one desk.

    Args:
        port: To listen on; 0 takes a free one.
        host: Address to listen on.
        desk: What is seen and steered.
        access: Who may.

    Raises:
        UsageError: The port is taken or not permitted.
        DeviceError: There is no such address on this machine.
    """

    def __init__(self, port: int, host: str, desk: Desk, access: Access) -> None:
        self.desk, self.access, self.host = desk, access, host
        names = {"localhost"}
        own = socket.gethostname().lower() if host not in ("127.0.0.1", "::1") else ""
        if own:
            names |= {own, f"{own.partition('.')[0]}.local"}
        self.names = frozenset(names)
        folder = resources.files("realtime.control") / "assets"
        self.assets = {path: ((folder / name).read_bytes(), kind) for path, (name, kind) in _ASSETS.items()}
        super().__init__(port, ControlHandler, "control page", "--control 0", host)

    @property
    def link(self) -> str:
        """Its address, with the token that lets whoever has it in."""
        # Where it listens everywhere, this machine finds it as ever.
        url = self.url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
        return f"{url}?token={self.access.token}"

    def is_host(self, header: str) -> bool:
        """Whether a ``Host`` header is ours."""
        return host_allowed(header, self.port, self.host, self.names)


class ControlHandler(LocalHandler):
    """Answers one client."""

    server: ControlHttp
    headers_sent = (
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "DENY"),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Permissions-Policy", "camera=(), microphone=(), geolocation=()"),
        ("Content-Security-Policy", _CSP),
    )

    def do_GET(self) -> None:
        """Pages, pictures and what can be known."""
        url = self._trusted_url()
        if url is None:
            return
        path, query = url
        access, guest = self.server.access, self.server.access.guest(self.headers)
        if path == "/" and "token" in query:
            if access.is_token(query["token"]):
                self._let_in()
            else:
                self._say(
                    403, "This is not the token of this session.", "Open the link that doppelcam printed."
                )
        elif path in _FOR_STRANGERS or (path in self.server.assets and guest is not None):
            body, kind = self.server.assets[path]
            self.server.allow(self.connection, None)
            self.answer(200, kind, body)
        elif guest is None:
            self._stranger(path)
        elif path in PICTURES:
            self._pictures(path)
        else:
            self._api("GET", path, query, guest)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        """Changes something."""
        self._change("POST")

    def do_PATCH(self) -> None:
        """Changes something."""
        self._change("PATCH")

    def do_DELETE(self) -> None:
        """Takes something away."""
        self._change("DELETE")

    def do_OPTIONS(self) -> None:
        """No other site may ask for anything, so none is told what it may ask for."""
        if self._trusted_url() is not None:
            self._say(405, "This cannot be done here.")

    do_PUT = do_OPTIONS

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What is no request at all, in the words of the other answers."""
        self.close_connection = True
        self.answer(
            code, "application/json", Answer(code, {"error": "This is no request.", "fix": ""}).encoded()
        )

    # -- who asks -------------------------------------------------------------------------------------------

    def _trusted_url(self) -> tuple[str, dict[str, str]] | None:
        """Path and query of a request that a page of ours, or no page, made; None when it was turned away."""
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or not self.server.is_host(hosts[0]):
            self._say(
                403, "This page is not served under that name.", "Open the link that doppelcam printed."
            )
            return None
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            self._say(403, "Another page asked for this.")
            return None
        if self.headers.get("Upgrade") or "transfer-encoding" in self.headers:
            self._say(400, "This server speaks plain HTTP only.")
            return None
        try:
            url = urlsplit(self.path)
            pairs = parse_qsl(url.query, keep_blank_values=True, max_num_fields=16)
        except ValueError:
            self._say(400, "This is no address.")
            return None
        if url.scheme or url.netloc or len(dict(pairs)) != len(pairs):
            self._say(400, "This is no address of this page.")
            return None
        return url.path, dict(pairs)

    def _is_origin(self, origin: str) -> bool:
        host = self.headers.get_all("Host", [""])[0].strip().lower()
        return origin.strip().lower() == f"http://{host}"

    def _let_in(self) -> None:
        self.server.allow(self.connection, None)
        self.send_response(303)
        cookie = f"{COOKIE}={self.server.access.begin()}; Path=/; HttpOnly; SameSite=Strict"
        for name, value in (
            ("Location", "/"),
            ("Set-Cookie", cookie),
            ("Content-Length", "0"),
            *self.headers_sent,
        ):
            self.send_header(name, value)
        self.end_headers()

    def _stranger(self, path: str) -> None:
        if path == "/" and self.server.access.has_password:
            self.server.allow(self.connection, None)
            body, kind = self.server.assets["/login"]
            self.answer(200, kind, body)
        else:
            self._say(401, "You are not let in.", "Open the link that doppelcam printed when it started.")

    # -- changes --------------------------------------------------------------------------------------------

    def _change(self, method: str) -> None:
        url = self._trusted_url()
        if url is None:
            return
        path, query = url
        if path == "/login" and method == "POST":
            self._login()
            return
        guest = self.server.access.guest(self.headers)
        if guest is None:
            self._stranger("")
        elif not self.server.access.may_change(guest, self.headers, self._is_origin):
            self._say(403, "This change was not asked for by the page itself.", "Load the page anew.")
        else:
            self._api(method, path, query, guest)

    def _login(self) -> None:
        origins = self.headers.get_all("Origin", [])
        if len(origins) != 1 or not self._is_origin(origins[0]):
            self._say(403, "Another page asked for this.")
            return
        body = self._body(LARGEST_JSON)
        if body is None:
            return
        fields = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=4))
        try:
            right = self.server.access.try_password(fields.get("password", ""))
        except TooMany as error:
            self._say(429, f"The password was wrong too often. Wait {error.wait_s:.0f} s.")
            return
        if right:
            self._let_in()
        else:
            self._say(403, "This is not the password.", "Go back and try again.")

    def _api(self, method: str, path: str, query: dict[str, str], guest: Guest) -> None:
        matches = [(route, names) for route in ROUTES if (names := route.match(path)) is not None]
        found = next(((route, names) for route, names in matches if route.method == method), None)
        if found is None and matches:
            self._say(405, "This cannot be done there.")
            return
        if found is None:
            self._say(404, "There is no such page.")
            return
        route, names = found
        body = self._body_of(route) if route.changes else b""
        if body is None:
            return
        self.server.allow(self.connection, None)
        try:
            answer = route.answer(Call(self.server.desk, names, query, body, self._reached()))
        except Exception as error:
            answer = refusal(error)
            if answer.status == 500:
                log.error("%s %s failed", method, path, exc_info=error)
        if path == "/api/state" and guest.csrf:
            answer = Answer(answer.status, answer.body | {"csrf": guest.csrf})
        self.answer(answer.status, answer.kind, answer.encoded())

    def _reached(self) -> str:
        """The address of this machine by which the client found it."""
        address = ipaddress.ip_address(str(self.connection.getsockname()[0]).partition("%")[0])
        return str(getattr(address, "ipv4_mapped", None) or address)

    def _body_of(self, route: Route) -> bytes | None:
        """What was sent, if it is what the route takes; None when it was turned away."""
        kind = self.headers.get_content_type()
        if route.takes is not None and kind != "application/json":
            self._say(415, "The body must be application/json.")
            return None
        if route.uploads and not (kind.startswith("image/") or kind == "application/octet-stream"):
            self._say(415, "The body must be a picture.")
            return None
        return self._body(route.largest)

    def _body(self, largest: int) -> bytes | None:
        lengths = self.headers.get_all("Content-Length", [])
        if not lengths and self.command == "DELETE":
            return b""
        if len(lengths) != 1 or not (
            lengths[0].isascii() and lengths[0].isdecimal() and len(lengths[0]) < 20
        ):
            self._say(411, "The length of the body must be said.")
            return None
        left = int(lengths[0])
        if left > largest:
            self._say(413, f"This is too large: at most {largest >> 10} KiB.")
            return None
        self.server.allow(self.connection, _BODY_S)
        parts = []
        while left:
            part = self.rfile.read1(min(left, _BLOCK))
            if not part:
                return None  # It hung up, or took too long.
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    # -- answers --------------------------------------------------------------------------------------------

    def _say(self, status: int, what: str, fix: str = "") -> None:
        self.server.allow(self.connection, None)
        answer = Answer(status, {"error": what, "fix": fix})
        self.answer(status, answer.kind, answer.encoded())
        if self.command not in ("GET", "HEAD"):
            self._drain()

    def _drain(self) -> None:
        """Reads a little of what is still coming, so that the answer is not lost with the connection."""
        self.connection.settimeout(0.2)
        until = time.monotonic() + 1.0
        with contextlib.suppress(OSError):
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_WR)
            while time.monotonic() < until and self.rfile.read1(_BLOCK):
                pass

    def _pictures(self, path: str) -> None:
        desk = self.server.desk
        before = path.endswith("before.mjpg")
        if before and not desk.show_before:
            self._say(403, "What the camera sees is not shown until you ask for it.", "POST /api/before")
            return
        picture: Picture = desk.before if before else desk.after
        with picture.watch() as room:
            if not room:
                self._say(503, "Too many watch already.", "Close another window.")
                return
            self.server.allow(self.connection, None)
            self.motion(self._while_wanted(picture, (lambda: desk.show_before) if before else lambda: True))

    def _while_wanted(self, picture: Picture, wanted: Callable[[], bool]) -> Iterator[bytes]:
        """Pictures as they come, until nobody is there or they may be seen no more."""
        number = 0
        while (newer := picture.newer_than(number)) is not None and wanted():
            number, jpeg = newer
            if not jpeg:
                continue
            yield jpeg
            if not self._still_there():
                return

    def _still_there(self) -> bool:
        """Whether the client has not hung up: it says nothing more, so there is nothing to read but the end."""
        self.connection.setblocking(False)
        try:
            return bool(self.connection.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            self.connection.settimeout(self.timeout)
