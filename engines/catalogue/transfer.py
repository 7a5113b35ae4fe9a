"""One file from one address into a ``.part`` that a later try can go on with."""

from __future__ import annotations

import contextlib
import json
import os
import re
import ssl
import time
import urllib.error
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Final, Protocol
from urllib.request import OpenerDirector, Request

from engines.catalogue.urls import opener_for
from engines.runtime.model.file import HEAD, stranger

_BLOCK: Final = 1 << 18
_AGENT: Final = "doppelcam"
_RETRIED: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_RANGE: Final = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


class Progress(Protocol):
    """Is told how far a download is."""

    def __call__(self, done: int, total: int | None) -> None:
        """``done`` bytes are there, of ``total`` if that is known."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """What a download may take.

    Attributes:
        largest: Bytes of one file.
        timeout_s: How long a server may say nothing.
        stall_s: In each span of so many seconds ...
        stall_bytes: ... so many bytes have to come.
        attempts: How often an address is tried again after one that brought nothing new.
        pause_s: Before the first new try; each one after it waits twice as long.
        longest_pause_s: But never longer.
    """

    largest: int = 8 << 30
    timeout_s: float = 30.0
    stall_s: float = 60.0
    stall_bytes: int = 1 << 16
    attempts: int = 5
    pause_s: float = 1.0
    longest_pause_s: float = 60.0


class Failed(Exception):
    """A transfer ended before the file was whole.

    Args:
        why: What went wrong, as the end of a sentence.
        again: Whether trying the same address again can help.
        after_s: How long the server asks to wait before that.
    """

    def __init__(self, why: str, again: bool = False, after_s: float = 0.0) -> None:
        super().__init__(why)
        self.why, self.again, self.after_s = why, again, after_s


@dataclass(frozen=True, slots=True)
class _Origin:
    """Where a part came from, to know whether the rest may be asked for.

    Attributes:
        url: The address.
        mark: The server's name for this very content: a strong ETag, or the time of its last change.
    """

    url: str
    mark: str


class Transfer:
    """Brings one file from one address.

    Args:
        url: The address, checked.
        part: Where the file grows. Beside it lies a note of where it came from.
        size: Bytes that it has to have, if that is known.
        sum_known: Whether the whole file will be checked against a known sum, so that a part without a mark of its
            own can be gone on with.
        limits: What it may take.
        now: Seconds, monotonic.
    """

    def __init__(
        self, url: str, part: Path, size: int | None, sum_known: bool, limits: Limits,
        now: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._url, self._part, self._size, self._limits, self._now = url, part, size, limits, now
        self._sum_known = sum_known
        self._note = part.with_name(part.name + ".from")
        self._opener: OpenerDirector = opener_for(url)
        self.resumed = False

    def run(self, progress: Progress) -> None:
        """Gets what is missing. The part is kept whatever happens, so that a later run can go on.

        Raises:
            Failed: The file is not whole.
            OSError: The disk failed.
        """
        start, mark = self._start()
        if self._size is not None and start == self._size:
            self.resumed = True
            return
        try:
            answer = self._ask(start, mark)
        except urllib.error.HTTPError as error:
            with error:
                self._refused(error, start)
            return
        except (OSError, HTTPException) as error:  # urllib's own errors are among them
            raise Failed(f"the connection failed ({_reason(error)})", not _distrusted(error)) from error
        with answer:
            self._take(answer, start, progress)

    def _start(self) -> tuple[int, str]:
        """How much is there already, and the mark to ask for the rest with; 0 where it has to begin anew."""
        try:
            have = self._part.stat().st_size
        except FileNotFoundError:
            return 0, ""
        origin = self._origin()
        mark = origin.mark if origin and origin.url == self._url else ""
        too_much = self._size is not None and have > self._size
        if have == 0 or too_much or not (mark or self._sum_known):
            return 0, ""
        return have, mark

    def _ask(self, start: int, mark: str) -> HTTPResponse:
        # Unpacked on the way, the bytes would not be those of the file.
        headers = {"User-Agent": _AGENT, "Accept": "*/*", "Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
            if mark:
                headers["If-Range"] = mark
        request = Request(self._url, headers=headers)  # noqa: S310 - the address is checked
        answer: HTTPResponse = self._opener.open(request, timeout=self._limits.timeout_s)
        return answer

    def _take(self, answer: HTTPResponse, start: int, progress: Progress) -> None:
        if answer.status not in (200, 206):
            raise Failed(f"the server answers {answer.status}")
        kind = answer.headers.get_content_type()
        if kind in ("text/html", "application/xhtml+xml", "text/xml", "application/json"):
            raise Failed(f"the server sends {kind} instead of a model, perhaps a page to log in at")
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            raise Failed("the server packs what it sends, though it was asked not to")
        start, total = self._placed(answer, start)
        self._check_size(total)
        self.resumed = start > 0
        block = _next_of(answer)
        if block and not start:
            _check_beginning(block)
            self._write_note(answer)
        done, most = start, total or self._size or self._limits.largest
        with self._part.open("ab" if start else "wb") as file:
            progress(done, total)
            mark, since = done, self._now()
            while block:
                done += len(block)
                if done > most:
                    self.forget()
                    raise Failed(f"the server sends more than {most:,} bytes")
                file.write(block)
                progress(done, total)
                if self._now() - since >= self._limits.stall_s:
                    if done - mark < self._limits.stall_bytes:
                        raise Failed("the server is too slow", again=True)
                    mark, since = done, self._now()
                block = _next_of(answer)
            file.flush()
            os.fsync(file.fileno())
        if total is not None and done < total:
            raise Failed(f"the connection was cut after {done:,} of {total:,} bytes", again=True)

    def _placed(self, answer: HTTPResponse, start: int) -> tuple[int, int | None]:
        """Where the answer begins in the file, and how long the file is, if the server says so."""
        length = answer.headers.get("Content-Length", "")
        if answer.status == 200:  # The server does not do parts, or the file is another one now.
            return 0, int(length) if length.isdecimal() else None
        place = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        if place is None or int(place[1]) != start:
            self.forget()
            raise Failed("the server sends another part than was asked for", again=True)
        return start, int(place[3]) if place[3] != "*" else None

    def _check_size(self, total: int | None) -> None:
        if total is None:
            return
        if self._size is not None and total != self._size:
            raise Failed(f"the file there has {total:,} bytes and not {self._size:,}")
        if total == 0:
            raise Failed("the file there is empty")
        if total > self._limits.largest:
            raise Failed(f"the file there has {total:,} bytes, more than {self._limits.largest:,}")

    def _refused(self, error: urllib.error.HTTPError, start: int) -> None:
        if error.code == 416 and error.headers.get("Content-Range") == f"bytes */{start}":
            self.resumed = True  # All of it had come before.
            return
        if error.code == 416 and start:  # There is no such part: what is here is of another file.
            self.forget()
            raise Failed("the part that is here does not belong to the file there", again=True)
        if error.code in _RETRIED:
            text = error.headers.get("Retry-After", "")
            raise Failed(f"the server answers {error.code}", True, float(text) if text.isdecimal() else 0.0)
        if error.code in (301, 302, 303, 307, 308):
            raise Failed(" ".join(str(error.reason).split()))
        raise Failed(f"the server answers {error.code} {error.reason}".rstrip())

    def forget(self) -> None:
        """Throws away what is here, so that the next run begins anew."""
        for path in (self._part, self._note):
            path.unlink(missing_ok=True)

    def settle(self) -> None:
        """Throws away the note, once the file is whole and has its place."""
        self._note.unlink(missing_ok=True)

    def _origin(self) -> _Origin | None:
        try:
            table = json.loads(self._note.read_bytes()[:4096])
            return _Origin(str(table["url"]), str(table["mark"]))
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def _write_note(self, answer: HTTPResponse) -> None:
        mark = answer.headers.get("ETag", "")
        if not mark.startswith('"'):  # A weak one says "as good as", not "the same".
            mark = answer.headers.get("Last-Modified", "")
        if not mark.isprintable() or len(mark) > 512:
            mark = ""
        with contextlib.suppress(OSError):
            self._note.write_text(json.dumps({"url": self._url, "mark": mark}), "utf-8")


def _next_of(answer: HTTPResponse) -> bytes:
    """What has come, empty at the end. A read of a whole block would wait for a server that drips."""
    try:
        return answer.read1(_BLOCK)
    except (OSError, HTTPException) as error:
        raise Failed(f"the connection failed ({_reason(error)})", again=True) from error


def _check_beginning(block: bytes) -> None:
    """What is plainly something else is not brought to its end, whatever the server calls it."""
    kind = stranger(block[:HEAD])
    if kind:
        raise Failed(f"what the server sends is {kind}, not an ONNX model")


def _distrusted(error: Exception) -> bool:
    """Whether the server could not prove who it is: asking again would change nothing."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    return isinstance(cause, ssl.SSLCertVerificationError)


def _reason(error: Exception) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    return " ".join(str(cause).split()) or type(cause).__name__
