"""Both landmark networks on both portraits: present, alike, in place, and unmoved by how the picture is laid out."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from engines.analysis.landmarks import LandmarkNetwork, region_of_detection, region_of_points
from engines.analysis.topology import LEFT_EYE_RINGS, LEFT_IRIS, OVAL, RIGHT_EYE_RINGS, RIGHT_IRIS
from engines.faces import Detection, Region
from tests.engines.scenes import FILES, landmarks, mesh, oval_box, placed, placing, portrait

LOOP = (0, 1, 2, 3, 4, 5, 6, 7, 8, 15, 14, 13, 12, 11, 10, 9)


def across(points):
    return float(np.ptp(points[:, 0]))


@pytest.mark.parametrize("points", [468, 478])
@pytest.mark.parametrize("name", FILES)
def test_a_face_is_present_and_its_parts_are_in_order(name, points):
    found = landmarks(points).read(portrait(name), region_of_points(mesh(name, points)))
    assert found.presence > 0.99
    assert found.points.shape == (points, 3)
    assert found.points.dtype == np.float32
    p = found.points
    assert p[10, 1] < p[168, 1] < p[1, 1] < p[13, 1] < p[152, 1]
    assert p[33, 0] < p[133, 0] < p[362, 0] < p[263, 0]
    # The nose is nearer than the ears, by a good part of the face.
    assert p[[234, 454], 2].min() - p[1, 2] > 0.2 * across(p)
    assert cv2.pointPolygonTest(p[list(OVAL), :2].reshape(-1, 1, 2), p[1, :2].tolist(), False) > 0


@pytest.mark.parametrize("name", FILES)
def test_the_two_networks_agree(name):
    plain, refined = mesh(name), mesh(name, 478)
    apart = np.linalg.norm(plain[:, :2] - refined[:468, :2], axis=1) / across(plain)
    assert apart.mean() < 0.015
    assert apart.max() < 0.06


@pytest.mark.parametrize("name", FILES)
def test_irises_lie_between_the_lids(name):
    p = mesh(name, 478)[:, :2]
    for ring, iris in ((RIGHT_EYE_RINGS[0], RIGHT_IRIS), (LEFT_EYE_RINGS[0], LEFT_IRIS)):
        loop = p[[ring[i] for i in LOOP]].reshape(-1, 1, 2)
        assert cv2.pointPolygonTest(loop, p[iris[0]].tolist(), False) > 0
        radius = np.linalg.norm(p[list(iris[1:])] - p[iris[0]], axis=1)
        eye = np.linalg.norm(p[ring[0]] - p[ring[8]])
        assert (radius < 0.4 * eye).all()
        assert (radius > 0.1 * eye).all()


@pytest.mark.parametrize("name", FILES)
def test_the_same_face_elsewhere_gives_the_same_points(name):
    """Moved, turned and scaled: the points go along."""
    size, width = (900, 700), 230.0
    _, now = oval_box(name)
    upright = None
    for at, angle in (((430, 330), 0.0), ((433.4, 335.7), 0.0), ((470, 340), 0.35), ((430, 330), -0.6)):
        picture = placed(name, size, width, at, angle)
        there = placing(name, width, at, angle)
        expected = mesh(name)[:, :2] @ there[:, :2].T + there[:, 2]
        found = landmarks().acquire(
            picture, region_of_points(np.c_[expected, mesh(name)[:, 2]].astype(np.float32)), 4
        )
        assert found.presence > 0.99
        off = np.linalg.norm(found.points[:, :2] - expected, axis=1) / width
        assert off.mean() < 0.012, (at, angle)
        if upright is None:
            upright = found.points
    # Depth is in pixels too.
    assert np.ptp(upright[:, 2]) / np.ptp(mesh(name)[:, 2]) == pytest.approx(width / now, rel=0.15)


def test_a_moving_crop_does_not_move_the_points():
    """A shift of the crop by some pixels and a turn by some degrees changes next to nothing."""
    region = region_of_points(mesh("hopper"))
    for dx, dy, grow, turn in (
        (4, 0, 1, 0),
        (0, -5, 1, 0),
        (0, 0, 1.06, 0),
        (0, 0, 1, 0.06),
        (-3, 3, 0.96, -0.05),
    ):
        other = Region(region.x + dx, region.y + dy, region.size * grow, region.angle + turn)
        found = landmarks().read(portrait("hopper"), other)
        off = np.linalg.norm((found.points - mesh("hopper"))[:, :2], axis=1)
        assert off.mean() < 0.012 * across(mesh("hopper"))


@pytest.mark.parametrize("points", [468, 478])
def test_nobody_is_present_where_nobody_is(points):
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (400, 400, 3), np.uint8)
    for picture in (noise, np.full((400, 400, 3), 127, np.uint8)):
        assert landmarks(points).read(picture, Region(200, 200, 300, 0)).presence < 0.3


def test_the_patch_is_what_was_read():
    found = landmarks().read(portrait("astronaut"), region_of_points(mesh("astronaut")))
    patch = found.patch
    assert patch.image.shape == (192, 192, 3)
    seen = cv2.warpAffine(portrait("astronaut"), patch.affine, (192, 192), borderMode=cv2.BORDER_REPLICATE)
    assert np.abs(patch.image[:, :, ::-1] * 255 - seen).mean() < 1


def test_presence_never_overflows():
    network = LandmarkNetwork()
    real = network.network

    class Sure:
        inputs = real.inputs
        name, nodes, level = "sure", {}, 0.0

        def run(self):
            network._presence[0] = self.level

    network.network = Sure()
    for level, expected in ((1e30, 1.0), (-1e30, 0.0), (0.0, 0.5)):
        network.network.level = level
        assert network.read(portrait("hopper"), Region(200, 200, 100, 0)).presence == pytest.approx(expected)
    real.close()


def test_regions_hold_the_face_and_follow_its_turn():
    turned = np.zeros((6, 2), np.float32)
    turned[:2] = [[100, 100], [150, 150]]
    region = region_of_detection(Detection(np.float32([120, 140]), 80.0, turned, 0.9))
    assert (region.x, region.y, region.size) == (120, 140, 120)
    assert region.angle == pytest.approx(np.pi / 4)
    of_points = region_of_points(mesh("hopper", 478))
    inside = np.abs(mesh("hopper")[:, :2] - [of_points.x, of_points.y]) < of_points.size / 2
    assert inside.all()
