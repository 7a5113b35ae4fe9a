"""A live session: every thread is made and joined here.

Who owns what:

====================  ==========================================================================
thread                owns
====================  ==========================================================================
doppelcam-capture     the source; writes the newest captured frame and whether the device is lost
doppelcam-process     the pipeline and the guard
doppelcam-output-N    one sink, its standby and its cadence
the caller's          starting, waiting, stopping
====================  ==========================================================================

Frames go from one to the next through mailboxes of one slot. Nothing else is shared but single attributes
that one thread writes and others read.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

from engines.errors import UsageError
from engines.swap.base import Progress
from realtime.capture import Capture
from realtime.changes import Changes
from realtime.clock import Clock, StopFlag
from realtime.frame import Frame, Kind
from realtime.mailbox import Mailbox
from realtime.output import Output, Published, Upstream
from realtime.pace.budget import Meter, Report
from realtime.pace.governor import Governor
from realtime.pipeline import Pipeline
from realtime.shown import slate
from realtime.shown.guard import Guard
from realtime.sinks.base import Sink
from realtime.sources.base import Source

log = logging.getLogger(__name__)

T = TypeVar("T")

State = Literal["starting", "live", "veiled", "lost"]

_GLANCE_NS = 100_000_000
"""How long a thread waits before it looks whether something else wants it."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How a session is doing.

    Attributes:
        state: ``starting`` until the engines are ready; ``lost`` while the camera is gone; ``live`` while
            viewers see a face; ``veiled`` while they see the veil or a slate.
        ready: Whether a swapped frame was ever sent.
        report: What was measured so far.
        rung: What has given way because frames take too long; empty when nothing had to.
    """

    state: State
    ready: bool
    report: Report
    rung: str = ""


class _Stopped(BaseException):
    """Ends the opening of an engine; not an ``Exception``, so that nobody takes it for a failure."""


class Session:
    """From a source to sinks, until someone stops it or the source ends.

    Args:
        source: Where frames come from.
        pipeline: What puts another face on them.
        guard: What is shown when that cannot be trusted.
        sinks: Where frames go. The first one's figures are the session's.
        meter: Gets all times and counts. Reset when the pipeline is open.
        clock: Time.
        fps: Sends a second, of every sink.
        stop: Ends the session when raised, from any thread.
        progress: Told what is being prepared; called by the process thread.
        reconnect_s: How long a lost camera is looked for; None for as long as the session lasts.
        on_ready: Called once after the first swapped frame was sent, by an output thread.
        patience_s: How long :meth:`stop` waits for a camera or an engine that does not return.
        finish_s: How long :meth:`stop` waits for sinks: a file has to be finished or is lost.
        governor: What gives way when frames take too long; None lets nothing give way.
        on_captured: Shown every frame before anybody paints into it, by the capture thread; it must be quick.

    Attributes:
        ready: Set when the first swapped frame was sent.

    Raises:
        UsageError: There is no sink.
    """

    def __init__(
        self,
        source: Source,
        pipeline: Pipeline,
        guard: Guard,
        sinks: Sequence[Sink],
        meter: Meter,
        clock: Clock,
        fps: float,
        stop: StopFlag | None = None,
        *,
        progress: Progress = log.info,
        reconnect_s: float | None = None,
        on_ready: Callable[[], None] | None = None,
        patience_s: float = 0.8,
        finish_s: float = 10.0,
        governor: Governor | None = None,
        on_captured: Callable[[Frame], None] = lambda frame: None,
    ) -> None:
        if not sinks:
            raise UsageError("There is nowhere to send the picture.", "Give at least one --sink.")
        self.ready = threading.Event()
        self._source, self._pipeline, self._guard, self._sinks = source, pipeline, guard, tuple(sinks)
        self._meter, self._clock, self._fps = meter, clock, fps
        self._stop = StopFlag(clock) if stop is None else stop
        self._progress, self._on_ready = progress, on_ready
        self._patience_s, self._finish_s = patience_s, finish_s
        self._governor = governor
        self._on_captured = on_captured
        self._capture = Capture(source, clock, meter, self._stop, reconnect_s)
        self._captured: Mailbox[Frame] = Mailbox(clock)
        self._size: Mailbox[tuple[int, int]] = Mailbox(clock)
        self._go: Mailbox[bool] = Mailbox(clock)
        self._newest: Frame | None = None
        self._opened_ns: int | None = None
        self._outputs: tuple[Output, ...] = ()
        self._changes = Changes()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._outputs_left = len(self._sinks)
        self._ended_ns: int | None = None

    # -- the caller's thread --------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts every thread; returns when the source is open. Engines may go on opening.

        Raises:
            DeviceError: The camera cannot be opened.
            UsageError: The file cannot be read.
        """
        self._spawn("capture", self._run_capture)
        self._spawn("process", self._run_process)
        if self._await(self._size) is None:
            self.stop()
            self.check()
            return
        for number, output in enumerate(self._outputs):
            self._spawn(f"output-{number}", partial(self._run_output, output))

    def wait(self, until_ns: int | None = None) -> bool:
        """Waits until the session ends or the time has come; returns whether it has ended."""
        while not self._stop:
            now = self._clock.now_ns()
            if until_ns is not None and now >= until_ns:
                return False
            # In slices, because not every system ends a lock's wait on Ctrl-C.
            self._stop.wait_until(now + _GLANCE_NS if until_ns is None else min(now + _GLANCE_NS, until_ns))
        return True

    def stop(self) -> None:
        """Ends every thread and waits for it; may be called twice. Errors are kept for :meth:`check`."""
        self._end()
        # The machine's own time: what is waited for here are drivers, which know no other.
        began = time.monotonic()
        for thread in self._threads:
            if thread is threading.current_thread():
                continue
            patience = self._finish_s if "-output-" in thread.name else self._patience_s
            thread.join(max(0.0, began + patience - time.monotonic()))
            if not thread.is_alive():
                continue
            if self._capture.opening and thread.name.endswith("-capture"):
                log.info("%s is still being opened; it is let go as soon as it is", self._source.name)
            else:
                log.warning("%s does not return and is left behind", thread.name)
        # Also where its thread never began, or never ends: nobody may wait for a change that will not be made.
        self._changes.close()
        if self._ended_ns is None:
            self._ended_ns = self._clock.now_ns()
            gc.unfreeze()

    def check(self) -> None:
        """Raises the first error of any thread."""
        if self._error is not None:
            raise self._error

    def run(self, duration_s: float | None = None) -> Report:
        """Starts, waits and stops.

        Args:
            duration_s: How long, counted from when the engines are open; None until the end.

        Returns:
            What was measured. After an error or Ctrl-C, :meth:`report` still tells.

        Raises:
            DoppelcamError: The first error of any thread, after all of them have ended.
            KeyboardInterrupt: Ctrl-C, likewise.
        """
        try:
            self.start()
            while not self._over(duration_s):
                self.wait(self._soon(duration_s))
        finally:
            self.stop()
        self.check()
        return self.report()

    def _over(self, duration_s: float | None) -> bool:
        until = self._until(duration_s)
        return bool(self._stop) or (until is not None and self._clock.now_ns() >= until)

    def _soon(self, duration_s: float | None) -> int:
        until, glance = self._until(duration_s), self._clock.now_ns() + _GLANCE_NS
        return glance if until is None else min(until, glance)

    def _until(self, duration_s: float | None) -> int | None:
        if duration_s is None or self._opened_ns is None:
            return None
        return self._opened_ns + round(duration_s * 1e9)

    # -- any thread -----------------------------------------------------------------------------------------

    def report(self) -> Report:
        """What was measured so far."""
        return self._meter.report(self._clock.now_ns() if self._ended_ns is None else self._ended_ns)

    @property
    def opened_ns(self) -> int | None:
        """When the engines were open; None before."""
        return self._opened_ns

    def snapshot(self) -> Snapshot:
        """How the session is doing."""
        showing = self._outputs[0].showing if self._outputs else None
        state: State = "veiled"
        if self._opened_ns is None or showing is None:
            state = "starting"
        elif self._capture.lost:
            state = "lost"
        elif showing in (Kind.SWAPPED, Kind.HELD, Kind.BARE):
            state = "live"
        rung = "" if self._governor is None else self._governor.rung
        return Snapshot(state, self.ready.is_set(), self.report(), rung)

    def between_frames(self, change: Callable[[], None]) -> Future[None]:
        """Has the process thread call ``change`` between two frames, for instance to hand over another face.

        What takes long and may fail, such as reading a photo, is done before and elsewhere. A change that
        raises keeps whatever it did not change; the session goes on.

        Returns:
            Done when the change was made; holds its error when it failed; cancelled when the session ends.
        """
        return self._changes.ask(change)

    # -- the process thread ---------------------------------------------------------------------------------

    def _run_process(self) -> None:
        try:
            self._pipeline.open(self._say)
            # What was loaded stays: looking through it for garbage would only make frames late.
            gc.collect()
            gc.freeze()
            now = self._clock.now_ns()
            self._meter.reset(now)
            self._opened_ns = now
            self._go.put(True)
            while not self._stop and self._process_one():
                pass
        except _Stopped:
            return
        finally:
            try:
                self._pipeline.close()
            finally:
                self._changes.close()
        for output in self._outputs:
            output.box.close()

    def _process_one(self) -> bool:
        """Takes the newest frame, if there is one soon; False when there will be no more."""
        frame = self._captured.get(self._clock.now_ns() + _GLANCE_NS)
        self._changes.make()
        if frame is None:
            return not self._captured.closed
        if self._governor is not None and not self._governor.wants(frame.captured_ns):
            self._meter.count("left_out")
            return True
        began = self._clock.now_ns()
        outcome = self._pipeline.process(frame)
        now = self._clock.now_ns()
        if self._governor is not None:
            self._governor.worked(frame.captured_ns, began, now)
        shown = self._guard.judge(outcome, now)
        self._meter.count("processed")
        for output in self._outputs:
            output.box.put(Published(shown, now))
        self._pipeline.look_on()
        return True

    def _say(self, line: str) -> None:
        if self._stop:
            raise _Stopped
        self._progress(line)

    # -- the capture thread ---------------------------------------------------------------------------------

    def _run_capture(self) -> None:
        try:
            self._capture.open()
            self._outputs = tuple(self._output(sink) for sink in self._sinks)
            self._size.put(self._capture.size)
            # A clip waits for the engines and starts at its beginning; a camera cannot wait.
            if not self._source.device and self._await(self._go) is None:
                return
            dropped = 0
            for frame in self._capture.frames():
                self._newest = frame
                self._on_captured(frame)
                self._captured.put(self._pipeline.send(frame))
                if self._captured.dropped != dropped:
                    dropped = self._captured.dropped
                    self._meter.count("dropped")
        finally:
            self._captured.close()
            self._capture.close()

    # -- the output threads ---------------------------------------------------------------------------------

    def _output(self, sink: Sink) -> Output:
        first = sink is self._sinks[0]
        return Output(
            sink,
            self._guard.standby(),
            self._fps,
            self._capture.size,
            self._clock,
            self._stop,
            self._upstream,
            meter=self._meter if first else None,
            on_first_swap=self._first_swap if first else None,
        )

    def _run_output(self, output: Output) -> None:
        output.run()
        with self._lock:
            self._outputs_left -= 1
            last = self._outputs_left == 0
        if last:
            self._end()

    def _upstream(self) -> Upstream:
        if self._error is not None:
            return Upstream(None, slate.STOPPED)
        if self._opened_ns is None:
            return Upstream(None, slate.STARTING)
        return Upstream(self._newest, slate.RECONNECTING if self._capture.lost else slate.WAITING)

    def _first_swap(self) -> None:
        self.ready.set()
        if self._on_ready is not None:
            self._on_ready()

    # -- threads --------------------------------------------------------------------------------------------

    def _spawn(self, name: str, body: Callable[[], None]) -> None:
        # Daemons, because a driver that never returns must not keep the program from ending.
        thread = threading.Thread(target=self._guarded, args=(body,), name=f"doppelcam-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _guarded(self, body: Callable[[], None]) -> None:
        try:
            body()
        except BaseException as error:
            with self._lock:
                first = self._error is None
                if first:
                    self._error = error
            if not first:
                log.error("%s: %s", threading.current_thread().name, error)
            self._end()

    def _end(self) -> None:
        self._stop.set()
        self._size.close()
        self._go.close()
        self._captured.close()
        for output in self._outputs:
            output.box.close()

    def _await(self, box: Mailbox[T]) -> T | None:
        """What will lie in the box; None when the session ends before."""
        while not self._stop:
            item = box.get(self._clock.now_ns() + _GLANCE_NS)
            if item is not None or box.closed:
                return item
        return None
