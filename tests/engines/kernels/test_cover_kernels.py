"""The kernels that tell what is before a face, against plain NumPy and OpenCV."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from engines.kernels import blobs, edges, relight
from engines.kernels import cover as kernels

SIDE = 64
BELL = np.asarray(cv2.getGaussianKernel(13, 1.5, cv2.CV_32F).reshape(-1), np.float32)


def disc(radius=24.0):
    y, x = np.mgrid[:SIDE, :SIDE]
    return (np.hypot(x - 31.5, y - 33) < radius).astype(np.float32)


def guided(grey, drawn):
    """The same by OpenCV's box filters, in float64."""
    mask, face = (drawn[:, :, k].astype(float) / 255 for k in (0, 1))
    grey = grey.astype(float)

    def box(values):
        return cv2.blur(values, (9, 9), borderType=cv2.BORDER_CONSTANT)

    share = box(face) + 1e-4
    mean, square, wanted, both = (
        box(one) / share for one in (face * grey, face * grey * grey, mask, mask * grey)
    )
    slope = (both - mean * wanted) / (np.maximum(square - mean * mean, 0) + 2e-4)
    start = wanted - slope * mean
    fitted = (box(slope * face) * grey + box(start * face)) / (box(face) + 1e-4)
    return np.clip((fitted - 0.5) * 1.6 + 0.5, 0, 1) * (box(mask) > 1e-9) * 255


