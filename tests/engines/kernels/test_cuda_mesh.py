"""The mesh on the card: the CUDA kernels, run by the processor, against cpu.py and plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from engines.analysis.topology import canonical, canonical_uv, triangles
from engines.kernels import cpu
from tests.engines.kernels import reference
from tests.engines.kernels.cuda_host import needs_compiler
from tests.engines.kernels.cuda_stand_in import Desk
from tests.engines.kernels.test_composite import (
    BORDERS,
    assert_close,
    gains,
    grid,
    noise,
    smooth_texture,
    towards_camera,
)

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def desk():
    return Desk()


def paint(desk, image, *mesh, window=None):
    there = desk.there(image)
    desk.mesh.composite(there, *desk.there(*mesh), window=window)
    return desk.back(there)


def both(desk, image, *mesh):
    """Painted on the card and on the processor."""
    painted = image.copy()
    cpu.composite(painted, *mesh)
    return paint(desk, image, *mesh), painted


@pytest.mark.parametrize("seed", range(10))
def test_random_triangles_like_the_processor(desk, seed):
    rng = np.random.default_rng(seed)
    height, width = rng.integers(1, 70, 2)
    image, texture = noise(rng, height, width, 3), smooth_texture(rng, *rng.integers(2, 40, 2))
    # Up to a third of the vertices lie outside, on every side.
    xy = rng.uniform(-20, 90, (40, 2)).astype(np.float32)
    uv = rng.uniform(-3, 40, (40, 2)).astype(np.float32)
    mesh = texture, xy, uv, gains(rng, 40), rng.integers(0, 40, (25, 3)).astype(np.int32)
    painted, expected = both(desk, image, *mesh)
    # Each layer rounds, and what lies on top passes on only a part of that.
    assert_close(painted, expected, 2)
    assert_close(painted, reference.composite(image, *mesh), 2)


@pytest.mark.parametrize("seed", range(12))
def test_one_triangle_is_right_to_one_level(desk, seed):
    rng = np.random.default_rng(100 + seed)
    image, texture = noise(rng, 48, 40, 3), noise(rng, 9, 12, 4)
    xy = (rng.uniform(-15, 60, (3, 2)) * [0.5, 1] + [[-5, 0], [10, 0], [25, 0]]).astype(np.float32)
    uv = rng.uniform(0, 9, (3, 2)).astype(np.float32)
    corners = towards_camera(xy, np.array([[0, 1, 2]], np.int32))
    mesh = texture, xy, uv, gains(rng, 3, colour=(0.25, 2.0)), corners
    painted, expected = both(desk, image, *mesh)
    assert (painted != image).any()
    assert_close(painted, expected)
    assert_close(painted, reference.composite(image, *mesh))


def head(turn, centre, size):
    """A face's own mesh, turned, as the mesh swapper would paint it: the farthest triangle first."""
    t = np.radians(turn)
    spin = np.float32([[np.cos(t), 0, np.sin(t)], [0, 1, 0], [-np.sin(t), 0, np.cos(t)]])
    points = canonical() @ spin.T
    points = points / np.ptp(canonical()[:, 0]) * size
    corners = triangles()
    order = np.argsort(-points[:, 2][corners].sum(1))
    xy = np.ascontiguousarray(points[:, :2] + np.float32(centre), np.float32)
    return xy, np.ascontiguousarray(corners[order])


@pytest.mark.parametrize(("turn", "centre"), [(0, (60, 60)), (50, (64, 70)), (-75, (20, 50)), (40, (118, 4))])
def test_a_whole_head_like_the_processor(desk, turn, centre):
    """Turned, its triangles overlap: only in their order does the nose lie on the cheek."""
    rng = np.random.default_rng(3)
    image, texture = noise(rng, 121, 131, 3), smooth_texture(rng, 64, 64)
    xy, order = head(turn, centre, 90)
    uv = np.ascontiguousarray(canonical_uv() * np.float32(60))
    gain = gains(rng, 468, colour=(0.5, 1.5), opacity=(0.5, 1))
    painted, expected = both(desk, image, texture, xy, uv, gain, order)
    assert (painted != image).any(2).sum() > 500
    assert_close(painted, expected, 2)
    off = np.abs(painted.astype(int) - expected)
    assert (off > 1).mean() < 1e-3
    backwards, _ = both(desk, image, texture, xy, uv, gain, np.ascontiguousarray(order[::-1]))
    assert (turn == 0) or (backwards != painted).any()


