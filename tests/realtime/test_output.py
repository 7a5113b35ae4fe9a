"""A sink is fed at its own rate, with nothing that nobody has judged."""

from collections import Counter

import pytest

from engines.errors import DeviceError, DoppelcamError
from realtime.clock import StopFlag
from realtime.frame import Kind
from realtime.output import Output, Published, Upstream
from realtime.pace.budget import Meter
from realtime.shown import slate
from realtime.shown.guard import Guard
from tests.realtime.fakes import MS, SECOND, SIZE, FakeSink, SoloClock, make_frame


class Rig:
    """One output, played in one thread."""

    def __init__(self, fps=30, work=lambda n: None, policy=("hold", "veil")):
        self.clock = SoloClock()
        self.stop = StopFlag(self.clock)
        self.meter = Meter(0)
        self.sink = FakeSink(self.clock, work=work)
        self.upstream = Upstream(None, slate.STARTING)
        self.swaps = []
        self.output = Output(
            self.sink, Guard(policy).standby(), fps, SIZE, self.clock, self.stop, lambda: self.upstream,
            meter=self.meter, on_first_swap=lambda: self.swaps.append(self.clock.now_ns()),
        )  # fmt: skip

    def publish(self, at, seq=0, kind=Kind.SWAPPED, captured=None):
        frame = make_frame(seq, at if captured is None else captured).sealed(kind)
        self.clock.at(at, lambda: self.output.box.put(Published(frame, at)))

    def run(self, until):
        self.clock.at(until, self.end)
        self.output.run()

    def end(self):
        self.stop.set()
        self.output.box.close()

    @property
    def counts(self):
        return self.meter.report(1).counts


def test_it_sends_at_full_rate_whatever_happens_upstream():
    rig = Rig()
    rig.run(3 * SECOND)
    assert 89 <= len(rig.sink.sent) <= 91
    assert rig.sink.kinds() == [Kind.SLATE]
    assert rig.counts["sent"] == rig.counts["slate"] == len(rig.sink.sent)
    assert rig.sink.opened == [(SIZE, 30)] and rig.sink.closed == 1


