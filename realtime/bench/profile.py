"""Where the time goes inside a stage.

While it runs, the functions named below are wrapped in a stopwatch; before and after, they are what they were, so a run
that is not profiled pays nothing, and no stage knows of it.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import wraps
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import numpy as np

_THREAD: Final = "doppelcam-process"


class Point(NamedTuple):
    """One function that is timed.

    Attributes:
        stage: What it belongs to.
        part: What the user reads; several points may share one.
        module: Where it is.
        name: Its name there, or ``Class.name``.
    """

    stage: str
    part: str
    module: str
    name: str


POINTS: Final = (
    Point("track", "detector", "engines.analysis.detect", "Detector.detect"),
    Point("track", "crop", "engines.analysis.crop", "Cropper.read"),
    Point("track", "network", "engines.runtime.ort.network", "OnnxNetwork.run"),
    Point("track", "look", "realtime.tracking.track", "look_of"),
    Point("track", "filter", "realtime.tracking.smooth", "OneEuro.__call__"),
    Point("track", "motion", "realtime.tracking.attention", "Attention.notice"),
    Point("track", "choice", "realtime.choosing.select", "Selector.choose"),
    Point("swap", "before the face", "engines.swap.mesh.cover", "Covers.look"),
    Point("swap", "lids", "engines.swap.mesh.lids", "Lids.open"),
    Point("swap", "light", "engines.swap.mesh.light", "Light.of_patch"),
    Point("swap", "light", "engines.swap.mesh.light", "Light.gain"),
    Point("swap", "shape", "engines.swap.mesh.shape", "Proportions.offset"),
    Point("swap", "facing", "engines.kernels.cpu", "facing"),
    Point("swap", "openings", "engines.swap.mesh.openings", "Openings.take"),
    Point("swap", "eye colours", "engines.swap.mesh.eyes", "EyeColours.paint"),
    Point("swap", "crop", "engines.kernels.warp", "Warp.crop"),
    Point("swap", "generator", "engines.swap.neural.boost", "Tiles.run"),
    Point("swap", "masks", "engines.swap.masks.masks", "Masks.narrow"),
    Point("swap", "colours", "engines.swap.neural.colour", "ColourMatch.match"),
    Point("swap", "restorer", "engines.restore.restorer", "Restorer.bake"),
    Point("swap", "baking", "engines.swap.neural.paste", "Baker.bake"),
    Point("blend", "paste", "engines.swap.neural.neural", "paint"),
    Point("blend", "openings", "engines.swap.mesh.openings", "Openings.put"),
    Point("blend", "composite", "engines.kernels.cpu", "composite"),
    Point("blend", "before the face", "engines.swap.mesh.kept", "Keeper.keep"),
    Point("blend", "before the face", "engines.kernels.edges", "put_back"),
    Point("", "detector, between frames", "realtime.tracking.track", "Tracker.look_on"),
    Point("", "repeats", "realtime.pace.repeats", "Repeats.find"),
    Point("", "label", "realtime.shown.label", "Label.paint"),
)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a stage.

    Attributes:
        stage: Its stage; empty for what belongs to none.
        name: Its name.
        calls: How often it ran.
        total_ms: All of them together.
        p50_ms: Of one call.
        p95_ms: Of one call.
    """

    stage: str
    name: str
    calls: int
    total_ms: float
    p50_ms: float
    p95_ms: float


class Profile(AbstractContextManager["Profile"]):
    """Times parts of stages in the process thread; one at a time in a process. Leaving it ends it.

    A part that runs inside of another one counts as the outer one alone, so that parts add up.

    Args:
        points: What is timed.
        thread: The name of the thread in which it is timed.

    Attributes:
        missing: Points that are not there in this version.
    """

    def __init__(self, points: Sequence[Point] = POINTS, thread: str = _THREAD) -> None:
        self._points, self._name = points, thread
        self._times: dict[tuple[str, str], list[int]] = {}
        self._undo: list[tuple[Any, str, Any]] = []
        self._inside = False
        self.missing: list[Point] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def begin(self) -> None:
        """Begins to time, from nothing. Engines have to be open: kernels are warmed up as they are."""
        self.end()
        self._times.clear()
        self.missing.clear()
        for point in self._points:
            owner: Any = importlib.import_module(point.module)
            *path, name = point.name.split(".")
            for step in path:
                owner = getattr(owner, step, None)
            original = getattr(owner, name, None)
            if original is None:
                self.missing.append(point)
                continue
            times = self._times.setdefault((point.stage, point.part), [])
            self._undo.append((owner, name, original))
            setattr(owner, name, self._timed(original, times))

    def end(self) -> None:
        """Takes every stopwatch away; what was timed stays. May be called twice."""
        while self._undo:
            owner, name, original = self._undo.pop()
            setattr(owner, name, original)

    def parts(self) -> list[Part]:
        """What was timed, in the order of the points; parts that never ran are left out."""
        made = []
        for (stage, name), times in self._times.items():
            if times:
                ms = np.array(times) / 1e6
                p50, p95 = np.percentile(ms, (50, 95))
                made.append(Part(stage, name, len(ms), float(ms.sum()), float(p50), float(p95)))
        return made

    def _timed(self, original: Callable[..., Any], times: list[int]) -> Callable[..., Any]:
        now, this = time.perf_counter_ns, threading.current_thread

        @wraps(original)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if this().name != self._name or self._inside:
                return original(*args, **kwargs)
            self._inside = True
            began = now()
            try:
                return original(*args, **kwargs)
            finally:
                times.append(now() - began)
                self._inside = False

        return timed
