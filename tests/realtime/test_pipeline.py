"""A frame gets another face, or an outcome that nobody trusts."""

import logging
from dataclasses import dataclass

import numpy as np
import pytest

from engines.errors import EngineError
from realtime.frame import Frame, FramePool
from realtime.pace.budget import Meter
from realtime.pace.repeats import Repeats
from realtime.pipeline import Pipeline, all_finite
from realtime.shown.label import Label
from tests.realtime.fakes import (
    FACE,
    MS,
    SIZE,
    SKIN,
    FakeSwapper,
    FakeTracker,
    SoloClock,
    make_face,
    make_frame,
    picture,
)

quiet = lambda line: None  # noqa: E731


def build(tracker=None, swapper=None, label=None, **kw):
    clock = SoloClock()
    meter = Meter(0)
    pipeline = Pipeline(tracker or FakeTracker(), swapper or FakeSwapper(), meter, clock, label, **kw)
    pipeline.open(quiet)
    return pipeline, meter, clock


def test_a_face_is_swapped_in_place_and_trusted():
    pipeline, _, _ = build()
    frame = make_frame(seq=7)
    outcome = pipeline.process(frame)
    assert (outcome.trusted, outcome.faces, outcome.error) == (True, 1, None)
    assert outcome.frame is frame
    assert (frame.image[FACE] == SKIN).all()
    untouched = picture()
    untouched[FACE] = SKIN
    assert np.array_equal(frame.image, untouched)


def test_no_face_is_no_trust_and_no_error():
    pipeline, meter, _ = build(FakeTracker(lambda n: 0), label=Label())
    frame = make_frame()
    outcome = pipeline.process(frame)
    assert (outcome.trusted, outcome.faces, outcome.error) == (False, 0, None)
    assert np.array_equal(frame.image, picture())
    assert meter.report(1).stages["swap"].spread.n == 0


def test_a_face_that_is_missing_takes_the_trust_from_the_others():
    tracker = FakeTracker(lambda n: 1)
    pipeline, _, _ = build(tracker)
    trusted = []
    for lost in (False, True, False):
        tracker.lost = lost
        trusted.append(pipeline.process(make_frame()).trusted)
    assert trusted == [True, False, True]


def test_stages_are_timed_over_all_faces():
    clock_ref = []

    class Timed(FakeSwapper):
        def swap(self, image, face):
            clock_ref[0].pass_by(3 * MS)
            return super().swap(image, face)

        def blend(self, image, layer):
            clock_ref[0].pass_by(2 * MS)

    class Slow(FakeTracker):
        def track(self, image, now_ns):
            clock_ref[0].pass_by(5 * MS)
            return super().track(image, now_ns)

    pipeline, meter, clock = build(Slow(lambda n: 3), Timed())
    clock_ref.append(clock)
    pipeline.process(make_frame())
    report = meter.report(1)
    spent = {name: (s.spread.n, s.spread.max) for name, s in report.stages.items()}
    assert spent == {
        "capture": (0, 0), "track": (1, 5), "swap": (1, 9), "blend": (1, 6), "output": (0, 0)
    }  # fmt: skip
    assert report.process.max == 20


def test_the_tracker_is_told_when_the_frame_was_taken():
    tracker = FakeTracker()
    pipeline, _, _ = build(tracker)
    pipeline.process(make_frame(captured_ns=1234))
    assert tracker.times == [1234]


@pytest.mark.parametrize("fault", [EngineError("The plan is broken."), ValueError("shapes"), MemoryError()])
@pytest.mark.parametrize("where", ["track", "swap", "blend", "second face"])
def test_whatever_fails_wherever_is_not_trusted(fault, where):
    class Bad(FakeSwapper):
        def blend(self, image, layer):
            if where == "blend":
                raise fault
            super().blend(image, layer)

    tracker = FakeTracker(lambda n: fault if where == "track" else 2)
    swapper = Bad(lambda n: fault if where == "swap" or (where == "second face" and n == 1) else None)
    pipeline, _, _ = build(tracker, swapper, label=Label())
    outcome = pipeline.process(make_frame())
    assert not outcome.trusted
    assert isinstance(outcome.error, Exception)
    assert str(fault) in str(outcome.error)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["points", "array", "half", "inside", "list"])
def test_numbers_that_are_none_are_not_trusted(value, where):
    @dataclass(frozen=True)
    class Layer:
        patch: np.ndarray
        gain: float = 1.0

    bad = np.ones((4, 4, 3), np.float16 if where == "half" else np.float32)
    bad[2, 1, 0] = value
    layer = {"inside": Layer(bad), "list": [1.0, (float(value),)]}.get(where, bad)
    points = np.zeros((468, 3), np.float32)
    if where == "points":
        points[467, 2] = value
        layer = None
    pipeline, _, _ = build(FakeTracker(lambda n: [make_face(points=points)]), FakeSwapper(lambda n: layer))
    outcome = pipeline.process(make_frame())
    assert not outcome.trusted
    assert "not made of numbers" in str(outcome.error)


def test_finite_layers_of_every_kind_pass():
    big = np.full((8, 8), 60000, np.float16)
    assert all_finite(
        (big, np.full(3, 3e38, np.float32), [1.0, np.zeros((0, 3))], np.uint8([255]), "x", None)
    )