@pytest.mark.parametrize("border", BORDERS)
def test_over_every_border_and_corner(desk, border):
    rng = np.random.default_rng(7)
    for width, height in ((31, 23), (4, 5), (3, 7), (64, 2), (1, 1)):
        image, texture = noise(rng, height, width, 3), smooth_texture(rng)
        centre = np.array([width / 2, height / 2]) * (1 + np.array(BORDERS[border]))
        xy, corners = grid(3, -9.3, 9.1)
        xy = (xy + centre).astype(np.float32)
        mesh = texture, xy, rng.uniform(0, 15, xy.shape).astype(np.float32), gains(rng, len(xy)), corners
        painted, expected = both(desk, image, *mesh)
        assert_close(painted, expected)


@pytest.mark.parametrize("seed", range(4))
def test_shared_edges_are_painted_exactly_once(desk, seed):
    rng = np.random.default_rng(300 + seed)
    image, texture = np.zeros((64, 64, 3), np.uint8), np.full((4, 4, 4), 255, np.uint8)
    xy, corners = grid(12, 3, 60)
    xy += rng.uniform(-1.2, 1.2, xy.shape).astype(np.float32)
    if seed % 2:
        # Edges that go right through the centres of pixels.
        xy = np.rint(xy)
    gain = np.tile(np.float32([200 / 255] * 3 + [0.5 / 255]), (len(xy), 1))
    painted = paint(desk, image, texture, xy, np.ones_like(xy), gain, corners)
    assert set(np.unique(painted)) == {0, 100}
    assert (painted[6:57, 6:57] == 100).all()


def test_texels_are_painted_as_they_are(desk):
    rng = np.random.default_rng(11)
    texture = noise(rng, 24, 32, 4)
    texture[:, :, 3] = 255
    image = noise(rng, 30, 40, 3)
    xy = np.array([[2, 3], [33, 3], [2, 26], [33, 26]], np.float32)
    corners = towards_camera(xy, np.array([[0, 2, 1], [1, 2, 3]], np.int32))
    gain = np.tile(np.float32([1, 1, 1, 1 / 255]), (4, 1))
    painted = paint(desk, image, texture, xy, xy - np.float32([2, 3]), gain, corners)
    assert_close(painted[3:26, 2:33], texture[:23, :31, :3])
    rest = np.ones(image.shape[:2], bool)
    rest[3:26, 2:33] = False
    assert (painted[rest] == image[rest]).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e19, -1e19, 1e12])
def test_coordinates_that_are_no_places_do_not_harm(desk, bad):
    rng = np.random.default_rng(6)
    whole = noise(rng, 3 * 20, 30, 3)
    texture, uv = noise(rng, 8, 8, 4), np.array([[0, 0], [0, 7], [7, 4]], np.float32)
    for axis in ([0], [1], [0, 1]):
        for which in ([0], [1, 2], [0, 1, 2]):
            xy = np.array([[4, 3], [6, 17], [25, 8]], np.float32)
            xy[np.ix_(which, axis)] = bad
            for order in ([0, 1, 2], [0, 2, 1]):
                there = desk.there(whole)
                mesh = texture, xy, uv, gains(rng, 3), np.array([order], np.int32)
                desk.mesh.composite(there[20:40], *desk.there(*mesh))
                painted = desk.back(there)
                assert (painted[:20] == whole[:20]).all()
                assert (painted[40:] == whole[40:]).all()
                if not np.isfinite(bad):
                    assert (painted == whole).all()


@pytest.mark.parametrize("what", ["uv", "gain"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e6, -1e6, 3e38])
def test_texture_places_and_gains_that_are_no_numbers_stay_in_the_triangle(desk, what, bad):
    rng = np.random.default_rng(8)
    image, texture = noise(rng, 20, 30, 3), noise(rng, 8, 8, 4)
    xy = np.array([[4, 3], [6, 17], [25, 8]], np.float32)
    uv, gain = np.array([[0, 0], [0, 7], [7, 4]], np.float32), gains(rng, 3)
    {"uv": uv, "gain": gain}[what][1] = bad
    painted = paint(desk, image, texture, xy, uv, gain, np.array([[0, 1, 2]], np.int32))
    outside = ~reference.covered(xy, image.shape)
    assert (painted[outside] == image[outside]).all()


