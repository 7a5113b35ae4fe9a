"""What the live path is tested with: time that jumps, a camera, a tracker, a swapper and a sink."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from engines.errors import DeviceError
from engines.faces import Face, Patch
from realtime.clock import StopFlag
from realtime.frame import Frame, FramePool, Kind

MS = 1_000_000
SECOND = 1_000_000_000
SIZE = (64, 48)
FACE = (slice(8, 40), slice(16, 48))
"""Where the fakes' face is."""
SKIN = 60
"""What the fake swapper paints there."""


class SoloClock:
    """Time for one thread: it jumps to what is waited for, and does on the way what was planned."""

    def __init__(self):
        self._now = 0
        self._plan = []

    def now_ns(self):
        return self._now

    def at(self, ns, call):
        self._plan.append((ns, call))
        self._plan.sort(key=lambda item: item[0])

    def wait(self, condition, until_ns):
        if self._plan and (until_ns is None or self._plan[0][0] <= until_ns):
            ns, call = self._plan.pop(0)
            self._now = max(self._now, ns)
            call()
            return
        assert until_ns is not None, "this would wait for ever"
        self._now = max(self._now, until_ns)

    def pass_by(self, ns):
        """Time goes by and nothing else happens."""
        self._now += ns

    def live_on(self, ns):
        """Time goes by, and what was planned happens."""
        until = self._now + ns
        while self._now < until:
            self.wait(None, until)


class VirtualClock:
    """Time for a whole session: it jumps to the next deadline once every thread of the session waits.

    So hours pass in seconds, and nothing depends on how fast the machine is.
    """

    def __init__(self):
        self._now = 0
        self._waits = {}
        self._version = 0

    def now_ns(self):
        return self._now

    def wait(self, condition, until_ns):
        if until_ns is not None and until_ns <= self._now:
            return
        me = threading.get_ident()
        self._version += 1
        self._waits[me] = (condition, until_ns)
        try:
            condition.wait()
        finally:
            del self._waits[me]
            self._version += 1

    def run_until(self, until_ns):
        """Lets the session live until then, or until all its threads have ended."""
        while True:
            waits = self._settled()
            due = min((until for _, until in waits if until is not None), default=None)
            if due is None or due > until_ns:
                self._now = max(self._now, until_ns)
                return
            self._now = max(self._now, due)
            for condition, until in waits:
                if until is not None and until <= self._now:
                    with condition:
                        condition.notify_all()

    def _settled(self):
        give_up = time.monotonic() + 20
        while time.monotonic() < give_up:
            version, waits = self._version, dict(self._waits)
            threads = {t.ident for t in threading.enumerate() if t.name.startswith("doppelcam")}
            # Whoever was notified is no longer among a condition's waiters, though it has not moved yet.
            counts = Counter(id(condition) for condition, _ in waits.values())
            real = {id(condition): len(condition._waiters) for condition, _ in waits.values()}
            if threads <= waits.keys() and counts == real and version == self._version:
                return list(waits.values())
            time.sleep(0)
        raise TimeoutError(f"still running: {[t.name for t in threading.enumerate()]}")


def picture(size=SIZE, seed=1):
    """A live picture: noise, so that nothing else looks like it."""
    return np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), np.uint8)


def make_frame(seq=0, captured_ns=0, size=SIZE, kind=Kind.LIVE):
    return Frame(picture(size), seq, captured_ns, kind)


def looks_like_the_live_face(face):
    """Whether the detail of the live face can still be seen in this picture of the face's place."""
    seen, live = face.astype(np.float64).ravel(), picture()[FACE].astype(np.float64).ravel()
    return bool(seen.std() > 0 and abs(np.corrcoef(seen, live)[0, 1]) > 0.3)


def make_face(track=0, points=None):
    points = np.zeros((468, 3), np.float32) if points is None else points
    patch = Patch(np.zeros((4, 4, 3), np.float32), np.zeros((2, 3), np.float32))
    return Face(track, points, 1.0, patch)


