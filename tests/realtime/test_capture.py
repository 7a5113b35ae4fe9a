"""Sources are paced, lost devices come back, and every frame has one size."""

from itertools import islice, pairwise

import numpy as np
import pytest

from engines.errors import DeviceError, UsageError
from realtime.capture import Capture, Fit
from realtime.clock import StopFlag
from realtime.frame import Frame
from realtime.pace.budget import Meter
from tests.realtime.fakes import MS, SECOND, FakeSource, SoloClock, make_frame, picture


def build(reconnect_s=None, **kw):
    clock = SoloClock()
    stop = StopFlag(clock)
    source = FakeSource(clock, stop, **kw)
    meter = Meter(0)
    capture = Capture(source, clock, meter, stop, reconnect_s)
    capture.open()
    return capture, source, clock, meter, stop


def test_a_clip_is_read_at_its_own_rate():
    capture, _, clock, meter, _ = build(device=False, fps=25.0, end=50)
    times = [clock.now_ns() for _ in capture.frames()]
    assert times == [n * 40 * MS for n in range(50)]
    assert meter.report(1).counts == {"captured": 50}


def test_no_rounding_adds_up_over_a_long_clip():
    capture, _, clock, _, _ = build(device=False, fps=29.97, end=3000)
    for _ in capture.frames():
        pass
    assert abs(clock.now_ns() - 3000 / 29.97 * SECOND) < MS


def test_a_clip_that_is_late_goes_on_from_there_and_does_not_hurry():
    capture, _, clock, meter, _ = build(device=False, fps=10.0)
    times = []
    for frame in islice(capture.frames(), 10):
        times.append(clock.now_ns() // MS)
        if frame.seq == 3:
            clock.pass_by(750 * MS)
    assert times == [0, 100, 200, 300, 1050, 1150, 1250, 1350, 1450, 1550]
    assert meter.report(1).counts["late"] == 1


def test_a_little_late_is_caught_up():
    capture, _, clock, meter, _ = build(device=False, fps=10.0)
    times = []
    for frame in islice(capture.frames(), 6):
        times.append(clock.now_ns() // MS)
        if frame.seq == 1:
            clock.pass_by(150 * MS)
    assert times == [0, 100, 250, 300, 400, 500]
    assert "late" not in meter.report(1).counts


def test_a_device_paces_itself():
    capture, _, clock, _, _ = build(fps=30.0)
    times = [clock.now_ns() for _ in islice(capture.frames(), 30)]
    assert all(abs(b - a - SECOND / 30) < 2 for a, b in pairwise(times))


@pytest.mark.parametrize("fps", [0.0, 1e9, -5.0])
def test_a_rate_that_makes_no_sense_does_no_harm(fps):
    capture, _, _, _, _ = build(device=False, fps=fps, end=3)
    assert len(list(capture.frames())) == 3


def test_a_lost_device_is_looked_for_less_and_less_often_and_found():
    capture, source, clock, _, _ = build(gone=((SECOND, 20 * SECOND),))
    lost, times = [], []
    for _ in islice(capture.frames(), 60):
        times.append(clock.now_ns())
        lost.append(capture.lost)
    waits = [(b - a) // MS for a, b in pairwise([SECOND, *source.tried[1:]])]
    assert waits == [250, 500, 1000, 2000, 4000, 4000, 4000, 4000]
    gap = max(b - a for a, b in pairwise(times))
    assert 19 * SECOND <= gap <= 23 * SECOND
    assert not any(lost)  # Whenever a frame comes, it is back.
    assert not capture.lost


def test_a_device_that_opens_and_gives_nothing_is_no_busy_loop():
    capture, source, clock, _, stop = build()

    def read():
        raise DeviceError("Opens but gives no picture.")

    source.read = read
    clock.at(60 * SECOND, stop.set)
    assert list(capture.frames()) == []
    assert capture.lost
    assert len(source.tried) < 25  # In a minute.
    assert source.closed >= len(source.tried)


@pytest.mark.parametrize("device", [True, False])
def test_a_driver_that_blocks_counts_as_lost_long_before_it_answers(device):
    """Other threads see it while the read is still blocked; a clip that takes long is only slow."""
    capture, source, clock, _, _ = build(device=device)
    seen = []
    read = source.read

    def blocks():
        for seconds in (1, 2, 3, 10):
            clock.at(clock.now_ns() + seconds * SECOND, lambda: seen.append(capture.lost))
        clock.live_on(11 * SECOND)
        return read()

    source.read = blocks
    assert next(capture.frames()).size == (64, 48)
    assert seen == [False, False, device, device]
    assert not capture.lost


def test_a_device_that_does_not_come_back_in_time_ends_it():
    capture, _, clock, _, _ = build(reconnect_s=5, gone=((SECOND, 1 << 62),))
    with pytest.raises(DeviceError, match="did not come back within 5 s") as caught:
        list(capture.frames())
    assert caught.value.exit_code == 3
    assert caught.value.fix == "Plug it in."
    assert clock.now_ns() == 6 * SECOND


def test_stopping_ends_the_search_at_once():
    capture, _, clock, _, stop = build(gone=((SECOND, 1 << 62),))
    clock.at(10 * SECOND, stop.set)
    assert len(list(capture.frames())) > 20
    assert clock.now_ns() == 10 * SECOND


def test_a_first_open_that_fails_is_an_error():
    with pytest.raises(DeviceError, match="not there"):
        build(gone=((0, SECOND),))


def test_a_clip_that_breaks_is_not_looked_for():
    capture, source, _, _, _ = build(device=False)

    def read():
        raise DeviceError("The disk was pulled out.")

    source.read = read
    with pytest.raises(DeviceError, match="disk"):
        list(capture.frames())
    assert source.opened == 1


def test_other_errors_are_passed_on():
    capture, source, _, _, _ = build()

    def read():
        raise UsageError("Not a video.")

    source.read = read
    with pytest.raises(UsageError):
        list(capture.frames())


@pytest.mark.parametrize(
    ("given", "size"), [((65, 48), (64, 48)), ((64, 49), (64, 48)), ((65, 49), (64, 48))]
)
def test_odd_sizes_are_cropped_by_one(given, size):
    capture, _, _, _, _ = build(size=given)
    frame = next(capture.frames())
    assert capture.size == frame.size == size
    assert np.array_equal(frame.image, picture(given)[: size[1], : size[0]])
    assert frame.image.flags.c_contiguous and frame.image.flags.writeable


def test_a_source_without_a_size_is_refused():
    with pytest.raises(DeviceError, match="0x0"):
        build(size=(0, 0))


def test_a_device_that_comes_back_with_another_size_is_resized():
    capture, source, _, _, _ = build(gone=((SECOND, 2 * SECOND),), sizes={2: (128, 96)})
    frames = list(islice(capture.frames(), 60))
    assert source.opened == 2
    assert {f.size for f in frames} == {(64, 48)}


def test_a_good_frame_is_not_copied():
    frame = make_frame()
    assert Fit((64, 48))(frame) is frame


@pytest.mark.parametrize("how", ["read-only", "strided"])
def test_a_frame_nobody_may_paint_into_is_copied(how):
    image = picture()
    if how == "read-only":
        image.flags.writeable = False
    else:
        image = picture((128, 48))[:, ::2]
    frame = Fit((64, 48))(Frame(image, 3, 4))
    assert np.array_equal(frame.image, image)
    assert frame.image.flags.writeable and frame.image.flags.c_contiguous
    assert (frame.seq, frame.captured_ns) == (3, 4)