def test_the_newest_frame_is_sent_and_the_last_one_repeated():
    rig = Rig()
    for n in range(15):
        rig.publish(n * SECOND // 15, seq=n)
    rig.run(SECOND)
    seqs = [s.seq for s in rig.sink.sent]
    assert seqs == sorted(seqs)
    assert set(seqs) == set(range(15))
    assert rig.counts["repeated"] == len(seqs) - 15


def test_a_regular_frame_goes_out_the_moment_it_is_ready():
    rig = Rig()
    for n in range(90):
        at = round((n + 0.6) * SECOND / 30)
        rig.publish(at, seq=n, captured=at - 10 * MS)
    rig.run(3 * SECOND)
    fresh = [s for s in rig.sink.sent if s.seq > 45]
    assert {s.age for s in fresh} == {10 * MS}


def test_the_age_is_measured_when_the_sink_returns_and_for_new_frames_only():
    rig = Rig(work=lambda n: rig.clock.pass_by(5 * MS))
    rig.publish(100 * MS, captured=80 * MS)
    rig.publish(200 * MS, kind=Kind.HELD, captured=80 * MS)
    rig.run(400 * MS)
    age = rig.meter.report(1).frame_age
    assert (age.n, age.max) == (1, 25)
    assert rig.meter.report(1).stages["output"].spread.p50 == 5


def test_what_is_shown_is_counted():
    rig = Rig()
    for n, kind in enumerate((Kind.SWAPPED, Kind.HELD, Kind.HELD, Kind.VEILED, Kind.SLATE, Kind.BARE)):
        rig.publish(round((n + 1) * SECOND / 30), seq=n, kind=kind)
    rig.run(SECOND // 4)
    shown = Counter(s.kind.value for s in rig.sink.sent if s.kind is not Kind.SWAPPED)
    assert shown["held"] == 2
    assert {name: n for name, n in rig.counts.items() if name not in ("sent", "repeated")} == shown
    assert rig.output.showing is Kind.BARE


def test_ready_is_said_once_with_the_first_swap():
    rig = Rig()
    rig.publish(100 * MS, kind=Kind.VEILED)
    rig.publish(200 * MS)
    rig.publish(300 * MS)
    rig.run(SECOND)
    first = next(s.at for s in rig.sink.sent if s.kind is Kind.SWAPPED)
    assert rig.swaps == [first]


def test_hold_then_veil_then_slate_to_the_tick():
    """The pipeline hangs after 1 s; the camera is gone after 2 s."""
    rig = Rig(fps=100)
    for n in range(100):
        rig.publish(n * 10 * MS, seq=n)
    live = make_frame(0, 2 * SECOND)

    def look():
        now = rig.clock.now_ns()
        return Upstream(make_frame(0, min(now, live.captured_ns)), slate.RECONNECTING)

    rig.output._upstream = look
    rig.run(4 * SECOND)
    begins = {}
    for sent in rig.sink.sent:
        begins.setdefault(sent.kind, sent.at / SECOND)
    assert list(begins) == [Kind.SWAPPED, Kind.VEILED, Kind.SLATE]
    assert begins[Kind.VEILED] == pytest.approx(0.99 + 0.5, abs=0.011)
    assert begins[Kind.SLATE] == pytest.approx(3, abs=0.011)


def test_a_live_frame_never_reaches_the_sink():
    rig = Rig()
    frame = make_frame(5)
    rig.clock.at(100 * MS, lambda: rig.output.box.put(Published(frame, 0)))
    with pytest.raises(DoppelcamError, match="nobody had judged") as caught:
        rig.run(SECOND)
    assert caught.value.exit_code == 1
    assert {s.kind for s in rig.sink.sent} == {Kind.SLATE}
    assert not any(s.bare for s in rig.sink.sent)
    assert rig.sink.closed == 1


def test_the_last_frame_of_a_source_is_sent():
    rig = Rig()
    for n in range(10):
        rig.publish(n * SECOND // 30, seq=n)
    rig.clock.at(9 * SECOND // 30 + 1, rig.output.box.close)
    rig.output.run()
    assert rig.sink.sent[-1].seq == 9
    assert not rig.stop


def test_after_a_failure_elsewhere_the_last_picture_is_a_slate():
    rig = Rig()
    rig.publish(0)
    rig.clock.at(100 * MS, lambda: setattr(rig, "upstream", Upstream(None, slate.STOPPED)))
    rig.run(200 * MS)
    assert rig.sink.sent[-1].kind is Kind.SLATE
    rig = Rig()
    rig.publish(0)
    rig.run(200 * MS)
    assert rig.sink.sent[-1].kind is Kind.SWAPPED


def test_a_sink_that_breaks_is_closed_and_named():
    def full(n):
        if n == 5:
            raise DeviceError("The disk is full.")

    rig = Rig(work=full)
    with pytest.raises(DeviceError, match="disk is full"):
        rig.run(SECOND)
    assert rig.sink.closed == 1


def test_a_sink_that_does_not_open_is_closed_too():
    rig = Rig()

    def refuse():
        raise DeviceError("Busy.")

    rig.sink.opening = refuse
    with pytest.raises(DeviceError):
        rig.run(SECOND)
    assert (rig.sink.sent, rig.sink.closed) == ([], 1)


def test_a_slow_sink_gets_the_newest_and_no_backlog():
    rig = Rig(work=lambda n: rig.clock.live_on(200 * MS))
    for n in range(90):
        rig.publish(n * SECOND // 30, seq=n)
    rig.run(3 * SECOND)
    late = [s.at - s.captured_ns for s in rig.sink.sent if s.kind is Kind.SWAPPED]
    assert max(late) <= 300 * MS
    assert rig.output.box.dropped > 50
