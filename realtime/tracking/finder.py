"""Where the detectors look in this frame: one look or two, so that no frame pays for all of them.

While somebody is followed and nobody is missed, a turn is one look: near, far, near, far, and now and then another one
(:mod:`engines.analysis.tiles`), or only at what has just begun to move. While somebody is missed, or nobody is there,
every frame has two: the near detector on the whole frame, which is the cheap one, and in turn the far one on the whole
frame or another look by one of them. What the first of the two took for a face and is none costs more than the second
would: then that one has to wait, and comes first in the next frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from engines.analysis.networks import FindsFaces, Networks
from engines.analysis.tiles import Look, Search
from engines.faces import Detection, Image
from realtime.tracking.attention import Attention
from realtime.tracking.later import Later

_OTHERWISE: Final = 8
"""One turn of so many beside somebody who is followed is another look, in place of a near one. It costs what the far
detector costs, three times the near one, so that every second turn is a cheap one but for these."""
_REFUSED_NS: Final = 1_000_000_000
"""How long a place that was no face is not looked at again, beside somebody who is followed."""
_MOST_REFUSED: Final = 16


class Finder:
    """Chooses looks and remembers what was no face. Used by one thread.

    Args:
        attention: Knows what moves.
    """

    def __init__(self, attention: Attention) -> None:
        self._attention = attention
        self._search = Search()
        self._later = Later()
        self._turn = self._others = 0
        self._refused: list[tuple[Detection, int]] = []
        self._again: Look | None = None
        self._at_near = self._other_first = False

    def now(self, networks: Networks, image: Image, now_ns: int) -> list[Detection]:
        """What the one look of a turn finds, beside somebody who is followed.

        Args:
            networks: The detectors.
            image: The frame, BGR.
            now_ns: When it was captured.
        """
        look, detector = self._routine(networks, image)
        return self._not_refused(
            detector.detect(image) if look is None else look.detect(detector, image), now_ns
        )

    def later(self, networks: Networks, image: Image) -> None:
        """Keeps what that look needs, to be taken by :meth:`look_on`; what it finds, :meth:`waited` tells.

        Args:
            networks: The detectors.
            image: The frame, BGR.
        """
        look, detector = self._routine(networks, image)
        whole = Look((0, 0, image.shape[1], image.shape[0]))
        self._later.keep(whole if look is None else look, detector, image)

    def look_on(self) -> None:
        """Takes the look that waits, if one does."""
        self._later.take()

    def waited(self, image: Image, now_ns: int) -> list[Detection]:
        """What the look found that was kept in an earlier frame; nobody if there was none.

        Args:
            image: The frame of now, BGR.
            now_ns: When it was captured.
        """
        return self._not_refused(self._later.found(image), now_ns)

    def forget(self) -> None:
        """No look waits any more."""
        self._later.forget()

    def urgent(self, networks: Networks, image: Image) -> Iterator[list[Detection]]:
        """What is found while somebody is missed or nobody is there, look by look.

        To be asked for the next one only if that was nobody.

        Args:
            networks: The detectors.
            image: The frame, BGR.
        """
        self._turn += 1
        for near in (False, True) if self._other_first else (True, False):
            self._at_near, self._other_first = near, False
            yield networks.near.detect(image) if near else self._other(networks, image)

    def _routine(self, networks: Networks, image: Image) -> tuple[Look | None, FindsFaces]:
        """The look of a turn, None for the frame as it is, and what takes it."""
        self._turn += 1
        self._at_near = False
        news = self._attention.news
        if news is not None:
            return Look(news, whole=False), networks.far
        if self._turn % _OTHERWISE == 0:
            return self._search.next((image.shape[1], image.shape[0]), self._attention.moving), networks.far
        return None, networks.far if self._turn % 2 else networks.near

    def _other(self, networks: Networks, image: Image) -> list[Detection]:
        """The second look of a frame in which somebody is missed."""
        self._others += 1
        if self._others % 2:
            return networks.far.detect(image) if networks.far is not networks.near else []
        look, self._again = self._again, None
        if look is not None:
            return look.detect(networks.near, image)
        look = self._search.next((image.shape[1], image.shape[0]), self._attention.moving)
        if look.whole and networks.far is not networks.near:
            # Heads that fill the frame are for the near one.
            self._again = look
        return look.detect(networks.far, image)

    def in_turn(self, detections: Sequence[Detection]) -> Sequence[Detection]:
        """The same, another one first each time: so that the first ones cannot hide the last."""
        first = self._turn % len(detections) if len(detections) > 1 else 0
        return [*detections[first:], *detections[:first]]

    def refuse(self, detection: Detection, now_ns: int) -> None:
        """What a detector took for a face is none."""
        self._other_first = self._at_near
        self._refused = [*self._refused[-_MOST_REFUSED + 1 :], (detection, now_ns + _REFUSED_NS)]

    def _not_refused(self, detections: Sequence[Detection], now_ns: int) -> list[Detection]:
        """Those that were not taken for a face of late and were none."""
        self._refused = [(place, until) for place, until in self._refused if now_ns < until]
        return [one for one in detections if not any(_same(one, place) for place, _ in self._refused)]


def _same(detection: Detection, place: Detection) -> bool:
    near = float(np.abs(detection.centre - place.centre).max()) < place.size / 4
    return near and 0.8 < detection.size / place.size < 1.25
