"""Other looks at a frame: turned, mirrored, enlarged; what they find is told in pixels of the frame as it is."""

from __future__ import annotations

import numpy as np
import pytest

from engines.analysis.tiles import WORK, Look, Search, looks
from engines.faces import Detection

SHAPES = [(1920, 1080), (1280, 720), (640, 360), (360, 640), (3840, 2160), (321, 320), (7680, 64)]


class Spot:
    """A detector that finds the brightest spot; its right eye is the red one, its left eye the green one."""

    def __init__(self):
        self.seen = []

    def detect(self, image):
        assert image.flags.c_contiguous
        self.seen.append(image.shape)
        middle, red, green = (self._centre(image[..., channel]) for channel in (0, 2, 1))
        return [Detection(middle, 20.0, np.float32([red, green, *[middle] * 4]), 0.9)]

    @staticmethod
    def _centre(channel):
        y, x = np.nonzero(channel > 0.7 * max(int(channel.max()), 1))
        return np.float32([x.mean() + 0.5, y.mean() + 0.5])


def spotted(width, height, x, y):
    image = np.zeros((height, width, 3), np.uint8)
    image[y - 12 : y + 12, x - 12 : x + 12, 0] = 255
    image[y - 12 : y + 12, x - 40 : x - 16, 2] = 255
    image[y - 12 : y + 12, x + 16 : x + 40, 1] = 255
    return image


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("window", [(0, 0, 1920, 1080), (200, 100, 640, 640), (150, 7, 533, 611)])
def test_what_is_found_lies_where_it_is_in_the_frame(turns, mirrored, window):
    image = spotted(1920, 1080, 420, 310)
    (found,) = Look(window, turns, mirrored).detect(Spot(), image)
    scale = min(1.0, WORK / max(window[2:]))
    np.testing.assert_allclose(found.centre, [420, 310], atol=1.5 / scale)
    np.testing.assert_allclose(found.keypoints[0], [392, 310], atol=1.5 / scale)
    np.testing.assert_allclose(found.keypoints[1], [448, 310], atol=1.5 / scale)
    assert found.size == pytest.approx(20 / scale)
    assert found.centre.dtype == found.keypoints.dtype == np.float32
    assert image.any(2).sum() == 3 * 24 * 24


def test_a_detector_is_given_no_more_than_it_needs():
    spot = Spot()
    for look in looks(3840, 2160):
        look.detect(spot, np.zeros((2160, 3840, 3), np.uint8) + np.uint8(9))
    assert max(max(shape) for shape in spot.seen) <= 1.5 * WORK


@pytest.mark.parametrize("shape", SHAPES)
def test_tiles_cover_the_frame_and_share_what_they_are_for(shape):
    width, height = shape
    seen = np.zeros((height, width), bool)
    tiles = [look.window for look in looks(width, height) if not look.whole and not look.turns]
    for left, top, w, h in tiles:
        assert 0 <= left <= left + w <= width
        assert 0 <= top <= top + h <= height
        seen[top : top + h, left : left + w] = True
    assert seen.all() or max(shape) <= 320
    # A face of forty pixels in 1080 lies whole in one of them, wherever it is.
    side = 40 * max(width, height) // 1920
    rng = np.random.default_rng(0)
    for _ in range(200 if tiles and min(shape) > side else 0):
        x, y = int(rng.integers(0, width - side)), int(rng.integers(0, height - side))
        assert any(a <= x and b <= y and x + side <= a + w and y + side <= b + h for a, b, w, h in tiles), (
            x,
            y,
        )


@pytest.mark.parametrize("shape", SHAPES)
def test_a_round_has_every_look_once_and_the_next_one_again(shape):
    search, every = Search(), looks(*shape)
    moving = np.zeros((27, 48), bool)
    moving[3:9, 30:40] = True
    for _ in range(3):
        assert {search.next(shape, moving) for _ in every} == set(every)
    assert len(every) <= 40


def test_tiles_in_which_something_moves_come_first_and_starve_nobody():
    search, moving = Search(), np.zeros((27, 48), bool)
    moving[20:27, 40:48] = True
    first = [search.next((1920, 1080), moving) for _ in range(4)]
    assert sum(not look.whole and look.window[0] + look.window[2] == 1920 for look in first) >= 2
    assert first[0].whole
    assert sum(look.whole for look in first) >= 1


def test_another_size_begins_anew():
    search = Search()
    search.next((1920, 1080))
    assert search.next((640, 360)).window == (0, 0, 640, 360)
    assert search.next((64, 64)).window == (0, 0, 64, 64)
