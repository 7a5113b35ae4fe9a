"""The mark and the card: where they are, and that they can be read."""

import numpy as np
import pytest

from engines.kernels.canvas import HostCanvas
from realtime.frame import Kind
from realtime.shown.label import Label
from realtime.shown.lettering import Sprite, write
from realtime.shown.slate import LOOKING, RECONNECTING, STARTING, STOPPED, WAITING, Slate

SIZES = [(160, 120), (320, 240), (640, 480), (1920, 1080), (3840, 2160), (1080, 1920)]


def luminance(bgr):
    linear = np.where(bgr / 255 <= 0.04045, bgr / 255 / 12.92, ((bgr / 255 + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.0722, 0.7152, 0.2126])


def contrast(a, b):
    lighter, darker = max(a, b), min(a, b)
    return (lighter + 0.05) / (darker + 0.05)


def labelled(size, ground):
    image = np.empty((size[1], size[0], 3), np.uint8)
    image[:] = ground
    before = image.copy()
    Label().paint(HostCanvas(image))
    return before, image


@pytest.mark.parametrize("size", SIZES)
def test_it_is_small_and_in_the_bottom_sixth_on_the_left(size):
    before, image = labelled(size, 128)
    ys, xs = np.nonzero((before != image).any(2))
    assert ys.min() >= size[1] * 5 // 6
    assert xs.max() < size[0] / 2
    assert ys.max() < size[1] - 1 and xs.min() >= 1
    assert len(ys) < 0.08 * size[0] * size[1]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ground", [0, 255, (0, 0, 255), (255, 0, 0), (40, 220, 250), 128])
def test_it_can_be_read_on_every_ground(size, ground):
    _, image = labelled(size, ground)
    inside = image[-size[1] // 6 :, : size[0] // 2].astype(float)
    changed = (inside != np.array(ground)).any(2)
    light = luminance(inside)[changed]
    assert contrast(light.max(), np.median(light)) > 4.5  # What WCAG asks of small text.


@pytest.mark.parametrize("size", SIZES)
def test_its_letters_are_at_least_ten_pixels_high_and_grow_with_the_frame(size):
    _, image = labelled(size, 0)
    rows = np.flatnonzero((image > 180).all(2).any(1))
    assert len(rows) >= max(9, size[1] / 55)


def test_noise_shines_through_the_plate_but_not_the_letters():
    image = np.random.default_rng(0).integers(0, 255, (1080, 1920, 3), np.uint8)
    Label().paint(HostCanvas(image))
    black, white = (labelled((1920, 1080), ground)[1] for ground in (0, 255))
    letters = (black > 245).all(2) & (white > 245).all(2)
    assert letters.sum() > 200
    assert (image[letters] > 240).all()
    plate = (black > 5).any(2) & (white < 120).all(2)
    assert plate.sum() > 1000
    assert image[plate].std() > 10


@pytest.mark.parametrize("size", [(2, 2), (16, 8), (30, 400)])
def test_a_frame_that_is_too_small_gets_what_fits(size):
    before, image = labelled(size, 128)
    assert image.shape == before.shape
    assert (image != before).any() == (size[0] > 2)


def test_it_says_what_it_is_told_to():
    one, other = (np.zeros((480, 640, 3), np.uint8) for _ in range(2))
    Label("AI face").paint(HostCanvas(one))
    Label("Künstliches Gesicht").paint(HostCanvas(other))
    assert np.flatnonzero(other.any((0, 2))).max() > np.flatnonzero(one.any((0, 2))).max() * 1.5


def test_painting_again_does_the_same_on_every_frame():
    label = Label()
    first, second = (np.full((480, 640, 3), 90, np.uint8) for _ in range(2))
    label.paint(HostCanvas(first))
    label.paint(HostCanvas(np.zeros((120, 160, 3), np.uint8)))
    label.paint(HostCanvas(second))
    assert np.array_equal(first, second)


def test_empty_text_is_no_error():
    assert write("", 10).shape[1] == 1
    Label("").paint(HostCanvas(np.zeros((120, 160, 3), np.uint8)))


@pytest.mark.parametrize(("x", "y"), [(-3, -2), (6, 5), (100, 0), (0, -50)])
def test_a_sprite_is_cut_at_the_edge(x, y):
    sprite = Sprite(np.full((4, 5, 3), 200, np.uint8), np.full((4, 5), 255, np.uint8))
    image = np.zeros((8, 10, 3), np.uint8)
    sprite.paint(image, x, y)
    wanted = np.zeros((30, 30), bool)
    if min(x, y) >= -10:
        wanted[10 + y : 14 + y, 10 + x : 15 + x] = True
    assert np.array_equal((image == 200).all(2), wanted[10:18, 10:20])


@pytest.mark.parametrize("size", [(160, 120), (640, 480), (1080, 1920), (1920, 1080)])
@pytest.mark.parametrize("reason", [STARTING, WAITING, RECONNECTING, LOOKING, STOPPED, "x" * 40])
def test_a_slate_is_calm_and_says_why(size, reason):
    frame = Slate().show(size, reason, 77)
    assert (frame.kind, frame.captured_ns, frame.size) == (Kind.SLATE, 77, size)
    light = luminance(frame.image.astype(float))
    assert np.median(light) < 0.05
    letters = light[size[1] // 2 + round(min(size[0] / 16, size[1] / 9) * 0.7) :] > 0.4
    assert letters.any()
    assert not letters[:, 0].any() and not letters[:, -1].any()


def test_a_slate_is_drawn_once_for_each_reason():
    slate = Slate()
    first = slate.show((64, 48), STARTING, 0)
    assert slate.show((64, 48), STARTING, 1).image is first.image
    other = slate.show((64, 48), WAITING, 1)
    assert not np.array_equal(other.image, first.image)
    assert not first.image.flags.writeable
