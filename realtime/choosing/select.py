"""Who gets the face, when there are several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from engines.faces import Face, Floats, Image
from realtime.choosing.places import Places
from realtime.choosing.recognise import Recogniser, SeesWho

Choice = Literal["largest", "center", "owner", "reference"]

RECOGNISES: Final = ("owner", "reference")
"""Choices in which it matters who somebody is; the others go by place and size alone."""

DISTANCE: Final = 0.6
"""Distance of two identities up to which they are one person's, where nobody says otherwise."""

_STAY: Final = 1.25
"""How much better than a chosen face another one must be to take its place."""


@dataclass(frozen=True, slots=True)
class Known:
    """By whom a choice is made or confirmed, where an identity network is there.

    Attributes:
        recogniser: Decides when to look at whom.
        people: How many are to be chosen, and nobody else; see :meth:`Selector.know`. 0 for whoever comes first.
        distance: Up to which a face is a person's, 0…2.
    """

    recogniser: Recogniser
    people: int = 0
    distance: float = DISTANCE


class Selector:
    """Chooses among the tracked faces.

    Args:
        choice: ``largest``; ``center``, the nearest to the middle of the picture; ``owner``, whoever was there
            first, for as long as the track lasts and a while longer; or ``reference``, those of :meth:`know`
            and nobody else.
        count: How many at most; of ``reference``, there is one place for each of the people.
        known: What an identity network is asked for; without it an owner is known by track, place and time alone.

    Raises:
        ValueError: ``reference`` without people.
    """

    def __init__(self, choice: Choice, count: int, known: Known | None = None) -> None:
        if choice == "reference" and not (known and known.people):
            raise ValueError("who is to be chosen by reference is not said")
        self._choice = choice
        people = known.people if known and choice == "reference" else 0
        self._count = people or count
        self._recogniser = known.recogniser if known and choice in RECOGNISES else None
        self._places = Places(count, people, known.distance if known else DISTANCE, self._recogniser)
        self._last: set[int] = set()

    def know(self, people: Sequence[Floats]) -> None:
        """Says whom to choose; before that nobody is. Called when the identity network is opened.

        Args:
            people: (D,) float32 of length one for each of ``known.people``.
        """
        self._places.know(people)

    @property
    def candidates(self) -> int:
        """How many faces have to be followed for the choice: one more than wanted.

        So a larger face is noticed, and a passer-by is known as one and leaves room for an owner who comes back.
        """
        return self._count + 1

    @property
    def missing(self) -> bool:
        """Whether a chosen person's track is somebody else's now, and that person is not seen."""
        return self._places.missing

    @property
    def complete(self) -> bool:
        """Whether each of the people who are wanted is seen, and was told by their look: nobody is missing."""
        return self._places.complete

    def recognises(self, track: int) -> bool:
        """Whether a track was seen to be one of the people who are wanted."""
        return self._places.recognises(track)

    def recognise(self, network: SeesWho | None, image: Image, faces: Sequence[Face], now_ns: int) -> None:
        """Looks at who is there, if it is time to and the choice depends on it; before :meth:`choose`.

        Args:
            network: An identity network, opened; None for none.
            image: The frame, BGR.
            faces: All tracked faces.
            now_ns: When the frame was captured.
        """
        if network is not None and self._recogniser is not None:
            self._recogniser.take(network, image, faces, now_ns)

    def choose(self, faces: Sequence[Face], size: tuple[int, int], now_ns: int) -> list[Face]:
        """The chosen ones, the first choice first.

        Args:
            faces: All tracked faces.
            size: Width and height of the frame.
            now_ns: When the frame was captured.
        """
        if self._choice == "reference":
            return [replace(face, person=number) for number, face in self._places.choose(faces, now_ns)]
        if self._choice == "owner":
            return [face for _, face in self._places.choose(faces, now_ns)]
        middle = np.array([size[0] / 2, size[1] / 2], np.float32)

        def rank(face: Face) -> float:
            kept = _STAY if face.track in self._last else 1.0
            if self._choice == "center":
                return float(np.linalg.norm(face.points[:, :2].mean(0) - middle)) / kept
            return -face.width * kept

        chosen = sorted(faces, key=rank)[: self._count]
        self._last = {face.track for face in chosen}
        return chosen