@dataclass
class FakeSource:
    """A camera (or a clip) whose fate is scripted.

    ``gone`` lists spans of time, ns, in which the device does not exist; ``blocked`` spans in which it gives
    nothing. ``end`` is the number of frames of a clip.
    """

    clock: object
    stop: StopFlag
    device: bool = True
    size: tuple = SIZE
    fps: float = 30.0
    end: int | None = None
    gone: tuple = ()
    blocked: tuple = ()
    sizes: dict = field(default_factory=dict)
    name: str = "the fake camera"
    opened: int = 0
    closed: int = 0
    given: int = 0
    tried: list = field(default_factory=list)

    def __post_init__(self):
        self._pool = FramePool(self.size)
        self._picture = picture(self.size)

    def _absent(self):
        return any(a <= self.clock.now_ns() < b for a, b in self.gone)

    def open(self):
        self.tried.append(self.clock.now_ns())
        if self._absent():
            raise DeviceError("The fake camera is not there.", "Plug it in.")
        self.opened += 1

    def read(self):
        if self.end is not None and self.given >= self.end:
            return None
        now = self.clock.now_ns()
        if self.device:
            period = SECOND / self.fps
            # Times are whole ns and periods are not: this very moment is not the next one.
            until = round((int(now / period + 1e-3) + 1) * period)
            for a, b in self.blocked:
                if a <= until < b:
                    until = b
            ends = [a for a, _ in self.gone if now <= a < until]
            self.stop.wait_until(min([until, *ends]))
            if self._absent():
                raise DeviceError("The fake camera is gone.", "Plug it in.")
        size = self.sizes.get(self.opened, self.size)
        if size == self.size:
            lease = self._pool.lease()
            np.copyto(lease.buffer, self._picture)
            image = lease.buffer
        else:
            lease, image = None, picture(size)
        frame = Frame(image, self.given, self.clock.now_ns(), lease=lease)
        self.given += 1
        return frame

    def close(self):
        self.closed += 1


class FakeTracker:
    """Gives ``answer(n)`` for its n-th frame: how many faces, or an exception."""

    def __init__(self, answer=lambda n: 1):
        self.answer = answer
        self.calls = 0
        self.times = []
        self.skipped_detections = 0
        self.lost = False
        self.others = ()
        self.opened = self.closed = self.looks_on = 0

    def open(self, progress):
        self.opened += 1
        progress("tracker")

    def track(self, image, now_ns):
        self.times.append(now_ns)
        self.calls += 1
        said = self.answer(self.calls - 1)
        if isinstance(said, BaseException):
            raise said
        self.skipped_detections += 1
        return said if isinstance(said, list) else [make_face(track) for track in range(said)]

    def look_on(self):
        self.looks_on += 1

    def close(self):
        self.closed += 1


class FakeSwapper:
    """Paints the face flat. ``answer(n)`` may give an exception for its n-th face, or the layer."""

    name = "fake"
    landmarks = 468

    def __init__(self, answer=lambda n: None, opening=lambda: None, work=lambda n: None, skin=SKIN):
        self.nodes = {}
        self.answer, self.opening, self.work, self.skin = answer, opening, work, skin
        self.calls = 0
        self.opened = self.closed = 0
        self.threads = set()

    def open(self, progress):
        self.threads.add(threading.current_thread().name)
        progress("swapper")
        self.opening()
        progress("swapper is ready")
        self.opened += 1

    def swap(self, image, face):
        self.threads.add(threading.current_thread().name)
        self.calls += 1
        self.work(self.calls - 1)
        said = self.answer(self.calls - 1)
        if isinstance(said, BaseException):
            raise said
        return np.full(3, self.skin, np.float32) if said is None else said

    def blend(self, image, layer):
        if isinstance(layer, np.ndarray):
            image[FACE] = layer.astype(np.uint8)[:3]

    def close(self):
        self.threads.add(threading.current_thread().name)
        self.closed += 1


@dataclass(frozen=True)
class Sent:
    at: int
    kind: Kind
    seq: int
    captured_ns: int
    face: np.ndarray
    writeable: bool

    @property
    def age(self):
        return self.at - self.captured_ns

    @property
    def bare(self):
        """Whether the real face can be seen."""
        return looks_like_the_live_face(self.face)

    @property
    def swapped(self):
        return bool((self.face == SKIN).all())


class FakeSink:
    """Remembers what it was sent, and when. ``work(n)`` is called for its n-th frame."""

    def __init__(self, clock, name="the fake sink", work=lambda n: None, opening=lambda: None):
        self.clock, self.name, self.work, self.opening = clock, name, work, opening
        self.sent = []
        self.opened = []
        self.closed = 0

    def open(self, size, fps):
        self.opening()
        self.opened.append((size, fps))

    def send(self, frame):
        self.work(len(self.sent))
        self.sent.append(
            Sent(
                self.clock.now_ns(),
                frame.kind,
                frame.seq,
                frame.captured_ns,
                frame.image[FACE].copy(),
                frame.image.flags.writeable,
            )
        )

    def close(self):
        self.closed += 1

    def kinds(self, since=0, until=1 << 62):
        """What was shown in that time, without repetitions."""
        shown = [s.kind for s in self.sent if since <= s.at < until]
        return [k for i, k in enumerate(shown) if not i or shown[i - 1] is not k]
