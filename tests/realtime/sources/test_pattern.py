from __future__ import annotations

from itertools import pairwise

import cv2
import numpy as np
import pytest

from engines.errors import UsageError
from realtime.clock import ManualClock
from realtime.sources.pattern import PatternSource, decode_number, encode_number

SIZES = [(160, 120), (320, 240), (640, 480), (854, 480), (1280, 720), (1920, 1080), (720, 1280)]
NUMBERS = [0, 1, 2, 254, 65535, 65536, 123_456_789, 2**31, 2**32 - 1]


def through_i420(image: np.ndarray) -> np.ndarray:
    return cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_BGR2YUV_I420), cv2.COLOR_YUV2BGR_I420)


def through_jpeg(image: np.ndarray) -> np.ndarray:
    return cv2.imdecode(cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 40])[1], cv2.IMREAD_COLOR)


def through_scaling(image: np.ndarray) -> np.ndarray:
    height, width = image.shape[:2]
    half = cv2.resize(
        image, (max(width * 2 // 3, 160), max(height * 2 // 3, 120)), interpolation=cv2.INTER_AREA
    )
    return cv2.resize(half, (width, height), interpolation=cv2.INTER_LINEAR)


def through_blue_and_red_swapped(image: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(image[..., ::-1])


def through_noise(image: np.ndarray) -> np.ndarray:
    noise = np.random.default_rng(0).integers(0, 100, image.shape, np.uint8)
    return cv2.subtract(cv2.add(image, noise), np.full_like(image, 50))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "way", [np.copy, through_i420, through_jpeg, through_scaling, through_blue_and_red_swapped, through_noise]
)
def test_numbers_survive_the_way(size, way):
    image = np.random.default_rng(1).integers(0, 255, (size[1], size[0], 3), np.uint8)
    image = cv2.GaussianBlur(image, (0, 0), 3)
    for n in NUMBERS:
        encode_number(image, n)
        assert decode_number(way(image)) == n


def test_numbers_survive_half_the_size():
    image = np.zeros((1080, 1920, 3), np.uint8)
    encode_number(image, 987_654)
    for size in ((1280, 720), (960, 540), (640, 360)):
        assert decode_number(cv2.resize(image, size, interpolation=cv2.INTER_AREA)) == 987_654


def test_large_numbers_wrap():
    image = np.zeros((240, 320, 3), np.uint8)
    encode_number(image, 2**32 + 5)
    assert decode_number(image) == 5


@pytest.mark.parametrize("value", [0, 50, 128, 255])
def test_flat_pictures_hold_no_number(value):
    assert decode_number(np.full((480, 640, 3), value, np.uint8)) is None


def test_random_pictures_hold_no_number():
    rng = np.random.default_rng(2)
    for _ in range(300):
        cells = rng.integers(0, 2, (6, 32, 1), np.uint8) * np.uint8(255)
        image = cv2.resize(cells, (320, 60), interpolation=cv2.INTER_NEAREST)
        image = np.repeat(np.pad(image, ((0, 180), (0, 0)))[..., None], 3, axis=2)
        assert decode_number(image) is None


def test_one_wrong_cell_is_noticed():
    image = np.zeros((240, 320, 3), np.uint8)
    encode_number(image, 77)
    for row in range(2):
        for column in range(24):
            hurt = image.copy()
            cell = hurt[10 * (row + 1) : 10 * (row + 2), 10 * (column + 1) : 10 * (column + 2)]
            cell[:] = 255 - cell
            assert decode_number(hurt) is None


@pytest.mark.parametrize("shape", [(1, 1), (119, 160), (120, 159), (2, 1000)])
def test_pictures_too_small_hold_no_number(shape):
    assert decode_number(np.zeros((*shape, 3), np.uint8)) is None


def opened(size: tuple[int, int] = (320, 240), fps: float = 30.0) -> PatternSource:
    source = PatternSource(size, fps, ManualClock(11))
    source.open()
    return source


@pytest.mark.parametrize("size", SIZES)
def test_frames_count_themselves(size):
    source = opened(size)
    for n in range(40):
        frame = source.read()
        assert (frame.seq, frame.captured_ns, frame.size) == (n, 11, size)
        assert frame.image.flags.c_contiguous
        assert decode_number(frame.image) == n


def test_every_frame_differs_outside_its_number():
    source = opened((640, 360))
    images = [source.read().image[80:].copy() for _ in range(10)]
    for before, after in pairwise(images):
        assert (before != after).any()


def test_the_bars_are_where_their_colours_say():
    image = opened((640, 360)).read().image
    row = image[300 // 2 + 110 - 30]
    assert [tuple(int(v) for v in row[int(640 * (k + 0.5) / 7)]) for k in (0, 1, 2, 3, 4, 6)] == [
        (191, 191, 191),
        (0, 191, 191),
        (191, 191, 0),
        (0, 191, 0),
        (191, 0, 191),
        (191, 0, 0),
    ]


def test_what_a_caller_paints_does_not_come_back():
    source = opened()
    first = source.read()
    clean = first.image.copy()
    first.image[:] = 7
    del first
    source.close()
    source.open()
    again = source.read()
    differs = np.argwhere((again.image != clean).any(2))
    assert not (again.image == 7).all(2).any()
    assert len(differs) < clean.shape[0] * clean.shape[1] / 3


def test_a_frame_stays_while_it_is_held():
    source = opened()
    held = source.read()
    copy = held.image.copy()
    for _ in range(3):
        source.read()
    assert (held.image == copy).all()


def test_odd_sizes_become_even_and_tiny_ones_are_refused():
    assert opened((641, 361)).read().size == (640, 360)
    for size in ((158, 120), (160, 118), (0, 0)):
        with pytest.raises(UsageError, match="160x120"):
            PatternSource(size, 30.0, ManualClock())


def test_the_same_time_the_same_picture():
    a, b = opened(fps=25.0), opened(fps=25.0)
    assert all((a.read().image == b.read().image).all() for _ in range(5))
