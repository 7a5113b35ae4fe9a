"""Landmarks hold still on a still head and do not trail behind a moving one."""

from __future__ import annotations

import numpy as np
import pytest

from realtime.tracking.smooth import OneEuro, OneEuroSettings

FRAME = 1_000_000_000 // 30
WIDTH = 400.0


def run(filter_, frames, start_ns=0, step_ns=FRAME):
    return np.array([filter_(f, WIDTH, start_ns + i * step_ns) for i, f in enumerate(frames)])


@pytest.mark.parametrize("fps", [15, 30, 60])
def test_a_still_face_trembles_less(fps):
    rng = np.random.default_rng(0)
    rest = rng.uniform(0, 400, (60, 3))
    frames = (rest + rng.normal(0, 0.4, (200, 60, 3))).astype(np.float32)
    out = run(OneEuro(), frames, step_ns=1_000_000_000 // fps)
    before, after = (np.diff(x[20:], axis=0).std() for x in (frames, out))
    assert after < (0.5 if fps >= 30 else 0.75) * before
    # No bias, either.
    assert np.abs(out[20:].mean(0) - rest).max() < 0.25


def test_still_is_still():
    frames = np.full((20, 5, 3), 123.5, np.float32)
    assert (run(OneEuro(), frames) == frames).all()


@pytest.mark.parametrize("speed", [60, 300, 900])
def test_a_steady_motion_is_followed_closely(speed):
    """Pixels a second, at a face 400 px wide; the lag stays under a frame and under two hundredths of the face."""
    moved = np.arange(90)[:, None, None] * (speed / 30) * np.float32([1, 0.5, 0])
    frames = (np.random.default_rng(0).uniform(0, 400, (1, 30, 3)) + moved).astype(np.float32)
    out = run(OneEuro(), frames)
    lag = np.linalg.norm((frames - out)[30:], axis=2)
    assert lag.max() < 0.02 * WIDTH
    assert lag.max() < speed / 30
    assert np.ptp(lag, axis=0).max() < 0.1


def test_after_a_jump_it_is_there_at_once():
    frames = np.zeros((40, 10, 3), np.float32)
    frames[20:, :, 0] = 100
    out = run(OneEuro(), frames)
    assert (out[20, :, 0] > 90).all()
    assert (out[:, :, 0] <= 100.5).all()
    assert (out[-1, :, 0] > 99.5).all()


def test_a_slanted_motion_stays_on_its_line():
    direction = np.float32([3, 1, 0.5])
    frames = (np.arange(60)[:, None, None] ** 1.3 * direction).astype(np.float32)
    out = run(OneEuro(), frames)[1:, 0]
    np.testing.assert_allclose(
        np.cross(out, direction) / np.linalg.norm(out, axis=1, keepdims=True), 0, atol=0.02
    )


def test_each_point_by_its_own_speed():
    """A mouth that opens is followed while the forehead is held still."""
    rng = np.random.default_rng(0)
    frames = rng.normal(0, 0.4, (60, 2, 3)).astype(np.float32)
    frames[:, 1, 1] += np.arange(60) * 12
    out = run(OneEuro(), frames)
    assert np.diff(out[20:, 0], axis=0).std() < 0.55 * np.diff(frames[20:, 0], axis=0).std()
    assert np.abs(out[20:, 1, 1] - frames[20:, 1, 1]).max() < 4


def test_the_size_of_the_face_is_the_measure():
    """Twice as large a face, twice as fast: twice the same."""
    rng = np.random.default_rng(0)
    frames = np.cumsum(rng.normal(0, 2, (40, 8, 3)), axis=0).astype(np.float32)
    small, large = OneEuro(), OneEuro()
    for i, frame in enumerate(frames):
        one, two = small(frame, 200.0, i * FRAME), large(frame * 2, 400.0, i * FRAME)
        np.testing.assert_allclose(two, 2 * one, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("back", [0, FRAME, 10**12])
def test_time_that_stands_or_goes_back_starts_anew(back):
    filter_ = OneEuro()
    run(filter_, np.zeros((10, 4, 3), np.float32))
    there = np.full((4, 3), 77, np.float32)
    assert (filter_(there, WIDTH, 9 * FRAME - back) == there).all()
    assert (filter_(there, WIDTH, 10 * FRAME) == there).all()


def test_reset_forgets_the_past():
    filter_ = OneEuro()
    run(filter_, np.zeros((10, 4, 3), np.float32))
    filter_.reset()
    there = np.full((4, 3), 77, np.float32)
    assert (filter_(there, WIDTH, 10 * FRAME) == there).all()


def test_after_a_long_gap_the_new_place_counts():
    filter_ = OneEuro()
    run(filter_, np.zeros((10, 4, 3), np.float32))
    there = np.full((4, 3), 50, np.float32)
    np.testing.assert_allclose(filter_(there, WIDTH, 60 * 1_000_000_000), 50, atol=2)


def test_what_it_gives_belongs_to_the_caller():
    filter_, frame = OneEuro(), np.ones((4, 3), np.float32)
    for i in range(3):
        out = filter_(frame, WIDTH, i * FRAME)
        out[:] = 1e6
    assert (frame == 1).all()
    np.testing.assert_allclose(filter_(frame, WIDTH, 3 * FRAME), 1, atol=1e-5)


def test_settings_decide_how_much():
    rng = np.random.default_rng(0)
    frames = rng.normal(0, 0.4, (100, 20, 3)).astype(np.float32)
    stiff, loose = (run(OneEuro(OneEuroSettings(min_cutoff=c, beta=0)), frames) for c in (0.5, 20.0))
    assert np.diff(stiff, axis=0).std() < 0.4 * np.diff(loose, axis=0).std()


def test_a_face_of_no_width_is_no_error():
    out = run(OneEuro(), np.random.default_rng(0).normal(0, 1, (5, 4, 3)).astype(np.float32))
    assert np.isfinite(out).all()
    assert np.isfinite(OneEuro()(np.zeros((4, 3), np.float32), 0.0, 5)).all()


def test_another_number_of_points_is_a_new_beginning():
    smooth = OneEuro()
    few, many = np.zeros((4, 3), np.float32), np.ones((6, 3), np.float32)
    smooth(few, 100, 0)
    assert np.array_equal(smooth(many, 100, 33_000_000), many)
    assert smooth(many + 1, 100, 66_000_000).shape == (6, 3)
