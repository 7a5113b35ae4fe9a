"""Why a stream does not go out, in words: what FFmpeg and servers say, and what mends it."""

from __future__ import annotations

import re
from typing import Final

from realtime.sinks.streams.target import Target


class StreamFault(Exception):
    """A stream was not begun or broke off. It is tried again: nothing of this ends a camera.

    Args:
        what: A sentence that names the place, without secrets.
        fix: What mends it; empty when waiting does.
        stubborn: Whether trying again soon is of no use: a key does not become right by itself.
    """

    def __init__(self, what: str, fix: str = "", stubborn: bool = False) -> None:
        super().__init__(what)
        self.what, self.fix, self.stubborn = what, fix, stubborn

    def __str__(self) -> str:
        return f"{self.what} {self.fix}".strip()


_KNOWN: Final = (
    (
        r"resolve hostname|name or service not known|name resolution|getaddrinfo|nodename nor servname"
        r"|no address associated",
        "There is no host {host}, or no network to ask for it.",
        "Check the spelling of the address and the network.",
        False,
    ),
    (
        r"connection refused|connection setup failure",
        "Nobody takes streams at {place}.",
        "Start the server.",
        False,
    ),
    (
        r"\b401\b|\b403\b|unauthori|forbidden|denied|authmod|auth(entication)? fail|access manager"
        r"|badsecret|wrong password|incorrect passphrase|badauth|publish\.badname",
        "{place} refuses the stream.",
        "Check the stream key, the password, and that nobody else streams with them.",
        True,
    ),
    (
        r"\b404\b|not found|connect\.rejected|invalidapp|no such application",
        "{place} knows no such stream.",
        "Check the path of the address.",
        True,
    ),
    (
        r"certificate|handshake|tls (fatal|error)|\bssl\b|dtls",
        "No safe connection to {place} came about.",
        "Check that the address and its port are the ones for encrypted streams, and the clock of this machine.",
        True,
    ),
    (
        r"network is unreachable|no route to host|network is down",
        "There is no way to {place}.",
        "Check the network.",
        False,
    ),
    (r"timed? ?out|does not answer", "{place} does not answer.", "Check the server and the firewall.", False),
    (
        r"connection to srt\S* failed",
        "Nobody takes streams at {place}.",
        "Start the server, and check port and passphrase.",
        False,
    ),
    (
        r"broken pipe|reset by peer|end of file|connection (was )?(broken|lost|closed)|session (was )?closed"
        r"|input/output error|error number -?10053|error number -?10054|was closed|ice (failed|closed)",
        "{place} is gone.",
        "",
        False,
    ),
)


def fault_of(target: Target, said: str) -> StreamFault:
    """Names a fault.

    Args:
        target: Where the stream should go.
        said: What a program said about it; may hold secrets.
    """
    last = _last(target.hide(said))
    for pattern, what, fix, stubborn in _KNOWN:
        if re.search(pattern, said, re.IGNORECASE):
            return StreamFault(what.format(host=target.host, place=target.place), fix, stubborn)
    return StreamFault(
        f"The stream to {target.place} broke off: {last}." if last else f"{target.place} is gone."
    )


def _last(said: str) -> str:
    """The last line that says something, cut to what fits a line, and nothing that moves a cursor."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    return "".join(char for char in last if char.isprintable())[:200].rstrip(".")
