"""Frame in, frame with another face out. Synchronous, no threads, no I/O."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import fields, is_dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from engines.errors import DoppelcamError, EngineError
from engines.faces import Face, Image
from engines.kernels.canvas import Canvas, Easel, HostEasel
from engines.kernels.planar import Planar
from engines.swap.base import AnySwapper, PaintsAll, Progress
from realtime.choosing.bystanders import cover
from realtime.clock import Clock
from realtime.frame import Frame
from realtime.outcome import Outcome
from realtime.pace.budget import Meter
from realtime.pace.repeats import Repeats
from realtime.shown.label import Label

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

    def look_on(self) -> None:
        """Does what need not be done while a frame waits. Done between two frames; left out, the next one does it."""
        ...

    def close(self) -> None:
        """Frees everything; may be called twice."""
        ...


class Pipeline:
    """Track, swap, blend, label. One thread opens, uses and closes it; other swappers come to it opened.

    Args:
        tracker: Finds and follows faces.
        swapper: Works out and paints new faces.
        meter: Gets the times of the stages.
        clock: Where the times come from.
        label: The mark painted into trusted frames; None for no mark.
        most_failures: Frames in a row that may fail before :meth:`process` gives up.
        repeats: Tells frames that were there before; None works on every frame.
        cover_others: Whether faces that are followed and not chosen are pixelated.
        easel: Where frames are painted: the one that the swapper paints on. None paints them where they are.
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
        easel: Easel | None = None,
    ) -> None:
        self._tracker = tracker
        self._cover_others = cover_others
        self._swapper = swapper
        self._meter = meter
        self._clock = clock
        self._label = label
        self._easel = easel or HostEasel(clock.now_ns)
        self._most_failures = most_failures
        self._repeats = repeats
        self._failures = 0
        self._skipped = 0
        self._logged: set[str] = set()

    @property
    def swapper(self) -> AnySwapper:
        """The swapper in use."""
        return self._swapper

    @property
    def paints_all(self) -> bool:
        """Whether nothing of the camera's picture is left in a frame that the swapper painted. Any thread may ask."""
        return isinstance(self._swapper, PaintsAll)

    @property
    def label(self) -> Label | None:
        """The mark painted into trusted frames. Set it between frames only."""
        return self._label

    @label.setter
    def label(self, label: Label | None) -> None:
        self._label = label
        self._forget()

    def open(self, progress: Progress) -> None:
        """Opens what finds faces, what is painted on and what paints.

        Raises:
            EngineError: One of them does not work.
        """
        self._tracker.open(progress)
        self._easel.open(progress)
        self._swapper.open(progress)
        self._skipped = self._tracker.skipped_detections

    def replace_swapper(self, swapper: AnySwapper) -> AnySwapper:
        """Goes on with another swapper. Called by the process thread between frames; takes no time.

        Args:
            swapper: Opened by another thread, which uses it no more.

        Returns:
            The one before. It is the caller's to close, since that may take longer than a frame.
        """
        old, self._swapper = self._swapper, swapper
        self._failures = 0
        self._forget()
        return old

    def send(self, frame: Frame) -> Frame:
        """Starts to bring a frame to where it is going to be painted. Called by the capture thread, for every frame.

        Returns:
            The frame, to be handed to :meth:`process` or dropped.
        """
        sent = self._easel.send(frame.image, frame.lease is not None)
        return frame if sent is None else replace(frame, sent=sent)

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
        faces, covered, error = 0, False, None
        try:
            again = self._repeats.find(frame) if self._repeats is not None else None
            if again is not None:
                self._meter.count("duplicates")
                return again
            work = self._work_on(frame, began)
            if work is not None:
                faces, painted = work
                frame, covered = frame.painted(painted), True
        except Exception as caught:
            error = self._failed(caught)
        else:
            self._failures = 0
        skipped = self._tracker.skipped_detections
        self._meter.count("skipped_detection", skipped - self._skipped)
        self._skipped = skipped
        self._meter.process(self._clock.now_ns() - began)
        trusted = covered and (self.paints_all or not self._tracker.lost)
        outcome = Outcome(frame, faces, trusted, error)
        if self._repeats is not None:
            self._repeats.worked(outcome)
        return outcome

    def look_on(self) -> None:
        """Does what could wait until a frame was on its way. Called by the process thread between frames."""
        self._tracker.look_on()

    def close(self) -> None:
        """Closes everything that was opened; may be called twice."""
        with ExitStack() as closing:
            for part in (self._easel, self._swapper, self._tracker):
                closing.callback(part.close)

    def _forget(self) -> None:
        """What was made of the last frame is not what would be made now."""
        if self._repeats is not None:
            self._repeats.forget()

    def _work_on(self, frame: Frame, began: int) -> tuple[int, Image | Planar] | None:
        """How many faces were put on, and the picture with them; None if not all that has to be covered is."""
        canvas = self._easel.begin(frame.image, frame.sent)
        try:
            faces = self._tracker.track(canvas.live, frame.captured_ns)
            if self.paints_all:
                faces = faces[:1]
            elif self._cover_others:
                for other in self._tracker.others:
                    cover(canvas, other)
            self._meter.stage("track", self._clock.now_ns() - began)
            if not faces and not self.paints_all:
                return None
            return self._paint(canvas, faces)
        finally:
            canvas.drop()

    def _paint(self, canvas: Canvas, faces: Sequence[Face]) -> tuple[int, Image | Planar] | None:
        swapper, picture = self._swapper, canvas.picture
        laps = [canvas.lap()]
        for face in faces or (None,):
            layer = _layer(swapper, picture, face)
            if layer is None:
                # Turned away so far, or so mistaken, that the new face would not cover the real one.
                return None
            if not all_finite(layer):
                raise EngineError(f"The swapper {swapper.name} gave a face that is not made of numbers.")
            laps.append(canvas.lap())
            swapper.blend(picture, layer)
            laps.append(canvas.lap())
        if self._label is not None:
            self._label.paint(canvas)
        painted = canvas.finish()
        spent = [canvas.between(one, other) for one, other in pairwise(laps)]
        self._meter.stage("swap", sum(spent[::2]))
        self._meter.stage("blend", sum(spent[1::2]))
        return len(faces), painted

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


def _layer(swapper: AnySwapper, picture: Any, face: Face | None) -> Any:
    """What the swapper makes of a face, or of a frame without one where it can."""
    if face is None:
        return swapper.rest(picture) if isinstance(swapper, PaintsAll) else None
    if not (all_finite(face.points) and math.isfinite(face.presence)):
        raise EngineError("The tracker gave a face that is not made of numbers.")
    return swapper.swap(picture, face)


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
