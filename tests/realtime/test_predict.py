"""Landmarks carried ahead: less late in motion, and not beyond where motion ends."""

from __future__ import annotations

import numpy as np
import pytest

from engines.analysis.topology import canonical
from realtime.tracking.predict import MOST_MS, Lookahead, Predictor, lookahead

FRAME = 1_000_000_000 // 30
WIDTH = 200.0
SHAPE = (canonical() - canonical().mean(0)) / np.ptp(canonical()[:, 0])


def face(x, y=300.0, width=WIDTH, angle=0.0):
    cos, sin = np.cos(angle), np.sin(angle)
    points = SHAPE * width @ np.array([[cos, sin, 0], [-sin, cos, 0], [0, 0, 1]])
    return np.float32(points + np.array([x, y, 0]))


def run(places, ms, noise=0.0, fps=30, **how):
    """The middle of the face as it is carried ahead, frame by frame."""
    rng, predict = np.random.default_rng(0), Predictor(Lookahead.fixed(ms))
    out = []
    for i, x in enumerate(places):
        points = face(x, **how) + rng.normal(0, noise, (468, 3)).astype(np.float32)
        out.append(predict(points, round(i * 1e9 / fps))[:, 0].mean() - SHAPE[:, 0].mean() * WIDTH)
    return np.array(out)


@pytest.mark.parametrize("fps", [15, 30, 60])
@pytest.mark.parametrize("ms", [10, 33, 50])
def test_a_steady_motion_is_met_where_it_will_be(fps, ms):
    speed = 60.0
    out = run(300 + speed * np.arange(60) / fps, ms, fps=fps)
    ahead = out - (300 + speed * np.arange(60) / fps)
    assert ahead[15:] == pytest.approx(speed * ms / 1000, abs=0.25)


def test_lag_falls_on_a_head_that_sways():
    """Half a face width a second at most, at 1.5 Hz: against where the head is 33 ms later."""
    at = np.arange(150) / 30

    def sway(t):
        return 300 + 10.6 * np.sin(2 * np.pi * 1.5 * t)

    late = np.abs(sway(at) - sway(at + 0.033))[30:].mean()
    ahead = np.abs(run(sway(at), 33) - sway(at + 0.033))[30:].mean()
    assert ahead < 0.5 * late


@pytest.mark.parametrize("speed", [30, 120, 400])
def test_a_stop_is_overshot_by_no_more_than_the_last_frame_moved(speed):
    path = 300 + np.minimum(np.arange(60), 30) * speed / 30
    out = run(path, 50)
    beyond = out[30:] - path[-1]
    assert beyond[0] <= speed * 0.05 + 0.5
    assert np.abs(beyond[1:]).max() < 0.02 * WIDTH / 10


def test_a_turn_back_is_not_carried_on():
    path = 300 + 4.0 * np.concatenate([np.arange(30), 29 - np.arange(30)])
    out = run(path, 50)
    assert out.max() <= path.max() + 4.0 * 1.5 + 0.5


def test_it_never_goes_further_than_a_part_of_the_face():
    out = run(300 + 60.0 * np.arange(20), MOST_MS)
    assert np.abs(out - (300 + 60.0 * np.arange(20))).max() <= 0.12 * WIDTH


def test_a_still_face_stays_as_still_as_it_is():
    quiet, ahead = run(np.full(120, 300.0), 0, noise=0.3), run(np.full(120, 300.0), 33, noise=0.3)
    assert ahead[20:].std() < quiet[20:].std() + 0.06


def test_size_and_turn_are_carried_too_and_lips_are_not():
    predict = Predictor(Lookahead.fixed(33.4))
    for i in range(40):
        points = face(300, width=200 * 1.003**i, angle=0.01 * i)
        points[13] += np.float32([0, 3.0 * (i % 2), 0])
        given = points.copy()
        out = predict(points, i * FRAME)
    grown = np.ptp(out[:, :2], axis=0).max() / np.ptp(given[:, :2], axis=0).max()
    assert grown == pytest.approx(1.003, abs=0.002)
    eyes, before = out[263, :2] - out[33, :2], given[263, :2] - given[33, :2]
    turned = np.arctan2(eyes[1], eyes[0]) - np.arctan2(before[1], before[0])
    assert turned == pytest.approx(0.01, abs=0.003)


@pytest.mark.parametrize("times", [[0, 0, 0], [5, 4, 3], [0, 10**12, 2 * 10**12]])
def test_time_that_stands_goes_back_or_leaps_predicts_nothing(times):
    predict = Predictor(Lookahead.fixed(50))
    for i, now in enumerate(times):
        points = face(300 + 20 * i)
        np.testing.assert_array_equal(predict(points.copy(), now), points)


def test_half_a_turn_in_angle_is_no_leap():
    predict = Predictor(Lookahead.fixed(50))
    for i in range(20):
        points = face(300, angle=np.pi - 0.05 + 0.01 * i)
        out = predict(points.copy(), i * FRAME)
        assert np.linalg.norm((out - points)[:, :2], axis=1).max() < 0.03 * WIDTH


def test_a_face_of_no_size_is_no_error():
    predict = Predictor(Lookahead.fixed(50))
    for i in range(4):
        assert np.isfinite(predict(np.full((468, 3), 7.0 * i, np.float32), i * FRAME)).all()


def test_what_the_option_asks_for():
    assert lookahead("off", lambda: 5) is None
    assert lookahead("12.5", lambda: 5).horizon_ns() == 12_500_000
    assert lookahead("auto", lambda: 77).horizon_ns() == 77
