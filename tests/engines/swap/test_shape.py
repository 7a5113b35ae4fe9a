"""Proportions: the photo's on the live face, without touching pose and expression."""

from __future__ import annotations

import numpy as np
import pytest

from engines.analysis.topology import LEFT_EYE_RINGS, LIPS_INNER, OVAL, RIGHT_EYE_RINGS, canonical
from engines.swap.mesh.shape import Proportions, align
from tests.engines.scenes import FILES, mesh


def spin(yaw, pitch=0.0, roll=0.0):
    cy, sy, cp, sp, cr, sr = (f(a) for a in (yaw, pitch, roll) for f in (np.cos, np.sin))
    return (
        np.array([[cr, -sr, 0], [sr, cr, 0], [0, 0, 1]])
        @ np.array([[1, 0, 0], [0, cp, -sp], [0, sp, cp]])
        @ np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    )


def posed(points, yaw=0.3, pitch=-0.2, roll=0.4, scale=17.0, place=(300, 200, 30)):
    return (points @ spin(yaw, pitch, roll).T * scale + place).astype(np.float32)


def test_alignment_undoes_place_size_and_pose():
    expected = canonical() - canonical().mean(0)
    for yaw, pitch, roll, scale in ((0, 0, 0, 1), (0.5, 0.2, -1, 30), (-0.9, -0.3, 3, 0.4)):
        points = posed(canonical(), yaw, pitch, roll, scale)
        aligned, back = align(points)
        np.testing.assert_allclose(aligned, expected, atol=2e-3)
        np.testing.assert_allclose(aligned @ back + points.mean(0), points, atol=2e-3 * max(scale, 1))
        # A rotation and a size, never a mirror image.
        assert np.linalg.det(back) == pytest.approx(scale**3, rel=1e-2)


@pytest.mark.parametrize("name", FILES)
def test_a_persons_own_photo_changes_nothing(name):
    offset = Proportions(mesh(name), 1.0).offset(mesh(name))
    assert np.abs(offset).max() < 1e-3


def test_no_strength_changes_nothing():
    assert np.abs(Proportions(mesh("hopper"), 0.0).offset(mesh("astronaut"))).max() == 0


def test_the_oval_stays_and_the_rest_comes_nearer_to_the_photo():
    live = mesh("astronaut")
    offset = Proportions(mesh("hopper"), 1.0).offset(live)
    assert np.abs(offset[list(OVAL)]).max() == 0
    wanted, was, now = (align(points)[0] for points in (mesh("hopper"), live, live + offset))
    features = [1, 4, 6, 50, 280, 205, 425, 168, 107, 336]
    before = np.linalg.norm((was - wanted)[features, :2], axis=1).mean()
    after = np.linalg.norm((now - wanted)[features, :2], axis=1).mean()
    assert after < 0.5 * before
    # What a network makes of depth is left alone.
    np.testing.assert_allclose(now[:, 2], was[:, 2], atol=0.1)


def test_strength_is_a_share():
    live = mesh("astronaut")
    half, usual, whole = (Proportions(mesh("hopper"), s).offset(live) for s in (0.4, 0.8, 1.0))
    features = [1, 4, 6, 50, 280]
    np.testing.assert_allclose(half[features], usual[features] / 2, atol=0.05)
    # All of it is the most that any place takes.
    lengths = [np.linalg.norm(offset[features, :2], axis=1) for offset in (usual, whole)]
    assert (lengths[0] < lengths[1] * 1.001).all()
    assert (lengths[1] < lengths[0] / 0.8 * 1.01 + 0.05).all()


def test_the_offset_turns_with_the_head():
    """The same shape in another pose gets the same offset, in that pose."""
    live = (mesh("astronaut") - mesh("astronaut").mean(0)) / 10
    straight = Proportions(mesh("hopper"), 1.0).offset(live.astype(np.float32))
    turned = Proportions(mesh("hopper"), 1.0).offset(posed(live))
    np.testing.assert_allclose(turned, straight @ spin(0.3, -0.2, 0.4).T * 17, atol=0.02)


def test_an_expression_goes_through_whole():
    """A brow that goes up moves at least about as far as on the live face, and never the other way."""
    live = mesh("astronaut")
    proportions = Proportions(mesh("hopper"), 1.0)
    for _ in range(200):
        rest = live + proportions.offset(live)
    raised = live.copy()
    brow = [105, 66, 107, 63, 70]
    raised[brow, 1] -= 8
    moved = raised + proportions.offset(raised)
    went = (moved - rest)[brow, 1]
    assert (went < -6.8).all()
    assert (went > -12).all()
    np.testing.assert_allclose((moved - rest)[[1, 50, 280, 13], :2], 0, atol=0.5)


