"""Every frame of a file, none dropped, as fast as it goes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from engines.errors import DoppelcamError, UsageError
from engines.swap.base import Progress
from realtime.capture import Fit
from realtime.clock import Clock, StopFlag
from realtime.frame import Frame, Kind
from realtime.pace.budget import Meter, Report
from realtime.pipeline import Pipeline
from realtime.shown.guard import Guard
from realtime.sinks.base import Sink
from realtime.sources.base import Source

log = logging.getLogger(__name__)

_EVERY_NS = 1_000_000_000


def run_offline(
    source: Source,
    pipeline: Pipeline,
    guard: Guard,
    sinks: Sequence[Sink],
    meter: Meter,
    clock: Clock,
    stop: StopFlag | None = None,
    progress: Progress = log.info,
) -> Report:
    """Processes a source from its first frame to its last, in the caller's thread.

    Time is the file's: frame n was taken at n / fps, for the filters of the tracker and for how long the
    guard holds a picture. So the result does not depend on how fast this machine is.

    Args:
        source: Anything but a device. Opened and closed here, like everything else.
        pipeline: What puts another face on the frames.
        guard: What is shown when that cannot be trusted.
        sinks: Each gets as many frames as the source has.
        meter: Gets times and counts.
        clock: Time, for the meter only.
        stop: Ends it after the frame at hand; what was written so far is finished.
        progress: Told about once a second how far it is.

    Returns:
        What was measured.

    Raises:
        UsageError: The source is a device, or there is no sink.
        DoppelcamError: Something failed; sinks are closed first.
    """
    if source.device:
        raise UsageError(
            f"{source.name} has a pace of its own and cannot be processed offline.",
            "Give a file: --source file:PATH, or leave --offline out.",
        )
    if not sinks:
        raise UsageError("There is nowhere to write the frames.", "Give at least one --sink file:PATH.")
    with ExitStack() as closing:
        closing.callback(source.close)
        source.open()
        size, fps = (source.size[0] & ~1, source.size[1] & ~1), source.fps
        closing.callback(pipeline.close)
        pipeline.open(progress)
        for sink in sinks:
            closing.callback(sink.close)
            sink.open(size, fps)
        _every_frame(source, Fit(size), pipeline, guard, sinks, meter, clock, stop, progress)
    return meter.report(clock.now_ns())


def _every_frame(
    source: Source,
    fit: Fit,
    pipeline: Pipeline,
    guard: Guard,
    sinks: Sequence[Sink],
    meter: Meter,
    clock: Clock,
    stop: StopFlag | None,
    progress: Progress,
) -> None:
    now = clock.now_ns
    meter.reset(now())
    number, told = 0, now()
    while not stop:
        began = now()
        frame: Frame | None = source.read()
        meter.stage("capture", now() - began)
        if frame is None:
            return
        media_ns = round(number * 1e9 / source.fps)
        frame = fit(replace(frame, captured_ns=media_ns))
        meter.count("captured")
        shown = guard.judge(pipeline.process(frame), media_ns)
        meter.count("processed")
        if shown.kind is Kind.LIVE:
            raise DoppelcamError("A picture that nobody had judged reached the output; it was not written.")
        began = now()
        for sink in sinks:
            sink.send(shown)
        ended = now()
        meter.stage("output", ended - began)
        meter.count("sent")
        if shown.kind is not Kind.SWAPPED:
            meter.count(shown.kind.value)
        number += 1
        if ended - told >= _EVERY_NS:
            told = ended
            progress(f"{number} frames done")
