"""The detectors find faces near and far, in frames of any shape, and nobody where nobody is."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from engines.analysis.boxes import distinct
from engines.analysis.detect import Detector
from engines.analysis.landmarks import region_of_detection
from tests.engines.scenes import FILES, detector, landmarks, placed

SIZES = {"1080p": (1920, 1080), "4K": (3840, 2160), "upright": (720, 1280), "square": (480, 480)}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", FILES)
def test_near_and_far_faces_where_they_are(name, size):
    width, height = SIZES[size]
    at = np.float32([width * 0.55, height * 0.45])
    for reach, share in (("near", 0.42), ("near", 0.25), ("far", 0.25), ("far", 0.08)):
        face = share * max(width, height)
        found = detector(reach).detect(placed(name, (width, height), min(face, 0.8 * height), at))
        assert len(found) == 1, (reach, share, found)
        face = min(face, 0.8 * height)
        assert np.abs(found[0].centre - at).max() < 0.2 * face
        assert 0.75 * face < found[0].size < 1.6 * face
        assert 0.5 < found[0].score <= 1
        right, left, nose, mouth = found[0].keypoints[:4]
        assert right[0] < nose[0] < left[0]
        assert max(right[1], left[1]) < mouth[1]
        assert np.abs(found[0].keypoints - at).max() < face


@pytest.mark.parametrize("reach", ["near", "far"])
def test_two_faces_the_larger_one_first(reach):
    picture = placed("hopper", (1280, 720), 340, (320, 380))
    picture[:, 640:] = placed("astronaut", (1280, 720), 260, (960, 360))[:, 640:]
    found = detector(reach).detect(picture)
    assert len(found) == 2
    assert found[0].size > found[1].size
    np.testing.assert_allclose([face.centre[0] for face in found], [320, 960], atol=60)


def test_nobody_in_noise_and_emptiness():
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (480, 640, 3), np.uint8)
    pictures = [noise]
    pictures += [np.full((480, 640, 3), level, np.uint8) for level in (0, 127, 255)]
    pictures += [noise[:1, :1].copy(), noise[:2, :600].copy(), noise[:400, :1].copy()]
    for reach in ("near", "far"):
        for picture in pictures:
            assert detector(reach).detect(picture) == []


def test_what_is_seen_in_clouds_is_no_face_to_the_landmarks():
    rng = np.random.default_rng(0)
    for blur in (4, 8, 16, 30):
        clouds = cv2.GaussianBlur(rng.integers(0, 256, (480, 640, 3), np.uint8), (0, 0), blur)
        clouds = cv2.normalize(clouds, None, 0, 255, cv2.NORM_MINMAX)
        for reach in ("near", "far"):
            for seen in detector(reach).detect(clouds):
                assert landmarks().acquire(clouds, region_of_detection(seen)).presence < 0.5


def test_the_frame_before_does_not_shine_through():
    """After an upright frame the input's unused columns must be black again, and so on."""
    wide = placed("hopper", (640, 360), 150, (330, 190))
    fresh = Detector("near")
    first = fresh.detect(wide)
    fresh.detect(placed("astronaut", (360, 640), 200, (180, 500)))
    again = fresh.detect(wide)
    assert len(first) == len(again) == 1
    np.testing.assert_array_equal(first[0].centre, again[0].centre)
    assert first[0].score == again[0].score
    fresh.close()


def test_overlapping_boxes_are_one_face_and_boxes_that_are_none_are_dropped():
    boxes = np.array(
        [
            [10, 10, 50, 50], [12, 12, 52, 52], [48, 10, 88, 50], [10, 10, 14, 14],
            [50, 50, 10, 10], [20, 20, 20, 60], [np.nan, 0, 40, 40], [0, 0, np.inf, 40],
        ],
        np.float32,
    )  # fmt: skip
    for iou in (0.3, 0.4):
        assert distinct(boxes, iou) == [0, 2, 3]
        assert distinct(boxes[4:], iou) == []
    # A third of the two together is shared.
    beside = np.float32([[0, 0, 100, 100], [48, 0, 148, 100]])
    assert distinct(beside, 0.3) == [0]
    assert distinct(beside, 0.4) == [0, 1]


def test_numbers_that_are_none_are_no_faces():
    fresh = Detector("near")

    class Broken:
        inputs = fresh.network.inputs
        name, nodes = "broken", {}

        def run(self):
            fresh._logits[:] = np.resize([np.nan, 9.0, np.inf], len(fresh._logits))
            fresh._boxes[:] = np.nan

    real, fresh.network = fresh.network, Broken()
    assert fresh.detect(np.zeros((90, 120, 3), np.uint8)) == []
    real.close()
