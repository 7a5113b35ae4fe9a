"""A frame given twice is answered with what was made of the first, if that could be trusted, and not otherwise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines.errors import EngineError
from realtime.frame import Frame, FramePool, Kind
from realtime.pace.budget import Meter
from realtime.pace.repeats import LONGEST_NS, Repeats
from realtime.pipeline import Pipeline
from realtime.shown.guard import Guard
from realtime.shown.label import Label
from tests.realtime.fakes import FACE, MS, SKIN, FakeSwapper, FakeTracker, SoloClock, make_frame, picture

PERIOD = 33 * MS


class Bench:
    def __init__(self, tracker=None, swapper=None, label=None):
        self.tracker, self.swapper = tracker or FakeTracker(), swapper or FakeSwapper()
        self.meter, self.clock, self.n = Meter(0), SoloClock(), 0
        self.pipeline = Pipeline(self.tracker, self.swapper, self.meter, self.clock, label, repeats=Repeats())
        self.pipeline.open(lambda line: None)

    def __call__(self, image):
        frame = Frame(image.copy(), self.n, self.n * PERIOD)
        self.n += 1
        return self.pipeline.process(frame)

    @property
    def duplicates(self):
        return self.meter.report(1).counts.get("duplicates", 0)


def nudged(by, where=slice(None)):
    image = picture().astype(np.int16)
    image[where] += by
    return np.clip(image, 0, 255).astype(np.uint8)


def test_a_frame_that_comes_twice_is_worked_on_once():
    bench = Bench(label=Label())
    first, second, third = bench(picture()), bench(picture()), bench(picture())
    assert bench.tracker.calls == bench.swapper.calls == 1
    assert bench.duplicates == 2
    for n, outcome in enumerate((second, third), 1):
        assert outcome.trusted
        assert (outcome.frame.seq, outcome.frame.captured_ns) == (n, n * PERIOD)
        assert outcome.frame.image is first.frame.image
    assert (second.frame.image[FACE][:16] == SKIN).all()
    stages = bench.meter.report(1).stages
    assert stages["track"].spread.n == 1
    assert bench.meter.report(1).process.n == 1


def test_a_frame_that_differs_is_worked_on():
    bench = Bench()
    for seed in range(5):
        assert (bench(picture(seed=seed)).frame.image[FACE] == SKIN).all()
    assert bench.swapper.calls == 5
    assert bench.duplicates == 0


@pytest.mark.parametrize("sigma", [0.5, 1, 3])
def test_the_noise_of_a_sensor_makes_frames_differ(sigma):
    bench, rng = Bench(), np.random.default_rng(3)
    still = rng.integers(40, 200, (48, 64, 3))
    for _ in range(6):
        bench(np.round(still + rng.normal(0, sigma, still.shape)).astype(np.uint8))
    assert bench.duplicates == 0


def test_one_bit_here_and_there_is_still_the_same_picture():
    bench = Bench()
    bench(picture())
    bench(nudged(1, (slice(0, 1), slice(0, 2))))
    assert bench.duplicates == 1


def test_a_slow_fade_is_not_lost_in_repeats():
    """Each frame hardly differs from the one before, but from the one that was worked on it soon does."""
    bench = Bench()
    still = np.full((48, 64, 3), 100, np.uint8)
    for n in range(7):
        still.reshape(-1)[: 40 * n] = 101
        bench(still)
    assert bench.duplicates
    assert bench.swapper.calls > 1


@pytest.mark.parametrize("why", ["no face", "lost", "track", "swap", "blend", "nan"])
def test_what_was_not_trusted_is_never_used_again(why):
    fault = EngineError("It is broken.")

    class Bad(FakeSwapper):
        def blend(self, image, layer):
            super().blend(image, layer)
            if why == "blend":
                raise fault

    tracker = FakeTracker(lambda n: {"no face": 0, "track": fault}.get(why, 1))
    tracker.lost = why == "lost"
    answer = {"swap": fault, "nan": np.full(3, np.nan, np.float32)}.get(why)
    bench = Bench(tracker, Bad(lambda n: answer))
    outcomes = [bench(picture()) for _ in range(4)]
    assert not any(outcome.trusted for outcome in outcomes)
    assert tracker.calls == 4
    assert bench.duplicates == 0


def test_a_fault_between_two_equal_frames_is_not_forgotten():
    bench = Bench(swapper=FakeSwapper(lambda n: EngineError("once") if n == 1 else None))
    trusted = [
        bench(image).trusted for image in (picture(), picture(seed=2), picture(seed=2), picture(seed=2))
    ]
    assert trusted == [True, False, True, True]
    assert bench.swapper.calls == 3


def test_a_result_is_not_used_for_ever():
    bench = Bench()
    frames = 3 * LONGEST_NS // PERIOD
    for _ in range(frames):
        bench(picture())
    assert 3 <= bench.swapper.calls <= 4
    assert bench.duplicates == frames - bench.swapper.calls


def test_time_that_goes_back_is_no_repeat():
    bench = Bench()
    bench(picture())
    bench.pipeline.process(replace(make_frame(), captured_ns=-5))
    assert bench.duplicates == 0


def test_another_size_is_another_picture():
    bench = Bench()
    bench(picture())
    bench(picture((80, 60)))
    bench(picture((80, 60)))
    assert bench.duplicates == 1


def test_another_face_is_put_on_at_once():
    bench = Bench()
    bench(picture())
    bench.pipeline.replace_swapper(FakeSwapper(skin=200))
    assert (bench(picture()).frame.image[FACE] == 200).all()
    assert bench.duplicates == 0


def test_a_repeat_is_published_read_only_and_its_buffer_is_kept():
    bench, guard, pool = Bench(), Guard(), FramePool((64, 48))
    shown = []
    for n in range(4):
        lease = pool.lease()
        np.copyto(lease.buffer, picture())
        frame = Frame(lease.buffer, n, n * PERIOD, lease=lease)
        shown.append(guard.judge(bench.pipeline.process(frame), n * PERIOD))
        del lease, frame
    assert [s.kind for s in shown] == [Kind.SWAPPED] * 4
    assert not any(s.image.flags.writeable for s in shown)
    assert all((s.image[FACE] == SKIN).all() for s in shown)
    # One with the picture, one that the repeats take turns on.
    assert pool.allocated == 2


def test_a_probe_that_fails_is_a_frame_that_failed():
    class Broken(Repeats):
        def find(self, frame):
            raise ValueError("no picture")

    pipeline = Pipeline(FakeTracker(), FakeSwapper(), Meter(0), SoloClock(), None, repeats=Broken())
    pipeline.open(lambda line: None)
    outcome = pipeline.process(make_frame())
    assert not outcome.trusted
    assert "no picture" in str(outcome.error)
