"""What viewers see when the swap cannot be trusted: never the real face, unless the user asked for it.

Two judges, because two threads decide:

- :class:`Guard` belongs to the process thread. It sees every outcome and says what is published.
- :class:`Standby` belongs to one output thread; :meth:`Guard.standby` makes one for each. It decides when
  nothing is published any more: the pipeline hangs, or the camera is gone.

Neither touches what belongs to the other: frames go one way, through a mailbox, and are read-only by then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engines.errors import UsageError
from realtime.frame import Frame, Kind
from realtime.outcome import Outcome
from realtime.settings.values import POLICIES
from realtime.shown.slate import LOOKING, VEILED, Slate
from realtime.shown.veil import Veil

HOLD_NS = 500_000_000
FRESH_NS = 1_000_000_000


class Curtain:
    """Hides everybody at once, however well the swap goes: somebody wants it so.

    Any thread may draw it; every judge looks at it for every frame.
    """

    def __init__(self) -> None:
        self.drawn = False


class Guard:
    """Judges every outcome of the pipeline.

    A trusted one is shown. After that the last trusted picture is held for a moment, so that a blink of the
    tracker is not seen; then, and before the first trusted one, comes the veil or the slate.

    Args:
        policy: One of :data:`POLICIES`.
        hold_ns: How long the last trusted picture may stand in.
        fresh_ns: How old a live picture may be to be veiled when the pipeline gives nothing.
        private: Asked by any thread whether nothing of the camera's picture may be seen: not behind a veil, nor
            because of the policy. Then there is a slate.

    Attributes:
        curtain: While it is drawn viewers see the veil, whatever the policy says.

    Raises:
        UsageError: There is no such policy.
    """

    def __init__(
        self, policy: Sequence[str] = ("hold", "veil"), hold_ns: int = HOLD_NS, fresh_ns: int = FRESH_NS,
        private: Callable[[], bool] = lambda: False,
    ) -> None:  # fmt: skip
        self._policy = tuple(policy)
        if self._policy not in POLICIES:
            raise UsageError(
                f"There is no policy “{','.join(self._policy)}” for a lost face.",
                f"Use one of {', '.join(','.join(p) for p in POLICIES)}.",
            )
        self._patience_ns, self._fresh_ns = hold_ns, fresh_ns
        self._hold_ns = hold_ns if "hold" in self._policy else -1
        self.curtain = Curtain()
        self._private = private
        self._cover = _Cover(self._policy[-1], private)
        self._trusted: Frame | None = None
        self._trusted_ns = 0

    def judge(self, outcome: Outcome, now_ns: int) -> Frame:
        """What to show instead of, or as, this outcome. Called by the process thread.

        Args:
            outcome: What the pipeline made of the newest frame.
            now_ns: The time: the clock's in a live session, the clip's when a file is processed offline.

        Returns:
            A read-only frame that is never ``LIVE``.
        """
        if self.curtain.drawn:
            self._trusted = None  # Nor may it come back as a held picture.
            return self._cover.hide(outcome.frame, now_ns)
        if outcome.trusted:
            self._trusted, self._trusted_ns = outcome.frame.sealed(Kind.SWAPPED), now_ns
            return self._trusted
        if self._trusted is not None and now_ns - self._trusted_ns <= self._hold_ns:
            return self._trusted.shown_as(Kind.HELD)
        self._trusted = None  # Too old to be shown again: its buffer may go.
        return self._cover.show(outcome.frame, now_ns)

    def standby(self) -> Standby:
        """What one output thread shows when nothing is published."""
        return Standby(self._policy[-1], self._patience_ns, self._fresh_ns, self.curtain, self._private)


class Standby:
    """Decides for one output thread what is sent at each tick.

    The last published picture is repeated for a moment. Then the newest live picture stands in, covered, for
    as long as it is fresh; then a slate. So a viewer never looks at a frozen picture and takes it for live.

    Args:
        cover: "veil", "slate" or "passthrough".
        patience_ns: How long a published picture may be repeated, counted from when it was new.
        fresh_ns: How old a live picture may be.
        curtain: Hides everybody while it is drawn; None for one that nobody can draw.
        private: See :class:`Guard`.
    """

    def __init__(
        self, cover: str, patience_ns: int, fresh_ns: int, curtain: Curtain | None = None,
        private: Callable[[], bool] = lambda: False,
    ) -> None:  # fmt: skip
        self._patience_ns, self._fresh_ns = patience_ns, fresh_ns
        self._curtain = curtain or Curtain()
        self._cover = _Cover(cover, private)
        self._last: Frame | None = None
        self._until_ns = 0

    def published(self, frame: Frame, now_ns: int) -> None:
        """A new frame came from the process thread."""
        # A held picture is as old as the trusted one it repeats: its time is not counted anew.
        if frame.kind is not Kind.HELD:
            self._until_ns = now_ns + self._patience_ns
        self._last = frame

    def show(self, live: Frame | None, now_ns: int, size: tuple[int, int], reason: str) -> Frame:
        """What to send now.

        Args:
            live: The newest captured frame; None when it must not be used.
            now_ns: The time.
            size: Of the frames sent: width and height, pixels.
            reason: What a slate says when there is no fresh picture.

        Returns:
            A read-only frame that is never ``LIVE``; the same object as before when nothing is new.
        """
        drawn = self._curtain.drawn
        if self._last is not None and drawn and self._last.kind not in (Kind.VEILED, Kind.SLATE):
            # It was judged before the curtain was drawn.
            self._last = self._cover.hide(self._last, now_ns)
        if self._last is not None and now_ns <= self._until_ns:
            return self._last
        self._last = None
        if live is not None and now_ns - live.captured_ns <= self._fresh_ns:
            return self._cover.hide(live, now_ns) if drawn else self._cover.show(live, now_ns)
        return self._cover.slate.show(size, reason, now_ns)


class _Cover:
    """Makes a live frame showable, in the way the policy says. Belongs to one thread."""

    def __init__(self, how: str, private: Callable[[], bool]) -> None:
        self._how, self._private = how, private
        self._veil = Veil()
        self._wanted = Veil(caption=(VEILED,))
        self.slate = Slate()

    def hide(self, frame: Frame, now_ns: int) -> Frame:
        """The frame behind the veil that somebody asked for."""
        if self._private():
            return self.slate.show(frame.size, VEILED, now_ns)
        return self._wanted.show(frame, now_ns)

    def show(self, live: Frame, now_ns: int) -> Frame:
        if self._private():
            return self.slate.show(live.size, LOOKING, now_ns)
        if self._how == "veil":
            return self._veil.show(live, now_ns)
        if self._how == "passthrough":
            return live.sealed(Kind.BARE)
        return self.slate.show(live.size, LOOKING, now_ns)
