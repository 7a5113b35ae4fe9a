"""When a sink sends: so many times a second, in step with the frames that arrive."""

from __future__ import annotations


class Cadence:
    """Plans the ticks of one sink. Knows no clock and waits for nothing; all times are ns.

    Around each tick there is a window. What arrives in it is sent the moment it comes. Without that, what
    came before the window is sent at :attr:`tick_ns`, and with nothing new at all the last frame is repeated
    at :attr:`closes_ns`. The ticks are drawn towards the arrivals, by a few per cent of a period at most,
    until a frame that comes regularly falls into the window: so it does not lie about for up to a period, and
    some jitter on either side costs nothing.

    Args:
        fps: Ticks a second.
        reach: Half the window, in periods; less than a half.
        gain: How much of a difference in phase is taken back at one tick.
        pull: The most the phase moves at one tick, in periods. Small, so that the rate stays true.
    """

    def __init__(self, fps: float, reach: float = 0.3, gain: float = 0.15, pull: float = 0.02) -> None:
        if not fps > 0:
            raise ValueError(f"a cadence of {fps} frames a second")
        if not 0 < reach < 0.5:
            raise ValueError("the window reaches more than nothing and less than half a period")
        self._period = 1e9 / fps
        self._reach = reach * self._period
        self._gain, self._pull = gain, pull * self._period
        self._tick = 0.0
        self._nudge = 0.0
        self.missed = 0
        """Ticks given up because the machine was late."""

    @property
    def opens_ns(self) -> int:
        """From when on what arrives is sent at once."""
        return round(self._tick - self._reach)

    @property
    def tick_ns(self) -> int:
        """When what came before the window is sent."""
        return round(self._tick)

    @property
    def closes_ns(self) -> int:
        """When the last frame is repeated."""
        return round(self._tick + self._reach)

    def begin(self, now_ns: int) -> None:
        """The first tick is now."""
        self._tick, self._nudge = float(now_ns), 0.0

    def arrived(self, at_ns: int) -> None:
        """A new frame goes out with this tick; it was ready at ``at_ns``."""
        # The middle of the window's first half, where an older frame that lies there does not forestall it.
        ahead = at_ns - (self._tick - self._reach / 2)
        # The nearest tick is the one to be in step with.
        ahead -= round(ahead / self._period) * self._period
        self._nudge = min(max(ahead * self._gain, -self._pull), self._pull)

    def advance(self, now_ns: int) -> None:
        """This tick is done; plans the next one.

        When that is more than a period late, it is now: what was missed is not sent in a burst.
        """
        self._tick += self._period + self._nudge
        self._nudge = 0.0
        if now_ns - self._tick > self._period:
            self.missed += int((now_ns - self._tick) / self._period)
            self._tick = float(now_ns)
