"""Every frame of a file, in the file's own time."""

import pytest

from engines.errors import DeviceError, EngineError, UsageError
from realtime.clock import StopFlag
from realtime.frame import Kind
from realtime.offline import run_offline
from realtime.pace.budget import Meter
from realtime.pipeline import Pipeline
from realtime.shown.guard import Guard
from tests.realtime.fakes import MS, SECOND, SIZE, FakeSink, FakeSource, FakeSwapper, FakeTracker, SoloClock


class Offline:
    """A file out of fakes; ``cost_ns`` is what the processor takes for a face, however long that is."""

    def __init__(self, answer=lambda n: 1, swap=lambda n: None, cost_ns=0, sinks=1, **source):
        self.clock = SoloClock()
        self.stop = StopFlag(self.clock)
        self.source = FakeSource(self.clock, self.stop, **{"device": False, "fps": 30.0, "end": 90} | source)
        self.tracker = FakeTracker(answer)
        self.swapper = FakeSwapper(swap, work=lambda n: self.clock.pass_by(cost_ns))
        self.sinks = [FakeSink(self.clock, f"sink {n}") for n in range(sinks)]
        self.meter = Meter(0)
        self.said = []

    def run(self):
        pipeline = Pipeline(self.tracker, self.swapper, self.meter, self.clock, None)
        return run_offline(
            self.source, pipeline, Guard(), self.sinks, self.meter, self.clock, self.stop, self.said.append
        )

    @property
    def all_closed(self):
        return self.source.closed and self.tracker.closed and self.swapper.closed and self.sinks[0].closed


@pytest.mark.parametrize("cost_ms", [0, 5, 4000])
def test_every_frame_is_written_once_and_in_order_however_slow_it_goes(cost_ms):
    offline = Offline(cost_ns=cost_ms * MS, sinks=2)
    report = offline.run()
    for sink in offline.sinks:
        assert [s.seq for s in sink.sent] == list(range(90))
        assert all(s.swapped for s in sink.sent)
        assert sink.opened == [(SIZE, 30.0)]
    assert report.counts["captured"] == report.counts["processed"] == report.counts["sent"] == 90
    assert offline.all_closed


@pytest.mark.parametrize("cost_ms", [0, 900])
def test_the_result_does_not_depend_on_how_fast_the_machine_is(cost_ms):
    """Held for half a second of the file, not of the wall."""
    offline = Offline(answer=lambda n: int(not 30 <= n < 60), cost_ns=cost_ms * MS)
    report = offline.run()
    kinds = [s.kind for s in offline.sinks[0].sent]
    assert kinds == [Kind.SWAPPED] * 30 + [Kind.HELD] * 15 + [Kind.VEILED] * 15 + [Kind.SWAPPED] * 30
    assert (report.counts["held"], report.counts["veiled"]) == (15, 15)
    assert not any(s.bare for s in offline.sinks[0].sent)


def test_the_tracker_is_told_the_time_of_the_file():
    offline = Offline(fps=25.0, end=50)
    offline.run()
    assert offline.tracker.times == [n * 40 * MS for n in range(50)]


def test_odd_sizes_are_made_even():
    offline = Offline(size=(65, 49), end=3)
    offline.run()
    assert offline.sinks[0].opened == [(SIZE, 30.0)]


def test_progress_is_told_about_once_a_second():
    offline = Offline(cost_ns=100 * MS)
    offline.run()
    assert [line for line in offline.said if "frames" in line] == [f"{n}0 frames done" for n in range(1, 10)]


def test_stopping_finishes_what_is_written():
    offline = Offline()
    offline.tracker.answer = lambda n: offline.stop.set() or 1 if n == 9 else 1
    report = offline.run()
    assert report.counts["sent"] == 10
    assert offline.all_closed


def test_a_camera_is_refused_before_anything_is_opened():
    offline = Offline(device=True)
    with pytest.raises(UsageError, match="offline"):
        offline.run()
    assert not offline.source.opened and not offline.sinks[0].opened


def test_nowhere_to_write_is_refused():
    with pytest.raises(UsageError, match="nowhere"):
        Offline(sinks=0).run()


@pytest.mark.parametrize("breaking", ["source", "engine", "sink", "sink open", "swap"])
def test_whatever_breaks_everything_is_closed(breaking):
    def fail(error):
        raise error

    offline = Offline()
    kind = DeviceError
    if breaking == "source":
        offline.source.read = lambda: fail(DeviceError("The disk was pulled out."))
    elif breaking == "engine":
        kind = EngineError
        offline.swapper.opening = lambda: fail(EngineError("No plan."))
    elif breaking == "sink":
        offline.sinks[0].work = lambda n: fail(DeviceError("The disk is full.")) if n == 4 else None
    elif breaking == "sink open":
        offline.sinks[0].opening = lambda: fail(DeviceError("No such folder."))
    else:
        kind = EngineError
        offline.swapper.answer = lambda n: ValueError("shapes")
    with pytest.raises(kind):
        offline.run()
    assert offline.source.closed and offline.tracker.closed and offline.swapper.closed
    assert all(s.closed >= len(s.opened) for s in offline.sinks)


def test_a_wall_clock_of_hours_is_no_reason_to_veil():
    offline = Offline(cost_ns=60 * SECOND, answer=lambda n: int(n % 10 < 8))
    offline.run()
    assert {s.kind for s in offline.sinks[0].sent} == {Kind.SWAPPED, Kind.HELD}
