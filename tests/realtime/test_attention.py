"""The detector comes sooner while something moves, later while nothing does, and at once when somebody is lost."""

from __future__ import annotations

import numpy as np
import pytest

from realtime.tracking.attention import BRISK, NEWCOMERS, STILL, Attention
from realtime.tracking.probe import Probe
from tests.realtime.fakes import make_face
from tests.realtime.test_track import IMAGE, Person, Run

SIZE = (600, 1000, 3)


def noise(seed, sigma):
    return np.clip(100 + np.random.default_rng(seed).normal(0, sigma, SIZE), 0, 255).astype(np.uint8)


def face_at(x, y=300.0, width=150.0, presence=1.0):
    shape = np.random.default_rng(0).uniform(-0.5, 0.5, (468, 3)).astype(np.float32)
    face = make_face(1, shape * width + np.float32([x, y, 0]))
    return face if presence == 1.0 else type(face)(1, face.points, presence, face.patch)


def after(attention, frames):
    for image, faces in frames:
        attention.notice(image, faces)
    return attention.interval


def brisk(base):
    return min(base, max(BRISK[0], min(BRISK[1], base // 3)))


@pytest.mark.parametrize("base", [1, 2, 5, 10, 15, 20, 60])
def test_the_base_is_shortened_by_motion_and_lengthened_by_stillness(base):
    attention = Attention(base)
    assert attention.interval == base
    assert after(attention, [(IMAGE, [])] * 5) == base
    assert after(attention, [(IMAGE, [])] * 70) == max(base, min(STILL, 3 * base))
    assert after(attention, [(noise(1, 40), [])]) == brisk(base)


@pytest.mark.parametrize("sigma", [0, 1, 2, 4])
def test_the_noise_of_a_sensor_is_no_motion(sigma):
    attention = Attention(10)
    images = [noise(seed, sigma) for seed in range(4)]
    assert after(attention, [(images[i % 4], [face_at(400)]) for i in range(70)]) == STILL


@pytest.mark.parametrize("size", [40, 80, 200])
@pytest.mark.parametrize("at", [(10, 10), (700, 350), (777, 41)])
def test_somebody_who_comes_in_is_noticed_wherever(at, size):
    attention = Attention(10)
    still = noise(0, 2)
    after(attention, [(still, [face_at(300)])] * 70)
    image = still.copy()
    image[at[1] : at[1] + size, at[0] : at[0] + size] = 200
    expected = brisk(10) if size >= 80 else STILL
    assert after(attention, [(image, [face_at(300)])]) == expected


def test_who_is_followed_may_talk_and_move_hair_and_hands():
    attention = Attention(10)
    frames = []
    for seed in range(70):
        image = IMAGE.copy()
        image[230:370, 320:480] = np.random.default_rng(seed).integers(0, 255, (140, 160, 3), np.uint8)
        frames.append((image, [face_at(400)]))
    assert after(attention, frames) == STILL


def test_a_head_that_moves_is_motion_and_one_that_sways_is_not():
    attention = Attention(10)
    assert after(attention, [(IMAGE, [face_at(400 + 0.5 * (i % 2))]) for i in range(70)]) == STILL
    assert after(attention, [(IMAGE, [face_at(400 + 6 * i)]) for i in range(3)]) == brisk(10)


@pytest.mark.parametrize("falling", [[0.99, 0.85], [0.65]])
def test_presence_that_falls_makes_it_look_sooner(falling):
    attention = Attention(10)
    after(attention, [(IMAGE, [face_at(400)])] * 70)
    assert after(attention, [(IMAGE, [face_at(400, presence=p)]) for p in falling]) == brisk(10)


def test_it_goes_back_to_the_base_and_then_to_rest():
    attention = Attention(10)
    after(attention, [(IMAGE, []), (noise(1, 40), [])])
    intervals = [after(attention, [(noise(1, 40), [])]) for _ in range(70)]
    assert sorted(set(intervals), key=intervals.index) == [brisk(10), 10, STILL]


def test_the_governor_makes_every_interval_longer():
    attention = Attention(10)
    attention.rest = 2
    assert attention.interval == 20
    assert after(attention, [(noise(1, 40), []), (IMAGE, [])]) == 2 * brisk(10)


def test_another_size_of_picture_is_no_motion():
    attention = Attention(10)
    after(attention, [(IMAGE, [])] * 70)
    assert after(attention, [(IMAGE[::2, ::2].copy(), [])]) == STILL


@pytest.mark.parametrize("every", [5, 10])
def test_the_tracker_looks_seldom_when_still_and_at_once_when_a_face_is_lost(every):
    person = Person(400)
    run = Run(person, every=every)
    run.step(70)
    looked = run.detections(100)
    assert set(np.diff(looked)) == {3 * every}
    person.presence, person.seen = 0.1, False
    assert run.detections(3) == [0, 1, 2]


def test_the_tracker_looks_often_while_the_face_moves():
    person = Person(200)
    run = Run(person, every=10)
    run.step(2)
    looked = []
    for i in range(30):
        person.x += 8
        looked += [i] * len(run.detections(1))
    assert set(np.diff(looked)) == {brisk(10)}


def test_a_probe_compares_with_the_frame_before_until_told_to_go_back():
    probe, images = Probe(), [np.full(SIZE, n, np.uint8) for n in (10, 12, 17)]
    assert not probe.take(images[0])
    assert probe.take(images[1])
    assert (probe.largest(), probe.mean()) == (2, 2.0)
    probe.back()
    assert probe.take(images[2])
    assert probe.largest() == 7
    assert probe.changed(6).all()
    assert not probe.changed(7).any()
    probe.forget()
    assert not probe.take(images[0])


@pytest.mark.parametrize("size", [(48, 64), (60, 96), (61, 97), (1080, 1920), (120, 4000)])
def test_a_probe_sees_a_change_in_any_part_of_any_picture(size):
    probe, image = Probe(), np.zeros((*size, 3), np.uint8)
    probe.take(image)
    side = probe.step
    for y in (0, size[0] - 2 * side, size[0] // 3):
        for x in (0, size[1] - 2 * side, size[1] // 3):
            changed = image.copy()
            changed[max(y, 0) : max(y, 0) + 2 * side, max(x, 0) : max(x, 0) + 2 * side, 1] = 9
            probe.take(changed)
            assert probe.largest() == 9, (x, y)
            probe.take(image)


def test_motion_where_all_was_still_is_news_once_and_says_where():
    attention = Attention(10)
    after(attention, [(noise(0, 2), [face_at(300)])] * 30)
    assert attention.news is None
    image = noise(0, 2)
    image[200:420, 760:900] = 220
    attention.notice(image, [face_at(300)])
    x, y, w, h = attention.news
    assert x <= 760
    assert x + w >= 900
    assert y <= 200
    assert y + h >= 420
    assert 0 <= x <= x + w <= SIZE[1]
    assert 0 <= y <= y + h <= SIZE[0]
    # It goes on moving: motion, but no news.
    image = image.copy()
    image[200:420, 760:900] = 90
    attention.notice(image, [face_at(300)])
    assert attention.news is None
    assert attention.moving.any()


def test_what_always_moves_is_no_news():
    attention = Attention(10)
    rng, news = np.random.default_rng(0), 0
    for i in range(60):
        image = noise(0, 2)
        image[100:300, 700:900] = rng.integers(0, 255)
        attention.notice(image, [face_at(300)])
        news += i > 1 and attention.news is not None
    assert news == 0


def test_who_may_be_bare_is_looked_for_more_often():
    attention = Attention(10, longest=NEWCOMERS)
    assert after(attention, [(IMAGE, [])] * 70) == NEWCOMERS
    assert after(Attention(20, longest=NEWCOMERS), [(IMAGE, [])] * 70) == 20
