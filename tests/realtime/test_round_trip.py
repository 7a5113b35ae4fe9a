"""Colour bars go out through the sink and come back as another program sees them."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from engines.errors import DeviceError
from realtime.clock import SystemClock
from realtime.doctor.round_trip import TOLERANCE, colour_bars, round_trip

SIZE = (160, 96)


class Sink:
    def __init__(self, fails=None):
        self.sent, self.closed, self.fails = 0, 0, fails

    def open(self, size, fps):
        self.size = size

    def send(self, frame):
        if self.fails and self.sent:
            raise self.fails
        self.sent += 1
        self.picture = frame.image

    def close(self):
        self.closed += 1


class Reader:
    """``cv2.VideoCapture`` of what the sink was sent, through ``change``; ``stale`` old pictures come first."""

    def __init__(self, sink, change, stale=0, opens=True):
        self.sink, self.change, self.stale, self.opens, self.released = sink, change, stale, opens, 0

    def isOpened(self):
        return self.opens

    def grab(self):
        return True

    def retrieve(self, image=None):
        if self.stale:
            self.stale -= 1
            return True, np.full_like(self.sink.picture, 90)
        seen = self.change(self.sink.picture)
        return seen is not None, seen

    def release(self):
        self.released += 1


def through_yuv(image):
    return cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_BGR2YUV_I420), cv2.COLOR_YUV2BGR_I420)


def trip(change, sink=None, **reader):
    sink = sink or Sink()
    made = Reader(sink, change, **reader)
    try:
        return round_trip(
            "/dev/video9", SIZE, SystemClock(), make_sink=lambda *_: sink, open_capture=lambda _: made
        )
    finally:
        assert sink.closed == 1 and made.released == 1


@pytest.mark.parametrize("stale", [0, 5])
def test_right_colours_are_right(stale):
    seen = trip(through_yuv, stale=stale)
    assert seen.size == SIZE
    assert seen.off <= TOLERANCE


@pytest.mark.parametrize(
    "change",
    [
        lambda image: image[..., ::-1].copy(),
        lambda image: np.roll(image, SIZE[0] // 8, axis=1),
        lambda image: np.roll(image, 1, axis=2),
        lambda image: np.zeros_like(image),
        lambda image: (image.astype(np.float32) * 0.86 + 16).astype(np.uint8),
    ],
    ids=["swapped", "shifted", "rolled", "black", "wrong range"],
)
def test_wrong_ones_are_seen(change):
    assert trip(change).off > 10


def test_another_size_is_told():
    assert trip(lambda image: cv2.resize(image, (80, 48))).size == (80, 48)


def test_no_picture_and_no_opening_are_errors():
    with pytest.raises(DeviceError, match="no picture"):
        trip(lambda image: None)
    with pytest.raises(DeviceError, match="No program can open"):
        trip(through_yuv, opens=False)


def test_a_sink_that_fails_meanwhile_is_told():
    class Slow(Reader):
        def grab(self):
            self.sink_thread.join(5)
            return True

    sink = Sink(DeviceError("It is gone."))
    made = Slow(sink, through_yuv)

    import threading

    def open_capture(_):
        made.sink_thread = next(t for t in threading.enumerate() if t.name == "doppelcam-bars")
        return made

    with pytest.raises(DeviceError, match="It is gone"):
        round_trip("/dev/video9", SIZE, SystemClock(), make_sink=lambda *_: sink, open_capture=open_capture)
    assert sink.closed == 1


def test_every_bar_has_its_place():
    bars = colour_bars((160, 96))
    assert len({tuple(bars[50, 10 + 20 * n]) for n in range(8)}) == 8
