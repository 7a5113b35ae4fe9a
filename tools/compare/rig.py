"""The tracker and one engine, driven by hand: frame in, painted frame out, stages timed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from engines.faces import Array, Face, Floats, Image
from engines.open import open_swapper
from engines.runtime.device import choose_device
from engines.shipped import runs_on
from realtime.assemble import wanted
from realtime.choosing.select import Choice, Selector
from realtime.settings.config import Config
from realtime.sources.open import DEFAULT_FPS
from realtime.tracking.track import Tracker

STAGES = ("track", "swap", "blend")


@dataclass(frozen=True, slots=True)
class Shot:
    """One frame that went through.

    Attributes:
        output: The painted frame; the live one where there was no face.
        faces: The swapped faces, as the tracker gave them.
        layers: What the engine made of each.
        ms: What tracking, swapping and blending took.
    """

    output: Image
    faces: Sequence[Face]
    layers: Sequence[Any]
    ms: tuple[float, float, float]


class Rig:
    """One engine with one person's photos, and the tracker of the program.

    Args:
        config: Photos, engine, device and everything else that changes the picture.

    Raises:
        DoppelcamError: A photo cannot be used, or the engine is not there.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        device = choose_device(config.device, able=runs_on(config.engine))
        self._swapper = open_swapper(wanted(config, device, config.fps or DEFAULT_FPS), config.face)
        try:
            self._swapper.open(_quiet)
        except BaseException:
            self._swapper.close()
            raise

    @property
    def landmarks(self) -> int:
        """How many landmarks the engine wants."""
        return self._swapper.landmarks

    @contextmanager
    def tracking(self) -> Iterator[Tracker]:
        """A tracker that knows nobody yet."""
        config = self._config
        tracker = Tracker(
            self._swapper.landmarks,
            Selector(cast("Choice", config.select), config.max_faces),
            config.detect_every,
        )
        try:
            tracker.open(_quiet)
            yield tracker
        finally:
            tracker.close()

    def shoot(self, tracker: Tracker, image: Image, seconds: float) -> Shot:
        """One frame through tracker and engine.

        Args:
            tracker: From :meth:`tracking`.
            image: The frame, BGR; it stays as it is.
            seconds: When it was taken.
        """
        output = image.copy()
        began = time.perf_counter()
        faces = tracker.track(output, round(seconds * 1e9))
        tracked = time.perf_counter()
        layers, swap, blend = [], 0.0, 0.0
        for face in faces:
            at = time.perf_counter()
            layer = self._swapper.swap(output, face)
            swapped = time.perf_counter()
            if layer is not None:
                layers.append(layer)
                self._swapper.blend(output, layer)
            swap, blend = swap + swapped - at, blend + time.perf_counter() - swapped
        return Shot(output, faces, layers, (1e3 * (tracked - began), 1e3 * swap, 1e3 * blend))

    def paint(self, image: Image, face: Face) -> tuple[Image, Any]:
        """One face that was found by other means: the painted frame, and the engine's layer."""
        output = image.copy()
        layer = self._swapper.swap(output, face)
        if layer is not None:
            self._swapper.blend(output, layer)
        return output, layer

    def close(self) -> None:
        """Frees the engine."""
        self._swapper.close()


def vertices(layer: Any) -> Array | None:
    """(N, 2) float64: where the engine put the vertices of its mesh; None if it has no mesh."""
    xy: Floats | None = getattr(layer, "xy", None)
    return None if xy is None else np.array(xy[:, :2], np.float64)


def _quiet(_: str) -> None:
    """Progress that nobody needs to hear of."""
