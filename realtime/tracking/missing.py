"""Who was swapped a moment ago and is not seen any more: they may still be there, and bare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engines.faces import Floats, Image, Region
from realtime.tracking.continuity import ALIKE, likeness

_LEFT_NS: Final = 1_500_000_000
_HIDDEN_NS: Final = 30_000_000_000
"""How long a face that is not seen any more counts as there, if it was at the border of the picture when it went, and
if it was not: who leaves, leaves over the border; who is hidden or turned away is still there."""
HELD_NS: Final = 3_000_000_000
"""How long somebody else in the place of a missing one is not taken for them."""


@dataclass(frozen=True, slots=True, eq=False)
class _Gone:
    region: Region
    look: Floats
    since_ns: int
    until_ns: int


class Missing:
    """The missing ones. Used by one thread."""

    def __init__(self) -> None:
        self._gone: list[_Gone] = []

    def __bool__(self) -> bool:
        return bool(self._gone)

    def went(self, region: Region, look: Floats, image: Image, now_ns: int) -> None:
        """Somebody is not seen any more.

        Args:
            region: Where they were.
            look: What they looked like.
            image: The frame without them.
            now_ns: When it was captured.
        """
        stays = _LEFT_NS if at_border(region, image) else _HIDDEN_NS
        self._gone.append(_Gone(region, look, now_ns, now_ns + stays))

    def expire(self, now_ns: int) -> None:
        """Forgets those who have been away for long."""
        self._gone = [gone for gone in self._gone if now_ns < gone.until_ns]

    def found(self) -> None:
        """All of them are seen again, whatever they looked like."""
        self._gone.clear()

    def came(self, region: Region, look: Floats, now_ns: int) -> int:
        """Somebody is seen who was not seen before.

        Args:
            region: Where.
            look: What they look like.
            now_ns: When.

        Returns:
            Until when they are not to be taken for whoever was there; 0 if they are the same, or nobody was.
        """
        until = 0
        for gone in list(self._gone):
            if not same_place(gone.region, region):
                continue
            held = gone.since_ns + HELD_NS
            if now_ns < held and likeness(gone.look, look) < ALIKE:
                until = max(until, held)
            else:
                self._gone.remove(gone)
        return until


def at_border(region: Region, image: Image) -> bool:
    """Whether a face was about to leave the picture."""
    height, width = image.shape[:2]
    reach = region.size / 2
    return not (reach < region.x < width - reach and reach < region.y < height - reach)


def same_place(before: Region, now: Region) -> bool:
    """Whether a face may have gone from one to the other while it was not seen."""
    apart = max(abs(before.x - now.x), abs(before.y - now.y))
    return apart < before.size and 0.5 * before.size < now.size < 2 * before.size
