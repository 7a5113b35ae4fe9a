"""Frames that a camera gives twice: told by a cheap difference, and answered with what was made of the first.

Cameras repeat frames when the light is low and the exposure longer than a frame; screens and clips stand still.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from realtime.frame import Frame
from realtime.outcome import Outcome
from realtime.tracking.probe import Probe

_LARGEST: Final = 2
_MEAN: Final = 0.02
"""No sample differs by more than the first and all together not by more than the second, of 255: a repeated frame is
the same to the bit, or was packed anew. The noise of the quietest sensor is ten times as much."""

LONGEST_NS: Final = 250_000_000
"""How long one result may be used, counted from when its frame was taken. A picture in which something moves between
the samples is late by this at most, and a tracker is never without news for longer."""


@dataclass(frozen=True, slots=True)
class _Last:
    outcome: Outcome
    captured_ns: int


class Repeats:
    """Remembers the last frame that was worked on. Used by one thread.

    Only a trusted outcome is ever given again: whatever was not trusted is looked at anew, every time.

    Args:
        longest_ns: How long one result may be used.
    """

    def __init__(self, longest_ns: int = LONGEST_NS) -> None:
        self._longest_ns = longest_ns
        self._probe = Probe()
        self._last: _Last | None = None

    def find(self, frame: Frame) -> Outcome | None:
        """What was made of the same picture a moment ago; to be asked about every frame before it is painted into.

        The answer carries number and time of capture of the frame that was asked about. That frame came from the
        source at that time, so that *frame age* goes on to say how long this program took. How long the light of a
        repeated frame has been under way is known to the camera alone.

        Args:
            frame: As captured.

        Returns:
            A trusted outcome whose picture is shared with the earlier one, and read-only for everybody; None when
            the frame has to be worked on.
        """
        comparable = self._probe.take(frame.image)
        last = self._last
        # A frame is compared with the last one worked on and never with a repeat, so that no slow motion gets lost.
        if (
            last is not None
            and comparable
            and 0 <= frame.captured_ns - last.captured_ns <= self._longest_ns
            and self._probe.largest() <= _LARGEST
            and self._probe.mean() <= _MEAN
        ):
            self._probe.back()
            painted = last.outcome.frame
            again = replace(painted, seq=frame.seq, captured_ns=frame.captured_ns)
            return replace(last.outcome, frame=again)
        self._last = None
        return None

    def worked(self, outcome: Outcome) -> None:
        """What became of the frame that was last asked about."""
        self._last = _Last(outcome, outcome.frame.captured_ns) if outcome.trusted else None

    def forget(self) -> None:
        """What was made is not what would be made now, for instance with another face."""
        self._last = None
        self._probe.forget()
