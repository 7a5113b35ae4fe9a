"""Crops, masks, colours and paste-back: the CUDA kernels, run by the processor, against its own and plain NumPy."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from engines.kernels import paste as cpu_paste
from engines.kernels.gpu.faces import regions_of
from engines.kernels.warp import Warp, inverse
from tests.engines.kernels import reference
from tests.engines.kernels.cuda_host import needs_compiler
from tests.engines.kernels.cuda_stand_in import Desk

pytestmark = needs_compiler

ONE, NOUGHT = (1.0, 1.0, 1.0), (0.0, 0.0, 0.0)


@pytest.fixture(scope="module")
def desk():
    return Desk()


def noise(seed, *shape):
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def smooth(seed, *shape):
    return cv2.GaussianBlur(noise(seed, *shape), (0, 0), 3)


def affine_of(x, y, size, turn, side):
    """Frame pixels to crop pixels, for a square around (x, y)."""
    t, scale = np.radians(turn), side / size
    a, b, half = np.cos(t) * scale, np.sin(t) * scale, (side - 1) / 2
    return np.array([[a, b, half - a * x - b * y], [-b, a, half + b * x - a * y]])


def crops(desk, image, affines, side, boost=1, scale=ONE, offset=NOUGHT):
    """(N, side·boost, side·boost, 3) float32, put together again."""
    backs = np.stack([inverse(affine) for affine in affines])
    out = desk.card.empty((len(affines) * boost**2, side, side, 3), np.float32)
    desk.faces.crop(desk.there(image), desk.there(backs), out, scale, offset, boost)
    return together(desk.back(out), boost)


def together(tiles, boost):
    count, rows, columns = tiles.shape[0] // boost**2, tiles.shape[1] * boost, tiles.shape[2] * boost
    whole = np.empty((count, rows, columns, *tiles.shape[3:]), tiles.dtype)
    for number, tile in enumerate(tiles):
        face, i, j = number // boost**2, number // boost % boost, number % boost
        whole[face, i::boost, j::boost] = tile
    return whole


def apart(whole, boost):
    """What :func:`together` puts together."""
    tiles = [face[i::boost, j::boost] for face in whole for i in range(boost) for j in range(boost)]
    return np.ascontiguousarray(np.stack(tiles))


# Smaller and larger than the crop, turned, over every border, outside, tiny, and one pixel of a frame.
PLACES = [
    (60.3, 50.2, 30, 0), (60, 50, 20, 33), (50, 44, 80, -20), (70, 60, 150, 70), (0, 0, 60, 15), (119, 100, 90, 200),
    (-40, 50, 50, 5), (400, 300, 70, 45), (60, 50, 1, 0), (60, 50, 1e-3, 9), (33, 20, 300, -61), (10, 90, 63.9, 0),
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("size", [(121, 101), (3, 2), (1, 1)])
def test_a_crop_like_the_processors(desk, place, size):
    image = noise(1, size[1], size[0], 3)
    affine, side = affine_of(*place, 24), 24
    expected = np.empty((side, side, 3), np.float32)
    Warp().crop(image, affine, expected, np.float32(ONE), np.float32(NOUGHT))
    np.testing.assert_allclose(crops(desk, image, [affine], side)[0], expected, atol=0.02)


@pytest.mark.parametrize("turn", [0, 27, 180])
def test_an_enlarged_crop_is_bilinear_to_the_last_digit(desk, turn):
    image = noise(2, 41, 53, 3)
    affine = affine_of(30.7, 21.2, 17, turn, 40)
    back = inverse(affine)
    y, x = np.mgrid[0:40, 0:40]
    places = [back[i, 0] * x + back[i, 1] * y + back[i, 2] for i in range(2)]
    expected = reference.bilinear(image, *places)
    np.testing.assert_allclose(crops(desk, image, [affine], 40)[0], expected, atol=1e-3)


def test_a_reduced_crop_averages_every_pixel(desk):
    """Stripes one pixel wide become grey, and never the one stripe or the other."""
    image = np.zeros((240, 320, 3), np.uint8)
    image[:, ::2] = 255
    # Two crops whose pixels are four of the frame's, of which one is shifted by one.
    affines = [affine_of(100.5 + shift, 100.5, 128, 0, 32) for shift in (0, 1)]
    for crop in crops(desk, image, affines, 32):
        np.testing.assert_allclose(crop, 127.5, atol=0.5)


def test_faces_of_4k_near_its_corner(desk):
    image = noise(3, 2160, 3840, 3)
    for place in ((3830, 2150, 250, 12), (3000, 2100, 900, -30)):
        affine = affine_of(*place, 64)
        expected = np.empty((64, 64, 3), np.float32)
        Warp().crop(image, affine, expected, np.float32(ONE), np.float32(NOUGHT))
        np.testing.assert_allclose(crops(desk, image, [affine], 64)[0], expected, atol=0.02)


@pytest.mark.parametrize("boost", [1, 2, 3, 4])
def test_several_faces_and_a_pixel_boost_in_one_launch(desk, boost):
    image = noise(4, 101, 121, 3)
    affines = [affine_of(*place, 12 * boost) for place in PLACES[:4]]
    made = crops(desk, image, affines, 12, boost)
    for affine, crop in zip(affines, made, strict=True):
        expected = np.empty(crop.shape, np.float32)
        Warp().crop(image, affine, expected, np.float32(ONE), np.float32(NOUGHT))
        np.testing.assert_allclose(crop, expected, atol=0.02)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("layout", ["nchw rgb", "nchw bgr", "nhwc rgb", "nhwc bgr"])
def test_every_layout_and_type_of_a_networks_input(desk, layout, dtype):
    image = noise(5, 60, 70, 3)
    affines = [affine_of(30, 30, 25, 10, 16), affine_of(50, 20, 60, -20, 16)]
    scale, offset = (1 / 255, 2 / 255, 0.5 / 255), (-0.5, 0.25, 1.0)
    planar = layout.startswith("nchw")
    tensor = desk.card.empty((2, 3, 16, 16) if planar else (2, 16, 16, 3), dtype)
    pictures = tensor.transpose(0, 2, 3, 1) if planar else tensor
    if layout.endswith("rgb"):
        pictures = pictures[:, :, :, ::-1]
    backs = desk.there(np.stack([inverse(affine) for affine in affines]))
    desk.faces.crop(desk.there(image), backs, pictures, scale, offset)
    made = desk.back(tensor).astype(np.float32)
    made = made.transpose(0, 2, 3, 1) if planar else made
    made = made[..., ::-1] if layout.endswith("rgb") else made
    expected = crops(desk, image, affines, 16, 1, scale, offset)
    np.testing.assert_allclose(made, expected, atol=1e-6 if dtype == np.float32 else 1e-3)


def test_halves_are_rounded_as_numpy_rounds_them(desk):
    """Over the whole range: ties, subnormal ones, overflow, and both ways."""
    levels = np.arange(256, dtype=np.uint8)
    image = np.repeat(levels[None, :, None], 3, 2)
    backs = desk.there(np.array([[[1.0, 0, 0], [0, 1, 0]]]))
    for scale in (1.0, 1 / 255, 8.00390625, 3e-8, 7.3e-6, 257.1, 300.0, -0.37):
        out = desk.card.empty((1, 1, 256, 3), np.float16)
        desk.faces.crop(desk.there(image), backs, out, (scale,) * 3, (0, 1e-7, -2049))
        wanted = np.float32([0, 1e-7, -2049]) + np.float32(scale) * image.astype(np.float32)
        with np.errstate(over="ignore"):
            assert (desk.back(out).view(np.uint16) == wanted.astype(np.float16).view(np.uint16)).all()


MATRICES = [np.nan, np.inf, -np.inf, 1e300, -1e300, 1e30, 1e9, -1e5, 0.0]


@pytest.mark.parametrize("bad", MATRICES)
@pytest.mark.parametrize("place", range(6))
def test_matrices_that_are_no_maps_read_and_write_nothing_else(desk, bad, place):
    image = noise(6, 20, 30, 3)
    matrix = np.array([[[0.5, 0.1, 3], [-0.1, 0.5, 4]]])
    matrix.reshape(-1)[place] = bad
    for values in (matrix, np.full((1, 2, 3), bad)):
        out = desk.there(np.full((3, 8, 8, 3), -7, np.float32))
        desk.faces.crop(desk.there(image), desk.there(values), out[1:2], ONE, NOUGHT)
        made = desk.back(out)
        assert (made[[0, 2]] == -7).all()
        assert ((made[1] >= 0) & (made[1] <= 255)).all()
        textures = desk.there(np.full((1, 8, 8, 4), 255, np.uint8))
        # Whatever the region says, too.
        for region in ([0, 0, 30, 20], [-(1 << 31), -(1 << 31), (1 << 31) - 1, (1 << 31) - 1], [9, 9, 3, 3]):
            there = desk.there(np.concatenate([image] * 3))
            regions = desk.there(np.array([region], np.int32))
            desk.faces.paste(there[20:40], textures, desk.there(values), regions)
            painted = desk.back(there)
            assert (painted[:20] == image).all()
            assert (painted[40:] == image).all()


def made_faces(seed, count, side, boost=1):
    """Faces as a network gives them, 0…1, with masks."""
    rng = np.random.default_rng(seed)
    faces = (
        np.stack([smooth(seed + i, side * boost, side * boost, 3) for i in range(count)]).astype(np.float32)
        / 255
    )
    masks = rng.uniform(-0.1, 1.1, (count, side * boost, side * boost)).astype(np.float32)
    masks = np.stack([cv2.GaussianBlur(mask, (0, 0), 2) for mask in masks])
    match = np.empty((count, 2, 3), np.float32)
    match[:, 0], match[:, 1] = rng.uniform(200, 300, (count, 3)), rng.uniform(-30, 30, (count, 3))
    return faces, masks, match


def cpu_bake(face, mask, block, scale, offset):
    """The processor's texture of one face, and its limits."""
    rows, columns = mask.shape[0] // block, mask.shape[1] // block
    small_face, small_mask = np.empty((rows, columns, 3), np.float32), np.empty((rows, columns), np.float32)
    cpu_paste.average(face, mask, block, small_face, small_mask)
    texture, limits = np.empty((rows, columns, 4), np.uint8), np.empty(cpu_paste.LIMITS)
    assert cpu_paste.bake(small_face, small_mask, scale, offset, texture, limits)
    return texture, limits


