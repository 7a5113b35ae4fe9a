"""A look that waits until the frame is on its way: a small picture is kept, and what is found counts in the next frame.

The network of a detector takes as long as everything else that is done for a frame, and between two frames nothing is
done at all. Whoever plans such a look plans it one frame sooner, so that nobody is found later for it. What is found
depends on the frames alone, and not on when the look was taken.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from engines.analysis.networks import FindsFaces
from engines.analysis.tiles import Look
from engines.faces import Detection, Image


class Later:
    """At most one look that waits. Used by one thread. True while there is one, taken or not."""

    def __init__(self) -> None:
        self._look: Callable[[], list[Detection]] | None = None
        self._seen: list[Detection] | None = None
        self._shape: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return self._look is not None or self._seen is not None

    def keep(self, look: Look, detector: FindsFaces, image: Image) -> None:
        """Keeps what a look needs of a frame, in place of any look before.

        Args:
            look: Where to look.
            detector: What looks.
            image: The frame, BGR; may be painted into from now on.
        """
        glimpse = look.take(image).apart_from(image)
        self._look, self._seen, self._shape = lambda: glimpse.detect(detector), None, image.shape

    def take(self) -> None:
        """Takes the look that waits, if one does.

        A failure of any kind is left to :meth:`found`, for the frame it belongs to: that one is covered, while between
        two frames nothing would catch it but the end of the session.
        """
        if self._look is not None:
            with suppress(Exception):
                self._seen = self._look()
                self._look = None

    def found(self, image: Image) -> list[Detection]:
        """What was found, and nothing waits any more; takes the look if that was not done yet.

        Args:
            image: The frame in which it is to count: in one of another size nobody was seen.

        Raises:
            Exception: The detector failed, as it did.
        """
        look, seen = self._look, self._seen
        self.forget()
        if image.shape != self._shape:
            return []
        return look() if look is not None else seen or []

    def forget(self) -> None:
        """Nothing waits any more."""
        self._look = self._seen = None
