"""The pixels of thin lines apart from what is beside them."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from engines.kernels import strokes

SIZE, FINE, RAYS = 160, 8, 48
MIDDLE, RADIUS = 80, 50
SKIN, BROW = 150, 50
IDENTITY = np.eye(2, 3, dtype=np.float32)


def ring(pen):
    """(H, W) float32, 0…1: a round rim so many pixels wide."""
    large = np.zeros((SIZE * FINE, SIZE * FINE), np.uint8)
    at = round((MIDDLE + 0.5) * FINE)
    cv2.circle(large, (at, at), RADIUS * FINE, 255, round(pen * FINE), cv2.LINE_AA)
    return cv2.resize(large, (SIZE, SIZE), interpolation=cv2.INTER_AREA).astype(np.float32) / 255


def scene(pen, shade, brow=None, seed=0):
    """A rim before skin, and how far each pixel is of it; outside of its upper part, or inside, is a brow."""
    there = ring(pen)
    rows, columns = np.mgrid[:SIZE, :SIZE]
    away = np.hypot(columns - MIDDLE, rows - MIDDLE) - RADIUS
    behind = np.full((SIZE, SIZE), float(SKIN))
    if brow is not None:
        behind[(away * brow > 0) & (np.abs(away) < 20) & (rows < MIDDLE)] = BROW
    noise = np.random.default_rng(seed).normal(0, 2, (SIZE, SIZE))
    grey = behind * (1 - there) + shade * there + noise
    return np.repeat(np.rint(grey).clip(0, 255).astype(np.uint8)[:, :, None], 3, 2), there


def rays(pen, kind, off=(0.0, 0.0), brow=0, unseen=0):
    angles = np.arange(RAYS) * 2 * np.pi / RAYS
    made = np.ones((RAYS, strokes.COLUMNS), np.float32)
    made[:, 0] = MIDDLE + off[0] + RADIUS * np.cos(angles)
    made[:, 1] = MIDDLE + off[1] + RADIUS * np.sin(angles)
    made[:, 2], made[:, 4] = pen / 2 + 0.5, kind
    upper = np.sin(angles) < 0
    made[:, 5], made[:, 6] = brow * upper, unseen * upper
    return made


def kept(image, given, closed=True, back=IDENTITY, corner=(0, 0), size=(SIZE, SIZE)):
    out = np.zeros((size[0], size[1] + 1), np.uint8)[:, :-1]
    parts = np.array([[0, len(given)]], np.int64)
    strokes.matte(image, given, parts, np.array([closed]), back, np.float32(corner), out)
    return out / np.float32(255)


@pytest.mark.parametrize("off", [(0, 0), (1.2, 0), (0.8, -0.8), (0, 1.2)])
@pytest.mark.parametrize(("pen", "shade", "kind"), [(2, 235, 1), (2, 40, -1), (8, 30, -1)])
def test_the_line_is_kept_and_nothing_beside_it(pen, shade, kind, off):
    image, there = scene(pen, shade)
    mask = kept(image, rays(pen, kind, off))
    right = np.minimum(mask, there).sum()
    assert right > 0.9 * there.sum()
    assert right > 0.8 * mask.sum()


@pytest.mark.parametrize("side", [1, -1])
def test_beside_a_bright_line_no_brow_is_kept(side):
    image, there = scene(2, 235, side)
    mask = kept(image, rays(2, 1, (0, 0.8), brow=1))
    assert np.minimum(mask, there).sum() > 0.85 * there.sum()
    assert mask[there == 0].sum() < 0.08 * there.sum()


def test_a_dark_line_is_as_wide_before_a_brow_as_elsewhere():
    image, _ = scene(3, 40, 1)
    mask = kept(image, rays(3, -1, brow=1, unseen=1))
    across = mask[:, MIDDLE]
    above, below = across[:MIDDLE].sum(), across[MIDDLE:].sum()
    assert below == pytest.approx(3, abs=0.8)
    assert above <= below + 2


@pytest.mark.parametrize("kind", [1, -1])
def test_where_no_line_is_nothing_is_kept(kind):
    image, _ = scene(2, SKIN)
    assert kept(image, rays(2, kind)).mean() < 0.002


def test_what_was_not_seen_is_not_kept():
    image, there = scene(2, 235)
    given = rays(2, 1)
    given[: RAYS // 2, 3] = 0
    mask = kept(image, given)
    assert mask[MIDDLE + 4 :].max() == 0
    assert np.minimum(mask, there)[: MIDDLE - 4].sum() > 0.9 * there[: MIDDLE - 4].sum()


def test_a_part_of_the_picture_is_the_same_as_of_the_whole():
    image, _ = scene(2, 235)
    given = rays(2, 1)
    whole = kept(image, given)
    part = kept(image, given, corner=(30, 20), size=(90, 100))
    assert (part == whole[20:110, 30:130]).all()


def test_a_crop_of_half_the_size_finds_the_same():
    image, there = scene(2, 235)
    given = rays(2, 1)
    given[:, :3] *= 0.5
    mask = kept(image, given, back=2 * IDENTITY)
    assert np.minimum(mask, there).sum() > 0.9 * there.sum()


@pytest.mark.parametrize("back", [1e7 * IDENTITY, 0 * IDENTITY, np.float32([[1, 0, -1e7], [0, 1, 1e7]])])
@pytest.mark.parametrize("closed", [True, False])
def test_lines_far_outside_are_harmless(back, closed):
    image, _ = scene(2, 235)
    assert kept(image, rays(2, 1), closed, back).mean() < 0.1
