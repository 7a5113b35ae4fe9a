"""The figures, on data whose answers are known."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest

from engines.analysis.topology import LEFT_IRIS, OVAL, RIGHT_IRIS, canonical
from tests.engines import scenes
from tools.compare import measures


def turned(points, angle, scale, shift):
    """The mesh in another pose: turned about all axes, scaled and moved."""
    rx, ry, rz = angle * np.array([0.7, -0.5, 1.0])
    turn, _ = cv2.Rodrigues(np.float64([rx, ry, rz]))
    return np.float32(points[:, :3] @ turn.T * scale + shift)


def speaking(frames=12):
    """A mesh whose lower half moves up and down."""
    rest = canonical().copy()
    lower = rest[:, 1] > 3
    meshes = []
    for n in range(frames):
        mesh = rest.copy()
        mesh[lower, 1] += np.float32(0.4 * math.sin(n))
        meshes.append(mesh)
    return meshes


def test_the_same_expression_is_no_error():
    meshes = speaking()
    assert measures.expression_error(meshes, meshes) == 0


def test_pose_size_and_place_are_no_expression():
    meshes = speaking()
    elsewhere = [turned(mesh, 0.1 * n, 20 + n, (300, 200, 5)) for n, mesh in enumerate(meshes)]
    assert measures.expression_error(meshes, elsewhere) < 1e-5


def test_another_shape_of_face_is_no_expression():
    meshes = speaking()
    nose = np.argsort(np.abs(canonical()[:, :2]).sum(1))[:30]
    longer = []
    for mesh in meshes:
        changed = mesh.copy()
        changed[nose, 1] += 0.2
        longer.append(changed)
    assert measures.expression_error(meshes, longer) < 1e-3


def test_a_face_that_stays_behind_is_an_error_that_grows():
    meshes = speaking()
    half = [canonical() + (mesh - canonical()) / 2 for mesh in meshes]
    still = [canonical()] * len(meshes)
    assert 0 < measures.expression_error(meshes, half) < measures.expression_error(meshes, still)


@pytest.mark.parametrize("k", [-5, -1, 0, 1, 3, 7])
def test_a_series_that_is_k_frames_late_has_lag_k(k):
    noise = np.random.default_rng(3).standard_normal(300)
    smooth = np.convolve(noise, np.hanning(9), "same")
    reference, series = smooth[20:220], smooth[20 - k : 220 - k]
    found = measures.shift(series, reference)
    assert found.lag == pytest.approx(k, abs=0.1)
    assert found.correlation == pytest.approx(1, abs=0.01)
    assert (found.together == pytest.approx(1)) == (k == 0)


def test_lag_is_told_to_a_fraction_of_a_frame():
    t = np.arange(120) / 30
    late = measures.shift(np.sin(2 * np.pi * 1.5 * (t - 0.4 / 30)), np.sin(2 * np.pi * 1.5 * t))
    assert late.lag == pytest.approx(0.4, abs=0.03)


def test_lag_minds_neither_scale_nor_frames_that_were_not_seen():
    wave = np.sin(np.arange(100) / 4)
    series = 7 + 30 * np.roll(wave, 2)
    series[[10, 11, 40]] = np.nan
    assert measures.shift(series, wave).lag == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("series", [np.ones(50), np.full(50, np.nan), np.zeros(3)])
def test_what_does_not_move_has_no_lag(series):
    found = measures.shift(series, np.sin(np.arange(len(series))))
    assert found == measures.Shift(None, None, None)


def test_what_moves_otherwise_has_no_lag():
    series, reference = np.random.default_rng(11).standard_normal((2, 400))
    found = measures.shift(series, reference)
    assert found.lag is None and found.correlation < 0.3


def eyes(iris=0.5, above=0.0, opened=0.3, width=40.0, angle=0.0):
    """478 points with both irises this far along and off the line between the corners, and lids this far apart."""
    points = np.zeros((478, 3), np.float32)
    for (outer, inner), pairs, centre, x, step in (
        ((33, 133), ((160, 144), (159, 145), (158, 153)), RIGHT_IRIS[0], 100, 1),
        ((263, 362), ((387, 373), (386, 374), (385, 380)), LEFT_IRIS[0], 300, -1),
    ):
        points[outer, 0], points[inner, 0] = x, x + step * width
        points[centre, :2] = x + step * width * iris, width * above
        for upper, lower in pairs:
            points[[upper, lower], 0] = x + step * width / 2
            points[upper, 1], points[lower, 1] = -width * opened / 2, width * opened / 2
    cos, sin = math.cos(angle), math.sin(angle)
    points[:, :2] = points[:, :2] @ np.float32([[cos, sin], [-sin, cos]])
    return points


@pytest.mark.parametrize("angle", [0.0, 0.6, math.pi])
@pytest.mark.parametrize("width", [8.0, 60.0])
def test_gaze_is_told_in_widths_of_the_eye_whatever_its_size_and_turn(angle, width):
    ahead = measures.gaze(eyes(0.5, 0, width=width, angle=angle))
    aside = measures.gaze(eyes(0.6, 0, width=width, angle=angle))
    down = measures.gaze(eyes(0.5, 0.07, width=width, angle=angle))
    assert np.linalg.norm(aside - ahead, axis=1) == pytest.approx([0.1, 0.1], abs=1e-3)
    assert np.linalg.norm(down - ahead, axis=1) == pytest.approx([0.07, 0.07], abs=1e-3)


@pytest.mark.parametrize("opened", [0.0, 0.12, 0.4])
def test_lids_are_told_in_widths_of_the_eye(opened):
    assert measures.opening(eyes(opened=opened, width=25, angle=0.4)) == pytest.approx(opened, abs=1e-3)


def blinking(frames, *shut):
    values = np.full(frames, 0.3) + 0.01 * np.sin(np.arange(frames))
    for n in shut:
        values[n : n + 3] = 0.08
    return values


def test_a_blink_counts_when_the_output_blinks_in_a_same_frame():
    live = blinking(90, 10, 40, 70)
    assert measures.blinks(live, 0.7 * live) == (3, 3)
    assert measures.blinks(live, blinking(90, 12, 40)) == (3, 2)
    assert measures.blinks(live, blinking(90, 13, 44, 60)) == (3, 0)
    assert measures.blinks(live, np.full(90, 0.3)) == (3, 0)


def test_eyes_that_were_never_seen_do_not_blink():
    nothing = np.full(20, np.nan)
    assert measures.blinks(nothing, nothing) == (0, 0)
    assert measures.blinks(blinking(20, 4), nothing) == (0, 0)


def test_tremble_is_that_of_a_face_430_pixels_wide():
    rng = np.random.default_rng(1)
    rest = rng.uniform(0, 200, (468, 2))
    meshes = rest + 0.3 * rng.standard_normal((400, 468, 2))
    assert measures.tremble(meshes, 215) == pytest.approx(2 * 0.3 * math.sqrt(2), rel=0.02)
    assert measures.tremble([rest] * 5, 215) == pytest.approx(0, abs=1e-9)
    assert measures.tremble(meshes + 50, 215) == pytest.approx(measures.tremble(meshes, 215))


def flat_face(level=128):
    points = scenes.mesh("astronaut")
    image = scenes.portrait("astronaut").copy()
    return np.full_like(image, level), points


def test_a_painted_seam_shows():
    plain, points = flat_face()
    image = cv2.GaussianBlur(np.random.default_rng(0).integers(0, 255, plain.shape, np.uint8), (0, 0), 3)
    brighter = image.copy()
    oval = np.rint(points[list(OVAL), :2]).astype(np.int32)
    mask = cv2.fillPoly(np.zeros(image.shape[:2], np.uint8), [oval], 255)
    brighter[mask > 0] = np.clip(brighter[mask > 0].astype(int) + 40, 0, 255)
    softer = image + (np.clip(cv2.GaussianBlur(mask, (0, 0), 8)[..., None] / 255.0, 0, 1) * 40).astype(
        np.uint8
    )
    before = measures.edge(image, points)
    assert measures.edge(image.copy(), points) == before
    assert measures.edge(brighter, points) > 1.3 * before
    assert before < measures.edge(softer, points) < 0.9 * measures.edge(brighter, points)


def test_the_gradient_across_the_oval_is_in_levels_a_pixel():
    plain, points = flat_face()
    assert measures.edge(plain, points) == 0
    plain[:] = (np.arange(plain.shape[1]) // 3)[None, :, None]
    slope = measures.edge(plain, points)
    # A slope of a third to the right, seen across a circle, would be 2/π of that; a long face has more of it.
    assert slope == pytest.approx(2 / math.pi / 3, rel=0.3)


def test_what_is_painted_inside_or_far_away_makes_no_seam():
    plain, points = flat_face()
    middle = points[:, :2].mean(0).astype(int)
    cv2.circle(plain, middle.tolist(), int(0.2 * np.ptp(points[:, 0])), (0, 0, 255), -1)
    plain[:10] = 0
    assert measures.edge(plain, points) == 0


def test_an_oval_outside_of_the_picture_has_no_edge():
    plain, points = flat_face()
    assert measures.edge(plain, points + np.float32([5000, 0, 0])) == 0


@pytest.mark.parametrize("where", [(0.5, 0.02), (0.5, 0.98), (0.01, 0.5), (0.99, 0.5)])
def test_one_changed_pixel_anywhere_outside_is_found(where):
    live = np.full((200, 240, 3), 90, np.uint8)
    points = canonical() * 5 + np.float32([120, 100, 0])
    output = live.copy()
    output[100, 120] = 200
    assert measures.untouched(live, output, points) == 0
    output[int(where[1] * 200), int(where[0] * 240), 1] -= 7
    assert measures.untouched(live, output, points) == 7


def test_a_face_that_fills_the_picture_leaves_nothing_outside():
    live = np.zeros((60, 60, 3), np.uint8)
    assert measures.untouched(live, live + 9, canonical() * 50 + np.float32([30, 30, 0])) == 0
