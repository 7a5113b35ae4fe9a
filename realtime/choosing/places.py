"""Places that belong to people: each is held by one track, and given back to whoever it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from engines.analysis.embed import distance, unit
from engines.faces import Face, Floats
from realtime.choosing.recognise import Look, Recogniser

RESERVED_NS: Final = 3_000_000_000
"""How long an owner who is not seen keeps the place, unless the same place is taken again."""
_KNOWN_NS: Final = 30_000_000_000
"""The same where the owner can be recognised: nobody else can take it by accident, and a colleague who is handed the
seat need not wait for ever."""
_TRUSTED_NS: Final = 1_000_000_000
"""How long a face that cannot be told, since it is turned away, is taken for whoever was at its place."""
_LEARNT: Final = 8
"""Looks of which an owner's identity is made."""


@dataclass(slots=True)
class _Place:
    """One place: whose it is, and where and when its holder was seen last.

    Attributes:
        who: Whose it is, of length one; None as long as nobody has looked.
        track: Who holds it; None for nobody.
        centre: Of the holder's face when it was seen last.
        width: The same.
        last_ns: When that was.
        others: Tracks that were there then: they are somebody else.
        looks: How many looks ``who`` is made of.
        looked: The number of the last one.
        taken: Whether somebody else was found to be on the holder's track.
        held: Whether its holder was there in the last frame.
    """

    who: Floats | None = None
    track: int | None = None
    centre: Floats = field(default_factory=lambda: np.zeros(2, np.float32))
    width: float = 0.0
    last_ns: int = 0
    others: frozenset[int] = frozenset()
    looks: int = 0
    looked: int = 0
    taken: bool = False
    held: bool = False


class Places:
    """Who of the followed faces is one of those that are wanted. Used by one thread.

    Args:
        count: How many places there are, where they belong to whoever comes first.
        people: How many people they belong to, and nobody else ever gets one; 0 where there are none. Who these are
            is said by :meth:`know`.
        limit: Distance up to which a face is a person's, 0…2.
        recogniser: Who looks; None goes by place and time alone.
    """

    def __init__(
        self,
        count: int,
        people: int,
        limit: float,
        recogniser: Recogniser | None,
    ) -> None:
        self._count = 0 if people else count
        self._fixed = bool(people)
        self._limit = limit
        self._recogniser = recogniser
        self._places = [_Place() for _ in range(people)]

    def know(self, people: Sequence[Floats]) -> None:
        """Says whose the places are, (D,) of length one each."""
        for place, who in zip(self._places, people, strict=True):
            place.who = who

    @property
    def missing(self) -> bool:
        """Whether somebody else is on the track of a person who is not seen: that person may be there, and bare."""
        return any(place.taken for place in self._places)

    @property
    def complete(self) -> bool:
        """Whether in the last frame each place was held by somebody who was looked at and is its person."""
        return bool(self._places) and all(
            place.held and place.who is not None and self._look(place.track) is not None
            for place in self._places
        )

    def recognises(self, track: int) -> bool:
        """Whether the latest look at a track says that it is one of those whose places these are."""
        look = self._look(track)
        return look is not None and any(self._is(look.who, place) for place in self._places)

    def choose(self, faces: Sequence[Face], now_ns: int) -> list[tuple[int, Face]]:
        """Those who hold a place, in the order of the places, each with its number.

        Args:
            faces: All tracked faces.
            now_ns: When the frame was captured.
        """
        seen = {face.track: face for face in faces}
        self._check(seen)
        self._give_back(faces, seen, now_ns)
        if faces and not self._fixed:
            self._places = [
                place for place in self._places if place.track in seen or not _expired(place, now_ns)
            ]
            self._fill(faces, now_ns)
        everyone = frozenset(seen)
        chosen = []
        for number, place in enumerate(self._places):
            place.held = place.track in seen
            if place.track is not None and place.held:
                face = seen[place.track]
                place.centre, place.width, place.last_ns = _centre(face), face.width, now_ns
                place.others, place.taken = everyone, False
                chosen.append((number, face))
            elif now_ns - place.last_ns > _KNOWN_NS:
                place.taken = False
        return chosen

    def _look(self, track: int | None) -> Look | None:
        return self._recogniser.look_of(track) if self._recogniser and track is not None else None

    def _check(self, seen: dict[int, Face]) -> None:
        """Whether each holder is still who the place belongs to."""
        for place in self._places:
            look = self._look(place.track) if place.track in seen else None
            if look is None or look.number == place.looked:
                continue
            place.looked = look.number
            if place.who is None:
                place.who, place.looks = look.who, 1
            elif self._is(look.who, place):
                self._learn(place, look.who)
            else:
                # Two have crossed, and one track went over to the other person; or it was a bad look. The next ones
                # will tell, and until then nobody is taken for anybody.
                place.track, place.taken = None, True
                if self._recogniser:
                    for track in seen:
                        self._recogniser.doubt(track)

    def _is(self, who: Floats, place: _Place) -> bool:
        """Whether this is the place's own person, and nobody else's more."""
        if place.who is None:
            return False
        own = distance(who, place.who)
        nearest = min(distance(who, other.who) for other in self._places if other.who is not None)
        return own <= self._limit and own <= nearest

    def _learn(self, place: _Place, who: Floats) -> None:
        if self._fixed or place.looks >= _LEARNT or place.who is None:
            return
        place.who = unit((place.who * place.looks + who) / (place.looks + 1))
        place.looks += 1

    def _give_back(self, faces: Sequence[Face], seen: dict[int, Face], now_ns: int) -> None:
        """Gives places that nobody holds to those they belong to, the surest first."""
        free = [place for place in self._places if place.track not in seen]
        claims: list[tuple[float, _Place, Face]] = []
        for place in free:
            for face in faces:
                claim = self._claim(place, face, now_ns)
                if claim is not None:
                    claims.append((claim, place, face))
        for _, place, face in sorted(claims, key=lambda one: one[0]):
            held = {one.track for one in self._places if one.track in seen}
            if place.track in seen or face.track in held:
                continue
            place.track = face.track
            look = self._look(face.track)
            place.looked = look.number if look else 0

    def _claim(self, place: _Place, face: Face, now_ns: int) -> float | None:
        """How far a face is from being the one a place belongs to; None if it is not."""
        look = self._look(face.track)
        if place.who is not None and look is not None:
            return distance(look.who, place.who) if self._is(look.who, place) else None
        if place.who is not None:
            tells = self._recogniser is not None and self._recogniser.tellable(face.track)
            if tells or place.taken or now_ns - place.last_ns > _TRUSTED_NS:
                return None
        if not place.width or face.track in place.others or not _took(face, place):
            return None
        # The same person found again has a new track, at the old place. Surer than nothing, less sure than a look.
        return 2.0 + _apart(face, place) / place.width

    def _fill(self, faces: Sequence[Face], now_ns: int) -> None:
        held = {place.track for place in self._places}
        for face in sorted(faces, key=lambda face: -face.width):
            if len(self._places) < self._count and face.track not in held:
                self._places.append(_Place(track=face.track, last_ns=now_ns))


def _expired(place: _Place, now_ns: int) -> bool:
    return now_ns - place.last_ns > (RESERVED_NS if place.who is None else _KNOWN_NS)


def _took(face: Face, place: _Place) -> bool:
    return _apart(face, place) < place.width and 0.5 < face.width / place.width < 2


def _apart(face: Face, place: _Place) -> float:
    return float(np.linalg.norm(_centre(face) - place.centre))


def _centre(face: Face) -> Floats:
    return np.asarray(face.points[:, :2].mean(0), np.float32)
