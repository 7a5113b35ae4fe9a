"""Paste-back against a slow and plain reading of the same rule."""

from __future__ import annotations

import numpy as np
import pytest

from engines.kernels.mask import MOMENTS, feather_convex, moments
from engines.kernels.paste import LIMITS, bake, paste
from engines.swap.masks.masks import sides_of
from engines.swap.neural.paste import Baker, paint
from tests.engines.kernels.reference import bilinear
from tests.engines.kernels.test_warp import noise, similarity

ONE, NOUGHT = np.ones(3, np.float32), np.zeros(3, np.float32)


def pasted(image, face, mask, affine, scale=ONE, offset=NOUGHT):
    """What is painted, as a new picture, in float64."""
    side_y, side_x = mask.shape
    y, x = np.mgrid[0 : image.shape[0], 0 : image.shape[1]].astype(np.float64)
    u, v = (affine[i, 0] * x + affine[i, 1] * y + affine[i, 2] for i in (0, 1))
    inside = (u >= 0) & (u <= side_x - 1) & (v >= 0) & (v <= side_y - 1)
    lit = np.clip(bilinear(np.clip(face * scale.astype(float) + offset, 0, 255), u, v), 0, 255)
    opacity = np.clip(bilinear(mask[..., None], u, v), 0, 1) * inside[..., None]
    return np.rint(image + opacity * (lit - image)).astype(int)


def soft_disc(side, radius=0.48):
    y, x = np.mgrid[0:side, 0:side]
    return np.clip((radius - np.hypot(x - side / 2 + 0.5, y - side / 2 + 0.5) / side) * 8, 0, 1).astype(
        np.float32
    )


def painted(image, face, mask, affine, scale=ONE, offset=NOUGHT):
    frame, texture, limits = image.copy(), np.zeros((*mask.shape, 4), np.uint8), np.zeros(LIMITS)
    assert bake(face, mask, scale, offset, texture, limits)
    paste(frame, texture, affine, limits)
    return frame


def agree(frame, wanted, image, mask_off=1):
    assert np.abs(frame.astype(int) - wanted).max() <= mask_off


@pytest.mark.parametrize("seed", range(16))
def test_any_similarity_any_frame(seed):
    rng = np.random.default_rng(seed)
    side = int(rng.integers(2, 140))
    image = noise(int(rng.integers(1, 400)), int(rng.integers(1, 300)), seed)
    face = rng.uniform(-20, 275, (side, side, 3)).astype(np.float32)
    # Whatever is between two texels is within a level only where they are alike.
    face = (
        np.clip(face, 90, 160)
        if side < 20
        else face * 0 + np.linspace(0, 255, side, dtype=np.float32)[:, None, None]
    )
    affine = similarity(
        rng.uniform(0.1, 4), rng.uniform(-3.2, 3.2), rng.uniform(-200, 200), rng.uniform(-200, 200)
    )
    mask = soft_disc(side) if seed % 2 else rng.uniform(0, 1, (side, side)).astype(np.float32)
    scale, offset = rng.uniform(0.7, 1.4, 3).astype(np.float32), rng.uniform(-20, 20, 3).astype(np.float32)
    frame = painted(image, face, mask, affine, scale, offset)
    wanted = pasted(image, face, mask, affine, scale, offset)
    inner = _away_from_the_edge(image, affine, side)
    assert np.abs(frame.astype(int) - wanted)[inner].max(initial=0) <= 1
    outside = _outside(image, affine, side)
    assert (frame[outside] == image[outside]).all()


def _places(image, affine):
    y, x = np.mgrid[0 : image.shape[0], 0 : image.shape[1]].astype(np.float64)
    return tuple(affine[i, 0] * x + affine[i, 1] * y + affine[i, 2] for i in (0, 1))


def _away_from_the_edge(image, affine, side):
    """All but pixels that lie on the very border of the texture, where a thousandth decides."""
    u, v = _places(image, affine)
    return np.minimum.reduce([abs(u), abs(v), abs(u - side + 1), abs(v - side + 1)]) > 0.02


def _outside(image, affine, side):
    u, v = _places(image, affine)
    return (u < -0.02) | (v < -0.02) | (u > side - 0.98) | (v > side - 0.98)


