"""Five points from a network of its own: where they are, held still, and never half of them."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from engines.analysis.align import crop_affine
from engines.analysis.five import five_of
from engines.analysis.networks import open_networks
from engines.analysis.open import open_landmarker
from engines.errors import EngineError
from engines.faces import Face, Patch
from realtime.choosing.select import Selector
from realtime.tracking.realign import Realigner
from realtime.tracking.track import Tracker
from tests import detectors
from tests.engines.scenes import mesh, placed, placing

FRAME = 33_333_333
PATCH = Patch(np.zeros((4, 4, 3), np.float32), np.zeros((2, 3), np.float32))
IMAGE = np.zeros((480, 640, 3), np.uint8)


class Noisy:
    """Five points that tremble around those of the mesh, moved by ten pixels."""

    points = 5

    def __init__(self, sigma=0.0):
        self.rng, self.sigma, self.broken, self.regions = np.random.default_rng(0), sigma, False, []
        self.network = type("Named", (), {"name": "noisy", "nodes": {}})()

    def read(self, image, region):
        self.regions.append(region)
        five = five_of(self.face) + 10 + self.rng.normal(0, self.sigma, (5, 2)) * (self.sigma > 0)
        return np.full((5, 2), np.nan, np.float32) if self.broken else five.astype(np.float32)

    def close(self):
        pass


def face(x=320.0, track=1):
    points = np.array(mesh("hopper"))
    points -= points.mean(0)
    points = points / np.ptp(points[:, 0]) * 120 + np.float32([x, 240, 0])
    return Face(track, points.astype(np.float32), 1.0, PATCH)


def test_without_a_network_faces_stay_as_they_are():
    one = face()
    assert Realigner().align(None, IMAGE, [one], 0) == [one]
    assert one.five is None
    assert one.alignment is one.points


def test_the_five_points_are_what_a_crop_is_aligned_by():
    network, realigner = Noisy(), Realigner()
    network.face = face().points
    [aligned] = realigner.align(network, IMAGE, [face()], 0)
    np.testing.assert_allclose(aligned.five, five_of(aligned.points) + 10, atol=1e-4)
    assert aligned.alignment is aligned.five
    moved = crop_affine("arcface_128", 128, aligned.alignment)
    plain = crop_affine("arcface_128", 128, aligned.points)
    np.testing.assert_allclose(moved[:, :2], plain[:, :2], atol=1e-4)
    np.testing.assert_allclose(moved[:, 2], plain[:, 2] - plain[:, :2] @ [10, 10], atol=1e-2)


def test_they_are_held_still_and_each_track_has_its_own_past():
    network, realigner = Noisy(sigma=0.3), Realigner()
    raw, still = [], []
    for step in range(120):
        faces = [face(320, track=1), face(320, track=2)] if step < 60 else [face(320, track=1)]
        network.face = faces[0].points
        network.rng = np.random.default_rng(step)
        aligned = realigner.align(network, IMAGE, faces, step * FRAME)
        assert [one.track for one in aligned] == [one.track for one in faces]
        still.append(aligned[0].five)
        raw.append(Noisy.read(network, IMAGE, None))
    assert np.std(still[20:], axis=0).mean() < 0.75 * np.std(raw[20:], axis=0).mean()


def test_points_that_are_no_numbers_fail_the_frame_and_not_the_next_one():
    network, realigner = Noisy(), Realigner()
    network.face = face().points
    realigner.align(network, IMAGE, [face()], 0)
    network.broken = True
    with pytest.raises(EngineError, match="noisy gave landmarks that are not numbers"):
        realigner.align(network, IMAGE, [face()], FRAME)
    network.broken = False
    [aligned] = realigner.align(network, IMAGE, [face()], 2 * FRAME)
    assert np.isfinite(aligned.five).all()


def test_a_tracker_opened_with_one_gives_faces_with_five_points(tmp_path):
    """A network that sees red, and a face with a red nose: all points lie on it."""
    path = detectors.insight106(tmp_path / "own.onnx")
    tracker = Tracker(
        468, Selector("owner", 1), 5,
        lambda points, count: open_networks(points, count, landmarker=lambda: open_landmarker(path)),
    )  # fmt: skip
    tracker.open(lambda line: None)
    picture = placed("hopper", (640, 480), 140, (320, 240))
    nose = placing("hopper", 140, (320, 240)) @ np.append(mesh("hopper")[1, :2], 1)
    cv2.circle(picture, tuple(np.rint(nose).astype(int).tolist()), 3, (0, 0, 255), -1)
    for step in range(4):
        [found] = tracker.track(picture, step * FRAME)
    assert np.abs(found.five - nose).max() < 5
    assert "own" in tracker.nodes
    tracker.close()
