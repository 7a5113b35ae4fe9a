"""Aligned crops against a slow and plain reading of the same rule, and against true averages."""

from __future__ import annotations

import numpy as np
import pytest

from engines.kernels.warp import Warp, inverse, rescale
from tests.engines.kernels.reference import bilinear

NEAR = 0.01
"""What was averaged is kept with six binary places, rounded."""
ONE, NOUGHT = np.ones(3, np.float32), np.zeros(3, np.float32)


def similarity(scale, turn, x, y):
    """Frame pixels to crop pixels."""
    cos, sin = scale * np.cos(turn), scale * np.sin(turn)
    return np.array([[cos, -sin, x], [sin, cos, y]])


def noise(width, height, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def smooth(width, height, length=107.0):
    """Waves of this length in pixels, another phase in each channel."""
    y, x = np.mgrid[0:height, 0:width] * (2 * np.pi / length)
    waves = [128 + 90 * np.sin(x + c) * np.cos(0.8 * y - c) for c in range(3)]
    return np.rint(np.stack(waves, 2)).astype(np.uint8)


def sampled(image, affine, side):
    """Bilinear samples, one for each pixel of the crop."""
    back = inverse(affine)
    y, x = np.mgrid[0:side, 0:side].astype(np.float64)
    u, v = (back[i, 0] * x + back[i, 1] * y + back[i, 2] for i in (0, 1))
    return bilinear(image, u, v)


def averaged(image, affine, side, taps=6):
    """The mean of what each pixel of the crop covers, by many samples."""
    shift = (np.arange(taps) + 0.5) / taps - 0.5
    total = np.zeros((side, side, 3))
    for dy in shift:
        for dx in shift:
            moved = affine.copy()
            moved[:, 2] -= (dx, dy)
            total += sampled(image, moved, side)
    return total / taps**2


def crop(image, affine, side, out=None, scale=ONE, offset=NOUGHT):
    out = np.empty((side, side, 3), np.float32) if out is None else out
    Warp().crop(image, affine, out, scale, offset)
    return out


@pytest.mark.parametrize("seed", range(12))
def test_larger_than_the_frame_s_pixels_it_is_bilinear(seed):
    rng = np.random.default_rng(seed)
    image = noise(int(rng.integers(3, 90)), int(rng.integers(3, 70)), seed)
    affine = similarity(
        rng.uniform(0.7, 6), rng.uniform(-3.2, 3.2), rng.uniform(-40, 60), rng.uniform(-40, 60)
    )
    side = int(rng.integers(1, 65))
    assert np.abs(crop(image, affine, side) - sampled(image, affine, side)).max() < NEAR


@pytest.mark.parametrize("scale", [0.9, 0.61, 0.5, 0.34, 0.21, 0.1, 0.037])
@pytest.mark.parametrize("turn", [0.0, 0.4, -1.9])
def test_smaller_it_averages_what_its_pixels_cover(scale, turn):
    image = smooth(900, 700, 16 / scale)
    middle = similarity(scale, turn, 0, 0)[:, :2] @ [450, 350]
    affine = similarity(scale, turn, *(32 - middle))
    # Half a pixel of the crop would be 17 levels.
    apart = np.abs(crop(image, affine, 64) - averaged(image, affine, 64))
    assert apart.max() < 6 and apart.mean() < 1.5
    # Single pixels are averaged away and not picked out: those of noise are spread by 74.
    assert crop(noise(900, 700), affine, 64)[26:38, 26:38].std() < 90 * max(scale, 0.06)


@pytest.mark.parametrize("scale", [2.0, 0.5, 0.2])
@pytest.mark.parametrize("turn", [0.0, 2.5])
def test_slopes_keep_their_values_at_any_scale(scale, turn):
    """Where a picture rises evenly the mean of a pixel is its middle, wherever blocks begin."""
    y, x = np.mgrid[0:400, 0:600]
    image = np.rint(np.stack([x * 0.4, y * 0.6, 250 - x * 0.2 - y * 0.3], 2)).astype(np.uint8)
    middle = similarity(scale, turn, 0, 0)[:, :2] @ [300, 200]
    affine = similarity(scale, turn, *(16.3 - middle))
    back = inverse(affine)
    v, u = np.mgrid[0:32, 0:32]
    px, py = (back[i, 0] * u + back[i, 1] * v + back[i, 2] for i in (0, 1))
    wanted = np.stack([px * 0.4, py * 0.6, 250 - px * 0.2 - py * 0.3], 2)
    assert np.abs(crop(image, affine, 32) - wanted).max() < 0.6


@pytest.mark.parametrize("scale", [3.0, 0.8, 0.3, 0.05])
@pytest.mark.parametrize("at", [(-5, -5), (60, 20), (30, 80), (3000, -4000), (-1e7, 1e7)])
def test_beyond_the_border_its_last_pixels_go_on(scale, at):
    image = smooth(61, 47)
    affine = similarity(scale, 0.3, 0, 0)
    affine[:, 2] = 20 - affine[:, :2] @ at
    got = crop(image, affine, 40)
    padded = np.pad(image, ((300, 300), (300, 300), (0, 0)), mode="edge")
    if max(abs(at[0]), abs(at[1])) < 100 and scale > 0.2:
        # Blocks begin elsewhere in the two.
        moved = affine.copy()
        moved[:, 2] -= affine[:, :2] @ [300, 300]
        assert np.abs(got - crop(padded, moved, 40)).max() < 5 * (scale < 0.6) + 2 * NEAR
    assert got.min() >= 0 and got.max() <= 255
    far = crop(image, similarity(scale, 0.0, -5000 * scale, -5000 * scale), 8)
    np.testing.assert_allclose(far, np.broadcast_to(image[-1, -1], far.shape), atol=NEAR)


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (7, 1), (2, 3)])
def test_pictures_of_a_pixel_or_two(size):
    image = np.full((size[1], size[0], 3), (10, 20, 30), np.uint8)
    for scale in (20.0, 1.0, 0.2):
        got = crop(image, similarity(scale, 1.0, 3, 4), 8)
        np.testing.assert_allclose(got, np.broadcast_to(np.float32([10, 20, 30]), got.shape), atol=1e-3)


