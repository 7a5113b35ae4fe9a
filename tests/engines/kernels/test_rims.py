"""The kernels that follow a line across rays, against plain NumPy."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from engines.kernels import rims

RAYS, SAMPLES = 40, 32
FLAT = np.zeros((RAYS, SAMPLES), np.uint8)
REACHES = np.array([1.7, 3.5], np.float32)


def ridges(values, own=FLAT, spacing=0.5):
    out, wide = np.full((2, *values.shape), 9, np.float32)
    rims.ridges(values, own, np.full(len(values), spacing, np.float32), REACHES, out, wide)
    return out, wide


def wave(closed):
    n = np.arange(RAYS)
    return np.rint(16 + 6 * np.sin(n * 2 * np.pi / RAYS * (1 if closed else 0.7))).astype(int)


def picture(line, depth, thick=1, seed=0):
    rng = np.random.default_rng(seed)
    values = np.full((RAYS, SAMPLES), 0.5, np.float32) + rng.normal(0, 0.004, (RAYS, SAMPLES)).astype(
        np.float32
    )
    for n, at in enumerate(line):
        values[n, at - thick : at + thick + 1] += depth
    return values


def traced(lines, closed):
    at, clear = np.zeros(RAYS, np.int64), np.zeros(RAYS, np.float32)
    rims.trace(lines, closed, at, clear)
    return at, clear


def test_rays_are_read_as_opencv_reads_them():
    rng = np.random.default_rng(1)
    grey = rng.random((50, 60)).astype(np.float32)
    table = rng.uniform(-1, 1, (9, 7, 2)).astype(np.float32)
    parts = np.array([0] * 5 + [1] * 4, np.int32)
    frames = np.array([[25, 20, 12, 3, -2, 14], [30, 25, 4, 0, 0, 8]], np.float32)
    out, own = np.zeros((9, 7), np.float32), np.zeros((9, 7), np.uint8)
    rims.sample(grey, (grey > 0.5).astype(np.uint8), table, parts, frames, out, own)
    axes = frames[parts]
    xy = axes[:, None, :2] + table[:, :, :1] * axes[:, None, 2:4] + table[:, :, 1:] * axes[:, None, 4:]
    expected = cv2.remap(grey, xy[:, :, 0], xy[:, :, 1], cv2.INTER_LINEAR)
    assert np.abs(out - expected).max() < 0.03
    inside = np.floor(xy).astype(int)
    assert (own == (grey[inside[:, :, 1], inside[:, :, 0]] > 0.5)).all()


@pytest.mark.parametrize("far", [1e4, -1e7, 1e30])
def test_rays_far_outside_are_harmless(far):
    grey, own = np.ones((8, 8), np.float32), np.zeros((2, 4), np.uint8)
    out = np.zeros((2, 4), np.float32)
    table, frames = np.ones((2, 4, 2), np.float32), np.full((1, 6), far, np.float32)
    rims.sample(grey, grey.astype(np.uint8), table, np.zeros(2, np.int32), frames, out, own)
    assert (out == 1).all()
    found = np.zeros((2, 4), np.float32)
    rims.places(
        (out, out), table, np.ones(2, np.float32), frames[0], np.zeros(2, np.int64), np.ones(2, np.float32), True,
        np.array([0, 1], np.float32), found,
    )  # fmt: skip
    assert np.isfinite(found).all()


def test_a_line_is_no_step_and_no_slope():
    step = np.full((RAYS, SAMPLES), 0.2, np.float32)
    step[:, 16:] = 0.8
    slope = np.linspace(0.1, 0.9, SAMPLES, dtype=np.float32)[None].repeat(RAYS, 0)
    for values in (step, slope):
        assert np.abs(ridges(values)[0]).max() < 1e-6


@pytest.mark.parametrize("depth", [-0.2, 0.2])
def test_a_line_is_bright_or_dark_against_both_sides(depth):
    out, _ = ridges(picture(np.full(RAYS, 16), depth))
    assert np.abs(out[:, 16] - depth / 0.54).max() < 0.05
    assert np.abs(out[:, [4, 28]]).max() < 0.05


def test_what_a_thick_line_shows_is_seen_from_farther_away():
    thin, thick = (ridges(picture(np.full(RAYS, 16), -0.3, size))[1][:, 16] for size in (1, 4))
    assert (thin == REACHES[0]).all()
    assert (thick == REACHES[1]).all()


def test_where_a_brow_is_only_what_is_darker_counts():
    own = np.ones((RAYS, SAMPLES), np.uint8)
    line = np.full(RAYS, 16)
    assert (ridges(picture(line, -0.2), own)[0] >= -0.02).all()
    assert (ridges(picture(line, -0.45), own)[0][:, 16] < -0.2).all()
    assert (ridges(picture(line, 0.2), own)[0][:, 16] > 0.3).all()


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("depth", [-0.05, 0.05])
def test_a_faint_line_is_followed_all_along(closed, depth):
    line = wave(closed)
    values = picture(line, depth)
    # A short dark spot beside it leads nobody astray, nor a gap.
    values[10:13, 28:31] = 0.1
    values[20:23] = 0.5
    at, clear = traced(ridges(values)[0], closed)
    assert np.abs(at - line)[:20].max() <= 2
    assert np.abs(at - line)[23:].max() <= 2
    assert np.quantile(clear, 0.2) > 0.04


def test_a_ring_ends_where_it_begins():
    at, _ = traced(ridges(picture(wave(True), -0.2))[0], True)
    assert abs(at[0] - at[-1]) <= 1


def test_how_clear_a_line_is_and_how_clear_the_rest():
    rng = np.random.default_rng(3)
    lines = rng.normal(0, 1, (RAYS, SAMPLES)).astype(np.float32)
    clear, chosen = rng.random(RAYS).astype(np.float32), rng.random(RAYS) > 0.4
    along, around = rims.clearness(lines, clear, chosen, 0.2)
    some = np.sort(clear[chosen])
    assert along == some[int(len(some) * 0.2)]
    assert around == np.sort(np.abs(lines[chosen]), axis=None)[chosen.sum() * SAMPLES // 2]


@pytest.mark.parametrize("thick", [1, 3])
def test_a_line_is_placed_where_and_as_wide_as_it_is(thick):
    line = np.full(RAYS, 16)
    values = picture(line, -0.4, thick)
    out, wide = ridges(values)
    at, clear = traced(out, False)
    clear[: RAYS // 2] = 0
    table = np.stack(np.meshgrid(np.arange(SAMPLES), np.arange(RAYS)), -1).astype(np.float32)
    found = np.zeros((RAYS, 4), np.float32)
    frame = np.array([0, 0, 1, 0, 0, 1], np.float32)
    rims.places(
        (values, wide * 2), table, np.ones(RAYS, np.float32), frame, at, clear, False,
        np.array([0.1, 0.2], np.float32), found,
    )  # fmt: skip
    assert (np.abs(found[:, 0] - 16) <= 1).all()
    assert (found[:, 1] == np.arange(RAYS)).all()
    assert found[:, 2] == pytest.approx(thick + 0.5, abs=0.5)
    assert (found[RAYS // 2 + 2 :, 3] == 1).all()
    assert (found[: RAYS // 2 - 2, 3] == 0).all()