def test_triangles_that_name_no_vertex_are_left_out(desk):
    rng = np.random.default_rng(9)
    image, texture = noise(rng, 20, 30, 3), noise(rng, 8, 8, 4)
    xy, gain = np.array([[4, 3], [6, 17], [25, 8]], np.float32), gains(rng, 3)
    good = np.array([[0, 1, 2]], np.int32)
    bad = np.array([[0, 1, 3], [-1, 1, 2], [1 << 30, 0, 1], *good], np.int32)
    assert (
        paint(desk, image, texture, xy, xy, gain, bad) == paint(desk, image, texture, xy, xy, gain, good)
    ).all()


def test_only_the_window_is_painted_and_it_does_not_change_what_is(desk):
    rng = np.random.default_rng(10)
    image, texture = noise(rng, 70, 90, 3), smooth_texture(rng)
    xy, corners = grid(5, 10.2, 55.4)
    mesh = texture, xy, rng.uniform(0, 15, xy.shape).astype(np.float32), gains(rng, len(xy)), corners
    whole = paint(desk, image, *mesh)
    assert (paint(desk, image, *mesh, window=(10, 10, 57, 57)) == whole).all()
    assert (paint(desk, image, *mesh, window=(-99, -99, 999, 999)) == whole).all()
    for nothing in ((200, 0, 300, 50), (5, 5, 5, 5), (-40, -40, -2, -2)):
        assert (paint(desk, image, *mesh, window=nothing) == image).all()
    part = paint(desk, image, *mesh, window=(16, 32, 48, 48))
    assert (part[32:48, 16:48] == whole[32:48, 16:48]).all()
    part[32:48, 16:48] = image[32:48, 16:48]
    assert (part == image).all()


def test_a_face_in_a_corner_of_4k(desk):
    """Where whole numbers are large and every pixel counts; the mesh reaches over the border."""
    rng = np.random.default_rng(12)
    image, texture = noise(rng, 2160, 3840, 3), smooth_texture(rng, 64, 64)
    xy, order = head(30, (3800, 2100), 300)
    uv = np.ascontiguousarray(canonical_uv() * np.float32(60))
    gain = gains(rng, 468, colour=(0.5, 1.5), opacity=(0.5, 1))
    painted, expected = both(desk, image, texture, xy, uv, gain, order)
    assert (painted != image).any(2).sum() > 5000
    assert_close(painted, expected, 2)


def test_room_grows_with_the_mesh_and_then_stays():
    desk = Desk(size=(16, 16), triangles=2)
    rng = np.random.default_rng(13)
    image, texture = noise(rng, 50, 60, 3), smooth_texture(rng)
    xy, corners = grid(7, 3, 45)
    mesh = texture, xy, rng.uniform(0, 15, xy.shape).astype(np.float32), gains(rng, len(xy)), corners
    painted, expected = both(desk, image, *mesh)
    assert_close(painted, expected)
    there, on_card = desk.there(image), desk.there(*mesh)
    before = desk.cupy.counts["allocations"]
    desk.mesh.composite(there, *on_card)
    assert desk.cupy.counts["allocations"] == before


def test_arrays_that_do_not_fit_are_refused(desk):
    def empty(*shape, dtype=np.float32):
        return desk.card.empty(shape, dtype)

    image, texture = empty(9, 9, 3, dtype=np.uint8), empty(4, 4, 4, dtype=np.uint8)
    xy, gain, corners = empty(3, 2), empty(3, 4), empty(1, 3, dtype=np.int32)
    for wrong, words in (
        ((image, empty(4, 4, 3, dtype=np.uint8), xy, xy, gain, corners), "texture is"),
        ((image, empty(1, 4, 4, dtype=np.uint8), xy, xy, gain, corners), "at least 2x2"),
        ((image, texture, empty(3, 2, dtype=np.float64), xy, gain, corners), "xy is"),
        ((image, texture, xy, empty(4, 2), gain, corners), "uv is"),
        ((image, texture, xy, xy, xy, corners), "gain is"),
        ((image, texture, xy, xy, gain, empty(1, 3, dtype=np.int64)), "triangles is"),
    ):
        with pytest.raises(ValueError, match=words):
            desk.mesh.composite(*wrong)