@pytest.mark.parametrize("scale", [1.3, 0.3])
def test_it_writes_any_layout_and_order_and_range(scale):
    image, affine = smooth(200, 150), similarity(scale, 0.2, 3, 2)
    plain = crop(image, affine, 24)
    factor, offset = np.float32([0.1, 2, -1]), np.float32([5, -3, 0.5])
    wanted = plain * factor + offset
    planar, packed = np.zeros((1, 3, 24, 24), np.float32), np.zeros((24, 24, 3), np.float32)
    crop(image, affine, 24, planar[0].transpose(1, 2, 0), factor, offset)
    np.testing.assert_allclose(planar[0].transpose(1, 2, 0), wanted, atol=2 * NEAR)
    crop(image, affine, 24, packed[..., ::-1], factor, offset)
    np.testing.assert_allclose(packed[..., ::-1], wanted, atol=2 * NEAR)
    tiles = np.zeros((48, 48, 3), np.float32)
    crop(image, affine, 24, tiles[1::2, ::2], factor, offset)
    np.testing.assert_allclose(tiles[1::2, ::2], wanted, atol=2 * NEAR)
    assert not tiles[::2].any()
    rescale(plain, planar[0][::-1].transpose(1, 2, 0), factor, offset)
    np.testing.assert_allclose(planar[0][::-1].transpose(1, 2, 0), wanted, atol=1e-3)


@pytest.mark.parametrize("columns", range(1, 34))
def test_every_width_is_written_to_its_end_and_no_farther(columns):
    """Blocks of eight, what is left over, and what is too narrow for one."""
    image = noise(60, 50)
    for scale in (1.7, 0.3):
        affine = similarity(scale, 0.3, 4, -3)
        room = np.full((7, columns + 2, 3), -7, np.float32)
        Warp().crop(image, affine, room[:, 1:-1], ONE, NOUGHT)
        assert (room[:, [0, -1]] == -7).all()
        assert np.abs(room[:, 1:-1] - slow(image, affine, columns)).max() < NEAR


def slow(image, affine, columns):
    """The same by the loop for any strides, which is plain."""
    planar = np.empty((3, 7, columns), np.float32)
    Warp().crop(image, affine, planar.transpose(1, 2, 0), ONE, NOUGHT)
    return planar.transpose(1, 2, 0)


def test_what_lies_around_a_picture_in_memory_is_not_seen():
    size = 3 * 64 * 64
    image = np.full(size + 400, 255, np.uint8)[200 : 200 + size].reshape(64, 64, 3)
    image[:] = 10
    for scale in (3.0, 1.0, 0.3):
        for at in ((63, 63), (0, 0), (63, 0), (0, 63)):
            affine = similarity(scale, 0.2, 0, 0)
            affine[:, 2] = 16 - affine[:, :2] @ at
            assert np.abs(crop(image, affine, 32) - 10).max() < NEAR


def test_the_picture_stays_and_memory_is_used_again():
    warp, image = Warp(), noise(1920, 1080)
    kept, out = image.copy(), np.empty((64, 64, 3), np.float32)
    first = [
        warp.crop(image, similarity(s, 0.1, -50, -30), out, ONE, NOUGHT) or out.copy() for s in (0.1, 0.5, 2)
    ]
    room = warp._small.ctypes.data
    again = [
        warp.crop(image, similarity(s, 0.1, -50, -30), out, ONE, NOUGHT) or out.copy() for s in (0.1, 0.5, 2)
    ]
    assert (image == kept).all() and warp._small.ctypes.data == room
    np.testing.assert_array_equal(first, again)
