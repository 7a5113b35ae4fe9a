"""The process that sends a stream: what blocks in a network blocks there and not here.

PyAV holds Python's lock while it connects and while it closes, and FFmpeg cannot be told to give up; in this process
a dead network would stop the camera. So each connection is a process of its own, fed through a pipe, and ended by
ending it. What breaks inside FFmpeg breaks there.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import threading
from collections import deque
from typing import Final, Protocol

from engines.errors import UsageError
from realtime import child
from realtime.clock import Clock
from realtime.sinks.streams.relay import READY
from realtime.sinks.streams.target import Target

_FFMPEG_READY: Final = "Output #0"
"""Said by ffmpeg once it is connected and has sent the header."""
_LINES: Final = 20
_LINE: Final = 2000
_REAP_S: Final = 2.0


class Link(Protocol):
    """A connection that bytes go into. :meth:`abort` may be called by any thread, the rest by one."""

    def write(self, data: bytes) -> int:
        """Sends; blocks as long as the other side takes no more.

        Raises:
            OSError: The connection is gone.
        """
        ...

    def await_ready(self, until_ns: int) -> bool:
        """Waits until the other side takes the stream; False when it broke off or the time has come."""
        ...

    def finish(self, patience_s: float) -> bool:
        """Ends in good order; returns whether that came about in time."""
        ...

    def abort(self) -> None:
        """Ends now, and with it every :meth:`write` and :meth:`await_ready`. May be called twice."""
        ...

    def said(self) -> str:
        """What was said about trouble; may hold secrets."""
        ...


class ProcessLink:
    """A process that reads a stream from its standard input. See :class:`Link`.

    Args:
        command: Program and arguments.
        hello: Goes in first; secrets that no list of processes shall show.
        clock: Time.
        ready: How a line begins by which it says that the other side takes the stream.
    """

    def __init__(self, command: list[str], hello: bytes, clock: Clock, ready: str) -> None:
        self._clock = clock
        self._condition = threading.Condition()
        self._mark, self._ready, self._ended = ready, False, False
        self._lines: deque[str] = deque(maxlen=_LINES)
        # Our own arguments, and no shell.
        self._process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0,
            env=child.environment(),
            # Ctrl-C is for the camera, which then ends the stream in good order.
            start_new_session=os.name == "posix",
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, name="stream-said", daemon=True)
        self._reader.start()
        if hello:
            with contextlib.suppress(OSError):
                self.write(hello)

    def write(self, data: bytes) -> int:
        """See :class:`Link`."""
        pipe = self._process.stdin
        if pipe is None or pipe.closed:
            raise BrokenPipeError("the process was closed")
        view = memoryview(data)
        try:
            while view:
                view = view[pipe.write(view) or 0 :]
        except ValueError as error:
            # Closed by another thread after it was looked at.
            raise BrokenPipeError("the process was closed") from error
        return len(data)

    def await_ready(self, until_ns: int) -> bool:
        """See :class:`Link`."""
        with self._condition:
            while not (self._ready or self._ended) and self._clock.now_ns() < until_ns:
                self._clock.wait(self._condition, until_ns)
            return self._ready and not self._ended

    def finish(self, patience_s: float) -> bool:
        """See :class:`Link`."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.abort()
            return False
        self._reap()
        return True

    def abort(self) -> None:
        """See :class:`Link`."""
        with contextlib.suppress(OSError):
            self._process.kill()
        self._reap()

    def said(self) -> str:
        """See :class:`Link`."""
        with self._condition:
            return "\n".join(self._lines)

    def _reap(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_REAP_S)
        if threading.current_thread() is not self._reader:
            self._reader.join(_REAP_S)
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()

    def _read(self) -> None:
        pipe = self._process.stdout
        assert pipe is not None
        with pipe:
            # Limited, because it is a program's text and not ours.
            while raw := pipe.readline(_LINE):
                line = raw.decode("utf-8", "replace").strip()
                with self._condition:
                    if line.startswith(self._mark):
                        self._ready = True
                        self._condition.notify_all()
                    elif line:
                        self._lines.append(line)
        with self._condition:
            self._ended = True
            self._condition.notify_all()


def open_link(target: Target, clock: Clock) -> Link:
    """Starts the process for a target.

    Raises:
        OSError: It cannot be started.
    """
    if target.scheme == "srt":
        return ProcessLink(_ffmpeg(target), b"", clock, _FFMPEG_READY)
    module = "whip" if target.muxer == "whip" else "relay"
    hello = {"url": target.url, "muxer": target.muxer, "token": target.token}
    command = [*child.PYTHON, f"realtime.sinks.streams.{module}"]
    return ProcessLink(command, json.dumps(hello).encode() + b"\n", clock, READY)


def require_sender(target: Target) -> None:
    """Refuses a target for which something is not installed.

    Raises:
        UsageError: So it is.
    """
    if target.scheme == "srt":
        if shutil.which("ffmpeg") is None:
            raise UsageError(
                "SRT goes through the program ffmpeg, which is not installed: PyAV comes without SRT.",
                "Install it: sudo apt install ffmpeg",
            )
        return
    if target.muxer != "whip":
        return
    from importlib.util import find_spec

    if find_spec("aiortc") is None:
        raise UsageError(
            "WHIP goes through aiortc, which is not installed.", "Install it: pip install doppelcam[stream]"
        )


def _ffmpeg(target: Target) -> list[str]:
    return [
        shutil.which("ffmpeg") or "ffmpeg", "-hide_banner", "-nostats", "-loglevel", "info",
        "-probesize", "32", "-analyzeduration", "0", "-f", "nut", "-i", "pipe:0",
        "-map", "0", "-c", "copy", "-bsf:v", "dump_extra=freq=keyframe",
        "-max_interleave_delta", "100000", "-flush_packets", "1", "-muxdelay", "0", "-muxpreload", "0",
        "-f", "mpegts", target.url,
    ]  # fmt: skip
