"""From glass to a virtual camera or a stream: numbers are painted into pixels and read back by another process."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from engines.errors import DeviceError, UsageError
from realtime import child
from realtime.bench.measure import Task
from realtime.bench.reader import FROM_INPUT
from realtime.bench.result import Result
from realtime.bench.shared import SharedPicture, SharedSink
from realtime.frame import Frame
from realtime.sinks.base import Sink
from realtime.sinks.streams.target import Target, parse_target
from realtime.sinks.virtualcam import VirtualCamera, list_virtual_cameras
from realtime.sources.base import Source
from realtime.sources.pattern import encode_number

_PATIENCE_S: Final = 20.0
MEMORY: Final = "shared memory"

Measure = Callable[[Task, Callable[[Source], Source], Sequence[Sink]], Result]
"""Measures a task with its source wrapped, and with more sinks."""


@dataclass(frozen=True, slots=True)
class Loopback:
    """What the second process saw of the frames that were measured, ms from capture.

    Attributes:
        through: ``shared memory``, the path of the device, or the address of the stream.
        seen: How many frames it saw.
        backwards: How often an older one came after a newer one.
        p50: Half were seen sooner.
        p95: 95 of 100 were.
        p99: 99 of 100 were.
        max: All were.
        beyond: How much p50 is more than that of *frame age*.
        agrees: Whether the two are less than a period apart: the one says what the other does. A stream is encoded,
            sent and decoded after its frame age: it agrees if it is not seen before.
    """

    through: str
    seen: int
    backwards: int
    p50: float
    p95: float
    p99: float
    max: float
    beyond: float
    agrees: bool

    def as_json(self) -> dict[str, Any]:
        """As in the document of ``bench --json``."""
        values = asdict(self)
        return {
            (f"{name}_ms" if isinstance(value, float) else name): round(value, 3)
            if isinstance(value, float)
            else value
            for name, value in values.items()
        }


class Numbered:
    """Paints its number into every frame of a source, and remembers when it was taken.

    Args:
        source: The one behind it.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.name, self.device = source.name, source.device
        self.size, self.fps = source.size, source.fps
        self.taken: list[int] = []
        """When each frame was captured, ns, by its number."""

    def open(self) -> None:
        """See :class:`~realtime.sources.base.Source`."""
        self._source.open()
        self.size, self.fps = self._source.size, self._source.fps

    def read(self) -> Frame | None:
        """See :class:`~realtime.sources.base.Source`."""
        frame = self._source.read()
        if frame is not None:
            encode_number(frame.image, len(self.taken))
            self.taken.append(frame.captured_ns)
        return frame

    def close(self) -> None:
        """See :class:`~realtime.sources.base.Source`."""
        self._source.close()


def measure_loopback(
    task: Task,
    asked: str,
    measure: Measure,
    cameras: Callable[[], Sequence[VirtualCamera]] | None = None,
) -> tuple[Result, Loopback]:
    """Measures a task, and what another process sees of it.

    Args:
        task: What to measure. Its sink is replaced.
        asked: A device to go through; empty for the first virtual camera that is ready, or else shared memory.
        measure: Measures.
        cameras: Lists virtual cameras; those of this machine by default.

    Raises:
        DeviceError: The device cannot be used, or nothing was seen.
    """
    found = [] if asked or _stream(task) else (cameras or list_virtual_cameras)()
    stream = _stream(task)
    device = asked or next((one.path for one in found if one.ready and one.path.startswith("/dev/")), "")
    through, sink = (stream.shown, task.config.sink) if stream else (device, (f"virtualcam:{device}",))
    picture = SharedPicture.make()
    numbered: list[Numbered] = []

    def watch(source: Source) -> Source:
        numbered.append(Numbered(source))
        return numbered[0]

    try:
        reader = _start(picture.path, device, stream.url if stream else "")
        try:
            sinks = [] if through else [SharedSink(picture)]
            config = replace(task.config, sink=sink if through else ())
            result = measure(replace(task, config=config), watch, sinks)
        finally:
            picture.stop()
            seen = _stop(reader)
    finally:
        picture.close()
    return result, _compare(seen, numbered[0].taken, result, through or MEMORY, streamed=bool(stream))


def _stream(task: Task) -> Target | None:
    """The stream that is to be measured; None if it is a camera."""
    spec = next((sink for sink in task.config.sink if sink.startswith("stream:")), "")
    if not spec:
        return None
    target = parse_target(spec.partition(":")[2])
    if target.scheme not in ("udp", "rtmp", "rtmps"):
        raise UsageError(
            f"A stream by {target.scheme} cannot be read back here.",
            "Use udp://127.0.0.1:PORT, or an RTMP server.",
        )
    return target


def _start(picture: Path, device: str, stream: str = "") -> subprocess.Popen[str]:
    command = [*child.PYTHON, "realtime.bench.reader", str(picture)]
    command += [FROM_INPUT] if stream else [device] if device else []
    # This very Python, and no shell.
    reader = subprocess.Popen(  # noqa: S603
        command, stdin=subprocess.PIPE if stream else subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=child.environment(),
    )  # fmt: skip
    if stream and reader.stdin is not None:
        with contextlib.suppress(OSError):
            # Not among the arguments, which everybody on this machine can see.
            reader.stdin.write(f"{stream}\n")
            reader.stdin.flush()
    return reader


def _stop(reader: subprocess.Popen[str]) -> list[tuple[int, int]]:
    try:
        out, said = reader.communicate(timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        reader.kill()
        reader.communicate()
        raise DeviceError("The process that reads the picture back does not end.", "Try again.") from None
    if reader.returncode:
        why = said.strip().splitlines()[-1] if said.strip() else f"exit code {reader.returncode}"
        raise DeviceError(f"The picture could not be read back: {why}.", "See: doppelcam doctor")
    return [(int(number), int(at)) for number, at in (row.split() for row in out.splitlines())]


def _compare(
    seen: Sequence[tuple[int, int]],
    taken: Sequence[int],
    result: Result,
    through: str,
    streamed: bool = False,
) -> Loopback:
    """Only frames of the time that was measured count: the newest ones, as many as there were."""
    last = len(taken)
    first = last - result.report.counts.get("captured", 0)
    valid = [(number, at) for number, at in seen if first <= number < last]
    if not valid:
        raise DeviceError(
            f"No frame was seen in {through} by another process.",
            "See whether it works at all: doppelcam doctor",
        )
    numbers = np.array([number for number, _ in valid])
    ages = np.array([at - taken[number] for number, at in valid]) / 1e6
    p50, p95, p99 = (float(value) for value in np.percentile(ages, (50, 95, 99)))
    beyond = p50 - result.report.frame_age.p50
    agrees = beyond > 0 if streamed else abs(beyond) < 1000 / result.fps
    backwards = int(np.count_nonzero(np.diff(numbers) < 0))
    return Loopback(through, len(valid), backwards, p50, p95, p99, float(ages.max()), beyond, agrees)
