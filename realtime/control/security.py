"""Who may look at the control page, and who may change anything.

What it is safe from, see ``docs/control.md``: other programs' users on this machine, pages of other sites in the same
browser (CSRF, DNS rebinding, frames), and on a network whoever does not know the password.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Final, Protocol

from engines.errors import UsageError
from engines.files import open_regular, quoted
from realtime.control.wanted import is_loopback
from realtime.settings.load import PASSWORD_VARIABLE

COOKIE: Final = "doppelcam"
SHORTEST_PASSWORD: Final = 8

_MOST_SESSIONS: Final = 32
_FREE_TRIES: Final = 3
_FIRST_WAIT_S, _LONGEST_WAIT_S = 2.0, 300.0


class Headers(Protocol):
    """A request's headers, whatever their case."""

    def get_all(self, name: str, failobj: list[str]) -> list[str]:
        """Every value of one name."""
        ...


@dataclass(frozen=True, slots=True)
class Guest:
    """Somebody who was let in.

    Attributes:
        csrf: What a page of ours says with every change; empty for programs, which send the token itself.
    """

    csrf: str


class Access:
    """Knows the token, the password and who was let in. Used by every client's thread.

    Args:
        password: What other machines have to know; None lets nobody in without the token.
        now_s: Time, seconds.

    Attributes:
        token: Lets its holder in; new with every start.
    """

    def __init__(self, password: str | None, now_s: Callable[[], float]) -> None:
        self.token = secrets.token_urlsafe(32)
        self.has_password = password is not None
        self._password = None if password is None else password.encode()
        self._now_s = now_s
        self._key = secrets.token_bytes(32)
        self._sessions: dict[str, None] = {}
        self._lock = threading.Lock()
        self._failures = 0
        self._closed_until = 0.0

    def is_token(self, text: str) -> bool:
        """Whether this is the token; takes as long whatever is wrong with it."""
        return hmac.compare_digest(text.encode(errors="replace"), self.token.encode())

    def try_password(self, text: str) -> bool:
        """Whether this is the password. Guessing gets slow for everybody, since addresses can be had for nothing.

        Raises:
            TooMany: It was guessed wrong too often of late; nothing was compared.
        """
        with self._lock:
            wait = self._closed_until - self._now_s()
            if wait > 0:
                raise TooMany(wait)
            right = self._password is not None and hmac.compare_digest(
                text.encode(errors="replace"), self._password
            )
            self._failures = 0 if right else self._failures + 1
            if self._failures >= _FREE_TRIES:
                delay = _FIRST_WAIT_S * 2 ** min(self._failures - _FREE_TRIES, 20)
                self._closed_until = self._now_s() + min(delay, _LONGEST_WAIT_S)
            return right

    def begin(self) -> str:
        """Lets somebody in; returns the cookie."""
        session = secrets.token_urlsafe(32)
        with self._lock:
            self._sessions[session] = None
            while len(self._sessions) > _MOST_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
        return session

    def guest(self, headers: Headers) -> Guest | None:
        """Who sent a request: by its cookie, or by the token as a bearer's. None for a stranger."""
        bearers = headers.get_all("Authorization", [])
        if len(bearers) == 1:
            kind, _, value = bearers[0].strip().partition(" ")
            return Guest("") if kind.lower() == "bearer" and self.is_token(value.strip()) else None
        session = _cookie(headers)
        with self._lock:
            known = any(hmac.compare_digest(session, one) for one in self._sessions) if session else False
        return Guest(self._csrf(session)) if known else None

    def may_change(self, guest: Guest, headers: Headers, origins: Callable[[str], bool]) -> bool:
        """Whether a guest's request may change something.

        Args:
            guest: Who.
            headers: Of the request.
            origins: Whether an ``Origin`` is this page's own.
        """
        given = headers.get_all("Origin", [])
        if len(given) > 1 or (given and not origins(given[0])):
            return False
        if not guest.csrf:
            return True  # No page can send a bearer's token elsewhere without asking, and it is never allowed to.
        said = headers.get_all("X-CSRF-Token", [])
        return (
            len(given) == 1 and len(said) == 1 and hmac.compare_digest(said[0].encode(), guest.csrf.encode())
        )

    def _csrf(self, session: str) -> str:
        return hmac.new(self._key, session.encode(), "sha256").hexdigest()


class TooMany(Exception):
    """The password was guessed wrong too often.

    Attributes:
        wait_s: Seconds until it may be tried again.
    """

    def __init__(self, wait_s: float) -> None:
        super().__init__(f"wait {wait_s:.0f} s")
        self.wait_s = wait_s


def _cookie(headers: Headers) -> str:
    try:
        jar = SimpleCookie("; ".join(headers.get_all("Cookie", [])))
    except CookieError:
        return ""
    value = jar[COOKIE].value if COOKIE in jar else ""
    return value if value.isascii() else ""


def host_allowed(header: str, port: int, host: str, names: frozenset[str]) -> bool:
    """Whether a ``Host`` header may be ours.

    A site whose name suddenly points here sends its own name. So a name has to be this machine's, while any address is
    right on a server that listens to a network: an address cannot be made to point elsewhere.

    Args:
        header: What was sent.
        port: The server's.
        host: The address that it listens on.
        names: Names of this machine, in lower case.
    """
    said = header.strip().lower()
    name, colon, said_port = said.rpartition(":") if not said.endswith("]") else (said, "", "")
    if not colon:
        name, said_port = said, "80"
    if said_port != str(port):
        return False
    name = name.removeprefix("[").removesuffix("]")
    if name in names:
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback if is_loopback(host) else True


def password_from(environ: Mapping[str, str], file: Path | None) -> str | None:
    """The password that was given, None if none was.

    Raises:
        UsageError: It is too short, or its file cannot be read.
    """
    if file is not None:
        with open_regular(file, "a password file") as opened:
            try:
                text = opened.read(4096).decode().split("\n")[0].rstrip("\r")
            except UnicodeDecodeError:
                raise UsageError(f"{quoted(file)} is not UTF-8 text.", "Save it as UTF-8.") from None
    elif PASSWORD_VARIABLE in environ:
        text = environ[PASSWORD_VARIABLE]
    else:
        return None
    if len(text) < SHORTEST_PASSWORD:
        raise UsageError(
            f"The password of the control page has fewer than {SHORTEST_PASSWORD} characters.",
            "Choose a longer one: whoever knows it sees your camera.",
        )
    return text
