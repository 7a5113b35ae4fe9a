"""Crops: the right pixels, to a fraction of one, whatever the scale and turn."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from engines.analysis.crop import Cropper, affine_of, inverse_of
from engines.faces import Region

SIDE = 48


def ramp(width, height, right, down, start):
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    return start + right * x + down * y


def places_of(affine):
    """Where each pixel of a patch lies in the frame."""
    y, x = np.mgrid[0:SIDE, 0:SIDE].astype(np.float64)
    a = cv2.invertAffineTransform(affine.astype(np.float64))
    return a[0, 0] * x + a[0, 1] * y + a[0, 2], a[1, 0] * x + a[1, 1] * y + a[1, 2]


def read(image, region, mean=0.0, std=255.0):
    out = np.full((SIDE, SIDE, 3), np.nan, np.float32)
    return out, Cropper(SIDE).read(image, region, out, mean, std)


@pytest.mark.parametrize("angle", [0.0, 0.4, -1.3, 3.0])
def test_affine_and_its_inverse(angle):
    rng = np.random.default_rng(1)
    for size in (7.0, 48.0, 333.3, 2000.0):
        region = Region(123.4, -56.7, size, angle)
        affine = affine_of(region, SIDE)
        assert affine.dtype == np.float32
        back = inverse_of(affine)
        points = rng.uniform(-2000, 2000, (50, 2)).astype(np.float32)
        there = points @ affine[:, :2].T + affine[:, 2]
        np.testing.assert_allclose(there @ back[:, :2].T + back[:, 2], points, atol=0.02)
        np.testing.assert_allclose(back, cv2.invertAffineTransform(affine), rtol=1e-4, atol=1e-3)
        # The region's middle is the patch's, and its right edge lies along its angle.
        np.testing.assert_allclose(affine @ [region.x, region.y, 1], [SIDE / 2] * 2, atol=1e-2)
        edge = [region.x + size / 2 * np.cos(angle), region.y + size / 2 * np.sin(angle), 1]
        np.testing.assert_allclose(affine @ edge, [SIDE, SIDE / 2], atol=1e-2)


@pytest.mark.parametrize("scale", [0.5, 0.77, 1.0, 1.5, 1.99, 2.0, 2.5, 3.0, 4.0, 5.7, 6.0])
def test_a_ramp_is_read_without_bias(scale):
    """A shift of a sixteenth of a patch's pixel would show as a mean error of 0.2 levels."""
    rng = np.random.default_rng(int(scale * 100))
    means = []
    # Rounding goes one way for one region and the other way for the next; a shift would go one way for all.
    for angle in np.linspace(-np.pi, np.pi, 24):
        x, y, steep = *rng.uniform(230, 250, 2), rng.uniform(0.8, 1.0)
        right, down = 2.6180 * steep / scale, 1.9021 * steep / scale
        start = 128 - right * x - down * y
        values = np.clip(np.rint(ramp(480, 480, right, down, start)), 0, 255)
        image = np.repeat(values[:, :, None], 3, 2).astype(np.uint8)
        patch, affine = read(image, Region(x, y, SIDE * scale, float(angle)))
        across, along = places_of(affine)
        off = patch[:, :, 0] * 255 - (start + right * across + down * along)
        assert np.abs(off).max() < 1.9, angle
        means.append(off.mean())
    assert abs(np.mean(means)) < 0.2, means


@pytest.mark.parametrize("angle", [0.0, 0.5, -2.0])
def test_like_opencv_where_nothing_has_to_be_averaged(angle):
    rng = np.random.default_rng(2)
    image = cv2.GaussianBlur(rng.integers(0, 256, (120, 160, 3), np.uint8), (0, 0), 2)
    for region in (Region(70.2, 61.1, 60.0, angle), Region(10, 8, 90.0, angle)):
        patch, affine = read(image, region)
        expected = cv2.warpAffine(
            image, affine, (SIDE, SIDE), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
        )
        np.testing.assert_allclose(patch, expected[:, :, ::-1] / np.float32(255), atol=1e-6)


def test_channels_are_red_green_blue_and_scaled():
    image = np.empty((100, 100, 3), np.uint8)
    image[:] = (255, 51, 0)
    for scale in (0.7, 3.0):
        for mean, std, expected in (
            (0, 255, (0, 0.2, 1)),
            (127.5, 127.5, (-1, -0.6, 1)),
            (0, 1, (0, 51, 255)),
        ):
            patch, _ = read(image, Region(50, 50, SIDE * scale, 0.3), mean, std)
            np.testing.assert_allclose(patch, np.broadcast_to(np.float32(expected), patch.shape), atol=1e-4)


@pytest.mark.parametrize("scale", [1.0, 2.0, 3.3, 6.0])
@pytest.mark.parametrize("edge", ["left", "right", "top", "bottom"])
def test_outside_of_the_frame_its_border_goes_on(edge, scale):
    """A frame of one colour with one bright edge; beyond it all is bright, and nothing is black."""
    image = np.full((240, 320, 3), 60, np.uint8)
    band = int(2 * scale) + 2
    where = {
        "left": (slice(None), slice(0, band)), "right": (slice(None), slice(320 - band, None)),
        "top": (slice(0, band), slice(None)), "bottom": (slice(240 - band, None), slice(None)),
    }[edge]  # fmt: skip
    image[where] = 200
    middle = {"left": (0, 120), "right": (319, 120), "top": (160, 0), "bottom": (160, 239)}[edge]
    patch, affine = read(image, Region(*middle, SIDE * scale, 0.2))
    x, y = places_of(affine)
    beyond = {"left": x < 0, "right": x > 319, "top": y < 0, "bottom": y > 239}[edge]
    assert beyond.sum() > 300
    np.testing.assert_allclose(patch[beyond] * 255, 200, atol=1.01)
    assert patch.min() * 255 > 59


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0, 6.0])
def test_a_region_wholly_outside_or_larger_than_the_frame_is_read_all_the_same(scale):
    image = np.full((60, 80, 3), 90, np.uint8)
    for x, y in ((-900, 30), (900, 30), (40, -900), (40, 900), (-900, 900), (40, 30)):
        patch, _ = read(image, Region(x, y, SIDE * scale * 3, 1.0))
        np.testing.assert_allclose(patch * 255, 90, atol=0.01)


def test_noise_is_averaged_and_not_skipped():
    """Read at a sixth, the noise of single pixels has to vanish: bilinear taps alone would keep most of it."""
    rng = np.random.default_rng(3)
    image = np.clip(rng.normal(128, 30, (400, 400, 3)), 0, 255).astype(np.uint8)
    patch, _ = read(image, Region(200, 200, SIDE * 6, 0.2))
    assert patch.std() * 255 < 30 / 4


def test_one_cropper_for_faces_of_every_size_in_turn():
    """The buffer of a large face must not shine through in a small one."""
    rng = np.random.default_rng(4)
    image, cropper = rng.integers(0, 256, (300, 400, 3), np.uint8), Cropper(SIDE)
    for size in (280.0, 60.0, 150.0, 20.0, 290.0, 100.0):
        region = Region(190.0, 140.0, size, 0.1)
        again = np.empty((SIDE, SIDE, 3), np.float32)
        cropper.read(image, region, again, 0.0, 255.0)
        np.testing.assert_array_equal(again, read(image, region)[0])
