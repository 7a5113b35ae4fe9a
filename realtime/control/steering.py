"""Everything that can be changed while the picture goes on: prepared beside it, handed over between two frames."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol

from engines.analysis.source import SourceFace
from engines.errors import DoppelcamError, UsageError
from engines.open import prepare_faces
from engines.swap.base import AnySwapper, Progress
from realtime.control.gallery import Gallery, Person
from realtime.control.worker import Worker
from realtime.pipeline import Pipeline
from realtime.settings.config import Config, contradiction
from realtime.settings.options import BY_NAME
from realtime.settings.values import Wrong
from realtime.shown.label import Label
from realtime.tracking.smooth import OneEuroSettings

MESH: Final = ("shape", "eyes", "mouth", "occluders")
NEURAL: Final = ("mask", "colour", "morph", "boost")
STEERABLE: Final = ("face", "engine", *MESH, *NEURAL, "smoothing", "label")
"""What can be changed, by the name of its option; ``face`` is the id of somebody in the gallery."""

WORDS: Final[Mapping[str, Sequence[str]]] = {
    "eyes": ("mixed", "live", "photo"), "mouth": ("live", "photo"), "occluders": ("live", "cover"),
    "mask": ("auto", "oval", "ellipse", "box"), "colour": ("match", "poisson", "none"), "boost": ("1", "2", "4"),
}  # fmt: skip
"""What those that are one of a few words can be set to."""

_QUICK: Final = frozenset({"smoothing", "label"})


class Smoothed(Protocol):
    """A tracker whose smoothing can be changed between two frames."""

    smoothing: OneEuroSettings


Between = Callable[[Callable[[], None]], Future[None]]
"""Has the process thread call something between two frames; see ``Session.between_frames``."""

Another = Callable[[Config, Callable[[Sequence[Any], int], Sequence[SourceFace]]], AnySwapper]
"""Makes the swapper that a configuration asks for; see ``realtime.assemble.MakeSwapper``."""


@dataclass(eq=False, slots=True)
class _Ask:
    """Changes that wait: of those to the same things only the newest is made."""

    values: Mapping[str, Any]
    done: Future[None]


class Steering:
    """Changes face, engine and looks without a frame being late.

    Args:
        config: What runs now.
        engines: Names of the engines that may be chosen.
        pipeline: Gets the label.
        tracker: Gets the smoothing.
        another: Makes a swapper.
        replace_swapper: Puts a swapper in the place of another and returns that; called between two frames.
        between: Hands over.
        gallery: Where faces come from.
        worker: Prepares.
    """

    def __init__(
        self,
        config: Config,
        engines: Sequence[str],
        pipeline: Pipeline,
        tracker: Smoothed,
        another: Another,
        replace_swapper: Callable[[AnySwapper], AnySwapper],
        between: Between,
        gallery: Gallery,
        worker: Worker,
    ) -> None:
        self._config, self._engines = config, tuple(engines)
        self._pipeline, self._tracker = pipeline, tracker
        self._another, self._replace_swapper, self._between = another, replace_swapper, between
        self._gallery, self._worker = gallery, worker
        self._asked: list[_Ask] = []
        self._lock = threading.Lock()

    @property
    def config(self) -> Config:
        """What runs now."""
        return self._config

    @property
    def engines(self) -> Sequence[str]:
        """What ``engine`` may be set to."""
        return self._engines

    def settings(self) -> dict[str, Any]:
        """What can be changed, as it is now."""
        config = self._config
        values = {name: getattr(config, BY_NAME[name].field) for name in STEERABLE}
        return values | {"face": "" if config.person else self._gallery.wearing(config.face)}

    def ask(self, values: Mapping[str, Any]) -> Future[None]:
        """Asks for changes; what waits for the same things gives way, and is done with them.

        Args:
            values: By the names in :data:`STEERABLE`, checked here.

        Returns:
            Done once viewers see it; holds the error of what could not be prepared, and then nothing has changed.

        Raises:
            UsageError: There is no such thing, or it cannot have this value.
        """
        checked = {name: self._checked(name, value) for name, value in values.items()}
        if not checked:
            raise UsageError("Nothing is to be changed.", f"Name some of {', '.join(STEERABLE)}.")
        done: Future[None] = Future()
        with self._lock:
            self._asked.append(_Ask(checked, done))
        try:
            job = self._worker.ask(self._make_next)
        except DoppelcamError:
            with self._lock:
                self._asked = [ask for ask in self._asked if ask.done is not done]
            raise
        if job.cancelled():
            done.cancel()
        else:
            job.add_done_callback(lambda job: done.cancel() if job.cancelled() else None)
        return done

    def drop(self, name: str, data: bytes) -> Future[Person]:
        """Reads a photo into the gallery; see :meth:`Gallery.add_upload`."""
        return self._worker.ask(partial(self._added, partial(self._gallery.add_upload, name, data)))

    def remember(self) -> Future[Person]:
        """Puts the face that is on already into the gallery."""
        return self._worker.ask(partial(self._added, partial(self._gallery.add_files, self._config.face)))

    def _checked(self, name: str, value: Any) -> Any:
        if name == "face":
            if self._config.person:
                raise UsageError(
                    "Each person has a face of their own here.", "Start without --person to choose one."
                )
            # Whatever is no text is nobody's id either.
            return self._gallery.person(str(value)).photos
        if name == "engine":
            if value not in self._engines:
                raise UsageError("There is no such engine here.", f"There are: {', '.join(self._engines)}.")
            return value
        if name not in STEERABLE:
            raise UsageError(f"'{_word(name)}' cannot be changed.", f"There are: {', '.join(STEERABLE)}.")
        option = BY_NAME[name]
        # A mask may name files; whoever steers from elsewhere may not.
        if name in WORDS and str(value) not in (*WORDS[name], str(getattr(self._config, option.field))):
            raise UsageError(f"'{name}' must be {', '.join(WORDS[name])}.")
        try:
            return option.read(value)
        except (ValueError, TypeError, OverflowError, AttributeError) as error:
            detail = f": {error}" if isinstance(error, Wrong) else ""
            raise UsageError(f"'{name}' must be {option.expects}{detail}.") from None

    # -- the worker's thread --------------------------------------------------------------------------------

    def _added(self, add: Callable[[], Person]) -> Person:
        """Adds somebody to the gallery; what can be worked out before they are put on is, when nobody waits."""
        person = add()
        # Where too much waits already it is worked out when they are put on.
        with suppress(DoppelcamError):
            self._worker.ask(partial(self._prepare, person), later=True)
        return person

    def _prepare(self, person: Person) -> None:
        # Whoever puts on what cannot be used is told then; and somebody may have been taken away since.
        with suppress(DoppelcamError):
            faces = self._gallery.read(person.photos, self._pipeline.swapper.landmarks)
            prepare_faces(self._config.engine, faces)

    def _make_next(self) -> None:
        with self._lock:
            if not self._asked:
                return  # It was made together with one before.
            asks = [self._asked.pop(0)]
            while self._asked and self._asked[0].values.keys() == asks[0].values.keys():
                asks.append(self._asked.pop(0))
        try:
            self._make(asks[-1].values)
        except BaseException as error:
            for ask in asks:
                if ask.done.set_running_or_notify_cancel():
                    known = isinstance(error, Exception) and not isinstance(error, CancelledError)
                    ask.done.set_exception(error if known else DoppelcamError("The session ended."))
            raise
        for ask in asks:
            if ask.done.set_running_or_notify_cancel():
                ask.done.set_result(None)

    def _make(self, values: Mapping[str, Any]) -> None:
        fields = {BY_NAME[name].field: value for name, value in values.items()}
        config = replace(self._config, **fields)
        problem = contradiction(config)
        if problem:
            raise UsageError(problem[0].upper() + problem[1:])
        changed = {
            name
            for name in values
            if fields[BY_NAME[name].field] != getattr(self._config, BY_NAME[name].field)
        }
        if changed <= _QUICK:
            self._between(partial(self._hand_over, config, None, [])).result()
        else:
            self._exchange(config)
        self._config = config

    def _exchange(self, config: Config) -> None:
        """Makes, opens and warms up another swapper, and closes the one whose place it takes."""
        swapper = self._another(config, self._gallery.read)
        old: list[AnySwapper] = []
        try:
            _open(swapper, self._worker.say)
            self._between(partial(self._hand_over, config, swapper, old)).result()
        except BaseException:
            if not old:
                swapper.close()
            raise
        # Nobody uses it any more: the change was made between two frames.
        old[0].close()

    def _hand_over(self, config: Config, swapper: AnySwapper | None, old: list[AnySwapper]) -> None:
        """Called by the process thread."""
        self._tracker.smoothing = OneEuroSettings.of(config.smoothing)
        if (self._pipeline.label is not None) != config.label:
            self._pipeline.label = Label() if config.label else None
        if swapper is not None:
            old.append(self._replace_swapper(swapper))


def _open(swapper: AnySwapper, progress: Progress) -> None:
    progress("the new face")
    swapper.open(progress)


def _word(text: str) -> str:
    return "".join(c for c in text[:40] if c.isprintable())
