"""What was worked out of a photo and would be worked out again each time it is put on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import TypeVar

T = TypeVar("T")


class Kept:
    """Holds one thing, the latest; goes when the photo goes. Any thread may ask; two that ask at once wait.

    One thing bounds the memory: whoever puts a photo on in two ways by turns works it out by turns.
    """

    __slots__ = ("_held", "_lock")

    def __init__(self) -> None:
        self._held: tuple[Hashable, object] | None = None
        self._lock = threading.Lock()

    def latest(self, key: Hashable, make: Callable[[], T]) -> T:
        """What was made for this key, or what is made now, in place of what was made for another.

        Args:
            key: Tells all that it depends on beside the photo; names its kind, since others keep things here too.
            make: Works it out. What it raises is raised here, and nothing is held then.
        """
        with self._lock:
            if self._held is None or self._held[0] != key:
                self._held = None
                self._held = key, make()
            # The key names its kind, so it is what this caller makes.
            return self._held[1]  # type: ignore[return-value]
