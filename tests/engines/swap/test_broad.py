"""Wide blurs: the same as at full size, at a fraction of its price."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest

from engines.swap.mesh.broad import broad_blur
from engines.swap.mesh.texture import unwrap
from tests.engines.scenes import source


def soft_noise(shape, fineness):
    """A picture with structure of every size down to some pixels, with a spread of 40."""
    image = np.random.default_rng(3).normal(0, 1, shape).astype(np.float32)
    image = cv2.GaussianBlur(image, (0, 0), fineness).reshape(shape)
    return (image / image.std() * 40 + 128).astype(np.float32)


@pytest.mark.parametrize("shape", [(256, 256, 4), (256, 256), (192, 320, 3), (231, 257, 3)])
@pytest.mark.parametrize("sigma", [0.5, 4.0, 10.0, 17.0, 40.0])
def test_the_same_as_a_blur_at_full_size(shape, sigma):
    image = soft_noise(shape, 3.0)
    blurred, expected = broad_blur(image, sigma), cv2.GaussianBlur(image, (0, 0), sigma)
    assert blurred.shape == expected.shape
    assert blurred.dtype == np.float32
    off = np.abs(blurred - expected)
    # At the outermost pixels the picture is mirrored a little elsewhere.
    assert off.max() < 5
    assert off.mean() < 0.25
    assert abs(float(blurred.mean() - expected.mean())) < 0.05


def test_brightness_stays_and_bytes_are_taken_too():
    assert np.abs(broad_blur(np.full((300, 200, 3), 77, np.uint8), 33.0) - 77).max() < 1e-3


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (3, 2, 3), (7, 300)])
def test_pictures_that_are_hardly_there(shape):
    blurred = broad_blur(np.full(shape, 5, np.float32), 100.0)
    assert blurred.shape == shape
    assert np.abs(blurred - 5).max() < 1e-3


def test_no_photo_is_blurred_widely_at_full_size(monkeypatch):
    """A blur over a fifth of a large texture took fourteen seconds."""
    spent, narrow = [], cv2.GaussianBlur

    def noting(image, size, sigma, **more):
        spent.append(sigma)
        return narrow(image, size, sigma, **more)

    monkeypatch.setattr(cv2, "GaussianBlur", noting)
    face = source("hopper")
    factor = 900 / float(np.ptp(face.points[:, 0]))
    image = cv2.resize(face.image, None, fx=factor, fy=factor)
    texture = unwrap(replace(face, image=image, points=face.points * np.float32(factor)))
    assert texture.levels[0].shape[0] == 1024
    assert spent
    assert max(spent) <= 10
