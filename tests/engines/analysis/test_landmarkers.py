"""2DFAN4 and 2d106det from the user's own files: points where they are, in a crop that is turned with the face."""

from __future__ import annotations

import math
from pathlib import Path

import cv2
import numpy as np
import pytest

from engines.analysis.align import five_points
from engines.analysis.fan import Fan
from engines.analysis.five import five_of
from engines.analysis.insight106 import Insight106
from engines.analysis.open import open_landmarker
from engines.errors import EngineError
from engines.faces import Region
from tests import detectors
from tests.detectors import Layout
from tests.engines.scenes import mesh

FANS = {
    "points and maps": {},
    "maps first": {"outputs": ("maps", "points")},
    "points alone": {"outputs": ("points",)},
    "x and y alone": {"outputs": ("points",), "width": 2},
    "maps alone": {"outputs": ("maps",)},
    "nhwc": {"layout": Layout(nhwc=True)},
    "half": {"layout": Layout(half=True)},
    "free sizes": {"layout": Layout(free=True)},
}
INSIGHTS = {
    "as published": {},
    "pairs": {"shape": (1, 106, 2)},
    "no batch": {"shape": (212,)},
    "nhwc": {"layout": Layout(nhwc=True)},
}


def dotted(x, y, radius):
    image = np.full((480, 640, 3), 96, np.uint8)
    cv2.circle(image, (x, y), radius, (0, 0, 255), -1)
    return image


@pytest.mark.parametrize("how", FANS.values(), ids=FANS)
@pytest.mark.parametrize(("angle", "size"), [(0, 200), (0.6, 300), (-1.2, 120), (math.pi, 240)])
def test_68_points_where_they_are_whichever_way_the_face_is_turned(tmp_path, how, angle, size):
    network = open_landmarker(detectors.fan(tmp_path / "own.onnx", **how))
    assert isinstance(network, Fan)
    found = network.read(dotted(330, 215, max(2, size // 60)), Region(310, 230, size, angle))
    network.close()
    assert found.shape == (68, 2)
    # A cell of the heatmap is 1/64 of a square of 1.31 faces; the region is 1.5 of them.
    cell = size / 1.5 * 256 / 195 / 64
    assert np.abs(found - (330, 215)).max() < 1.6 * cell


@pytest.mark.parametrize("how", INSIGHTS.values(), ids=INSIGHTS)
@pytest.mark.parametrize(("angle", "size"), [(0, 200), (0.6, 300), (-1.2, 120)])
def test_106_points_where_they_are_whichever_way_the_face_is_turned(tmp_path, how, angle, size):
    network = open_landmarker(detectors.insight106(tmp_path / "own.onnx", **how))
    assert isinstance(network, Insight106)
    found = network.read(dotted(330, 215, 1), Region(310, 230, size, angle))
    network.close()
    assert found.shape == (106, 2)
    assert np.abs(found - (330, 215)).max() < 3 * max(1, size / 192)


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (detectors.scrfd, "1×12800×1"),
        (detectors.arcface, "1×256"),
        (lambda path: detectors.fan(path, side=128), "128×128"),
        (lambda path: detectors.insight106(path, shape=(2, 106)), "2×106"),
    ],
)
def test_a_file_of_another_kind_is_named_with_what_was_found_and_expected(tmp_path, make, found):
    path = make(tmp_path / "mine.onnx")
    with pytest.raises(EngineError) as caught:
        open_landmarker(path)
    assert "mine" in str(caught.value)
    assert found in str(caught.value)
    assert "1×68×3" in str(caught.value)
    assert caught.value.fix


def test_five_points_of_every_numbering_are_the_same_places():
    points = mesh("hopper")
    five = five_points(points)
    ibug = np.zeros((68, 3), np.float32)
    ibug[36:42, :2], ibug[42:48, :2], ibug[[30, 48, 54], :2] = five[0], five[1], five[2:]
    insight = np.zeros((106, 2), np.float32)
    insight[[38, 88, 86, 52, 61]] = five
    for landmarks in (points, five, ibug, insight):
        np.testing.assert_allclose(five_of(landmarks), five, atol=1e-3)
    with pytest.raises(EngineError, match="98 landmarks"):
        five_of(np.zeros((98, 2), np.float32))
    with pytest.raises(EngineError, match=r"^0 landmarks"):
        five_of(np.zeros((0, 2), np.float32))


def test_heatmaps_without_a_highest_cell_give_a_place_inside(tmp_path):
    network = open_landmarker(detectors.fan(Path(tmp_path) / "own.onnx", outputs=("maps",)))
    found = network.read(np.full((480, 640, 3), 96, np.uint8), Region(310, 230, 200, 0))
    network.close()
    assert np.isfinite(found).all()
    assert np.abs(found - (310, 230)).max() < 200
