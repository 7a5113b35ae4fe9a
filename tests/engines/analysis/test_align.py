import numpy as np
import pytest

from engines.analysis.align import TEMPLATES, crop_affine, fit_similarity, five_points
from engines.analysis.topology import canonical


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("turn", [0.0, 0.7, -2.9])
def test_a_turned_scaled_and_moved_template_is_found_again(template, turn):
    true = np.array([[np.cos(turn), -np.sin(turn), 40], [np.sin(turn), np.cos(turn), -3]]) * [[3.1, 3.1, 1]]
    points = (TEMPLATES[template] * 256) @ true[:, :2].T + true[:, 2]
    affine = crop_affine(template, 256, points.astype(np.float32))
    assert np.allclose(points @ affine[:, :2].T + affine[:, 2], TEMPLATES[template] * 256, atol=1e-3)
    assert np.isclose(np.linalg.det(affine[:, :2]), 3.1**-2)


def test_it_never_mirrors():
    source = np.array([[0, 0], [1, 0], [0, 2]], np.float32)
    affine = fit_similarity(source, source * [-1, 1])
    assert np.linalg.det(affine[:, :2]) >= 0


def test_noise_is_averaged_and_not_followed():
    rng = np.random.default_rng(5)
    points = TEMPLATES["ffhq_512"] * 512
    affine = fit_similarity(points + rng.normal(0, 1, points.shape), points)
    assert np.allclose(affine[:, :2], np.eye(2), atol=0.02)


def test_points_in_one_place_are_refused():
    with pytest.raises(ValueError, match="one place"):
        crop_affine("arcface_128", 128, np.full((5, 2), 7, np.float32))


def test_left_comes_first_in_every_template():
    for points in TEMPLATES.values():
        assert points[0, 0] < points[1, 0] and points[3, 0] < points[4, 0]
        assert points[0, 1] < points[2, 1] < points[3, 1]


def test_five_points_in_the_order_of_the_templates():
    eyes_right, eyes_left, nose, mouth_right, mouth_left = five_points(canonical())
    assert eyes_right[0] < nose[0] < eyes_left[0]
    assert mouth_right[0] < nose[0] < mouth_left[0]
    assert eyes_right[1] < nose[1] < mouth_right[1]