def test_the_label_is_on_trusted_frames_only():
    for faces, wanted in ((1, True), (0, False)):
        pipeline, _, _ = build(FakeTracker(lambda n, faces=faces: faces), label=Label())
        frame = make_frame()
        pipeline.process(frame)
        bottom = frame.image[-SIZE[1] // 6 :, : SIZE[0] // 3]
        assert np.array_equal(bottom, picture()[-SIZE[1] // 6 :, : SIZE[0] // 3]) is not wanted


def test_many_failures_in_a_row_end_the_session_with_the_reason():
    pipeline, _, _ = build(
        swapper=FakeSwapper(lambda n: EngineError("Out of video memory.")), most_failures=4
    )
    for _ in range(3):
        assert not pipeline.process(make_frame()).trusted
    with pytest.raises(EngineError, match=r"4 frames in a row.*Out of video memory") as caught:
        pipeline.process(make_frame())
    assert caught.value.exit_code == 4
    assert caught.value.fix


def test_a_good_frame_in_between_forgives():
    pipeline, _, _ = build(
        swapper=FakeSwapper(lambda n: None if n % 4 == 3 else ValueError()), most_failures=4
    )
    trusted = [pipeline.process(make_frame()).trusted for _ in range(40)]
    assert trusted == [False, False, False, True] * 10


def test_a_fault_of_ours_is_logged_once_with_its_traceback(caplog):
    pipeline, _, _ = build(swapper=FakeSwapper(lambda n: KeyError("oval")))
    with caplog.at_level(logging.ERROR):
        for _ in range(5):
            pipeline.process(make_frame())
    assert len(caplog.records) == 1
    assert caplog.records[0].exc_info is not None
    assert "oval" in caplog.text


def test_a_failed_frame_gives_its_buffer_back_without_the_garbage_collector():
    pipeline, _, _ = build(swapper=FakeSwapper(lambda n: ValueError() if n % 2 else EngineError("no")))
    for _ in range(2):  # The log keeps the first of each kind.
        pipeline.process(make_frame())
    pool = FramePool(SIZE)
    for seq in range(20):
        lease = pool.lease()
        outcome = pipeline.process(Frame(lease.buffer, seq, 0, lease=lease))
        assert not outcome.trusted
    del lease, outcome
    assert pool.allocated <= 2


def test_skipped_detections_are_counted_from_the_start_of_the_session():
    tracker = FakeTracker()
    tracker.skipped_detections = 100
    pipeline, meter, _ = build(tracker)
    for _ in range(3):
        pipeline.process(make_frame())
    assert meter.report(1).counts["skipped_detection"] == 3


def test_another_swapper_takes_over_between_frames():
    old, new = FakeSwapper(), FakeSwapper(skin=200)
    pipeline, _, _ = build(swapper=old)
    assert pipeline.replace_swapper(new) is old
    frame = make_frame()
    assert pipeline.process(frame).trusted
    assert (frame.image[FACE] == 200).all()
    # Opened and closed elsewhere: neither may cost a frame.
    assert (old.closed, new.opened, pipeline.swapper) == (0, 0, new)


def test_the_label_comes_and_goes_between_frames():
    pipeline, _, _ = build(repeats=Repeats())
    pictures = []
    for seq, label in enumerate((None, Label(), None)):
        pipeline.label = label
        frame = make_frame(seq, size=(320, 240))
        assert pipeline.process(frame).trusted
        pictures.append(frame.image)
    assert np.array_equal(pictures[0], pictures[2])
    assert not np.array_equal(pictures[0], pictures[1])


def test_close_closes_the_swapper_even_when_the_tracker_cannot_be():
    class Stuck(FakeTracker):
        def close(self):
            raise OSError("stuck")

    swapper = FakeSwapper()
    pipeline, _, _ = build(Stuck(), swapper)
    with pytest.raises(OSError):
        pipeline.close()
    assert swapper.closed == 1


def test_a_swapper_that_would_not_cover_the_face_is_not_trusted():
    class Gap(FakeSwapper):
        def swap(self, image, face):
            return None if face.track == 1 else super().swap(image, face)

    pipeline, _, _ = build(FakeTracker(lambda n: 2), Gap())
    outcome = pipeline.process(make_frame())
    assert (outcome.trusted, outcome.error) == (False, None)
    # It is no failure either: a profile held for long must not end the session.
    for seq in range(100):
        assert not pipeline.process(make_frame(seq=seq)).trusted


@pytest.mark.parametrize("covered", [True, False])
def test_who_is_followed_and_not_swapped_is_pixelated(covered):
    """It may be the user who came back to somebody else in the place."""
    tracker = FakeTracker(lambda n: 1)
    spread = np.random.default_rng(1).uniform((52, 10, 0), (62, 40, 1), (468, 3)).astype(np.float32)
    other = make_face(7, spread)
    tracker.others = [other]
    pipeline, _, _ = build(tracker, cover_others=covered)
    frame = make_frame()
    rng = np.random.default_rng(0)
    frame.image[:] = rng.integers(0, 255, frame.image.shape, dtype=np.uint8)
    before = frame.image.copy()
    assert pipeline.process(frame).trusted
    low, high = other.points[:, :2].min(0).astype(int), other.points[:, :2].max(0).astype(int)
    region = np.zeros(frame.image.shape[:2], bool)
    region[low[1] : high[1], low[0] : high[0]] = True
    region[FACE] = False
    changed = (frame.image != before).any(2)[region].mean()
    assert changed > 0.9 if covered else changed == 0
