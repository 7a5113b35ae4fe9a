"""How live streams are doing, in words and for JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, NamedTuple

from rich.text import Text

from realtime.show import clean
from realtime.sinks.base import Sink
from realtime.sinks.streams.stream import StreamSink
from realtime.sinks.streams.writer import StreamStatus


class Streamed(NamedTuple):
    """A stream at this moment.

    Attributes:
        name: Of its sink, without secrets.
        status: How it is doing.
    """

    name: str
    status: StreamStatus

    def as_json(self) -> dict[str, Any]:
        """For ``run --json``."""
        return {"name": self.name, **asdict(self.status)}

    def __str__(self) -> str:
        status = self.status
        counts = [f"{status.sent:,} sent"]
        counts += [f"{status.dropped:,} dropped"] if status.dropped else []
        counts += [f"{status.breaks:,} breaks"] if status.breaks else []
        trouble = f": {status.trouble}" if status.trouble else ""
        return clean(f"{self.name} · {status.state}{trouble} · {' · '.join(counts)}")

    def text(self) -> Text:
        """For a terminal: yellow while nothing gets through."""
        return Text(str(self), "yellow" if self.status.state == "waiting" else "dim")


def streams_among(sinks: Iterable[Sink]) -> list[Streamed]:
    """Those of the sinks that are streams, as they are now."""
    return [Streamed(sink.name, sink.status) for sink in sinks if isinstance(sink, StreamSink)]
