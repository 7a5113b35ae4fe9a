"""Configuration in, a session with its parts out: the only file that knows them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal, cast

from engines.analysis.photo import is_still
from engines.analysis.source import SourceFace
from engines.analysis.topology import POINTS
from engines.catalogue.store import Store, default_folder
from engines.errors import UsageError
from engines.kernels.canvas import Easel
from engines.open import (
    Looks,
    NeuralOptions,
    PortraitOptions,
    Wanted,
    easel_for,
    landmarks_of,
    open_cast,
    read_faces,
)
from engines.restore.choice import read_restore
from engines.runtime.device import Device, choose_device
from engines.shipped import SWAPPERS, paints_all, runs_on
from engines.swap.base import AnySwapper, Progress
from engines.swap.masks.choice import read_masks
from engines.swap.neural.neural import Colour
from realtime.audio.open import open_audio
from realtime.choosing.people import make_selector
from realtime.clock import Clock, StopFlag, SystemClock
from realtime.frame import Frame
from realtime.offline import run_offline
from realtime.pace.budget import Meter, Report
from realtime.pace.governor import Governor, Rung
from realtime.pace.repeats import Repeats
from realtime.pace.rungs import HasRungs, ladder
from realtime.pace.stages import budget_for
from realtime.pipeline import FaceTracker, Pipeline
from realtime.session import Session
from realtime.settings.config import Config
from realtime.shown.guard import Guard
from realtime.shown.label import Label
from realtime.sinks.base import Sink
from realtime.sinks.open import open_sink
from realtime.sinks.streams.stream import StreamSettings
from realtime.sources.base import Source
from realtime.sources.open import DEFAULT_FPS, DEFAULT_SIZE, make_source
from realtime.tracking.attention import NEWCOMERS, STILL
from realtime.tracking.predict import lookahead
from realtime.tracking.seeing import seeing_of
from realtime.tracking.smooth import OneEuroSettings
from realtime.tracking.track import Tracker

_RECONNECT_S: Final = 60.0

ReadFaces = Callable[[Sequence[Path], int], Sequence[SourceFace]]
"""Photos of one person, and how many landmarks are wanted, to the faces in them."""

MakeSwapper = Callable[[Config, ReadFaces], AnySwapper]
"""Makes the swapper that a configuration asks for, not yet opened. Options of the tracker are those that were given
first. Raises what :func:`assemble` does."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything a run needs, made and not yet opened.

    Attributes:
        source: Where frames come from.
        tracker: Finds faces.
        swapper: Replaces them.
        pipeline: The two, timed.
        guard: What is shown when that cannot be trusted.
        sinks: Where frames go.
        meter: All times and counts.
        clock: Time.
        fps: Sends a second.
        device: What it runs on.
        easel: What pictures are painted on.
        stop: Ends it.
        governor: What gives way when frames take too long; None lets nothing give way.
        another: Makes the swapper that another configuration asks for, to take the place of this one; see
            :data:`MakeSwapper`.
        rungs: What can give way with a swapper.
    """

    source: Source
    tracker: Tracker
    swapper: AnySwapper
    pipeline: Pipeline
    guard: Guard
    sinks: Sequence[Sink]
    meter: Meter
    clock: Clock
    fps: float
    device: Device
    easel: Easel
    stop: StopFlag
    governor: Governor | None = None
    another: MakeSwapper = field(kw_only=True)
    rungs: Callable[[AnySwapper], Sequence[Rung]] = field(kw_only=True)

    def nodes(self) -> dict[str, Mapping[str, int]]:
        """Where every network really runs: nodes per provider. Known once the pipeline is open."""
        return {**self.tracker.nodes, **self.pipeline.swapper.nodes}

    def replace_swapper(self, swapper: AnySwapper) -> AnySwapper:
        """Goes on with another swapper, and with what it can do without. Called by the process thread between frames.

        Args:
            swapper: Opened.

        Returns:
            The one before, for the caller to close.
        """
        both = (self.pipeline.swapper, swapper)
        # First what may fail: a swapper that was handed over is no longer the caller's to close.
        if self.governor is not None and any(isinstance(one, HasRungs) and one.gives_way for one in both):
            self.governor.replace(self.rungs(swapper))
        return self.pipeline.replace_swapper(swapper)

    def session(
        self, progress: Progress, on_ready: Callable[[], None] | None = None,
        on_captured: Callable[[Frame], None] = lambda frame: None,
    ) -> Session:  # fmt: skip
        """A live session of these parts; there can be one only."""
        return Session(
            self.source, self.pipeline, self.guard, self.sinks, self.meter, self.clock, self.fps, self.stop,
            progress=progress, on_ready=on_ready, reconnect_s=_RECONNECT_S,
            governor=self.governor, on_captured=on_captured,
        )  # fmt: skip

    def offline(self, progress: Progress) -> Report:
        """Processes every frame of the source; see :func:`~realtime.offline.run_offline`."""
        return run_offline(
            self.source, self.pipeline, self.guard, self.sinks, self.meter, self.clock, self.stop, progress
        )


def assemble(
    config: Config,
    *,
    clock: Clock | None = None,
    watch: Callable[[Source], Source] = lambda source: source,
    load: Callable[[FaceTracker], FaceTracker] = lambda tracker: tracker,
    more_sinks: Sequence[Sink] = (),
    source: Source | None = None,
    easels: Callable[[Device, Callable[[], int]], Easel] | None = None,
) -> Parts:
    """Makes every part that a configuration asks for. Photos are read here; devices are not touched.

    Args:
        config: What is wanted.
        clock: Time; the machine's by default.
        watch: Wraps the source, to see what it gives.
        load: Wraps the tracker, to add work to every frame.
        more_sinks: Sinks beside those of the configuration.
        source: In place of the one in the configuration.
        easels: Makes what pictures are painted on, of the device and of what tells the time.

    Raises:
        UsageError: No photo is given, or one cannot be used, or a source or a sink cannot be made, or sound is given
            and nothing that carries it.
        EngineError: The engine or the device is not there.
    """
    clock = clock or SystemClock()
    config = replace(config, landmarks=max(config.landmarks, landmarks_of(config.engine)))
    device = _device_of(config)
    easel = (easels or easel_for)(device, clock.now_ns)
    if config.offline and is_still(Path(config.source.partition(":")[2]).expanduser()):
        raise UsageError(
            "A picture that does not move has no end, so it cannot be processed offline.",
            "Name a video, or leave --offline out and give a --duration.",
        )
    source = source or make_source(
        config.source, size=config.size, fps=config.fps, clock=clock, seed=config.seed
    )
    fps = config.fps or (_own_rate(source) if config.source.startswith("file:") else DEFAULT_FPS)
    budget = budget_for(fps)
    if not source.device:
        # A source that makes its pictures may take a frame's time for it; it runs beside the rest.
        budget["capture"] = 1000 / fps
    if paints_all(config.engine):
        # It works out little and paints millions of pixels.
        budget["swap"], budget["blend"] = budget["blend"], budget["swap"]
    meter = Meter(clock.now_ns(), {**budget, **config.budget})
    store = Store(config.models or default_folder())
    selector, identity = make_selector(config, device, store, partial(meter.count, "recognitions"))
    seeing = seeing_of(config, device, store, identity, mesh=config.engine in SWAPPERS)

    def make(config: Config, device: Device, read: ReadFaces) -> AnySwapper:
        asked = replace(wanted(config, device, fps), landmarks=seeing.landmarks)
        people = [[pair.photo] for pair in config.person] if config.person else [config.face]
        return open_cast(asked, people, read, easel)

    def another(config: Config, read: ReadFaces) -> AnySwapper:
        # Says no where the engine cannot use what is tracked already.
        seeing_of(config, device, store, identity, mesh=config.engine in SWAPPERS)
        return make(config, _device_of(config), read)

    swapper = make(config, device, read_faces)
    tracker = Tracker(
        swapper.landmarks, selector, config.detect_every, seeing.open,
        longest=NEWCOMERS if config.max_faces > 1 or config.others == "veil" else STILL,
        ahead=lookahead("off" if config.offline and config.predict == "auto" else config.predict, meter.latest_age),
    )  # fmt: skip
    tracker.smoothing = OneEuroSettings.of(config.smoothing)
    label = Label() if config.label else None
    # Offline there is no hurry, and what moves between the samples is worth its time.
    repeats = None if config.offline else Repeats()
    metadata = {"title": "doppelcam", "engine": config.engine}
    audio = open_audio(config.audio, clock)
    if audio is not None and not any(spec.startswith("stream:") for spec in config.sink):
        raise UsageError(
            "Sound is heard in streams only, and no sink is one.",
            "Add --sink stream:URL, or leave --audio out.",
        )
    streams = StreamSettings(config.stream_bitrate, config.stream_keyframes, audio)
    sinks = [
        open_sink(
            spec, clock=clock, report=lambda: meter.report(clock.now_ns()), metadata=metadata, streams=streams,
            beside=len(config.sink) > 1 and not config.offline, live=not config.offline,
            lost=partial(meter.count, "recordings_lost"),
        )
        for spec in config.sink
    ]  # fmt: skip
    points = swapper.landmarks if seeing.can_shrink else POINTS

    def rungs(swapper: AnySwapper) -> Sequence[Rung]:
        return ladder(tracker, points, fps, [swapper])

    governor = Governor(rungs(swapper), fps, meter.count) if config.governor and not config.offline else None
    pipeline = Pipeline(
        load(tracker),
        swapper,
        meter,
        clock,
        label,
        repeats=repeats,
        cover_others=config.others == "veil",
        easel=easel,
    )
    return Parts(
        source=watch(source),
        tracker=tracker,
        swapper=swapper,
        pipeline=pipeline,
        guard=Guard(config.on_lost, private=lambda: pipeline.paints_all),
        sinks=(*sinks, *more_sinks),
        meter=meter,
        clock=clock,
        fps=fps,
        device=device,
        easel=easel,
        stop=StopFlag(clock),
        governor=governor,
        another=another,
        rungs=rungs,
    )


def _device_of(config: Config) -> Device:
    """What a configuration runs on."""
    able = runs_on(config.engine, config.device, config.colour)
    return choose_device(config.device, able=able, who=f"The engine {config.engine}")


def wanted(config: Config, device: Device, fps: float) -> Wanted:
    """What the configuration asks of a swapper.

    Args:
        config: What is wanted.
        device: What it runs on.
        fps: Frames a second that are wanted.
    """
    eyes = cast("Literal['live', 'mixed', 'photo']", config.eyes)
    looks = Looks(
        config.shape, eyes, cast("Literal['live', 'photo']", config.mouth),
        cast("Literal['live', 'cover']", config.occluders),
    )  # fmt: skip
    neural = NeuralOptions(
        boost=config.boost, morph=config.morph, colour=cast("Colour", config.colour), fps=fps
    )
    restore = read_restore(config.restore) if config.restore else None
    return Wanted(
        config.engine,
        device,
        config.landmarks,
        looks,
        neural,
        read_masks(config.mask),
        restore,
        PortraitOptions(config.background, config.size or DEFAULT_SIZE),
        config.models,
    )


def _own_rate(source: Source) -> float:
    """The rate of a file, which is known once it was opened."""
    source.open()
    try:
        return source.fps
    finally:
        source.close()
