"""What a restorer can do without when frames take too long. Fits ``realtime.pace.rungs.GivesWay``."""

from __future__ import annotations

from typing import Final, Protocol

RARER: Final = 4
"""Times as rarely."""


class Slowed(Protocol):
    """What gives way.

    Attributes:
        rarer: How many times as rarely it runs as was asked.
        off: Whether it does not run at all.
    """

    rarer: int
    off: bool


class Rarely:
    """Restores a quarter as many frames; those in between keep the details of the last one.

    Args:
        restorer: Which.
    """

    name = f"the restorer on {RARER} times fewer frames"
    # Restorers are by far the largest networks of a frame; of one that takes all of it a quarter is left.
    saves = 0.7

    def __init__(self, restorer: Slowed) -> None:
        self._restorer = restorer

    def lower(self) -> None:
        """Works less from the next frame on."""
        self._restorer.rarer = RARER

    def restore(self) -> None:
        """Puts everything back."""
        self._restorer.rarer = 1


class Never:
    """Restores nothing.

    Args:
        restorer: Which.
    """

    name = "the restorer off"
    saves = 0.7

    def __init__(self, restorer: Slowed) -> None:
        self._restorer = restorer

    def lower(self) -> None:
        """Works less from the next frame on."""
        self._restorer.off = True

    def restore(self) -> None:
        """Puts everything back."""
        self._restorer.off = False