def test_lids_that_close_meet():
    live = mesh("hopper").copy()
    proportions = Proportions(mesh("astronaut"), 1.0)
    for _ in range(50):
        proportions.offset(live)
    shut = live.copy()
    lids = [(ring[i], ring[8 + i]) for ring in (RIGHT_EYE_RINGS[0], LEFT_EYE_RINGS[0]) for i in range(1, 8)]
    for lower, upper in lids:
        shut[upper] = shut[lower]
    now = shut + proportions.offset(shut)
    gaps = [np.linalg.norm((now[lower] - now[upper])[:2]) for lower, upper in lids]
    width = np.ptp(live[list(RIGHT_EYE_RINGS[0]), 0])
    assert max(gaps) < 0.12 * width


EYES = (RIGHT_EYE_RINGS[0], LEFT_EYE_RINGS[0])


def gap(points, ring):
    return float(np.mean([np.linalg.norm((points[ring[i]] - points[ring[8 + i]])[:2]) for i in range(1, 8)]))


def half_shut(points, share):
    half = points.copy()
    for ring in EYES:
        for i in range(1, 8):
            half[ring[8 + i]] += share * (half[ring[i]] - half[ring[8 + i]])
    return half


def test_the_picture_shuts_lids_that_the_mesh_has_half_open():
    live = mesh("hopper").copy()
    proportions = Proportions(mesh("astronaut"), 1.0)
    for _ in range(50):
        open_ = live + proportions.offset(live)
    half = half_shut(live, 0.35)
    by_mesh = half + proportions.offset(half)
    winking = half + proportions.offset(half, (0.0, 1.0))
    right, left = EYES
    assert gap(winking, right) < 0.36 * gap(open_, right) < 0.75 * gap(by_mesh, right)
    assert gap(winking, left) == pytest.approx(gap(by_mesh, left), rel=1e-2)
    # The upper lid comes down, and what is further away stays.
    assert (
        np.abs(winking[list(right[9:]), 1] - by_mesh[list(right[9:]), 1]).mean()
        > np.abs(winking[list(right[1:8]), 1] - by_mesh[list(right[1:8]), 1]).mean()
    )
    rest = [1, 4, 50, 280, 107, 336, 61, 291, *left]
    np.testing.assert_allclose(winking[rest], by_mesh[rest], atol=0.05)


def test_a_blurred_picture_shuts_no_eye_that_the_mesh_has_open():
    live = mesh("hopper").copy()
    proportions = Proportions(mesh("astronaut"), 1.0)
    for _ in range(50):
        open_ = live + proportions.offset(live)
    np.testing.assert_allclose(live + proportions.offset(live, (0.0, 0.0)), open_, atol=0.05)


def test_a_mouth_that_opens_is_as_open_as_the_live_one():
    live = mesh("astronaut")
    proportions = Proportions(mesh("hopper"), 1.0)
    for _ in range(50):
        proportions.offset(live)
    wide = live.copy()
    wide[list(LIPS_INNER[1:10]), 1] += 12
    gap = wide + proportions.offset(wide)
    live_gap = wide[14, 1] - wide[13, 1]
    assert (gap[14, 1] - gap[13, 1]) == pytest.approx(live_gap, rel=0.25)


def test_who_somebody_is_is_learnt_from_many_frames():
    """One odd frame at the start is outweighed soon, and one later changes next to nothing."""
    live, odd = mesh("astronaut"), mesh("astronaut").copy()
    odd[50:120, 1] += 6
    expected = Proportions(mesh("hopper"), 1.0).offset(live)
    late = Proportions(mesh("hopper"), 1.0)
    late.offset(odd)
    for _ in range(40):
        offset = late.offset(live)
    assert np.abs(offset - expected).max() < 0.6
    steady = Proportions(mesh("hopper"), 1.0)
    for _ in range(60):
        steady.offset(live)
    steady.offset(odd)
    assert np.abs(steady.offset(live) - expected).max() < 0.3


@pytest.mark.parametrize("name", FILES)
def test_refined_landmarks_are_taken_too(name):
    offset = Proportions(mesh("hopper", 478), 1.0).offset(mesh(name, 478))
    assert offset.shape == (468, 3)
    assert offset.dtype == np.float32


def test_what_is_learnt_of_one_person_is_not_told_of_another():
    photo, one = (mesh(name) for name in FILES)
    two = (one * (1.2, 1, 1)).astype(np.float32)
    first = Proportions(photo, 0.8)
    for _ in range(20):
        first.offset(one)
    other, fresh = first.of_another(), Proportions(photo, 0.8)
    squinting = two.copy()
    squinting[LEFT_EYE_RINGS[0], 1] = squinting[LEFT_EYE_RINGS[0], 1].mean()
    before = first.offset(one)
    for points in (two, squinting, two):
        np.testing.assert_array_equal(other.offset(points), fresh.offset(points))
    np.testing.assert_allclose(first.offset(one), before, atol=1e-3)
