"""The photo as a texture: where it covers, what it leaves out, and that every level shows the same."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import cv2
import numpy as np
import pytest

from engines.analysis.source import SourceFace
from engines.analysis.topology import (
    LEFT_EYE_RINGS,
    LIPS_INNER,
    OVAL,
    POINTS,
    RIGHT_EYE_RINGS,
    canonical,
    mirrored,
)
from engines.swap.mesh import texture as texture_module
from engines.swap.mesh.skin import foreign
from engines.swap.mesh.texture import EYE_HOLES, MOUTH_HOLE, laid_out, unwrap, uv_of
from tests.engines.scenes import FILES, mesh, placed, placing, portrait, source


@cache
def texture_of(name):
    return unwrap(source(name))


def at(level, uv, vertices):
    """The texels nearest to some vertices."""
    places = np.rint(uv[list(vertices)]).astype(int)
    return level[places[:, 1], places[:, 0]]


@pytest.mark.parametrize("name", FILES)
def test_every_level_is_half_the_one_before_and_shows_the_same(name):
    texture = texture_of(name)
    assert len(texture.levels) == len(texture.uv) >= 2
    for level, uv in zip(texture.levels, texture.uv, strict=True):
        assert level.shape[0] == level.shape[1] == level.shape[2] * level.shape[0] // 4
        assert level.dtype == np.uint8
        assert level.flags.c_contiguous
        assert uv.shape == (POINTS, 2)
        assert uv.dtype == np.float32
        assert uv.min() >= 0
        assert uv.max() <= level.shape[0] - 1
    cheeks = (50, 280, 205, 425, 36, 266)
    for finer, coarser in zip(range(len(texture.levels)), range(1, len(texture.levels)), strict=False):
        large, small = texture.levels[finer], texture.levels[coarser]
        assert small.shape[0] * 2 == large.shape[0]
        np.testing.assert_allclose((texture.uv[coarser] + 0.5) * 2, texture.uv[finer] + 0.5, atol=1e-3)
        smooth = cv2.blur(large, (3, 3)).astype(int)
        off = np.abs(
            at(smooth, texture.uv[finer], cheeks) - at(small, texture.uv[coarser], cheeks).astype(int)
        )
        assert off.max() < 24


def test_the_level_fits_the_face():
    texture = texture_of("hopper")
    last = len(texture.levels) - 1
    assert texture.level_for(1e6) == 0
    assert texture.level_for(1) == last
    chosen = [texture.level_for(width) for width in np.geomspace(2000, 5, 60)]
    assert chosen == sorted(chosen)
    for width in np.geomspace(40, 2000, 30):
        texels = texture.width / 2 ** texture.level_for(width)
        # Never so many texels that some are skipped over, except when there is no smaller level.
        assert texels <= 2 * width or texture.level_for(width) == last
        # Never blurrier than needed.
        assert texels >= 0.7 * min(width, texture.width)


def test_the_texture_is_as_sharp_as_the_photo():
    """A larger photo gets a larger texture, up to a limit; a smaller one is not blown up."""
    sides = []
    for width in (80, 300, 700, 1500):
        size = (width * 2, width * 2)
        points = mesh("hopper") * np.float32(1)
        there = placing("hopper", width, (width, width))
        points[:, :2] = points[:, :2] @ there[:, :2].T + there[:, 2]
        points[:, 2] *= np.hypot(*there[:, 0])
        photo = SourceFace(placed("hopper", size, width, (width, width)), points.astype(np.float32), "x")
        sides.append(unwrap(photo).levels[0].shape[0])
    assert sides == sorted(sides)
    assert sides[0] <= 256
    assert sides[1] >= 300
    assert sides[-1] <= 1024


@pytest.mark.parametrize("name", FILES)
def test_opacity_is_none_on_the_oval_in_open_eyes_and_mouth_and_whole_on_the_cheeks(name):
    texture = texture_of(name)
    level, uv = texture.levels[0], texture.uv[0]
    assert at(level, uv, OVAL)[:, 3].max() <= 8
    # Everything beyond the mesh, too.
    assert (
        level[:2, :, 3].max()
        == level[-2:, :, 3].max()
        == level[:, :2, 3].max()
        == level[:, -2:, 3].max()
        == 0
    )
    for ring in (RIGHT_EYE_RINGS[0], LEFT_EYE_RINGS[0]):
        x, y = np.rint(uv[list(ring)].mean(0)).astype(int)
        assert level[y, x, 3] == 0
    x, y = np.rint(uv[list(LIPS_INNER)].mean(0)).astype(int)
    assert level[y, x, 3] < 40
    assert at(level, uv, (50, 280, 205, 425, 4, 5, 195))[:, 3].min() > 240


@pytest.mark.parametrize("name", FILES)
def test_the_photo_lies_in_the_texture_where_the_mesh_says(name):
    for vertex in (50, 280, 205, 425, 168, 4, 61, 291):
        image = np.array(portrait(name))
        x, y = np.rint(mesh(name)[vertex, :2]).astype(int)
        cv2.circle(image, (int(x), int(y)), 2, (0, 255, 0), -1)
        marked = unwrap(replace(source(name), image=image))
        off = np.abs(marked.levels[0].astype(int) - texture_of(name).levels[0])[:, :, 1].astype(float)
        texels = marked.width / np.ptp(mesh(name)[:, 0])
        # The mark also shifts what counts as hair elsewhere a little.
        y, x = np.mgrid[: len(off), : len(off)]
        off[np.hypot(x - marked.uv[0][vertex, 0], y - marked.uv[0][vertex, 1]) > 12 * texels] = 0
        off[off < 0.4 * off.max()] = 0
        rows, columns = np.nonzero(off)
        weights = off[rows, columns]
        found = np.array([(columns * weights).sum(), (rows * weights).sum()]) / weights.sum()
        assert np.abs(found - marked.uv[0][vertex]).max() < 1.5 * texels, vertex


SKIN = np.array([110, 140, 200])


def turned(degrees, pores="both"):
    """A photo of a head that is turned, made by hand; only the named side of the picture has pores."""
    t = np.radians(degrees)
    spin = np.float32([[np.cos(t), 0, np.sin(t)], [0, 1, 0], [-np.sin(t), 0, np.cos(t)]])
    points = (canonical() @ spin.T) * 18 + np.float32([256, 256, 0])
    middle = points[[10, 151, 9, 8, 168, 6, 197, 195, 5, 4, 1, 2, 164, 0, 13, 14, 17, 18, 200, 199, 175, 152]]
    line = np.interp(np.arange(512), middle[:, 1], middle[:, 0])[:, None]
    x = np.arange(512)[None]
    marked = {"both": x >= 0, "left": x < line, "right": x >= line}[pores]
    noise = cv2.GaussianBlur(np.random.default_rng(0).normal(0, 1, (512, 512)), (0, 0), 2)
    image = SKIN + (noise / noise.std() * 14 * marked)[:, :, None]
    return SourceFace(
        np.clip(image, 0, 255).astype(np.uint8), np.ascontiguousarray(points, np.float32), "turned.png"
    )


def pores(texture, vertices):
    """Contrast of the fine structure around some vertices."""
    grey = texture.levels[0][:, :, 1].astype(np.float32)
    fine = np.abs(grey - cv2.GaussianBlur(grey, (0, 0), 8))
    return float(at(cv2.blur(fine, (15, 15)), texture.uv[0], vertices).mean())


def test_what_a_turned_photo_shows_badly_comes_from_its_other_half():
    right, left = (50, 187, 205), tuple(mirrored()[[50, 187, 205]])
    straight = unwrap(turned(0, "right"))
    assert pores(straight, left) > 3 * pores(straight, right)
    for degrees, hidden, shown, side in ((58, right, left, "right"), (-58, left, right, "left")):
        texture = unwrap(turned(degrees, side))
        assert pores(texture, shown) > 3
        assert pores(texture, hidden) > 0.5 * pores(texture, shown), degrees


def test_what_no_half_of_a_photo_shows_is_not_painted():
    profile = unwrap(turned(88))
    front = unwrap(turned(0))
    assert (profile.levels[0][:, :, 3] > 128).sum() < 0.7 * (front.levels[0][:, :, 3] > 128).sum()


def test_several_photos_each_give_what_they_saw_best():
    sides = {"right": (50, 187, 205), "left": tuple(mirrored()[[50, 187, 205]])}
    # Each photo is turned so that it shows one cheek squarely, and only that one has pores.
    towards = {"left": turned(58, "right"), "right": turned(-58, "left")}
    both = unwrap(*towards.values())
    for name, cheek in sides.items():
        alone = max(pores(unwrap(photo), cheek) for photo in towards.values())
        assert pores(both, cheek) > 0.8 * alone, name


def test_the_same_photo_twice_is_that_photo():
    once, twice = unwrap(source("hopper")), unwrap(source("hopper"), source("hopper"))
    seen = once.levels[0][:, :, 3] > 0
    assert np.abs(once.levels[0][seen].astype(int) - twice.levels[0][seen]).max() <= 1


def test_a_second_photo_in_other_light_leaves_no_seam():
    dark = replace(source("astronaut"), image=(portrait("astronaut") * 0.6).astype(np.uint8))
    alone, mixed = unwrap(source("astronaut")), unwrap(source("astronaut"), dark)
    seen = alone.levels[0][:, :, 3] > 250
    broad = [
        cv2.GaussianBlur(t.levels[0][:, :, :3], (0, 0), 8).astype(np.float32)[seen] for t in (alone, mixed)
    ]
    ratio = broad[1].mean(1) / broad[0].mean(1)
    # Whichever of them gives the brightness, it gives it everywhere alike.
    low, high = np.percentile(ratio, (2, 98))
    assert high / low < 1.4


def painted_over(name, vertices, colour, grow=6):
    """The photo with something of one colour over a part of the face."""
    image = np.array(portrait(name))
    hull = cv2.convexHull(np.rint(mesh(name)[list(vertices), :2]).astype(np.int32))
    mask = np.zeros(image.shape[:2], np.uint8)
    cv2.fillConvexPoly(mask, hull, 255)
    mask = cv2.dilate(mask, np.ones((grow, grow), np.uint8))
    texture = np.random.default_rng(0).integers(-12, 12, image.shape)
    image[mask > 0] = np.clip(np.array(colour) + texture[mask > 0], 0, 255)
    return unwrap(replace(source(name), image=image))


FRINGE = (10, 338, 297, 332, 109, 67, 103, 151, 337, 108, 299, 69, 333, 104)
RIGHT_SIDE = (127, 34, 143, 116, 123, 234, 93, 227, 137, 177)


@pytest.mark.parametrize(
    ("what", "vertices", "colour"),
    [
        ("dark fringe", FRINGE, (25, 30, 35)),
        ("blue hat", FRINGE, (190, 90, 40)),
        ("green scarf", RIGHT_SIDE, (60, 160, 50)),
    ],
)
@pytest.mark.parametrize("name", FILES)
def test_what_covers_the_face_from_its_border_is_not_painted(name, what, vertices, colour):
    bare, covered = texture_of(name), painted_over(name, vertices, colour)
    opacity = covered.levels[0][:, :, 3].astype(int)

    def showing(texture):
        """Texels that show the thing's colour plainly."""
        broad = cv2.blur(np.ascontiguousarray(texture.levels[0][:, :, :3]), (5, 5)).astype(int)
        return np.abs(broad - colour).max(2) < 40

    # The frames of the portrait's own glasses are as dark as a fringe.
    painted = showing(covered) & ~showing(bare) & (opacity > 64)
    assert painted.sum() < 0.004 * painted.size, what
    # The rest of the face is still painted.
    assert at(covered.levels[0], covered.uv[0], (280, 425, 4, 205, 50))[:, 3].min() > 200