@pytest.mark.parametrize("width", [3, 4, 5, 63, 64, 65, 127])
@pytest.mark.parametrize("at", [(0.0, 0.0), (-30.5, 10.0), (20.0, -33.0), (40.3, 40.9)])
def test_half_outside_and_odd_widths(width, at):
    image = noise(width, 61)
    side, mask = 64, np.ones((64, 64), np.float32)
    face = np.full((side, side, 3), 77, np.float32)
    affine = similarity(1.0, 0.0, -at[0], -at[1])
    frame = painted(image, face, mask, affine)
    assert np.abs(frame.astype(int) - pasted(image, face, mask, affine)).max() <= 1


@pytest.mark.parametrize("where", [(0, 0), (20, 0), (0, 14), (20, 14), (7, 3)])
def test_a_single_pixel(where):
    image = noise(21, 15)
    face, mask = np.full((9, 9, 3), 200, np.float32), np.zeros((9, 9), np.float32)
    mask[4, 4] = 1
    frame = painted(image, face, mask, similarity(1.0, 0.0, 4 - where[0], 4 - where[1]))
    assert (frame[where[1], where[0]] == 200).all()
    frame[where[1], where[0]] = image[where[1], where[0]]
    assert (frame == image).all()


def test_in_4k_on_the_far_side():
    image = np.random.default_rng(0).integers(0, 255, (2160, 3840, 3), np.uint8)
    face = np.repeat(
        np.linspace(0, 255, 256, dtype=np.float32)[:, None, None] * np.ones((1, 256, 1), np.float32), 3, 2
    )
    affine = similarity(256 / 1500, 0.35, 0, 0)
    affine[:, 2] = 127.5 - affine[:, :2] @ [3000, 1200]
    mask = soft_disc(256)
    frame = painted(image, face, mask, affine)
    part = np.s_[300:2100, 2100:3840]
    moved = affine.copy()
    moved[:, 2] += affine[:, :2] @ [2100, 300]
    assert np.abs(frame[part].astype(int) - pasted(image[part], face, mask, moved)).max() <= 1
    assert (frame[:, :2000] == image[:, :2000]).all()


@pytest.mark.parametrize("seed", range(8))
def test_what_the_mask_leaves_is_bit_identical_and_what_it_shows_is_not_left_out(seed):
    rng = np.random.default_rng(seed)
    image = np.zeros((200, 220, 3), np.uint8)
    mask = np.zeros((48, 48), np.float32)
    top, left = rng.integers(0, 40, 2)
    mask[top : top + rng.integers(1, 12), left : left + rng.integers(1, 12)] = 1
    mask[rng.integers(0, 48), rng.integers(0, 48)] = 1
    affine = similarity(rng.uniform(0.2, 1.2), rng.uniform(-3, 3), 0, 0)
    affine[:, 2] = 24 - affine[:, :2] @ [110, 100]
    frame = painted(image, np.full((48, 48, 3), 255, np.float32), mask, affine)
    wanted = pasted(image, np.full((48, 48, 3), 255), mask, affine)
    inner = _away_from_the_edge(image, affine, 48)
    assert np.abs(frame.astype(int) - wanted)[inner].max() <= 1
    assert wanted.max() > 100


def test_no_mask_no_touch():
    image = noise(64, 64)
    frame = painted(
        image, np.zeros((16, 16, 3), np.float32), np.zeros((16, 16), np.float32), similarity(0.5, 0, 0, 0)
    )
    assert (frame == image).all()


