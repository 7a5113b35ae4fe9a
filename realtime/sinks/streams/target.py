"""The address of a stream: checked, and shown without what must stay secret."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from engines.errors import UsageError

SCHEMES: Final = ("rtmp", "rtmps", "srt", "udp", "whip+http", "whip+https")
FORMS: Final = "rtmp://…, rtmps://…, srt://…, udp://… or whip+https://…"

_LONGEST: Final = 2048
_HIDDEN: Final = "***"
_MUXERS: Final = MappingProxyType({"rtmp": "flv", "rtmps": "flv", "srt": "mpegts", "udp": "mpegts"})
_HARMLESS: Final = frozenset(
    (
        "mode",
        "latency",
        "rcvlatency",
        "peerlatency",
        "pkt_size",
        "payload_size",
        "ttl",
        "buffer_size",
        "transtype",
    )
)
"""Parts of a query that may be shown: all others could be a key."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a stream goes.

    Attributes:
        scheme: One of :data:`SCHEMES`.
        url: For FFmpeg or a WHIP client, with everything secret in it. Never show it.
        shown: The same for people: keys, names and passwords are replaced.
        host: Name or address.
        port: The number given; None for the usual one.
        token: Of a WHIP server; empty for none. Never show it.
        secrets: What :meth:`hide` looks for, the longest first.
    """

    scheme: str
    url: str
    shown: str
    host: str
    port: int | None
    token: str
    secrets: tuple[str, ...]

    def __repr__(self) -> str:
        """Without secrets, since it may end up in a log."""
        return f"Target({self.shown!r})"

    @property
    def muxer(self) -> str:
        """FFmpeg's name of the container that is sent; ``whip`` for WHIP, which has none."""
        return _MUXERS.get(self.scheme, "whip")

    @property
    def place(self) -> str:
        """Host and port, for a message."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    def hide(self, text: str) -> str:
        """What someone else wrote, without our secrets."""
        text = text.replace(self.url, self.shown)
        for secret in self.secrets:
            text = text.replace(secret, _HIDDEN)
        return text


def parse_target(text: str) -> Target:
    """Reads what stands behind ``stream:``.

    Raises:
        UsageError: It is no address that a stream can go to. The message holds nothing secret.
    """
    text = text.strip()
    if len(text) > _LONGEST or not text.isprintable() or re.search(r"\s", text):
        raise _wrong("it is too long or holds a blank")
    scheme, marks, _ = text.partition("://")
    scheme = scheme.lower()
    if not marks or scheme not in SCHEMES:
        shown = scheme if re.fullmatch(r"[a-z][a-z0-9+.-]{0,20}", scheme) else "this"
        raise _wrong(f"{shown} is none of the protocols there are")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _wrong("the host or its port cannot be read") from None
    if not host or not re.fullmatch(r"[A-Za-z0-9._:%-]+", host) or host.startswith("-"):
        raise _wrong("it names no host")
    if port == 0 or (scheme in ("srt", "udp") and port is None):
        raise _wrong(f"{scheme} needs a port, as in {scheme}://{host}:9000")
    if scheme in ("rtmp", "rtmps") and not parts.path.strip("/"):
        raise _wrong(f"{scheme} needs an application and a key, as in {scheme}://{host}/live/KEY")
    if scheme == "udp" and parts.username is not None:
        raise _wrong("udp knows no user or password")
    token = unquote(parts.password or parts.username or "") if scheme.startswith("whip") else ""
    return Target(scheme, _address(text, scheme, token), _shown(text), host, port, token, _secrets(text))


def concealed(spec: str) -> str:
    """A sink's specification as it may be shown: that of a stream without its secrets."""
    kind, _, rest = spec.strip().partition(":")
    if kind.strip() != "stream" or not rest:
        return spec
    try:
        return f"stream:{parse_target(rest).shown}"
    except UsageError:
        # What is no address may hold a key all the same.
        return f"stream:{_HIDDEN}"


def _address(text: str, scheme: str, token: str) -> str:
    """For the program that sends."""
    if scheme.startswith("whip"):
        _, _, rest = text.partition("://")
        if token:
            _, _, rest = rest.partition("@")
        return f"{scheme.removeprefix('whip+')}://{rest}"
    if scheme == "udp" and "pkt_size=" not in text:
        # Seven MPEG-TS packets: what fits into an Ethernet frame.
        return f"{text}{'&' if '?' in text else '?'}pkt_size=1316"
    return text


def _shown(text: str) -> str:
    parts = urlsplit(text)
    user = f"{_HIDDEN}@" if "@" in parts.netloc else ""
    segments = parts.path.split("/")
    # The first one is the application, "live" nearly everywhere; what follows is the key.
    path = "/".join(part if number < 2 or not part else _HIDDEN for number, part in enumerate(segments))
    query = "&".join(
        f"{name}={value if name in _HARMLESS else _HIDDEN}"
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
    )
    where = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{user}{where}{path}{'?' if query else ''}{query}"


def _secrets(text: str) -> tuple[str, ...]:
    parts = urlsplit(text)
    found = [parts.username or "", parts.password or ""]
    segments = [part for part in parts.path.split("/")[2:] if part]
    found += ["/".join(segments), *segments]
    found += [value for name, value in parse_qsl(parts.query) if name not in _HARMLESS]
    found += [parts.query] if any(name not in _HARMLESS for name, _ in parse_qsl(parts.query)) else []
    return tuple(sorted({*found, *map(unquote, found)} - {""}, key=len, reverse=True))


def _wrong(why: str) -> UsageError:
    return UsageError(f"A stream cannot go there: {why}.", f"There are: {FORMS}")
