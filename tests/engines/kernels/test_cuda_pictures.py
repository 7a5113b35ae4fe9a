"""Camera layouts, mosaics and marks: the CUDA kernels, run by the processor, against OpenCV."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from engines.faces import Face
from engines.kernels.canvas import HostCanvas
from realtime.choosing.bystanders import cover
from realtime.shown.lettering import Sprite, plate
from tests.engines.kernels.cuda_host import needs_compiler
from tests.engines.kernels.cuda_stand_in import Desk

pytestmark = needs_compiler

SIZES = [(2, 2), (2, 4), (6, 2), (10, 6), (66, 34), (130, 62), (640, 482)]
LARGEST = (3840, 2160)


@pytest.fixture(scope="module")
def desk():
    return Desk()


def noise(seed, *shape):
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def assert_close(painted, expected, levels=1):
    off = np.abs(painted.astype(int) - expected)
    assert off.max() <= levels, f"{off.max()} levels at {np.argwhere(off == off.max())[0]}"


@pytest.mark.parametrize("size", [*SIZES, LARGEST])
def test_i420_has_opencvs_bytes(desk, size):
    width, height = size
    image = noise(width, height, width, 3)
    expected = cv2.cvtColor(image, cv2.COLOR_BGR2YUV_I420)
    there, picture = desk.there(image), desk.card.empty((height * 3 // 2, width), np.uint8)
    desk.pictures.to_i420(there, picture)
    assert (desk.back(picture) == expected).all()


def test_every_grey_and_every_pure_colour_keeps_opencvs_bytes(desk):
    levels = np.arange(256, dtype=np.uint8)
    rows = [np.stack([levels * (k >> c & 1) for c in range(3)], 1) for k in range(1, 8)]
    image = np.repeat(np.stack([*rows, rows[-1]]), 2, axis=0)
    picture = desk.card.empty((24, 256), np.uint8)
    desk.pictures.to_i420(desk.there(image), picture)
    assert (desk.back(picture) == cv2.cvtColor(image, cv2.COLOR_BGR2YUV_I420)).all()


def test_a_part_of_a_picture_is_converted_and_nothing_beside_it(desk):
    whole = noise(1, 40, 50, 3)
    there = desk.there(whole)
    picture = desk.card.empty((24 * 3 // 2, 32), np.uint8)
    desk.pictures.to_i420(there[7:31, 9:41], picture)
    part = np.ascontiguousarray(whole[7:31, 9:41])
    assert (desk.back(picture) == cv2.cvtColor(part, cv2.COLOR_BGR2YUV_I420)).all()
    assert (desk.back(there) == whole).all()


def test_pictures_that_do_not_fit_are_refused_by_what_they_should_be(desk):
    def empty(*shape, dtype=np.uint8):
        return desk.card.empty(shape, dtype)

    pictures = desk.pictures
    for call, words in (
        (lambda: pictures.to_i420(empty(4, 5, 3), empty(6, 5)), "even sides"),
        (lambda: pictures.to_i420(empty(5, 4, 3), empty(7, 4)), "even sides"),
        (lambda: pictures.to_i420(empty(4, 4, 3), empty(4, 4)), "picture is contiguous uint8"),
        (lambda: pictures.to_i420(empty(4, 4, 4), empty(6, 4)), "an image is"),
        (lambda: pictures.to_i420(empty(4, 4, 3, dtype=np.float32), empty(6, 4)), "an image is"),
        (lambda: pictures.to_i420(empty(4, 8, 3)[:, ::2], empty(6, 4)), "contiguous rows"),
        (
            lambda: pictures.stretch(empty(2, 2, 3), empty(4, 4, 3), (0, 0, 4, 4)),
            "cells is contiguous float32",
        ),
        (lambda: pictures.sprite(empty(4, 4, 3), empty(2, 2, 3), empty(2, 3, 3), 0, 0), "keep is"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


def face_over(low, high):
    points = np.zeros((468, 3), np.float32)
    points[:, :2] = np.linspace(low, high, 468)
    return Face(1, points, 1.0, None)


WINDOWS = [(20, 10, 120, 140), (-60, -30, 40, 60), (100, 60, 300, 200), (3, 4, 18, 19), (60, 70, 90, 110)]


@pytest.mark.parametrize("window", WINDOWS)
def test_a_bystander_is_covered_as_on_the_processor(desk, window):
    image = cv2.GaussianBlur(noise(3, 151, 161, 3), (0, 0), 2)
    low, high = np.array(window[:2]), np.array(window[2:])
    there = desk.there(image)
    margin = (high - low) * 0.25
    box = (*np.floor(low - margin).astype(int).tolist(), *np.ceil(high + margin).astype(int).tolist())
    desk.pictures.cover(there, box, desk.card.empty((6, 5, 3), np.float32))
    covered = desk.back(there)
    assert (covered != image).any()
    cover(HostCanvas(image), face_over(low, high))
    assert_close(covered, image)


def test_cells_of_a_few_pixels_hide_them_and_touch_nothing_else(desk):
    for window in ((5, 5, 6, 6), (0, 0, 2, 3), (28, 18, 30, 20), (7, 7, 8, 12)):
        image = noise(4, 20, 30, 3)
        there, cells = desk.there(image), desk.card.empty((6, 5, 3), np.float32)
        desk.pictures.cover(there, window, cells)
        left, top, right, bottom = window
        part = image[top:bottom, left:right].astype(float)
        means = desk.back(cells)
        assert (means >= part.min((0, 1)) - 1e-3).all()
        assert (means <= part.max((0, 1)) + 1e-3).all()
        painted = desk.back(there)
        painted[top:bottom, left:right] = image[top:bottom, left:right]
        assert (painted == image).all()


def test_a_window_outside_of_the_picture_is_nothing_to_cover(desk):
    image = noise(5, 20, 30, 3)
    there, cells = desk.there(image), desk.card.empty((6, 5, 3), np.float32)
    huge = 1 << 40
    for window in ((30, 0, 50, 20), (-9, -9, 0, 0), (9, 9, 9, 12), (12, 5, 3, 9), (huge, 0, huge + 5, 9)):
        desk.pictures.cover(there, window, cells)
    assert (desk.back(there) == image).all()
    with pytest.raises(ValueError, match="holds nothing"):
        desk.pictures.cell_means(there, (30, 0, 50, 20), cells)


@pytest.mark.parametrize(("size", "grid"), [((160, 90), (8, 4)), ((90, 160), (4, 8)), ((33, 21), (8, 5))])
def test_a_veil_is_drawn_as_on_the_processor(desk, size, grid):
    """What veil.py does to a frame: few pixels looked at, averaged into cells, drawn with soft edges."""
    image = noise(6, size[1], size[0], 3)
    few = (min(size[0], grid[0] * 16), min(size[1], grid[1] * 16))
    seen = cv2.resize(image, few, interpolation=cv2.INTER_NEAREST)
    there, cells = desk.there(image), desk.card.empty((grid[1], grid[0], 3), np.float32)
    desk.pictures.cell_means(there, (0, 0, *size), cells, few)
    means = desk.back(cells)
    expected = cv2.resize(seen.astype(np.float32), grid, interpolation=cv2.INTER_AREA)
    np.testing.assert_allclose(means, expected, atol=0.01)
    desk.pictures.stretch(cells, there, (0, 0, *size), 6)
    coarse = cv2.resize(
        np.round(means).astype(np.uint8), (grid[0] * 6, grid[1] * 6), interpolation=cv2.INTER_NEAREST
    )
    assert_close(desk.back(there), cv2.resize(coarse, size, interpolation=cv2.INTER_LINEAR))


def test_means_do_not_change_from_run_to_run(desk):
    there, cells = desk.there(noise(7, 90, 120, 3)), desk.card.empty((6, 5, 3), np.float32)
    desk.pictures.cell_means(there, (0, 0, 120, 90), cells)
    first = desk.back(cells)
    desk.pictures.cell_means(there, (0, 0, 120, 90), cells)
    assert first.tobytes() == desk.back(cells).tobytes()


@pytest.mark.parametrize("place", [(5, 7), (-9, 3), (3, -4), (70, 30), (200, 5), (-500, -500), (1 << 40, 0)])
def test_a_mark_has_the_bytes_of_the_processors(desk, place):
    image = noise(8, 60, 90, 3)
    there = desk.there(image)
    sprite = plate(["AI face"], 10)
    colour, keep = sprite.colour, sprite.keep
    desk.pictures.sprite(there, *desk.there(colour, keep), *place)
    sprite.paint(image, *place)
    assert (desk.back(there) == image).all()


def test_every_opacity_of_a_mark_has_the_processors_bytes(desk):
    opacity = np.tile(np.arange(256, dtype=np.uint8), (256, 1))
    image = np.repeat(np.ascontiguousarray(opacity.T)[..., None], 3, 2)
    colour = np.repeat((opacity // 2)[..., None], 3, 2)
    there = desk.there(image)
    keep = np.repeat((255 - opacity)[..., None], 3, 2)
    desk.pictures.sprite(there, *desk.there(colour, keep), 0, 0)
    Sprite(colour, opacity).paint(image, 0, 0)
    assert (desk.back(there) == image).all()


def put_back_here(image, corner, lifted, mask, affine):
    """What is lifted laid back, in float64."""
    out = image.copy()
    rows, columns = mask.shape
    padded = np.pad(mask.astype(np.float64), 2)
    for py in range(lifted.shape[0]):
        for px in range(lifted.shape[1]):
            u, v = affine @ [px, py, 1]
            if not (-1 < u < columns and -1 < v < rows):
                continue
            left, top = int(np.floor(u)), int(np.floor(v))
            part = padded[top + 2 : top + 4, left + 2 : left + 4]
            amount = np.array([1 - (v - top), v - top]) @ part @ np.array([1 - (u - left), u - left]) / 255
            pixel = out[corner[1] + py, corner[0] + px]
            pixel[:] = np.rint(pixel + amount * (lifted[py, px, :3].astype(float) - pixel))
    return out


@pytest.mark.parametrize(("size", "corner", "part"), [((1, 1), (0, 0), (1, 1)), ((37, 29), (5, 3), (31, 26))])
def test_what_is_lifted_is_laid_back_as_far_as_a_mask_says(desk, size, corner, part):
    rng = np.random.default_rng(4)
    image = rng.integers(0, 256, (size[1], size[0], 3), np.uint8)
    there, out = desk.there(image), desk.card.empty((part[1], part[0], 4), np.uint8)
    desk.pictures.lift(there, corner, out, desk.there(np.zeros((256, 3), np.uint8)), 0.0)
    window = image[corner[1] : corner[1] + part[1], corner[0] : corner[0] + part[0]]
    assert (desk.back(out) == np.dstack([window, np.full(window.shape[:2], 255, np.uint8)])).all()
    painted = rng.integers(0, 256, image.shape, np.uint8)
    mask = rng.integers(0, 256, (9, 12), np.uint8)
    for affine in (
        [[0.4, 0.1, -2], [-0.1, 0.35, 1]],
        [[1, 0, 0], [0, 1, 0]],
        [[0, 0, 1e9], [0, 0, 3]],
        [[np.nan] * 3] * 2,
    ):
        affine = np.array(affine, np.float32)
        there = desk.there(painted)
        desk.pictures.put_back(there, corner, out, *desk.there(mask, affine))
        expected = put_back_here(painted, corner, desk.back(out), mask, affine)
        assert np.abs(desk.back(there).astype(int) - expected).max() <= 1


@pytest.mark.parametrize("strength", [0.2, 0.85, 1.0])
def test_a_window_is_lifted_with_other_colours(desk, strength):
    rng = np.random.default_rng(5)
    image = rng.integers(0, 256, (24, 33, 3), np.uint8)
    table = rng.integers(0, 256, (256, 3), np.uint8)
    out = desk.card.empty((20, 30, 4), np.uint8)
    desk.pictures.lift(desk.there(image), (2, 3), out, desk.there(table), strength)
    window = np.ascontiguousarray(image[3:23, 2:32])
    coloured = table[cv2.cvtColor(window, cv2.COLOR_BGR2GRAY)]
    expected = cv2.addWeighted(coloured, strength, window, 1 - strength, 0)
    assert np.abs(desk.back(out)[:, :, :3].astype(int) - expected).max() <= 1


@pytest.mark.parametrize("corner", [(-1, 0), (0, -1), (4, 0), (0, 4)])
def test_a_window_outside_of_the_picture_is_refused(desk, corner):
    image, out = desk.card.empty((8, 8, 3), np.uint8), desk.card.empty((5, 5, 4), np.uint8)
    table = desk.card.empty((256, 3), np.uint8)
    with pytest.raises(ValueError, match="are not in an image"):
        desk.pictures.lift(image, corner, out, table, 0.0)
    with pytest.raises(ValueError, match="are not in an image"):
        desk.pictures.put_back(
            image, corner, out, desk.card.empty((4, 4), np.uint8), desk.card.empty((2, 3), np.float32)
        )