@pytest.mark.parametrize(
    "affine",
    [
        np.zeros((2, 3)),
        np.full((2, 3), np.nan),
        np.full((2, 3), np.inf),
        [[1, 1, 0], [1, 1, 0]],
        [[1e-7, 0, 0], [0, 1e-7, 0]],
        [[1e6, 0, 0], [0, 1e6, 0]],
        [[1, 0, 1e300], [0, 1, -1e300]],
    ],
)
def test_maps_that_are_none_paint_nothing_outside_and_do_not_crash(affine):
    image = noise(50, 40)
    frame = painted(
        image, np.full((8, 8, 3), 9, np.float32), np.ones((8, 8), np.float32), np.asarray(affine, float)
    )
    assert frame.shape == image.shape


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_told(bad):
    texture, limits = np.zeros((8, 8, 4), np.uint8), np.zeros(LIMITS)
    for place in ((0, 0, 0), (7, 7, 2), (3, 4, 1)):
        face, mask = np.zeros((8, 8, 3), np.float32), np.ones((8, 8), np.float32)
        assert bake(face, mask, ONE, NOUGHT, texture, limits)
        face[place] = bad
        assert not bake(face, mask, ONE, NOUGHT, texture, limits)
    mask[2, 2] = np.nan
    assert not bake(np.zeros((8, 8, 3), np.float32), mask, ONE, NOUGHT, texture, limits)


@pytest.mark.parametrize("scale", [2.4, 5.0, 11.0])
def test_far_faces_are_averaged_and_do_not_glitter(scale):
    face = np.random.default_rng(0).uniform(0, 255, (256, 256, 3)).astype(np.float32)
    affine = similarity(scale, 0.2, 0, 0)
    affine[:, 2] = 127.5 - affine[:, :2] @ [60, 60]
    image = np.full((120, 120, 3), 128, np.uint8)
    layer = Baker(256).bake(face, np.ones((256, 256), np.float32), ONE, NOUGHT, affine)
    paint(image, layer)
    size = 256 / scale
    inside = image[int(60 - size / 4) : int(60 + size / 4), int(60 - size / 4) : int(60 + size / 4)]
    assert inside.std() < 74 / scale * 1.7
    # And none of it has moved.
    slope = np.ones((256, 256, 3), np.float32) * np.linspace(0, 255, 256, dtype=np.float32)[:, None]
    layer = Baker(256).bake(slope, soft_disc(256), ONE, NOUGHT, affine)
    image[:] = 128
    paint(image, layer)
    wanted = pasted(np.full((120, 120, 3), 128, np.uint8), slope, soft_disc(256), affine)
    near = slice(int(60 - size / 5), int(60 + size / 5))
    assert np.abs(image - wanted)[near, near].max() <= 1


@pytest.mark.parametrize("seed", range(6))
def test_convex_outlines_are_filled_with_a_slope_inside(seed):
    rng = np.random.default_rng(seed)
    outline = rng.uniform(-10, 90, (9, 2))
    sides, mask = sides_of(outline), np.full((70, 80), 7, np.float32)
    feather_convex(mask, sides, 6.0)
    y, x = np.mgrid[0:70, 0:80]
    distance = np.min([a * x + b * y + c for a, b, c in sides[:, :3].astype(np.float64)], axis=0)
    t = np.clip(distance / 6, 0, 1)
    np.testing.assert_allclose(mask, t * t * (3 - 2 * t), atol=1e-3)
    assert np.abs(np.hypot(sides[:, 0], sides[:, 1]) - 1).max() < 1e-5
    assert (sides[:, :2] @ outline.mean(0) + sides[:, 2] > 0).all()
    np.testing.assert_allclose(np.sort(sides_of(outline[::-1]), 0), np.sort(sides, 0), atol=1e-4)


def test_an_outline_without_a_face_covers_nothing():
    for outline in (np.zeros((5, 2)), np.array([[0, 0], [10, 10], [20, 20.0]])):
        mask = np.ones((20, 20), np.float32)
        feather_convex(mask, sides_of(outline), 3.0)
        assert not mask.any()


def test_moments_are_weighted_sums():
    rng = np.random.default_rng(0)
    live, face, mask = (rng.uniform(0, 255, (33, 33, 3)).astype(np.float32) for _ in range(3))
    mask, sums = mask[:, :, 0] / 255, np.zeros(MOMENTS)
    moments(live, face, mask, 2, sums)
    live, face, mask = (
        live[::2, ::2].astype(float),
        face[::2, ::2].astype(float),
        mask[::2, ::2].astype(float),
    )
    wanted = [mask.sum(), *(np.einsum("yxc,yx->c", one, mask) for one in (live, live**2, face, face**2))]
    np.testing.assert_allclose(sums, np.hstack(wanted), rtol=1e-4)
