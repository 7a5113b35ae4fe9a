"""Who each followed face is, as an identity network sees it: looked at when it is new or may have changed, not always.

One look costs as much as the rest of a frame with a large network on a CPU, so there is at most one a frame, and with
nothing to doubt one in two seconds for each face.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from engines.analysis.align import five_points
from engines.errors import EngineError
from engines.faces import Face, Floats, Image
from realtime.tracking.continuity import ALIKE, likeness, look_of

log = logging.getLogger(__name__)

_SELDOM_NS: Final = 2_000_000_000
_OFTEN_NS: Final = 200_000_000
"""From look to look, for a face that nothing happens to, and for one that is new or close to another one."""
_NEW: Final = 5
"""Looks after which a face is not new any more."""
_CLOSE: Final = 1.3
_TOUCHING: Final = 0.9
"""Face widths between two faces below which one may soon be taken for the other, and below which it may be at any
moment: then every frame is worth a look."""
_LEAP: Final = 0.5
"""Face widths from one frame to the next above which it may be somebody else."""
_GROWTH: Final = 1.3
"""The same for its width, as a factor."""
_TURNED: Final = 0.9
"""How far the nose may lie beside the middle of the eyes, in distances of the eyes (about 50 degrees): beyond, two
profiles of two people are more alike than a profile and a front of one."""
_SMALLEST: Final = 32.0
"""Width of a face, pixels, below which nobody can be told."""


class SeesWho(Protocol):
    """What is needed of an :class:`~engines.analysis.embed.Embedder`."""

    def identity(self, image: Image, points: Floats) -> Floats:
        """(D,) float32 of length one."""
        ...


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of a face when it was looked at last.

    Attributes:
        who: (D,) float32 of length one.
        number: Counts all looks, so that a new one is known.
    """

    who: Floats
    number: int


@dataclass(slots=True)
class _Known:
    """What is known of one track."""

    centre: Floats
    width: float
    picture: Floats
    look: Look | None = None
    looks: int = 0
    at_ns: int = 0
    doubt: bool = False
    close: bool = False
    tellable: bool = False


class Recogniser:
    """Looks at followed faces now and then. Used by one thread.

    Args:
        seen: Called for every look, to count it.
    """

    def __init__(self, seen: Callable[[], None] = lambda: None) -> None:
        self._seen = seen
        self._known: dict[int, _Known] = {}
        self._failed = ""
        self.looks = 0
        """How often the network ran."""

    def look_of(self, track: int) -> Look | None:
        """The latest look at a track; None if there was none."""
        known = self._known.get(track)
        return known.look if known else None

    def tellable(self, track: int) -> bool:
        """Whether a look at the track, as it is now, would tell who it is: large enough, not turned away."""
        known = self._known.get(track)
        return bool(known and known.tellable)

    def doubt(self, track: int) -> None:
        """Have it looked at again as soon as can be."""
        if track in self._known:
            self._known[track].doubt = True

    def take(self, network: SeesWho, image: Image, faces: Sequence[Face], now_ns: int) -> None:
        """Takes in one frame, and looks at no more than one of its faces.

        Args:
            network: What looks.
            image: The frame, BGR, as captured.
            faces: Everybody who is followed in it.
            now_ns: When it was captured.
        """
        self._follow(faces, image)
        due = [(urgency, face) for face in faces if (urgency := self._urgency(face.track, now_ns))]
        if not due:
            return
        face = max(due, key=lambda one: one[0])[1]
        known = self._known[face.track]
        known.at_ns, known.doubt = now_ns, False
        self.looks += 1
        self._seen()
        try:
            who = network.identity(image, face.points)
        except EngineError as error:
            # A face that cannot be aligned tells nothing; the next look may. But a network that always fails would
            # leave everybody unknown and say nothing.
            if str(error) != self._failed:
                self._failed = str(error)
                log.warning("A face could not be looked at: %s", error)
            return
        known.looks += 1
        known.look = Look(who, self.looks)

    def _urgency(self, track: int, now_ns: int) -> float:
        """0 for not now; the highest is looked at."""
        known = self._known[track]
        if not known.tellable:
            return 0.0
        waited = now_ns - known.at_ns
        if known.look is None:
            return 3e18 if known.doubt or not known.at_ns or waited >= _OFTEN_NS else 0.0
        if known.doubt:
            return 2e18 + waited
        often = known.close or known.looks < _NEW
        return float(waited) if waited >= (_OFTEN_NS if often else _SELDOM_NS) else 0.0

    def _follow(self, faces: Sequence[Face], image: Image) -> None:
        """Notes where everybody is, and whom something happened to."""
        here = {face.track: face for face in faces}
        vanished = [known for track, known in self._known.items() if track not in here]
        before, self._known = self._known, {}
        for face in faces:
            centre, width = np.asarray(face.points[:, :2].mean(0), np.float32), face.width
            picture = look_of(face.patch)
            known = before.get(face.track) or _Known(centre, width, picture)
            # A film is cut, or a camera hung for a moment: another face in the same place.
            cut = likeness(known.picture, picture) < ALIKE
            known.picture = picture
            leapt = _apart(centre, known.centre) > _LEAP * width
            grew = not 1 / _GROWTH < width / max(known.width, 1e-6) < _GROWTH
            joined = any(_apart(centre, gone.centre) < _CLOSE * max(width, gone.width) for gone in vanished)
            was_close, known.centre, known.width = known.close, centre, width
            nearest = min(
                (_apart(centre, other.points[:, :2].mean(0)) / max(width, other.width, 1e-6)
                 for other in faces if other is not face),
                default=np.inf,
            )  # fmt: skip
            known.close = nearest < _CLOSE
            known.doubt |= (
                cut or leapt or grew or joined or nearest < _TOUCHING or (was_close and not known.close)
            )
            known.tellable = width >= _SMALLEST and _faces_us(face.points) and _inside(centre, image)
            self._known[face.track] = known


def _apart(one: Floats, other: Floats) -> float:
    return float(np.linalg.norm(one - other))


def _faces_us(points: Floats) -> bool:
    right, left, nose = five_points(points)[:3]
    across = left - right
    length = float(across @ across)
    beside = float((nose - (left + right) / 2) @ across)
    return length > 0 and abs(beside) < _TURNED * length


def _inside(centre: Floats, image: Image) -> bool:
    return bool(0 <= centre[0] < image.shape[1] and 0 <= centre[1] < image.shape[0])
