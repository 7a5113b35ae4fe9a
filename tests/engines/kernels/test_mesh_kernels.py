"""Interpolation, facing and weighted sums against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from engines.analysis.topology import canonical, canonical_uv, triangles
from engines.kernels import cpu, lids
from engines.kernels.ready import make_ready
from tests.engines.kernels import reference
from tests.engines.kernels.test_composite import grid


@pytest.mark.parametrize(("channels", "seed"), [(1, 0), (2, 1), (3, 2), (3, 3)])
def test_interpolate_is_a_plane_over_each_triangle(seed, channels):
    rng = np.random.default_rng(seed)
    xy = rng.uniform(-10, 50, (3, 2)).astype(np.float32)
    values = rng.normal(0, 100, (3, channels)).astype(np.float32)
    out = np.full((40, 36, channels), -7.0, np.float32)
    cpu.interpolate(out, xy, values, np.array([[0, 1, 2]], np.int32))
    inside = reference.covered(xy, out.shape)
    assert inside.any()
    np.testing.assert_allclose(out[inside], reference.spread(xy, values, out.shape)[inside], atol=2e-3)
    assert (out[~inside] == -7).mean() > 0.99


def test_interpolate_leaves_no_pixel_out_and_does_not_care_which_way_a_triangle_is_turned():
    xy, corners = grid(9, 2.3, 40.7)
    values = (xy @ np.float32([[1.5, -2], [0.5, 3]]) + 4).astype(np.float32)
    corners[::2] = corners[::2, [0, 2, 1]]
    out = np.full((44, 44, 2), np.nan, np.float32)
    cpu.interpolate(out, xy, values, corners)
    y, x = np.mgrid[3:41, 3:41].astype(np.float32)
    expected = np.stack([x, y], 2) @ np.float32([[1.5, -2], [0.5, 3]]) + 4
    np.testing.assert_allclose(out[3:41, 3:41], expected, atol=1e-3)
    assert np.isnan(out[:2]).all()
    assert np.isnan(out[42:]).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e19, -1e19])
def test_interpolate_stays_inside_whatever_the_places(bad):
    for axis in (0, 1):
        check_stays_inside(bad, axis)


@pytest.mark.parametrize("seed", range(4))
def test_touched_tells_the_triangles_that_hold_a_marked_pixel(seed):
    rng = np.random.default_rng(seed)
    xy = rng.uniform(-6, 30, (40, 2)).astype(np.float32)
    corners = rng.integers(0, 40, (200, 3)).astype(np.int32)
    corners[:3] = corners[:3, :1]  # No triangles at all.
    mask = rng.random((24, 20)) < 0.04
    out = np.zeros(200, bool)
    cpu.touched(mask, xy, corners, out)
    assert 20 < out.sum() < 200
    for corner, found in zip(corners, out, strict=True):
        seen = np.zeros((24, 20, 1), np.float32)
        cpu.interpolate(seen, xy, np.ones((40, 1), np.float32), corner[None])
        inside = seen[:, :, 0] > 0
        assert found == (mask[inside].any() or not inside.any())


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38, 1e19, -1e19])
def test_touched_looks_at_nothing_outside_whatever_the_places(bad):
    xy = np.array([[0, 0], [0, bad], [6, 0]], np.float32)
    out = np.zeros(1, bool)
    around = np.ones((3, 8, 8), bool)
    around[1] = False
    cpu.touched(around[1], xy, np.array([[0, 1, 2]], np.int32), out)
    # One that is a mistake holds no pixel, as one that is too small to hold any. Others hold pixels without a mark.
    assert out[0] == (not abs(bad) < 1e30)


def check_stays_inside(bad, axis):
    buffer = np.full((3, 12, 16, 1), -7.0, np.float32)
    xy = np.array([[2, 2], [3, 9], [11, 4]], np.float32)
    xy[1, axis] = bad
    cpu.interpolate(buffer[1], xy, np.ones((3, 1), np.float32), np.array([[0, 1, 2]], np.int32))
    assert (buffer[[0, 2]] == -7).all()
    if not np.isfinite(bad):
        assert (buffer[1] == -7).all()


def normals_of(points, corners):
    a, b, c = (points[corners[:, i]].astype(np.float64) for i in range(3))
    normals = np.zeros((len(points), 3))
    for i in range(3):
        np.add.at(normals, corners[:, i], np.cross(b - a, c - a))
    return normals


@pytest.mark.parametrize("turn", [-80, -30, 0, 45, 180])
def test_facing_like_numpy(turn):
    t = np.radians(turn)
    spin = np.float32([[np.cos(t), 0, np.sin(t)], [0, 1, 0], [-np.sin(t), 0, np.cos(t)]])
    points = np.ascontiguousarray(canonical() @ spin.T)
    out = np.empty(468, np.float32)
    cpu.facing(points, triangles(), np.empty((468, 3), np.float32), out)
    normals = normals_of(points, triangles())
    np.testing.assert_allclose(out, -normals[:, 2] / np.linalg.norm(normals, axis=1), atol=1e-4)


def test_facing_is_positive_on_a_face_that_looks_at_the_camera():
    out = np.empty(468, np.float32)
    cpu.facing(canonical().copy(), triangles(), np.empty((468, 3), np.float32), out)
    # The tip of the nose, the cheeks and the forehead look ahead.
    assert (out[[4, 50, 280, 151]] > 0.6).all()
    assert np.median(out) > 0.5


def test_facing_of_a_mesh_without_an_area_is_zero():
    points, out = np.full((3, 3), 5, np.float32), np.full(3, 9, np.float32)
    cpu.facing(points, np.array([[0, 1, 2]], np.int32), np.empty((3, 3), np.float32), out)
    assert (out == 0).all()


@pytest.mark.parametrize("shape", [(1, 1), (7, 5), (3, 468)])
def test_weigh_like_numpy(shape):
    rng = np.random.default_rng(1)
    k, v = shape
    weights, values = rng.normal(0, 1, (v, v)).astype(np.float32), rng.normal(0, 1, (k, v)).astype(np.float32)
    out = np.full((k, v), np.nan, np.float32)
    cpu.weigh(weights, values, out)
    np.testing.assert_allclose(out, values.astype(np.float64) @ weights.T.astype(np.float64), atol=1e-3)


def test_making_ready_says_how_far_it_is_and_leaves_nothing_to_compile():
    said = []
    make_ready(said.append, cpu, lids)
    assert said == ["kernel 1/2: cpu", "kernel 2/2: lids"]
    before = {
        name: len(getattr(cpu, name).signatures)
        for name in ("composite", "interpolate", "touched", "facing", "weigh")
    }
    xy = (canonical_uv() * np.float32(30)).copy()
    image, texture = np.zeros((32, 32, 3), np.uint8), np.zeros((8, 8, 4), np.uint8)
    cpu.composite(image, texture, xy, xy, np.zeros((468, 4), np.float32), triangles().copy())
    cpu.weigh(
        np.zeros((468, 468), np.float32), np.zeros((7, 468), np.float32), np.zeros((7, 468), np.float32)
    )
    assert {name: len(getattr(cpu, name).signatures) for name in before} == before
