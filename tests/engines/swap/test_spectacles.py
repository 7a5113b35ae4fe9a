"""Frames of glasses, wire and horn, are found and drawn; what a face has of its own is not."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from engines.analysis.crop import affine_of
from engines.analysis.landmarks import region_of_points
from engines.analysis.topology import POINTS
from engines.kernels import rims, strokes
from engines.swap.mesh.cover import Cover
from engines.swap.mesh.kept import drawn
from engines.swap.mesh.spectacles import Spectacles, Worn
from tests.engines.swap.test_cover import WIDTH, clean, expression

SIDE, FINE = 192, 4
LEAST_KEPT = {"gold": 0.6}
"""Of the lower rims; gold hardly differs from skin in brightness."""
WIRES = {
    "silver": ((240, 245, 245), 0.009),
    "black": ((36, 36, 40), 0.007),
    "gold": ((70, 110, 160), 0.012),
    "horn": ((28, 26, 30), 0.026),
}


def wearing(kind, round_ones=True):
    """A face with glasses, and where their frames are, 0…1."""
    image, points = clean("astronaut")
    colour, thick = WIRES[kind]
    large = np.zeros((image.shape[0] * FINE, image.shape[1] * FINE), np.uint8)
    pen = round(thick * WIDTH * FINE)

    def at(place):
        return tuple(np.rint(np.asarray(place) * FINE).astype(int).tolist())

    right, left = (
        points[[a, b], :2].mean(0) + np.array([0, 0.03 * WIDTH]) for a, b in ((33, 133), (263, 362))
    )
    radius = 0.8 * float(np.linalg.norm(points[33, :2] - points[133, :2]))
    tall = 1.0 if round_ones else 0.75
    for centre in (right, left):
        cv2.ellipse(large, at(centre), at((radius, radius * tall)), 0, 0, 360, 255, pen, cv2.LINE_AA)
    along = (left - right) / np.linalg.norm(left - right) * radius
    cv2.line(large, at(right + along), at(left - along), 255, pen, cv2.LINE_AA)
    amount = cv2.resize(large, image.shape[1::-1], interpolation=cv2.INTER_AREA).astype(np.float32) / 255
    scene = image * (1 - amount[:, :, None]) + np.float32(colour) * amount[:, :, None]
    return np.rint(scene).astype(np.uint8), amount, points


def patch_of(image, points, seed=None, sigma=2.0):
    affine = affine_of(region_of_points(points), SIDE)
    crop = cv2.warpAffine(image, affine, (SIDE, SIDE)).astype(np.float32)
    if seed is not None:
        crop += np.random.default_rng(seed).normal(0, sigma, crop.shape).astype(np.float32)
    places = (points[:POINTS, :2] @ affine[:, :2].T + affine[:, 2]).astype(np.float32)
    return np.ascontiguousarray(crop[:, :, ::-1].clip(0, 255)) / np.float32(255), places, affine


def watched(image, points, frames=14, known=None, sigma=2.0):
    """What is seen in every one of some noisy pictures."""
    spectacles, known = Spectacles(), known or Worn()
    return [
        spectacles.look(*patch_of(image, points, seed, sigma)[:2], known) for seed in range(frames)
    ], known


def mask_of(scene, frames, affine):
    """(H, W) float32, 0…1: what of a picture is kept."""
    kept = drawn(scene, Cover(np.zeros((SIDE, SIDE), np.uint8), affine, np.zeros(POINTS, np.float32), frames))
    whole = np.zeros(scene.shape[:2], np.float32)
    left, top, right, bottom = kept.window
    whole[top:bottom, left:right] = kept.mask / np.float32(255)
    return whole


@pytest.mark.parametrize("round_ones", [True, False])
@pytest.mark.parametrize("kind", list(WIRES))
def test_frames_are_kept_and_hardly_anything_beside_them(kind, round_ones):
    scene, there, points = wearing(kind, round_ones)
    seen, known = watched(scene, points)
    assert seen[0] is None
    assert known.sure
    mask = mask_of(scene, seen[-1], patch_of(scene, points)[2])
    lower = np.zeros(mask.shape, bool)
    lower[int(points[[159, 386], 1].max()) :] = True
    assert np.minimum(mask, there)[lower].sum() > LEAST_KEPT.get(kind, 0.8) * there[lower].sum()
    assert np.minimum(mask, there)[lower].sum() > 0.6 * mask[lower].sum()
    near = cv2.dilate((there > 0.02).astype(np.uint8), np.ones((7, 7), np.uint8)) > 0
    assert mask[lower & ~near].mean() < 0.002
    assert mask.mean() < 0.06


def test_nothing_is_compiled_while_glasses_are_seen():
    """The types are those of the start."""
    for module in (rims, strokes):
        module.warm_up()
    kernels = [
        one for module in (rims, strokes) for one in vars(module).values() if hasattr(one, "signatures")
    ]
    before = [len(one.signatures) for one in kernels]
    scene, _, points = wearing("horn")
    seen, _ = watched(scene, points)
    assert mask_of(scene, seen[-1], patch_of(scene, points)[2]).any()
    assert [len(one.signatures) for one in kernels] == before


@pytest.mark.parametrize("moved", [(-1.5, 1.0), (1.0, 1.5)])
def test_wire_that_moved_a_little_since_is_kept_where_it_is(moved):
    """Between two looks, and where the landmarks tremble."""
    scene, there, points = wearing("silver")
    seen, _ = watched(scene, points)
    affine = patch_of(scene, points)[2]
    shift = np.float32([[1, 0, moved[0]], [0, 1, moved[1]]])
    size = scene.shape[1::-1]
    mask = mask_of(cv2.warpAffine(scene, shift, size, borderMode=cv2.BORDER_REPLICATE), seen[-1], affine)
    now = cv2.warpAffine(there, shift, size)
    assert np.minimum(mask, now).sum() > 0.7 * now.sum()
    assert np.minimum(mask, now).sum() > 0.6 * mask.sum()


@pytest.mark.parametrize(
    "affine", [[[1e-6, 0, 0], [0, 1e-6, 0]], [[1, 0, 1e7], [0, 1, 0]], [[300, 0, 0], [0, 300, 0]]]
)
def test_frames_far_outside_or_huge_are_harmless(affine):
    scene, _, points = wearing("silver")
    seen, _ = watched(scene, points)
    blank = np.zeros((SIDE, SIDE), np.uint8)
    kept = drawn(scene, Cover(blank, np.float32(affine), np.zeros(POINTS, np.float32), seen[-1]))
    assert kept.frames is None
    assert kept.mask.shape == blank.shape or kept.mask.size < scene.size


@pytest.mark.parametrize("kind", ["", "shut eyes", "open", "shadow", "grey"])
@pytest.mark.parametrize("sigma", [0.0, 2.0, 6.0])
def test_a_bare_face_wears_none(kind, sigma):
    image, points = clean("astronaut")
    scene = expression(image, points, kind) if kind else image
    seen, known = watched(scene, points, 20, sigma=sigma)
    assert not known.sure
    assert all(mask is None for mask in seen)


def test_a_dark_and_noisy_picture_is_no_pair_of_glasses():
    image, points = clean("astronaut")
    seen, _ = watched((image * 0.25).astype(np.uint8), points, 30, sigma=3.0)
    assert all(mask is None for mask in seen)


@pytest.mark.parametrize("bags", [0.1, 0.3])
def test_dark_rings_below_the_eyes_are_no_rims(bags):
    """A line below each eye, as long and as sharp as that of a rim, and nothing across the nose."""
    _, amount, points = wearing("black")
    image, _ = clean("astronaut")
    amount = amount.copy()
    amount[: int(points[[145, 374], 1].max())] = 0
    middle = int(points[168, 0])
    amount[:, middle - round(0.1 * WIDTH) : middle + round(0.1 * WIDTH)] = 0
    scene = np.rint(image * (1 - bags * amount[:, :, None])).astype(np.uint8)
    seen, _ = watched(scene, points)
    assert all(mask is None for mask in seen)


def test_glasses_that_are_taken_off_are_gone_soon():
    scene, _, points = wearing("silver")
    _, known = watched(scene, points)
    assert known.sure
    image, _ = clean("astronaut")
    seen, known = watched(image, points, 40, known)
    assert not known.sure
    assert seen[-1] is None


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30])
def test_a_picture_that_is_no_numbers_says_nothing_and_is_forgotten(bad):
    scene, _, points = wearing("horn")
    _, known = watched(scene, points)
    picture, places, _ = patch_of(scene, points)
    spectacles = Spectacles()
    before = known.lines.copy()
    assert spectacles.look(np.full_like(picture, bad), places, known) is None or bad == 1e30
    assert np.isfinite(known.lines).all()
    if bad != 1e30:
        assert (known.lines == before).all()
    assert np.isfinite(watched(scene, points, 3, known)[1].lines).all()


@pytest.mark.parametrize("far", [1e5, -1e7, 1e12])
def test_landmarks_far_outside_are_harmless(far):
    scene, _, points = wearing("horn")
    picture, places, _ = patch_of(scene, points)
    known = Worn()
    for _ in range(10):
        assert Spectacles().look(picture, places + np.float32(far), known) is None
    assert not known.sure
    assert Spectacles().look(picture, np.zeros_like(places), known) is None