def bake(desk, faces, masks, block, match, boost=1):
    count, height, width = masks.shape
    textures = desk.card.empty((count, height // block, width // block, 4), np.uint8)
    faults = desk.there(np.zeros(count, np.int32))
    desk.faces.bake(
        desk.there(apart(faces, boost)), desk.there(masks), block, desk.there(match), faults, textures, boost
    )
    return desk.back(textures), desk.back(faults)


@pytest.mark.parametrize(("block", "boost"), [(1, 1), (2, 1), (3, 1), (1, 2), (2, 3)])
def test_a_texture_is_baked_like_the_processors(desk, block, boost):
    faces, masks, match = made_faces(7, 2, 19, boost)
    textures, faults = bake(desk, faces, masks, block, match, boost)
    assert (faults == 0).all()
    for made, face, mask, (scale, offset) in zip(textures, faces, masks, match, strict=True):
        expected = cpu_bake(face, mask, block, scale, offset)[0]
        # The processor leaves out the colours of what cannot be seen.
        off = np.abs(made.astype(int) - expected)[expected[..., 3] > 0]
        assert (made[..., 3] == expected[..., 3]).mean() > 0.99
        assert off.max() <= 1
        assert (off > 0).mean() < 0.01


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["face", "mask"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_face_that_is_not_finite_is_found_out_and_only_that(desk, bad, where, dtype):
    faces, masks, match = made_faces(8, 3, 8)
    (faces[1, 7, 7] if where == "face" else masks[1, 7])[...] = bad
    _, faults = bake(desk, faces.astype(dtype), masks, 1, match)
    assert faults.tolist() == [0, 1, 0]


def plain_paste(image, texture, affine):
    """What is pasted, in float64 and rounded once."""
    height, width = image.shape[:2]
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    u, v = (affine[i, 0] * x + affine[i, 1] * y + affine[i, 2] for i in range(2))
    inside = (u >= 0) & (v >= 0) & (u <= texture.shape[1] - 1) & (v <= texture.shape[0] - 1)
    lit = reference.bilinear(texture, u, v)
    mixed = image + lit[..., 3:] / 255 * (lit[..., :3] - image)
    return np.where(inside[..., None], np.floor(mixed + 0.5), image).astype(np.uint8)


def paste(desk, image, textures, affines):
    there = desk.there(image)
    regions = regions_of(affines, textures.shape[2:0:-1], image.shape[1::-1])
    desk.faces.paste(there, *desk.there(textures, np.asarray(affines), regions))
    return desk.back(there)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("size", [(121, 101), (3, 2), (1, 1)])
def test_a_face_is_pasted_as_plainly_as_possible(desk, place, size):
    image = noise(9, size[1], size[0], 3)
    texture = noise(10, 24, 24, 4)
    affine = affine_of(*place, 24)
    painted = paste(desk, image, texture[None], affine[None])
    expected = plain_paste(image, texture, affine)
    assert np.abs(painted.astype(int) - expected).max() <= 1
    covered = (painted != image).any()
    assert covered or place[0] < 0 or place[0] > size[0] or place[2] <= 1 or size != (121, 101)


@pytest.mark.parametrize("place", PLACES[:7])
def test_a_face_is_pasted_like_the_processors(desk, place):
    faces, masks, match = made_faces(11, 1, 24)
    masks *= cv2.resize(np.pad(np.ones((18, 18), np.float32), 3), (24, 24))
    image = smooth(12, 101, 121, 3)
    affine = affine_of(*place, 24)
    texture, limits = cpu_bake(faces[0], masks[0], 1, *match[0])
    painted = paste(desk, image, texture[None], affine[None])
    cpu_paste.paste(image, texture, affine, limits)
    assert np.abs(painted.astype(int) - image).max() <= 1


def test_where_faces_overlap_the_later_one_lies_on_top(desk):
    image = np.zeros((60, 60, 3), np.uint8)
    textures = np.full((2, 8, 8, 4), 255, np.uint8)
    textures[0, :, :, :3], textures[1, :, :, :3] = 100, 200
    affines = np.stack([affine_of(25, 30, 40, 0, 8), affine_of(35, 30, 40, 0, 8)])
    painted = paste(desk, image, textures, affines)
    assert painted[30, 30].tolist() == [200] * 3
    assert painted[30, 10].tolist() == [100] * 3
    swapped = paste(desk, image, textures[::-1].copy(), affines[::-1].copy())
    assert swapped[30, 30].tolist() == [100] * 3


def test_nothing_outside_of_its_region_is_painted(desk):
    image = noise(15, 50, 60, 3)
    textures = np.full((1, 8, 8, 4), 255, np.uint8)
    there = desk.there(image)
    region = np.array([[20, 10, 33, 27]], np.int32)
    desk.faces.paste(
        there, desk.there(textures), desk.there(affine_of(30, 25, 80, 0, 8)[None]), desk.there(region)
    )
    painted = desk.back(there)
    assert (painted[10:27, 20:33] == 255).all()
    painted[10:27, 20:33] = image[10:27, 20:33]
    assert (painted == image).all()


@pytest.mark.parametrize("seed", range(20))
def test_regions_hold_every_pixel_that_is_pasted(seed):
    rng = np.random.default_rng(seed)
    affine = affine_of(*rng.uniform(-50, 200, 2), rng.uniform(0.5, 200), rng.uniform(-180, 180), 24)
    y, x = np.mgrid[0:100, 0:150]
    u, v = (affine[i, 0] * x + affine[i, 1] * y + affine[i, 2] for i in range(2))
    inside = (u >= 0) & (v >= 0) & (u <= 23) & (v <= 23)
    left, top, right, bottom = regions_of(affine[None], (24, 24), (150, 100))[0]
    held = np.zeros_like(inside)
    held[top:bottom, left:right] = True
    assert not (inside & ~held).any()
    if inside.any():
        rows, columns = np.flatnonzero(inside.any(1)), np.flatnonzero(inside.any(0))
        assert (
            right - left
            <= np.ptp(columns) + 1 + 2 * 60 * abs(affine[0, 1]) / np.hypot(*affine[0, :2]) ** 2 + 4
        )
        assert top <= rows[0]
        assert bottom > rows[-1]


def test_regions_of_what_is_no_map_are_empty():
    for bad in MATRICES:
        region = regions_of(np.full((1, 2, 3), bad), (8, 8), (60, 50))
        assert (region == 0).all()


def test_arrays_that_do_not_fit_are_refused(desk):
    def empty(*shape, dtype=np.float32):
        return desk.card.empty(shape, dtype)

    faces = desk.faces
    image, backs, masks = empty(9, 9, 3, dtype=np.uint8), empty(1, 2, 3, dtype=np.float64), empty(1, 8, 8)
    match, faults = empty(1, 2, 3), empty(1, dtype=np.int32)
    textures, regions = empty(1, 8, 8, 4, dtype=np.uint8), empty(1, 4, dtype=np.int32)
    for call, words in (
        (lambda: faces.crop(image, backs, empty(2, 8, 8, 3), ONE, NOUGHT), "backs is"),
        (lambda: faces.crop(image, empty(1, 2, 3), empty(1, 8, 8, 3), ONE, NOUGHT), "backs is"),
        (lambda: faces.crop(image, backs, empty(1, 3, 8, 8), ONE, NOUGHT), "out is"),
        (lambda: faces.crop(image, backs, empty(1, 8, 8, 3, dtype=np.float64), ONE, NOUGHT), "out is"),
        (lambda: faces.crop(image, backs, empty(3, 8, 8, 3), ONE, NOUGHT, 2), "no whole number of faces"),
        (lambda: faces.bake(empty(1, 8, 8, 3), empty(1, 8, 9), 1, match, faults, textures), "masks is"),
        (lambda: faces.bake(empty(1, 8, 8, 3), masks, 9, match, faults, textures), "do not become one texel"),
        (lambda: faces.bake(empty(1, 8, 8, 3), masks, 2, match, faults, textures), "textures is"),
        (lambda: faces.bake(empty(1, 8, 8, 3), masks, 1, empty(1, 3), faults, textures), "match is"),
        (lambda: faces.paste(image, empty(1, 1, 8, 4, dtype=np.uint8), backs, regions), "at least 2x2"),
        (lambda: faces.paste(image, textures, backs, empty(1, 4)), "regions is"),
        (lambda: faces.narrow(masks, empty(1, 8, 9)), "not narrowed"),
        (lambda: faces.erode(masks, -1, masks), "not eroded"),
        (lambda: faces.blur(masks, empty(4), masks), "odd number"),
        (
            lambda: faces.moments(empty(9, 8, 8, 3), empty(9, 8, 8, 3), empty(9, 8, 8), 1, empty(9, 13)),
            "sums is",
        ),
        (
            lambda: faces.moments(
                empty(9, 8, 8, 3), empty(9, 8, 8, 3), empty(9, 8, 8), 1, empty(9, 13, dtype=np.float64)
            ),
            "4 faces were announced",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            call()
