"""The light of the room on the photo's skin: measured on plain skin, smooth, and within bounds."""

from __future__ import annotations

import numpy as np
import pytest

from engines.analysis.landmarks import region_of_points
from engines.analysis.topology import LIPS_OUTER, OVAL, POINTS, RIGHT_BROW, canonical
from engines.faces import Patch
from engines.swap.mesh.light import Light, sample
from tests.engines.scenes import landmarks, mesh, portrait

SKIN = np.float32([0.35, 0.45, 0.65])


@pytest.fixture(scope="module")
def light():
    return Light()


def plain(*factors):
    return np.ascontiguousarray(np.broadcast_to(SKIN * np.float32(factors or (1, 1, 1)), (POINTS, 3)))


KNOWN = np.ones(POINTS, np.float32)


def test_the_same_light_is_a_gain_of_one(light):
    np.testing.assert_allclose(light.gain(plain(), plain(), KNOWN), 1, atol=1e-3)


@pytest.mark.parametrize("factors", [(0.5, 0.5, 0.5), (1.3, 1.0, 0.8), (0.7, 0.9, 1.1)])
def test_the_gain_is_the_ratio_of_the_light(light, factors):
    gain = light.gain(plain(*factors), plain(), KNOWN)
    # A little is added to both sides, so that black is not divided by black.
    np.testing.assert_allclose(gain, np.broadcast_to(np.float32(factors), gain.shape), rtol=0.06)


def test_gains_stay_between_a_quarter_and_four(light):
    for live, photo in ((0.0, 1.0), (1.0, 0.0), (0.0, 0.0), (1.0, 1.0), (1e-6, 1.0)):
        gain = light.gain(
            np.full((POINTS, 3), live, np.float32), np.full((POINTS, 3), photo, np.float32), KNOWN
        )
        assert np.isfinite(gain).all()
        assert gain.min() >= 0.25
        assert gain.max() <= 4


def test_a_photo_that_shows_no_skin_gives_finite_gains(light):
    gain = light.gain(plain(0.5, 0.5, 0.5), plain(), np.zeros(POINTS, np.float32))
    assert np.isfinite(gain).all()
    assert gain.min() >= 0.25
    assert gain.max() <= 4


def test_light_from_one_side_stays_on_that_side(light):
    x = canonical()[:, 0] / np.abs(canonical()[:, 0]).max()
    live = (plain() * (1 - 0.4 * x[:, None])).astype(np.float32)
    gain = light.gain(live, plain(), KNOWN)
    right, left = gain[x < -0.5].mean(), gain[x > 0.5].mean()
    assert right > 1.06
    assert left < 0.94
    assert np.corrcoef(gain[:, 1], -x)[0, 1] > 0.95


def test_brows_lips_and_a_few_odd_vertices_do_not_count(light):
    """Dark brows, red lips, a mole, a strand of hair: the gain comes from the plain skin around them."""
    live = plain().copy()
    live[list(RIGHT_BROW)] = 0.05
    live[list(LIPS_OUTER)] = (0.2, 0.1, 0.9)
    live[list(OVAL)] = 1.0
    np.testing.assert_allclose(light.gain(live, plain(), KNOWN), 1, atol=0.02)
    live[[50, 123, 187, 205]] = (0.02, 0.02, 0.02)
    live[[425, 411]] = (0.9, 0.1, 0.1)
    np.testing.assert_allclose(light.gain(live, plain(), KNOWN), 1, atol=0.12)


def test_colours_are_read_where_the_vertices_are(light):
    """Left half of the frame blue, right half red."""
    image = np.array(portrait("hopper"))
    middle = int(mesh("hopper")[4, 0])
    image[:, :middle], image[:, middle:] = (200, 20, 20), (20, 20, 200)
    region = region_of_points(mesh("hopper"))
    for turn in (0.0, 0.5):
        found = landmarks().read(image, type(region)(region.x, region.y, region.size, region.angle + turn))
        colours = light.of_patch(found.patch, mesh("hopper"))
        far = np.abs(mesh("hopper")[:, 0] - middle) > 12
        blue = mesh("hopper")[:, 0] < middle
        assert np.abs(colours[far & blue] * 255 - [200, 20, 20]).max() < 5
        assert (colours[far & ~blue][:, 2] > 0.7).all()


def test_places_outside_of_the_patch_take_its_border(light):
    patch = Patch(np.full((192, 192, 3), 0.5, np.float32), np.float32([[1, 0, 0], [0, 1, 0]]))
    points = np.random.default_rng(0).uniform(-500, 900, (POINTS, 3)).astype(np.float32)
    np.testing.assert_allclose(light.of_patch(patch, points), 0.5, atol=1e-6)


def test_sample_takes_the_nearest():
    image = np.arange(12, dtype=np.float32).reshape(3, 4, 1)
    places = np.float32([[0.5, 0.5], [3.9, 0.1], [1.2, 2.7], [-4, 9], [99, -1]])
    assert sample(image, places)[:, 0].tolist() == [0, 3, 9, 8, 3]


def test_a_fairer_photo_stays_a_little_fairer_but_at_the_rim():
    light = Light()
    even = np.ones((POINTS, 3), np.float32)
    for level in (0.2, 0.8, 1.0, 1.02, 3.0):
        fairer = light.fairer(level * even)
        # A photo that has to be darkened is a fairer one.
        assert fairer == pytest.approx(np.clip(-0.5 * np.log(level), -0.05, 0.05), abs=1e-4)
        gain = light.of_own(level * even, fairer)
        np.testing.assert_allclose(gain[list(OVAL)], level, rtol=1e-5)
        assert gain[1] == pytest.approx(level * np.exp(fairer), rel=1e-3)
