"""A face that looks as it did is not looked at anew; whatever comes or goes is looked at in that very frame."""

from __future__ import annotations

from copy import deepcopy
from functools import cache

import cv2
import numpy as np
import pytest

from engines.analysis.crop import affine_of
from engines.analysis.landmarks import region_of_points
from engines.faces import Face, Patch
from engines.kernels import cover as kernels
from engines.swap.mesh.cover import Acquaintance, Covers
from tests.engines.swap.test_cover import AT, SIZE, THINGS, clean, mouth_of, noisy, spread_out

SIDE = 192
LEARN = 24


@pytest.fixture(scope="module")
def covers():
    return Covers(spectacles=False)


def seen(image, points):
    """The face of a frame, its landmarks known: what is tested here is not the network."""
    affine = affine_of(region_of_points(points), SIDE)
    crop = cv2.warpAffine(image, affine, (SIDE, SIDE), borderMode=cv2.BORDER_REPLICATE)
    return Face(1, points, 1.0, Patch(crop[:, :, ::-1].astype(np.float32) / np.float32(255), affine))


def look(covers, face, known):
    """What is before it, and whether that took a look."""
    cover = covers.look(face.patch, face.points, known)
    return cover, known.rested == 0


@cache
def met(who, thing=None, frames=LEARN):
    """Somebody who is known, with something before the face from then on."""
    image, points = clean(who)
    covers, known = Covers(spectacles=False), Acquaintance()
    for seed in range(frames):
        look(covers, seen(noisy(image, seed), points), known)
    for seed in range(20 if thing else 0):
        look(covers, seen(noisy(before(thing), 300 + seed), points), known)
    return known


def acquainted(who="astronaut", thing=None):
    return deepcopy(met(who, thing))


def before(thing):
    image, points = clean("astronaut")
    return THINGS[thing](image, points, mouth_of(points) + np.array([6, 14]))[0]


def trembling(points, seed, sigma=0.4):
    return (points + np.random.default_rng(seed).normal(0, sigma, 3)).astype(np.float32)


@pytest.mark.parametrize("who", ["astronaut", "hopper"])
def test_a_face_that_stays_as_it_was_needs_few_looks(covers, who):
    image, points = clean(who)
    known = acquainted(who)
    looked = [look(covers, seen(noisy(image, 100 + i), trembling(points, i)), known)[1] for i in range(30)]
    assert 10 <= sum(looked) <= 15
    assert not any(looked[i] and looked[i + 1] and looked[i + 2] for i in range(28))


def test_a_new_face_is_looked_at_in_every_frame(covers):
    image, points = clean("astronaut")
    known = Acquaintance()
    assert all(look(covers, seen(noisy(image, seed), points), known)[1] for seed in range(12))


@pytest.mark.parametrize("phase", [0, 1, 2])
@pytest.mark.parametrize("thing", list(THINGS))
def test_what_comes_and_goes_is_looked_at_in_that_frame(covers, thing, phase):
    image, points = clean("astronaut")
    scene = before(thing)
    known = acquainted()
    for i in range(phase):
        look(covers, seen(noisy(image, 200 + i), points), known)
    assert look(covers, seen(noisy(scene, 300), points), known)[1]
    for i in range(12 + phase):
        look(covers, seen(noisy(scene, 301 + i), points), known)
    assert look(covers, seen(noisy(image, 400), points), known)[1]


@pytest.mark.parametrize("at", [0.25, 0.5, 0.75])
@pytest.mark.parametrize("across", [0.3, 0.5, 0.7])
def test_a_thing_as_small_as_a_twentieth_of_the_face_counts(covers, at, across):
    image, points = clean("astronaut")
    low, high = points[:, :2].min(0), points[:, :2].max(0)
    x, y = (low + (high - low) * (across, at)).tolist()
    scene = image.copy()
    cv2.circle(scene, (round(x), round(y)), round(0.14 * (high - low)[0]), (160, 200, 30), -1, cv2.LINE_AA)
    known = acquainted()
    assert look(covers, seen(noisy(scene, 300), points), known)[1]


def test_a_camera_that_sets_its_exposure_is_no_news(covers):
    image, points = clean("astronaut")
    known = acquainted()
    looked = [
        look(covers, seen(noisy(image * (1 + 0.03 * np.sin(i)), i), points), known)[1] for i in range(20)
    ]
    assert sum(looked) <= 12


@pytest.mark.parametrize("turned", [0.0, 0.06])
@pytest.mark.parametrize("moved", [(0, 0), (9, -5)])
def test_what_is_before_a_face_moves_with_it_between_two_looks(covers, moved, turned):
    _, points = clean("astronaut")
    scene, known = before("cup"), acquainted(thing="cup")
    while known.rested:
        look(covers, seen(noisy(scene, 330), points), known)
    was = known.cover
    turn = cv2.getRotationMatrix2D(AT, np.degrees(turned), 1.0)
    turn[:, 2] += moved
    there = points.copy()
    there[:, :2] = points[:, :2] @ turn[:, :2].T + turn[:, 2]
    frame = cv2.warpAffine(scene, turn, SIZE, borderMode=cv2.BORDER_REPLICATE)
    now, looked = look(covers, seen(frame, there), known)
    assert not looked
    expected = cv2.warpAffine(spread_out(was, scene), turn, SIZE)
    assert expected.sum() > 2000
    assert np.abs(spread_out(now, frame) - expected).mean() < 0.02 * expected.mean() + 1e-4


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_picture_that_is_no_numbers_is_a_change(covers, bad):
    image, points = clean("astronaut")
    known = acquainted()
    known.rested, known.settled = 0, True
    face = seen(image, points)
    face.patch.image[:] = bad
    assert look(covers, face, known)[1]


def test_texels_that_only_changed_places_with_their_neighbours_are_no_change():
    rng = np.random.default_rng(0)
    before = rng.normal(0, 1, (16, 16, 3)).astype(np.float32)
    texels = np.array([i * 16 + j for i in range(1, 15) for j in range(1, 15)], np.int32)
    variance = np.full((16, 16, 3), 1e-4, np.float32)
    for shift in ((0, 1), (1, 0), (-1, 1)):
        assert kernels.changes(np.roll(before, shift, (0, 1)), before, variance, texels, 1.0) == 0
    assert kernels.changes(before + np.float32(9), before, variance, texels, 1.0) == len(texels)
    other = before.copy()
    other[4, 5] += 9
    assert kernels.changes(other, before, variance, texels, 1.0) == 1
