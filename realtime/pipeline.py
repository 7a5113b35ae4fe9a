"""Frame in, frame with another face out. Synchronous, no threads, no I/O."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Protocol

import numpy as np

from engines.errors import DoppelcamError, EngineError
from engines.faces import Face, Image
from engines.swap.base import AnySwapper, Progress
from realtime.budget import Meter
from realtime.bystanders import cover
from realtime.clock import Clock
from realtime.frame import Frame
from realtime.label import Label
from realtime.outcome import Outcome
from realtime.repeats import Repeats

log = logging.getLogger(__name__)

MOST_FAILURES = 30
"""Frames in a row that may fail before the session ends: a second of them is no accident."""


class FaceTracker(Protocol):
    """Finds the faces to swap and follows them.

    Attributes:
        skipped_detections: How many frames needed no detector so far.
    """

    skipped_detections: int

    @property
    def others(self) -> Sequence[Face]:
        """Faces of the last frame that are followed and were not chosen."""
        ...

    @property
    def lost(self) -> bool:
        """Whether a chosen face of a moment ago is not seen: it may still be there, and bare."""
        ...

    def open(self, progress: Progress) -> None:
        """Loads and warms up its networks.

        Raises:
            EngineError: One of them is missing or does not run.
        """
        ...

    def track(self, image: Image, now_ns: int) -> Sequence[Face]:
        """The faces to swap, in order; empty when none can be trusted. The image stays as it is."""
        ...

    def close(self) -> None:
        """Frees everything; may be called twice."""
        ...


class Pipeline:
    """Track, swap, blend, label. One thread opens, uses and closes it.

    Args:
        tracker: Finds and follows faces.
        swapper: Works out and paints new faces.
        meter: Gets the times of the stages.
        clock: Where the times come from.
        label: The mark painted into trusted frames; None for no mark.
        most_failures: Frames in a row that may fail before :meth:`process` gives up.
        repeats: Tells frames that were there before; None works on every frame.
        cover_others: Whether faces that are followed and not chosen are pixelated.
    """

    def __init__(
        self,
        tracker: FaceTracker,
        swapper: AnySwapper,
        meter: Meter,
        clock: Clock,
        label: Label | None,
        most_failures: int = MOST_FAILURES,
        repeats: Repeats | None = None,
        cover_others: bool = True,
    ) -> None:
        self._tracker = tracker
        self._cover_others = cover_others
        self._swapper = swapper
        self._meter = meter
        self._clock = clock
        self._label = label
        self._most_failures = most_failures
        self._repeats = repeats
        self._failures = 0
        self._skipped = 0
        self._logged: set[str] = set()

    @property
    def swapper(self) -> AnySwapper:
        """The swapper in use."""
        return self._swapper

    def open(self, progress: Progress) -> None:
        """Opens the tracker and the swapper.

        Raises:
            EngineError: One of them does not work.
        """
        self._tracker.open(progress)
        self._swapper.open(progress)
        self._skipped = self._tracker.skipped_detections

    def replace_swapper(self, swapper: AnySwapper, progress: Progress) -> None:
        """Opens another swapper and goes on with it. Called by the process thread between frames.

        Raises:
            EngineError: The new one does not work; it is closed and the old one goes on.
        """
        try:
            swapper.open(progress)
        except BaseException:
            swapper.close()
            raise
        old, self._swapper = self._swapper, swapper
        self._failures = 0
        if self._repeats is not None:
            self._repeats.forget()
        old.close()

    def process(self, frame: Frame) -> Outcome:
        """Puts the new face on every chosen face of the frame, in place.

        A frame that is the same as the last one is not worked on again: it gets the outcome of that one, counted as
        ``duplicates``, and no stage is timed.

        A failure makes an outcome that is not trusted, whatever kind of failure it is: the real face must not
        be shown because of a fault of ours.

        Args:
            frame: Owned by the caller and handed over.

        Raises:
            EngineError: It failed for many frames in a row.
        """
        began = self._clock.now_ns()
        faces, error = 0, None
        try:
            again = self._repeats.find(frame) if self._repeats is not None else None
            if again is not None:
                self._meter.count("duplicates")
                return again
            faces = self._paint(frame, began)
        except Exception as caught:
            error = self._failed(caught)
        else:
            self._failures = 0
        skipped = self._tracker.skipped_detections
        self._meter.count("skipped_detection", skipped - self._skipped)
        self._skipped = skipped
        self._meter.process(self._clock.now_ns() - began)
        trusted = faces > 0 and error is None and not self._tracker.lost
        outcome = Outcome(frame, faces, trusted, error)
        if self._repeats is not None:
            self._repeats.worked(outcome)
        return outcome

    def close(self) -> None:
        """Closes the tracker and the swapper; may be called twice."""
        try:
            self._tracker.close()
        finally:
            self._swapper.close()

    def _paint(self, frame: Frame, began: int) -> int:
        now, swapper, image = self._clock.now_ns, self._swapper, frame.image
        faces = self._tracker.track(image, frame.captured_ns)
        if self._cover_others:
            for other in self._tracker.others:
                cover(image, other)
        at = now()
        self._meter.stage("track", at - began)
        swap_ns = blend_ns = 0
        for face in faces:
            if not (all_finite(face.points) and math.isfinite(face.presence)):
                raise EngineError("The tracker gave a face that is not made of numbers.")
            layer = swapper.swap(image, face)
            if layer is None:
                # Turned away so far, or so mistaken, that the new face would not cover the real one.
                return 0
            if not all_finite(layer):
                raise EngineError(f"The swapper {swapper.name} gave a face that is not made of numbers.")
            swapped = now()
            swapper.blend(image, layer)
            blended = now()
            swap_ns, blend_ns, at = swap_ns + swapped - at, blend_ns + blended - swapped, blended
        if not faces:
            return 0
        self._meter.stage("swap", swap_ns)
        self._meter.stage("blend", blend_ns)
        if self._label is not None:
            self._label.paint(image)
        return len(faces)

    def _failed(self, caught: Exception) -> DoppelcamError:
        """Counts, logs each kind once, and gives up after many in a row."""
        self._failures += 1
        known = isinstance(caught, DoppelcamError)
        said = str(caught) if known else f"{type(caught).__name__}: {caught}"
        if type(caught).__qualname__ not in self._logged:
            self._logged.add(type(caught).__qualname__)
            log.error("A frame failed and is not shown: %s", said, exc_info=None if known else caught)
        if self._failures >= self._most_failures:
            raise EngineError(
                f"The swap failed on {self._failures} frames in a row: {said}",
                "Run doppelcam doctor, and run it again with -v to see where it failed.",
            ) from caught
        # Tracebacks often end up in a cycle, and would keep the frame's buffer until the next garbage collection.
        caught.__traceback__ = caught.__context__ = caught.__cause__ = None
        return caught if isinstance(caught, DoppelcamError) else EngineError(f"The swap failed: {said}")


def all_finite(value: Any) -> bool:
    """Whether every float on this machine's memory in ``value`` is finite.

    Looks into arrays, dataclasses, tuples and lists. What lies on a GPU is looked at by whoever put it there.
    """
    if isinstance(value, np.ndarray):
        # Minimum and maximum pass a NaN on, and need no memory for a mask.
        plain = value.dtype.kind != "f" or not value.size
        return plain or (math.isfinite(value.min()) and math.isfinite(value.max()))
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, tuple | list):
        return all(all_finite(item) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        return all(all_finite(getattr(value, field.name)) for field in fields(value))
    return True
