import cv2
import numpy as np
import pytest

from engines.errors import UsageError
from realtime.sinks.i420 import I420
from realtime.sinks.null import NullSink
from tests.realtime.sinks.pictures import bars, frame, noise


@pytest.mark.parametrize("size", [(192, 64), (638, 362), (2, 2)])
def test_the_planes_lie_in_order_in_memory_that_stays(size):
    i420 = I420(size)
    width, height = size
    at = i420.picture.__array_interface__["data"][0]
    for seed in range(3):
        image = noise(seed, size)
        picture = i420.convert(image)
        assert picture is i420.picture
        assert picture.__array_interface__["data"][0] == at
        np.testing.assert_array_equal(picture, cv2.cvtColor(image, cv2.COLOR_BGR2YUV_I420))
    for bgr, yuv in {
        (255, 0, 0): (41, 240, 110),
        (0, 0, 255): (81, 90, 240),
        (255, 255, 255): (235, 128, 128),
    }.items():
        flat = i420.convert(np.full((height, width, 3), bgr, np.uint8)).reshape(-1)
        pixels = width * height
        planes = flat[:pixels], flat[pixels : pixels * 5 // 4], flat[pixels * 5 // 4 :]
        assert [abs(int(plane.mean()) - want) <= 2 for plane, want in zip(planes, yuv, strict=True)] == [
            True
        ] * 3


@pytest.mark.parametrize("size", [(63, 64), (64, 63)])
def test_odd_sizes_are_refused(size):
    with pytest.raises(UsageError, match="even"):
        I420(size)
    with pytest.raises(UsageError, match="--size"):
        NullSink().open(size, 30)


def test_another_size_is_refused_and_leaves_the_buffer_alone():
    i420 = I420((192, 64))
    before = i420.convert(bars()).copy()
    with pytest.raises(ValueError, match="shape"):
        i420.convert(bars((64, 192)))
    np.testing.assert_array_equal(i420.picture, before)


def test_the_null_sink_does_the_work_of_a_virtual_camera(monkeypatch):
    converted = []
    real = cv2.cvtColor
    monkeypatch.setattr(cv2, "cvtColor", lambda *a, **k: converted.append(a[0]) or real(*a, **k))
    sink = NullSink()
    sink.close()
    with pytest.raises(ValueError, match="open"):
        sink.send(frame(bars()))
    sink.open((192, 64), 30)
    image = bars()
    sink.send(frame(image))
    sink.send(frame(image))
    assert [seen is image for seen in converted] == [True, True]
    sink.close()
    sink.close()
