"""The composite against a plain reference, and what it must never touch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from engines.kernels import cpu
from tests.engines.kernels import reference

ROOT = Path(__file__).parents[3]


def noise(rng, *shape):
    return rng.integers(0, 256, shape, np.uint8)


def smooth_texture(rng, height=16, width=16):
    """Neighbouring texels differ by at most a few levels."""
    y, x = np.mgrid[0:height, 0:width]
    channels = [
        128 + 60 * np.sin(x * rng.uniform(0.05, 0.1) + i) + 60 * np.cos(y * 0.08 + i) for i in range(4)
    ]
    return np.ascontiguousarray(np.clip(np.stack(channels, 2), 0, 255).astype(np.uint8))


def towards_camera(xy, triangles):
    """The same triangles, all wound the way that is painted."""
    a, b, c = (xy[triangles[:, i]] for i in range(3))
    area = (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (c[:, 0] - a[:, 0]) * (b[:, 1] - a[:, 1])
    turned = triangles.copy()
    turned[area > 0] = turned[area > 0][:, [0, 2, 1]]
    return turned


def gains(rng, count, colour=(0.0, 4.0), opacity=(0.0, 1.0)):
    gain = np.empty((count, 4), np.float32)
    gain[:, :3] = rng.uniform(*colour, (count, 3))
    gain[:, 3] = rng.uniform(*opacity, count) / 255
    return gain


def grid(cells, low, high):
    """A square of little squares of two triangles each."""
    ticks = np.linspace(low, high, cells + 1)
    x, y = np.meshgrid(ticks, ticks)
    xy = np.stack([x.ravel(), y.ravel()], 1).astype(np.float32)
    first = (np.arange(cells)[:, None] * (cells + 1) + np.arange(cells)).ravel()
    corners = np.stack([first, first + 1, first + cells + 1, first + cells + 2], 1)
    triangles = np.concatenate([corners[:, [0, 2, 1]], corners[:, [1, 2, 3]]])
    return xy, towards_camera(xy, triangles.astype(np.int32))


def paint(image, texture, xy, uv, gain, triangles):
    painted = image.copy()
    cpu.composite(painted, texture, xy, uv, gain, triangles)
    return painted


def assert_close(painted, expected, levels=1):
    off = np.abs(painted.astype(int) - expected)
    assert off.max() <= levels, f"{off.max()} levels at {np.argwhere(off == off.max())[0]}"


@pytest.mark.parametrize("seed", range(8))
def test_random_triangles_like_the_reference(seed):
    rng = np.random.default_rng(seed)
    height, width = rng.integers(1, 70, 2)
    image, texture = noise(rng, height, width, 3), smooth_texture(rng, *rng.integers(2, 40, 2))
    # Up to a third of the vertices lie outside, on every side.
    xy = rng.uniform(-20, 90, (40, 2)).astype(np.float32)
    uv = rng.uniform(-3, 40, (40, 2)).astype(np.float32)
    triangles = rng.integers(0, 40, (25, 3)).astype(np.int32)
    gain = gains(rng, 40)
    painted = paint(image, texture, xy, uv, gain, triangles)
    # Each layer rounds, and what lies on top passes on only a part of that.
    assert_close(painted, reference.composite(image, texture, xy, uv, gain, triangles), 2)


@pytest.mark.parametrize("seed", range(12))
def test_one_triangle_is_right_to_one_level(seed):
    rng = np.random.default_rng(100 + seed)
    image, texture = noise(rng, 48, 40, 3), noise(rng, 9, 12, 4)
    xy = (rng.uniform(-15, 60, (3, 2)) * [0.5, 1] + [[-5, 0], [10, 0], [25, 0]]).astype(np.float32)
    uv = rng.uniform(0, 9, (3, 2)).astype(np.float32)
    triangles = towards_camera(xy, np.array([[0, 1, 2]], np.int32))
    gain = gains(rng, 3, colour=(0.25, 2.0))
    painted = paint(image, texture, xy, uv, gain, triangles)
    assert (painted != image).any()
    assert_close(painted, reference.composite(image, texture, xy, uv, gain, triangles))


BORDERS = {
    "left": (-1, 0), "right": (1, 0), "top": (0, -1), "bottom": (0, 1),
    "top left": (-1, -1), "top right": (1, -1), "bottom left": (-1, 1), "bottom right": (1, 1), "middle": (0, 0),
}  # fmt: skip


@pytest.mark.parametrize("border", BORDERS)
def test_over_every_border_and_corner(border):
    rng = np.random.default_rng(7)
    for width, height in ((31, 23), (4, 5), (3, 7), (64, 2)):
        image, texture = noise(rng, height, width, 3), smooth_texture(rng)
        centre = np.array([width / 2, height / 2]) * (1 + np.array(BORDERS[border]))
        xy, triangles = grid(3, -9.3, 9.1)
        xy = (xy + centre).astype(np.float32)
        uv, gain = rng.uniform(0, 15, xy.shape).astype(np.float32), gains(rng, len(xy))
        painted = paint(image, texture, xy, uv, gain, triangles)
        assert (painted != image).any()
        assert_close(painted, reference.composite(image, texture, xy, uv, gain, triangles))


def test_wholly_outside_paints_nothing():
    rng = np.random.default_rng(3)
    image, texture = noise(rng, 20, 30, 3), noise(rng, 8, 8, 4)
    for side in BORDERS.keys() - {"middle"}:
        xy, triangles = grid(2, -8, 8)
        middle = np.array([15, 10]) + np.array(BORDERS[side]) * [23.6, 18.6]
        xy = (xy + middle).astype(np.float32)
        assert (paint(image, texture, xy, xy, gains(rng, len(xy)), triangles) == image).all(), side


def test_a_triangle_that_is_turned_away_is_left_out():
    rng = np.random.default_rng(4)
    image, texture = noise(rng, 20, 20, 3), noise(rng, 8, 8, 4)
    xy, triangles = grid(2, 2, 17)
    gain = gains(rng, len(xy), opacity=(1, 1))
    assert (paint(image, texture, xy, xy, gain, triangles[:, ::-1].copy()) == image).all()
    assert (paint(image, texture, xy, xy, gain, triangles) != image).any()


@pytest.mark.parametrize(
    "corners",
    [
        [[5, 5], [5, 5], [5, 5]],
        [[5, 5], [5, 5], [15, 9]],
        [[2, 2], [9, 9], [16, 16]],
        [[2, 5], [9, 5], [16, 5]],
        [[5, 2], [5, 9], [5, 16]],
        [[2, 2], [16, 16.00001], [9, 9]],
        [[-1e6, 7.5], [1e6, 7.5], [0, 7.5000001]],
    ],
)
def test_degenerate_triangles_paint_no_more_than_a_hair(corners):
    rng = np.random.default_rng(5)
    image, texture = noise(rng, 20, 20, 3), noise(rng, 8, 8, 4)
    xy = np.array(corners, np.float32)
    for order in ([0, 1, 2], [0, 2, 1]):
        gain = gains(rng, 3)
        painted = paint(image, texture, xy, xy, gain, np.array([order], np.int32))
        assert (painted != image).any(2).sum() <= 20
    assert (painted.shape, painted.dtype) == (image.shape, image.dtype)


@pytest.mark.parametrize("seed", range(6))
def test_slivers_like_the_reference(seed):
    rng = np.random.default_rng(200 + seed)
    image, texture = noise(rng, 40, 60, 3), smooth_texture(rng)
    start, along = rng.uniform(-5, 60, (30, 2)), rng.normal(0, 30, (30, 2))
    across = rng.normal(0, 0.4, (30, 2))
    xy = np.stack([start, start + along, start + along / 2 + across], 1).reshape(-1, 2).astype(np.float32)
    triangles = towards_camera(xy, np.arange(90, dtype=np.int32).reshape(-1, 3))
    uv = rng.uniform(0, 15, (90, 2)).astype(np.float32)
    gain = gains(rng, 90, colour=(0.5, 1.5))
    for triangle in triangles[:, None]:
        painted = paint(image, texture, xy, uv, gain, triangle)
        expected = reference.composite(image, texture, xy, uv, gain, triangle)
        assert ((painted != image).any(2) <= reference.covered(xy[triangle[0]], image.shape)).all()
        assert_close(painted, expected, 3)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e19, -1e19, 1e12])
def test_coordinates_that_are_no_places_do_not_harm(bad):
    rng = np.random.default_rng(6)
    buffer = noise(rng, 3, 20, 30, 3)
    image, texture = buffer[1], noise(rng, 8, 8, 4)
    before = buffer.copy()
    uv = np.array([[0, 0], [0, 7], [7, 4]], np.float32)
    for axis in ([0], [1], [0, 1]):
        for which in ([0], [1], [2], [0, 1], [1, 2], [0, 1, 2]):
            xy = np.array([[4, 3], [6, 17], [25, 8]], np.float32)
            xy[np.ix_(which, axis)] = bad
            for order in ([0, 1, 2], [0, 2, 1]):
                cpu.composite(image, texture, xy, uv, gains(rng, 3), np.array([order], np.int32))
            assert (buffer[[0, 2]] == before[[0, 2]]).all()
            if not np.isfinite(bad):
                assert (image == before[1]).all(), (axis, which)


@pytest.mark.parametrize("what", ["uv", "gain"])
def test_texture_places_and_gains_that_are_no_numbers_stay_in_the_triangle(what):
    rng = np.random.default_rng(8)
    buffer = noise(rng, 3, 20, 30, 3)
    image, texture = buffer[1], noise(rng, 8, 8, 4)
    before = buffer.copy()
    xy = np.array([[4, 3], [6, 17], [25, 8]], np.float32)
    outside = ~reference.covered(xy, image.shape)
    for bad in (np.nan, np.inf, -np.inf, 1e6, -1e6):
        uv, gain = np.array([[0, 0], [0, 7], [7, 4]], np.float32), gains(rng, 3)
        {"uv": uv, "gain": gain}[what][1] = bad
        cpu.composite(image, texture, xy, uv, gain, np.array([[0, 1, 2]], np.int32))
        assert (image[outside] == before[1][outside]).all()
        assert (buffer[[0, 2]] == before[[0, 2]]).all()


def test_tiny_pictures():
    rng = np.random.default_rng(9)
    for width, height in ((1, 1), (1, 4), (4, 1), (2, 2), (3, 3), (5, 1)):
        image, texture = noise(rng, height, width, 3), noise(rng, 2, 2, 4)
        xy, triangles = grid(1, -3, 9)
        uv, gain = rng.uniform(0, 1, xy.shape).astype(np.float32), gains(rng, 4, opacity=(0.5, 1))
        painted = paint(image, texture, xy, uv, gain, triangles)
        assert_close(painted, reference.composite(image, texture, xy, uv, gain, triangles))


def test_textures_of_any_size_from_two_texels():
    rng = np.random.default_rng(10)
    for shape in ((2, 2), (2, 9), (9, 2), (3, 3), (64, 17)):
        image, texture = noise(rng, 40, 40, 3), noise(rng, *shape, 4)
        xy, triangles = grid(2, 1, 38)
        # Beyond the texture on every side, too: its border goes on.
        uv = (xy / 38 * (np.array(shape[::-1]) + 3) - 2).astype(np.float32)
        gain = gains(rng, len(xy), colour=(0.5, 1.0))
        painted = paint(image, texture, xy, uv, gain, triangles)
        assert_close(painted, reference.composite(image, texture, xy, uv, gain, triangles))


def test_texels_are_painted_as_they_are():
    """At whole places, with gain 1, a texture is copied to the last bit: no half pixel anywhere."""
    rng = np.random.default_rng(11)
    texture = noise(rng, 24, 32, 4)
    texture[:, :, 3] = 255
    image = noise(rng, 30, 40, 3)
    xy = np.array([[2, 3], [33, 3], [2, 26], [33, 26]], np.float32)
    uv = xy - np.array([2, 3], np.float32)
    gain = np.tile(np.float32([1, 1, 1, 1 / 255]), (4, 1))
    painted = paint(
        image, texture, xy, uv, gain, towards_camera(xy, np.array([[0, 2, 1], [1, 2, 3]], np.int32))
    )
    assert_close(painted[3:26, 2:33], texture[:23, :31, :3])
    rest = np.ones(image.shape[:2], bool)
    rest[3:26, 2:33] = False
    assert (painted[rest] == image[rest]).all()


@pytest.mark.parametrize("opacity", [0.0, 1.0])
def test_opacity_none_leaves_and_whole_replaces(opacity):
    rng = np.random.default_rng(12)
    image, texture = noise(rng, 40, 40, 3), np.full((4, 4, 4), 255, np.uint8)
    texture[:, :, :3] = 100
    xy, triangles = grid(3, 2, 37)
    gain = np.tile(np.float32([0.5, 1, 2, opacity / 255]), (len(xy), 1))
    painted = paint(image, texture, xy, np.ones_like(xy), gain, triangles)
    if opacity:
        assert (painted[2:37, 2:37] == (50, 100, 200)).all()
    else:
        assert (painted == image).all()


def test_gain_saturates_at_white_and_zero_is_black():
    image, texture = np.full((20, 20, 3), 77, np.uint8), np.full((4, 4, 4), 255, np.uint8)
    xy, triangles = grid(1, 0, 20)
    for factor, level in ((4, 255), (1, 255), (0.5, 128), (0, 0)):
        gain = np.tile(np.float32([factor] * 3 + [1 / 255]), (4, 1))
        painted = paint(image, texture, xy, np.ones_like(xy), gain, triangles)
        assert_close(painted, np.full_like(image, level))


@pytest.mark.parametrize("cells", [1, 3, 7, 16])
def test_shared_edges_are_painted_exactly_once(cells):
    """Half opacity over black: a gap stays black and an overlap gets three quarters."""
    for shift in (0.0, 0.5, 0.25, 1 / 3):
        check_painted_once(cells, shift)


def check_painted_once(cells, shift):
    image = np.zeros((50, 50, 3), np.uint8)
    texture = np.full((4, 4, 4), 255, np.uint8)
    xy, triangles = grid(cells, 4 + shift, 44 + shift)
    gain = np.tile(np.float32([200 / 255] * 3 + [0.5 / 255]), (len(xy), 1))
    painted = paint(image, texture, xy, np.ones_like(xy), gain, triangles)
    assert set(np.unique(painted)) == {0, 100}
    low, high = int(np.ceil(4 + shift)), int(np.ceil(44 + shift))
    assert (painted[low:high, low:high] == 100).all()


@pytest.mark.parametrize("seed", range(10))
def test_shared_edges_of_a_crooked_mesh(seed):
    rng = np.random.default_rng(300 + seed)
    image, texture = np.zeros((64, 64, 3), np.uint8), np.full((4, 4, 4), 255, np.uint8)
    xy, triangles = grid(12, 3, 60)
    xy += rng.uniform(-1.2, 1.2, xy.shape).astype(np.float32)
    if seed % 2:
        # Edges that go right through the centres of pixels.
        xy = np.rint(xy)
    gain = np.tile(np.float32([200 / 255] * 3 + [0.5 / 255]), (len(xy), 1))
    painted = paint(image, texture, xy, np.ones_like(xy), gain, triangles)
    assert set(np.unique(painted)) == {0, 100}
    assert (painted[6:57, 6:57] == 100).all()


def test_pixels_outside_of_the_triangles_keep_every_bit():
    rng = np.random.default_rng(13)
    for _ in range(30):
        image, texture = noise(rng, 33, 29, 3), noise(rng, 8, 8, 4)
        xy = rng.uniform(-10, 40, (9, 2)).astype(np.float32)
        triangles = towards_camera(xy, np.arange(9, dtype=np.int32).reshape(3, 3))
        painted = paint(image, texture, xy, xy / 5, gains(rng, 9), triangles)
        held = np.any([reference.covered(xy[t], image.shape) for t in triangles], axis=0)
        assert (painted[~held] == image[~held]).all()


def test_a_picture_inside_a_larger_one():
    """Rows with something else between them, as a crop of a frame has."""
    rng = np.random.default_rng(14)
    buffer = noise(rng, 60, 80, 3)
    before = buffer.copy()
    view = buffer[11:51, 20:57]
    texture = smooth_texture(rng)
    xy, triangles = grid(3, -6, 45)
    uv, gain = rng.uniform(0, 15, xy.shape).astype(np.float32), gains(rng, len(xy))
    cpu.composite(view, texture, xy, uv, gain, triangles)
    assert_close(view, reference.composite(before[11:51, 20:57], texture, xy, uv, gain, triangles))
    buffer[11:51, 20:57] = before[11:51, 20:57]
    assert (buffer == before).all()


GUARDED = """
import ctypes, mmap, sys
import numpy as np
from engines.kernels import cpu

