"""Which addresses may be asked for a model, and which redirects may be followed."""

from __future__ import annotations

import urllib.parse
from http.client import HTTPMessage
from typing import IO, Final
from urllib.error import HTTPError
from urllib.request import (
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_MOST_REDIRECTS: Final = 5


class WrongAddress(ValueError):
    """An address that is not asked."""


def checked_https(url: str) -> str:
    """An https address, as it was given.

    Raises:
        WrongAddress: It is none, or one that hides something.
    """
    if not isinstance(url, str) or not url.lower().startswith("https://"):
        raise WrongAddress(f"{url!r} is no https address")
    _parts(url)
    return url


def checked_mirror(url: str) -> str:
    """The address of a mirror, with one slash at its end: https, or http on this machine.

    Raises:
        WrongAddress: It is neither, or one that hides something.
    """
    parts = _parts(url)
    if parts.scheme != "https" and not is_loopback(url):
        raise WrongAddress(f"{url!r} is no https address")
    if parts.query:
        raise WrongAddress(f"{url!r} has a question mark: the address of a folder is wanted")
    return url.rstrip("/") + "/"


def is_loopback(url: str) -> bool:
    """Whether it is http on this machine, where nobody listens in between."""
    parts = urllib.parse.urlsplit(url)
    return parts.scheme == "http" and parts.hostname in _LOOPBACK


def opener_for(url: str) -> OpenerDirector:
    """What opens that address and only follows redirects that are as safe as it."""
    near = is_loopback(url)
    # What is on this machine is never asked for through a proxy.
    proxies = ProxyHandler({}) if near else ProxyHandler()
    return build_opener(proxies, _CarefulRedirects(near), HTTPHandler(), HTTPSHandler())


class _CarefulRedirects(HTTPRedirectHandler):
    max_redirections = _MOST_REDIRECTS
    max_repeats = 2

    def __init__(self, near: bool) -> None:
        self._near = near

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        try:
            if not (self._near and is_loopback(newurl)):
                checked_https(newurl)
        except ValueError as error:
            raise HTTPError(
                req.full_url, code, f"redirects to {newurl!r}, which is no https", headers, fp
            ) from error
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        if following is not None:
            # The file's part is asked for there, too.
            for name in ("Range", "If-range"):
                if req.has_header(name):
                    following.add_header(name, str(req.get_header(name)))
        return following


def _parts(url: object) -> urllib.parse.SplitResult:
    if not isinstance(url, str) or not url.isascii() or any(sign <= " " or sign == "\x7f" for sign in url):
        raise WrongAddress(f"{url!r} is no address")
    try:
        parts = urllib.parse.urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise WrongAddress(f"{url!r} is no address") from error
    if not parts.hostname:
        raise WrongAddress(f"{url!r} names no machine")
    if parts.username is not None or parts.password is not None:
        raise WrongAddress("an address must not carry a name or a password")
    if parts.fragment or ".." in urllib.parse.unquote(parts.path).replace("\\", "/").split("/"):
        raise WrongAddress(f"{url!r} is no plain address")
    return parts
