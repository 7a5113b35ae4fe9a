"""Masks and colours of crops: the CUDA kernels, run by the processor, against its own, OpenCV's and plain NumPy."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from engines.kernels import mask as cpu_mask
from engines.swap.masks.masks import sides_of
from tests.engines.kernels.cuda_host import needs_compiler
from tests.engines.kernels.cuda_stand_in import Desk
from tests.engines.kernels.test_cuda_faces import apart

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def desk():
    return Desk()


@pytest.mark.parametrize("size", [(1, 1), (7, 5), (33, 64)])
def test_outlines_are_feathered_like_the_processors(desk, size):
    rng = np.random.default_rng(16)
    width, height = size
    turn = np.linspace(0, 2 * np.pi, 6, endpoint=False)
    round_ = np.stack([np.cos(turn), np.sin(turn)], 1)
    sides = [sides_of(rng.uniform(0, 30, 2) + round_ * rng.uniform(8, 30, 2)) for _ in range(3)]
    lines = np.stack([each[:, :3] for each in sides])
    feathers = np.float32([0, 3.5, 20])
    masks = desk.card.empty((3, height, width), np.float32)
    desk.faces.feather_convex(masks, *desk.there(lines, feathers))
    made = desk.back(masks)
    for i in range(3):
        expected = np.empty((height, width), np.float32)
        cpu_mask.feather_convex(expected, sides[i], feathers[i])
        np.testing.assert_allclose(made[i], expected, atol=2e-3 if i == 0 else 1e-5)


@pytest.mark.parametrize("reach", [0, 1, 2, 9])
@pytest.mark.parametrize("size", [(1, 1), (2, 3), (31, 20)])
def test_masks_are_eroded_as_by_opencv(desk, size, reach):
    masks = np.random.default_rng(17).uniform(0, 1, (2, size[1], size[0])).astype(np.float32)
    there, room = desk.there(masks, masks)
    desk.faces.erode(there, reach, room)
    kernel = np.ones((2 * reach + 1,) * 2, np.uint8)
    for made, mask in zip(desk.back(there), masks, strict=True):
        assert (made == cv2.erode(mask, kernel)).all()


@pytest.mark.parametrize("sigma", [0.8, 2.0, 6.25])
@pytest.mark.parametrize("size", [(1, 1), (3, 2), (40, 31)])
def test_masks_are_blurred_like_opencvs_with_a_replicated_border(desk, size, sigma):
    masks = np.random.default_rng(18).uniform(0, 1, (2, size[1], size[0])).astype(np.float32)
    weights = cv2.getGaussianKernel(2 * int(3 * sigma) + 1, sigma, cv2.CV_32F).ravel()
    there, room = desk.there(masks, masks)
    desk.faces.blur(there, desk.there(weights), room)
    for made, mask in zip(desk.back(there), masks, strict=True):
        padded = np.pad(mask, [(len(weights) // 2,) * 2] * 2, mode="edge")
        across = np.stack([np.convolve(row, weights.astype(float), "valid") for row in padded])
        expected = np.stack([np.convolve(column, weights.astype(float), "valid") for column in across.T]).T
        np.testing.assert_allclose(made, expected, atol=1e-5)
        if sigma < 6:
            blurred = cv2.GaussianBlur(mask, (len(weights),) * 2, sigma, borderType=cv2.BORDER_REPLICATE)
            np.testing.assert_allclose(made, blurred, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("boost", [1, 2])
def test_a_networks_mask_only_takes_away(desk, dtype, boost):
    rng = np.random.default_rng(19)
    masks = rng.uniform(0, 1, (2, 14, 18)).astype(np.float32)
    others = rng.uniform(0, 1, (2, 14, 18)).astype(dtype)
    others[1, 3, 4] = np.nan
    there = desk.there(masks)
    desk.faces.narrow(there, desk.there(apart(others, boost)), boost)
    np.testing.assert_array_equal(desk.back(there), np.minimum(masks, others.astype(np.float32)))


@pytest.mark.parametrize(
    ("step", "boost", "dtype"), [(1, 1, np.float32), (3, 1, np.float16), (2, 2, np.float32)]
)
def test_moments_like_the_processors_and_the_same_every_time(desk, step, boost, dtype):
    rng = np.random.default_rng(20)
    live = rng.uniform(0, 255, (2, 62, 50, 3)).astype(np.float32)
    faces = rng.uniform(0, 1, (2, 62, 50, 3)).astype(dtype)
    masks = rng.uniform(0, 1, (2, 62, 50)).astype(np.float32)
    there = desk.there(live, apart(faces, boost), masks)
    sums = desk.card.empty((2, 13), np.float64)
    desk.faces.moments(*there, step, sums, boost)
    made = desk.back(sums)
    for i in range(2):
        expected = np.empty(13)
        cpu_mask.moments(live[i], faces[i].astype(np.float32), masks[i], step, expected)
        np.testing.assert_allclose(made[i], expected, rtol=1e-5)
    desk.faces.moments(*there, step, sums, boost)
    assert desk.back(sums).tobytes() == made.tobytes()