def test_brows_glasses_and_moles_stay():
    """What does not come in from the border belongs to the person."""
    side = 256
    uv = uv_of(side)
    skin = np.full((side, side, 3), (110, 140, 200), np.uint8)
    assert foreign(skin, uv).max() == 0
    x, y = np.rint(uv[205]).astype(int)
    cv2.circle(skin, (int(x), int(y)), 6, (30, 30, 40), -1)
    for ring in (RIGHT_EYE_RINGS[2], LEFT_EYE_RINGS[2]):
        cv2.polylines(skin, [np.rint(uv[list(ring)]).astype(np.int32)], False, (20, 20, 20), 3)
    assert foreign(skin, uv).max() < 0.05


def test_light_from_one_side_is_not_foreign():
    side = 256
    uv = uv_of(side)
    falling = np.linspace(1.0, 0.45, side)[None, :, None] * np.ones((side, 1, 1))
    skin = np.rint(np.array([110, 140, 200]) * falling).astype(np.uint8)
    assert foreign(skin, uv).mean() < 0.02
    assert at(foreign(skin, uv), uv, (50, 280, 151, 205, 425)).max() < 0.1


@pytest.mark.parametrize("factor", [0.0, 1.0])
def test_a_photo_without_any_structure_is_no_error(factor):
    image = np.full_like(portrait("hopper"), int(255 * factor))
    texture = unwrap(replace(source("hopper"), image=image))
    assert all(np.isfinite(uv).all() for uv in texture.uv)


