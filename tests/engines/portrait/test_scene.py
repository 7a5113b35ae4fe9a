"""A picture laid into a frame, and what is behind it."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from engines.errors import PhotoError, UsageError
from engines.portrait.backdrop import filled, read_backdrop
from engines.portrait.scene import fitted
from engines.portrait.stage import Stage
from engines.portrait.state import HeadState
from tests.engines.scenes import mesh, source


@pytest.mark.parametrize("name", ["astronaut", "hopper"])
@pytest.mark.parametrize("size", [(1920, 1080), (640, 480), (360, 640), (64, 64), (1000, 100)])
def test_head_and_hair_are_in_the_frame_and_no_edge_is_where_it_need_not_be(name, size):
    picture = source(name).image.shape[1::-1]
    where = fitted(mesh(name), picture, size)
    points = where.of(mesh(name))[:, :2]
    tall = np.ptp(points[:, 1])
    assert points.min() >= 0
    assert (points.max(0) <= size).all()
    assert points[:, 1].min() > 0.1 * tall
    assert 0.99 * min(np.array(size) / picture) <= where.scale <= 1.01 * max(np.array(size) / picture)
    for side in (0, 1):
        corner = (where.x, where.y)[side] - (where.scale - 1) / 2
        spare = size[side] - picture[side] * where.scale
        if spare >= 0:
            assert corner == pytest.approx(spare / 2, abs=1)
        else:
            assert spare - 1 <= corner <= 1


def test_at_rest_the_stage_shows_the_picture():
    """The mesh paints what lies under it, to a level or two: nothing jumps when a face is found."""
    face = source("astronaut")
    where = fitted(face.points, face.image.shape[1::-1], (512, 512))
    stage = Stage(face.image, face.points, where, (512, 512))
    out = np.empty((512, 512, 3), np.uint8)
    stage.render(out, stage.pose(HeadState()))
    affine = np.float32([[where.scale, 0, where.x], [0, where.scale, where.y]])
    plain = cv2.warpAffine(
        face.image, affine, (512, 512), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
    )
    difference = cv2.absdiff(out, plain).max(-1)
    assert np.median(difference) <= 1
    assert (difference > 12).mean() < 0.02


def test_colours():
    assert read_backdrop("#102030").tolist() == [[[0x30, 0x20, 0x10]]]
    assert read_backdrop("green").tolist() == [[[0x40, 0xB1, 0x00]]]
    assert (filled(read_backdrop("#102030"), (7, 5)) == (0x30, 0x20, 0x10)).all()


@pytest.mark.parametrize("text", ["#10203", "#1020304", "#10203g", "#", "# 10203", "#١٢٣٤٥٦"])
def test_what_begins_like_a_colour_and_is_none(text):
    with pytest.raises(UsageError, match="no colour"):
        read_backdrop(text)


@pytest.mark.parametrize("shape", [(80, 300), (300, 80), (1080, 1920)])
def test_a_picture_covers_the_frame_and_is_not_distorted(tmp_path, shape):
    picture = np.zeros((*shape, 3), np.uint8)
    cv2.circle(picture, (shape[1] // 2, shape[0] // 2), 15, (255, 255, 255), -1)
    cv2.imwrite(str(tmp_path / "office.png"), picture)
    for spec in (str(tmp_path / "office.png"), f"file:{tmp_path / 'office.png'}"):
        shown = filled(read_backdrop(spec), (320, 240))
        assert shown.shape == (240, 320, 3)
        y, x = np.nonzero(shown[..., 0] > 127)
        assert np.ptp(x) == pytest.approx(np.ptp(y), abs=3)


def test_a_picture_that_is_not_there(tmp_path):
    with pytest.raises(PhotoError, match="nobody"):
        read_backdrop(str(tmp_path / "nobody.png"))
