"""Whose face it is: two of one person are near, two people are far apart, and no file is taken for what it is not."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from engines.analysis.align import crop_affine
from engines.analysis.embed import distance, unit
from engines.analysis.open import open_embedder
from engines.errors import EngineError
from engines.runtime.ort.network import OnnxNetwork
from tests import detectors
from tests.detectors import Layout
from tests.engines.scenes import FILES, face_in, mesh, placed, portrait, source


@pytest.fixture
def embedder(tmp_path):
    made = open_embedder(detectors.arcface(tmp_path / "who.onnx"))
    yield made
    made.close()


def views(name):
    """One face small and large, straight and tilted, in light and shade, sharp and soft."""
    for width, angle, gain in ((70, 0.0, 1.0), (120, 0.3, 0.6), (200, -0.4, 1.3), (140, 0.8, 1.0)):
        picture = placed(name, (640, 400), width, (320, 200), angle)
        yield np.clip(picture * gain, 0, 255).astype(np.uint8)


def test_two_views_of_one_person_are_near_and_two_people_far_apart(embedder):
    seen = {
        name: [embedder.identity(picture, face_in(picture).points) for picture in views(name)]
        for name in FILES
    }
    same = [distance(one, other) for looks in seen.values() for one in looks for other in looks]
    apart = [distance(one, other) for one in seen["hopper"] for other in seen["astronaut"]]
    assert max(same) < 0.4
    assert min(apart) > 0.65
    assert distance(unit(-seen["hopper"][0]), seen["hopper"][0]) == pytest.approx(2, abs=1e-5)


def by_hand(name):
    """What the bare network, which takes 0…255, says of a crop of ArcFace's template."""
    affine = crop_affine("arcface_112_v2", 112, mesh(name))
    crop = cv2.warpAffine(portrait(name), affine, (112, 112), borderMode=cv2.BORDER_REPLICATE)
    network = OnnxNetwork(detectors.IDENTITY)
    network.inputs[0][0] = crop[:, :, ::-1]
    network.run()
    vector = network.outputs[0].ravel().copy()
    network.close()
    return unit(vector)


@pytest.mark.parametrize(
    "layout",
    [Layout(), Layout(nhwc=True), Layout(free=True), Layout(half=True)],
    ids=["plain", "nhwc", "free", "half"],
)
def test_it_is_fed_as_arcface_is_in_every_layout(tmp_path, layout):
    """The same vector as the network gives when it is fed by hand."""
    embedder = open_embedder(detectors.arcface(tmp_path / "who.onnx", layout=layout))
    for name in FILES:
        own = embedder.identity(portrait(name), mesh(name))
        assert own.shape == (embedder.length,) == (256,)
        assert np.linalg.norm(own) == pytest.approx(1, abs=1e-5)
        assert distance(own, by_hand(name)) < 1e-3
    embedder.close()


def test_a_person_is_the_mean_of_all_photos(embedder):
    photos = [source("hopper"), source("astronaut")]
    each = [embedder.identity(photo.image, photo.points) for photo in photos]
    assert np.allclose(embedder.person(photos[:1]), each[0], atol=1e-6)
    both = embedder.person(photos)
    assert np.allclose(both, unit(each[0] + each[1]), atol=1e-5)
    assert distance(both, each[0]) == pytest.approx(distance(both, each[1]), abs=1e-3)


@pytest.mark.parametrize("points", [np.full((468, 3), np.nan), np.zeros((468, 3)), np.full((5, 2), 7.0)])
def test_what_cannot_be_aligned_is_said(embedder, points):
    with pytest.raises(EngineError, match="cannot be aligned"):
        embedder.identity(portrait("hopper"), np.float32(points))


def test_what_cannot_be_compared_is_said():
    with pytest.raises(EngineError, match="direction"):
        unit(np.zeros(8, np.float32))
    with pytest.raises(EngineError, match="direction"):
        unit(np.full(8, np.nan, np.float32))


@pytest.mark.parametrize("make", [detectors.scrfd, detectors.fan, detectors.yoloface])
def test_a_file_of_another_kind_is_named_with_what_was_found_and_expected(tmp_path, make):
    path = make(tmp_path / "mine.onnx")
    with pytest.raises(EngineError, match=r"mine is not an ArcFace network: .* 1×512") as caught:
        open_embedder(path)
    assert caught.value.fix


def test_a_network_that_gives_no_numbers_is_not_believed(embedder):
    embedder.network.run = lambda: embedder.network.outputs[0].fill(np.nan)
    with pytest.raises(EngineError, match="not made of numbers"):
        embedder.identity(portrait("hopper"), mesh("hopper"))