def alone(name):
    """A photo of which nothing was worked out yet."""
    return replace(source(name))


def test_what_does_not_depend_on_the_looks_is_worked_out_once(monkeypatch):
    made, view_of = [], texture_module.view_of
    monkeypatch.setattr(texture_module, "view_of", lambda *given: made.append(given) or view_of(*given))
    photo = alone("hopper")
    laid_out(photo)
    first = unwrap(photo)
    open_eyes = unwrap(photo, holes=EYE_HOLES)
    again = unwrap(photo, holes=EYE_HOLES + MOUTH_HOLE)
    assert len(made) == 1
    for one, other in zip(first.levels, again.levels, strict=True):
        np.testing.assert_array_equal(one, other)
    assert (open_eyes.levels[0][:, :, 3] != first.levels[0][:, :, 3]).any()
    fresh = unwrap(alone("hopper"))
    assert len(made) == 2
    np.testing.assert_array_equal(first.levels[0], fresh.levels[0])


def test_what_is_kept_cannot_be_painted_into_and_no_texture_shares_it():
    photo = alone("hopper")
    skin, known = laid_out(photo)
    assert not skin.flags.writeable
    assert not known.flags.writeable
    texture = unwrap(photo)
    before = texture.levels[0].copy()
    texture.levels[0][:] = 0
    np.testing.assert_array_equal(unwrap(photo).levels[0], before)
    assert skin.nbytes + known.nbytes == 7 * skin.shape[0] ** 2


def test_one_photo_among_others_is_laid_out_with_them():
    one, other, third = alone("hopper"), alone("astronaut"), alone("astronaut")
    together = laid_out(one, other)[0]
    assert laid_out(one, other)[0] is together
    assert laid_out(one, third)[0] is not together
    assert laid_out(one)[0] is not together
    assert (laid_out(one)[0] != together).any()
