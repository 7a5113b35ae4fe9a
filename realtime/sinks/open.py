"""From ``--sink`` to a sink."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from engines.errors import UsageError
from realtime.clock import Clock
from realtime.pace.budget import Report
from realtime.sinks.base import Sink
from realtime.sinks.file import FileSink
from realtime.sinks.null import NullSink
from realtime.sinks.preview import DEFAULT_PORT, PreviewSink
from realtime.sinks.spare import SpareSink
from realtime.sinks.streams import target as stream_target
from realtime.sinks.streams.stream import StreamSettings, StreamSink
from realtime.sinks.virtualcam import VirtualCamSink

FORMS = "virtualcam[:DEVICE], file:PATH, preview[:PORT], stream:URL, null"


def open_sink(
    spec: str,
    *,
    clock: Clock,
    report: Callable[[], Report],
    metadata: Mapping[str, str],
    streams: StreamSettings | None = None,
    beside: bool = False,
    live: bool = False,
    lost: Callable[[], None] = lambda: None,
) -> Sink:
    """Builds the sink that a specification names; :meth:`Sink.open` opens it.

    Args:
        spec: ``virtualcam[:DEVICE]``, ``file:PATH``, ``preview[:PORT]``, ``stream:URL`` or ``null``. Only the
            first colon counts, so a path may hold more of them.
        clock: Time.
        report: What was measured so far, for the preview.
        metadata: Written into files.
        streams: How streams are encoded, and what is heard in them.
        beside: Whether others show the picture too: then a full disk ends a recording, and not the camera.
        live: Whether a recording begins with the first picture, and not while the engines get ready.
        lost: Called once when a recording beside others ends before its time.

    Raises:
        UsageError: It names no sink, or lacks or has too much behind its colon.
    """
    kind, colon, rest = spec.strip().partition(":")
    if colon and not rest.strip():
        raise UsageError(f"The sink {spec!r} says nothing behind its colon.", f"There are: {FORMS}.")
    if kind == "virtualcam":
        return VirtualCamSink(rest.strip() or None, clock)
    if kind == "file":
        if not rest:
            raise UsageError("The sink “file” needs a path.", "For example --sink file:out.mp4")
        file = FileSink(Path(rest).expanduser(), metadata, from_first_picture=live)
        return SpareSink(file, lost) if beside else file
    if kind == "preview":
        return PreviewSink(_port(rest) if colon else DEFAULT_PORT, report)
    if kind == "null" and not colon:
        return NullSink()
    if kind == "stream":
        if not rest:
            raise UsageError("The sink “stream” needs an address.", f"There are: {stream_target.FORMS}")
        return StreamSink(rest.strip(), streams or StreamSettings(), clock)
    raise UsageError(f"There is no sink {spec!r}.", f"There are: {FORMS}.")


def _port(text: str) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdecimal() and int(text) <= 65535):
        raise UsageError(
            f"{text!r} is not a port for the preview.",
            "Use a number from 1024 to 65535, or 0 for any free one.",
        )
    return int(text)