PAGE = mmap.PAGESIZE
libc = ctypes.CDLL(None, use_errno=True)

def guarded(shape):
    '''An array that ends where memory ends: what reaches further dies.'''
    size = int(np.prod(shape))
    pages = -(-size // PAGE)
    whole = mmap.mmap(-1, (pages + 1) * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(whole))
    assert libc.mprotect(ctypes.c_void_p(start + pages * PAGE), ctypes.c_size_t(PAGE), 0) == 0
    KEEP.append(whole)
    return np.frombuffer(whole, np.uint8, size, pages * PAGE - size).reshape(shape)

KEEP = []
rng = np.random.default_rng(0)
for height, width in ((1, 1), (1, 3), (2, 1), (3, 1), (2, 2), (7, 3), (5, 4), (9, 5), (33, 31), (2, 200)):
    image, texture = guarded((height, width, 3)), guarded((3, 2, 4))
    image[:], texture[:] = 128, 255
    for _ in range(20):
        xy = rng.uniform(-4, max(height, width) + 4, (60, 2)).astype(np.float32)
        triangles = rng.integers(0, 60, (60, 3)).astype(np.int32)
        uv = rng.uniform(-2, 6, (60, 2)).astype(np.float32)
        cpu.composite(image, texture, xy, uv, np.ones((60, 4), np.float32) / 255, triangles)
print("whole")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="guard pages are made with mprotect")
def test_nothing_is_read_or_written_behind_the_end_of_picture_and_texture():
    done = subprocess.run(
        [sys.executable, "-c", GUARDED], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.stdout.strip() == "whole", f"exit {done.returncode}: {done.stderr[-2000:]}"