def draw(edges_of, height, width, seed=0):
    """A face with something before it, whose border is drawn by a function."""
    rng = np.random.default_rng(seed)
    grey = cv2.GaussianBlur(rng.random((height, width)).astype(np.float32), (0, 0), 2)
    drawn = np.zeros((height, width, 3), np.uint8)
    cv2.ellipse(drawn, (width // 2, height // 2), (width // 3, height // 3), 0, 0, 360, (0, 255, 255), -1)
    soft = np.zeros((height, width), np.uint8)
    cv2.circle(soft, (width // 2, height // 2 + height // 6), max(1, height // 4), 255, -1)
    drawn[:, :, 0] = np.where(drawn[:, :, 1] > 0, cv2.GaussianBlur(soft, (0, 0), 2), 0)
    return grey, drawn, edges_of(grey, drawn)


def by_kernel(grey, drawn):
    out = np.full((*grey.shape, 2), 77, np.uint8)[:, :, 0]
    work = np.full(edges.PLANES * grey.size + 5, np.nan, np.float32)
    edges.to_edges(grey, drawn, work, out)
    return out


@pytest.mark.parametrize("size", [(190, 180), (64, 120), (9, 9), (7, 30), (1, 1), (192, 1)])
def test_borders_are_drawn_as_a_guided_filter_draws_them(size):
    grey, drawn, out = draw(by_kernel, *size)
    assert np.abs(guided(grey, drawn) - out).max() <= 1.01


def test_a_border_follows_an_edge_of_the_picture():
    """The mask reaches a pixel too far; where the picture changes is where it ends."""
    grey = np.full((60, 60), 0.3, np.float32)
    grey[:, 30:] = 0.8
    drawn = np.full((60, 60, 3), 255, np.uint8)
    drawn[:, 31:, 0] = 0
    row = by_kernel(grey, drawn)[30]
    assert row[:30].min() > 250
    assert row[30:].max() < 64


@pytest.mark.parametrize("level", [0, 255])
def test_where_all_is_alike_nothing_is_drawn_and_nothing_is_left_out(level):
    grey = np.full((40, 40), 0.5, np.float32)
    drawn = np.full((40, 40, 3), 255, np.uint8)
    drawn[:, :, 0] = level
    assert np.abs(by_kernel(grey, drawn).astype(int) - level).max() <= 1


def test_means_are_of_the_face_alone():
    face = np.repeat(disc()[:, :, None], 3, 2)
    values = np.random.default_rng(2).normal(0, 1, (SIDE, SIDE, 3)).astype(np.float32) * face
    share = cv2.GaussianBlur(face, (13, 13), 1.5, borderType=cv2.BORDER_CONSTANT) + np.float32(1e-3)
    expected = cv2.GaussianBlur(values, (13, 13), 1.5, borderType=cv2.BORDER_CONSTANT) / share
    out, between = np.full((2, SIDE, 3 * SIDE), np.nan, np.float32)
    kernels.smooth(values.reshape(SIDE, -1), share.reshape(SIDE, -1), BELL, between, out)
    assert np.abs(out.reshape(SIDE, SIDE, 3) - expected).max() < 1e-5


def test_lips_and_medians_are_those_of_numpy():
    rng = np.random.default_rng(5)
    left, usual = rng.normal(0, 1, (2, SIDE * SIDE, 3)).astype(np.float32)
    zone, ring, near = (rng.choice(SIDE * SIDE, n, replace=False) for n in (331, 120, 87))
    red, alike = kernels.read_lips(left, usual, zone, ring, near)
    values = left[:, 1] + usual[:, 1]
    top = len(zone) * 9 // 10
    assert red == pytest.approx(np.sort(values[zone])[top] - np.median(values[ring]), abs=1e-5)
    assert alike == pytest.approx(np.corrcoef(values[near], usual[near, 1])[0, 1], abs=1e-4)
    out = np.zeros(3, np.float32)
    kernels.medians(left, ring, out)
    assert np.abs(out - np.median(left[ring], axis=0)).max() < 1e-6


def found_by_opencv(evidence, level, face, bars, counts):
    easier = np.where(level > 0.5, np.float32(bars[2]), np.float32(1))
    around = cv2.dilate(evidence, np.ones((5, 5), np.uint8))
    there = (evidence > np.maximum(bars[1] * easier, around / 4)) & (face > 0)
    clear = evidence > bars[0] * easier
    if not (there & clear).any():
        return np.zeros_like(evidence)
    joined = cv2.morphologyEx(there.astype(np.uint8), cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(joined, connectivity=8)
    large = (np.bincount(labels[clear], minlength=count) >= counts[0]) & (
        stats[:, cv2.CC_STAT_AREA] >= counts[1]
    )
    large[0] = False
    return large[labels].astype(np.float32)


@pytest.mark.parametrize("seed", range(12))
def test_what_hangs_together_is_what_opencv_says(seed):
    rng = np.random.default_rng(seed)
    face = disc(20 + seed)
    bars, counts = np.array([9, 4, 0.6], np.float32), np.array([3, 14])
    noise = cv2.GaussianBlur(rng.normal(0, 1, (SIDE, SIDE)), (0, 0), 1 + seed % 4)
    evidence = (np.clip(noise / noise.std() * (2 + seed), 0, 80) * face).astype(np.float32)
    level = rng.random((SIDE, SIDE)).astype(np.float32)
    texels = np.flatnonzero(face).astype(np.int32)
    there = np.full((SIDE, SIDE), 9, np.float32)
    blobs.seek(evidence, level, texels, bars, counts, there)
    expected = found_by_opencv(evidence, level, face, bars, counts)
    assert (there == expected).all()
    if seed > 3:
        assert expected.any()


def test_nothing_clear_is_nothing_there():
    face = disc()
    there = np.ones((SIDE, SIDE), np.float32)
    texels = np.flatnonzero(face).astype(np.int32)
    bars, counts = np.array([9, 4, 0.6], np.float32), np.array([3, 14])
    blobs.seek(face * 8, face * 0, texels, bars, counts, there)
    assert not there.any()


def test_triangles_of_which_a_corner_is_near():
    amount = np.zeros(9, np.float32)
    amount[4] = 0.1
    at = np.array([0, 4, 8, 3])
    corners = np.int32([[0, 2, 3], [0, 1, 2], [2, 3, 0], [3, 2, 1]])
    assert blobs.nearby(amount, at, corners).tolist() == [[0, 1, 2], [3, 2, 1]]
    assert blobs.nearby(amount * 0, at, corners).shape == (0, 3)


@pytest.mark.parametrize(("settled", "hidden"), [(False, False), (True, False), (True, True)])
def test_what_is_learnt_is_what_the_rules_say(settled, hidden):
    rng = np.random.default_rng(7)
    usual, varies, off, left = rng.normal(0, 1, (4, SIDE, SIDE, 3)).astype(np.float32)
    unusual, foreign = rng.uniform(0, 10, (2, SIDE, SIDE)).astype(np.float32)
    level, lower = rng.random((2, SIDE, SIDE)).astype(np.float32) ** 4
    face = disc() > 0
    rate = np.full((SIDE, SIDE), 0.1, np.float32)
    if settled:
        rate *= np.clip(2 - unusual / 4, 0, 1)
        rate = np.where(level > 0.1, np.where(foreign < 4, np.float32(0.01), 0), rate)
        if hidden:
            rate *= 1 - lower
    rate = rate[:, :, None] * face[:, :, None]
    expected = usual + rate * left, varies + rate * (off * off - varies)
    kernels.learn(
        (usual, varies, level), off, left, unusual, foreign, lower, np.flatnonzero(face).astype(np.int32),
        np.array([0.1, 0.01, 4], np.float32), np.array([settled, hidden]),
    )  # fmt: skip
    assert np.abs(usual - expected[0]).max() < 1e-5
    assert np.abs(varies - expected[1]).max() < 1e-5


@pytest.mark.parametrize("hidden", [0.0, 0.2, 0.4])
def test_light_is_told_from_what_is_before_the_face(hidden):
    """A light from one side, over a face of which a part is something else."""
    rng = np.random.default_rng(11)
    face = disc()
    texels = np.flatnonzero(face).astype(np.int32)
    y, x = (np.mgrid[:SIDE, :SIDE] - SIDE / 2) / (SIDE / 2)
    usual = rng.normal(0, 0.3, (SIDE, SIDE, 3)).astype(np.float32)
    truth = np.array([[0.2, 0.15, -0.1], [0.03, 0, 0], [-0.02, 0, 0]], np.float32)
    light = truth[:, 0] + truth[:, 1] * x[:, :, None] + truth[:, 2] * y[:, :, None]
    seen = (usual + light + rng.normal(0, 0.01, usual.shape)).astype(np.float32)
    rows = np.quantile(np.nonzero(face)[0], 1 - hidden)
    other = (np.arange(SIDE)[:, None] > rows) & (face > 0)
    seen[other] += np.float32([-1.5, 0.5, 0.4])
    varies, variance = np.full((SIDE, SIDE, 3), 1e-4, np.float32), np.full((SIDE, SIDE, 3), 0.01, np.float32)
    plane, work = np.zeros((3, 3), np.float32), np.full((9, len(texels)), np.nan, np.float32)
    out, square = np.zeros((2, SIDE, SIDE, 3), np.float32)
    for _ in range(6):
        share = relight.relight(seen, usual, varies, variance, texels, plane, work, out, square)
    assert share == pytest.approx(1 - hidden, abs=0.04)
    # The less of the face is seen, the more its slopes are held to none.
    assert np.abs(plane[0] - truth[0]).max() < 0.02 + 0.06 * hidden
    clear = (face > 0) & ~other
    assert np.abs(out[clear]).mean() < 0.03
    assert square[face > 0] == pytest.approx(0.0102)


def test_what_is_seen_is_followed_and_shown_softly():
    rng = np.random.default_rng(4)
    level, there = (
        rng.random((SIDE, SIDE)).astype(np.float32),
        (rng.random((SIDE, SIDE)) > 0.5).astype(np.float32),
    )
    rates, soft = np.float32([0.45, 0.5]), np.float32([0.46, 0.86])
    expected = level + np.where(there > level, rates[0], rates[1]) * (there - level)
    part = np.clip((expected - soft[0]) / (soft[1] - soft[0]), 0, 1)
    amount = np.full_like(level, 9)
    assert blobs.follow(level, there, rates, soft, amount)
    assert np.abs(level - expected).max() < 1e-6
    assert np.abs(amount - part * part * (3 - 2 * part)).max() < 1e-5
    assert not blobs.follow(level * 0, there * 0, rates, soft, amount)
