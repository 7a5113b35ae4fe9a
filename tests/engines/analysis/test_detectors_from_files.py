"""SCRFD and YOLOFace from the user's own files: faces where they are, in every layout that exporters give them."""

from __future__ import annotations

import numpy as np
import pytest

from engines.analysis.boxes import distinct, faces_of
from engines.analysis.feed import FloatBuffer, put_rgb
from engines.analysis.five import five_of, keypoints_of
from engines.analysis.landmarks import region_of_detection
from engines.analysis.open import open_detector, open_embedder, open_landmarker
from engines.analysis.scrfd import Scrfd
from engines.analysis.yoloface import YoloFace
from engines.errors import EngineError
from engines.runtime.open import open_network
from engines.runtime.ort import network as ort
from tests import detectors
from tests.detectors import FIVE, SCRFD_RED, SCRFD_SIDES, YOLO_BOX, Layout
from tests.engines.scenes import FILES, detector, mesh, portrait

RED = (0, 0, 255)
OTHERS = ((255, 0, 0), (0, 255, 0), (255, 255, 255), (128, 128, 128), (255, 0, 255), (0, 255, 255))

LAYOUTS = {
    "as published": Layout(),
    "no batch": Layout(batch=False),
    "any order": Layout(order=(6, 1, 8, 4, 0, 7, 2, 5, 3)),
    "stride by stride, no batch": Layout(batch=False, order=(0, 3, 6, 1, 4, 7, 2, 5, 8)),
    "flat scores": Layout(flat_scores=True),
    "flat scores, no batch": Layout(flat_scores=True, batch=False),
    "nhwc": Layout(nhwc=True),
    "half": Layout(half=True),
    "free sizes": Layout(free=True),
    "turned": Layout(turned=True),
    "turned, no batch": Layout(turned=True, batch=False),
}


def frame(width, height, *spots, side=8, colour=RED):
    """A grey picture with red squares whose top left corners are given."""
    image = np.full((height, width, 3), 96, np.uint8)
    for x, y in spots:
        image[y : y + side, x : x + side] = colour
    return image


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_scrfd_in_every_layout(tmp_path, layout):
    found = open_detector(detectors.scrfd(tmp_path / "own.onnx", layout=layout))
    assert isinstance(found, Scrfd)
    one, two = found.detect(frame(640, 480, (160, 96), (400, 320)))
    found.close()
    for face, (x, y) in zip(
        sorted((one, two), key=lambda face: face.centre[0]), ((160, 96), (400, 320)), strict=True
    ):
        left, top, right, bottom = (8 * side for side in SCRFD_SIDES)
        np.testing.assert_allclose(face.centre, [x + (right - left) / 2, y + (bottom - top) / 2], atol=0.1)
        assert face.size == pytest.approx(max(left + right, top + bottom), abs=0.1)
        assert face.score == pytest.approx(SCRFD_RED, abs=2e-3)
        five = 8 * np.float32(FIVE) + (x, y)
        np.testing.assert_allclose(face.keypoints, keypoints_of(five[None])[0], atol=0.2)
        np.testing.assert_allclose(face.keypoints[3], five[3:].mean(0), atol=0.1)


@pytest.mark.parametrize("stride", detectors.STRIDES)
@pytest.mark.parametrize(
    "size", [(1280, 720), (640, 640), (360, 640), (320, 180), (1920, 1080), (2600, 1400)]
)
def test_scrfd_at_every_stride_and_size_of_frame(tmp_path, stride, size):
    """The frame lies at the top left of the network's picture, whatever its shape."""
    width, height = size
    scale = 640 / max(size)
    found = open_detector(detectors.scrfd(tmp_path / "own.onnx", stride=stride))
    x, y = round(96 / scale), round(64 / scale)
    reach = max(2, round(3 / scale))
    [face] = found.detect(frame(width, height, (x - reach, y - reach), side=2 * reach))
    found.close()
    left, top, right, bottom = (stride * side / scale for side in SCRFD_SIDES)
    np.testing.assert_allclose(
        face.centre, [x + (right - left) / 2, y + (bottom - top) / 2], atol=1.5 / scale + 1
    )
    assert face.size == pytest.approx(max(left + right, top + bottom), rel=0.01)


def test_scrfd_of_another_size(tmp_path):
    found = open_detector(detectors.scrfd(tmp_path / "own.onnx", height=320, width=512))
    [face] = found.detect(frame(1024, 640, (256, 160), side=32))
    np.testing.assert_allclose(face.keypoints[:3], 16 * np.float32(FIVE[:3]) + (256, 160), atol=20)
    found.close()


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_yoloface_in_every_layout(tmp_path, layout):
    found = open_detector(detectors.yoloface(tmp_path / "own.onnx", layout=layout))
    assert isinstance(found, YoloFace)
    faces = sorted(found.detect(frame(640, 480, (160, 96), (400, 320))), key=lambda face: face.centre[0])
    found.close()
    assert len(faces) == 2
    for face, at in zip(faces, ((160, 96), (400, 320)), strict=True):
        np.testing.assert_allclose(face.centre, at, atol=0.3)
        assert face.size == pytest.approx(max(YOLO_BOX), abs=0.3)
        assert face.score == pytest.approx(1, abs=2e-3)
        np.testing.assert_allclose(face.keypoints[:3], 8 * np.float32(FIVE[:3]) + at, atol=0.3)


@pytest.mark.parametrize("make", [detectors.scrfd, detectors.yoloface])
@pytest.mark.parametrize("colour", OTHERS)
def test_nothing_else_is_a_face(tmp_path, make, colour):
    """With the channels the wrong way round, or black padding that is not black, one of these would be."""
    found = open_detector(make(tmp_path / "own.onnx"))
    assert found.detect(frame(640, 360, (160, 96), side=80, colour=colour)) == []
    assert len(found.detect(frame(640, 360, (160, 96)))) == 1
    assert found.detect(np.full((640, 360, 3), 96, np.uint8)) == []
    found.close()


@pytest.mark.parametrize("make", [detectors.scrfd, detectors.yoloface])
def test_pictures_of_any_shape(tmp_path, make):
    found = open_detector(make(tmp_path / "own.onnx"))
    for height, width in ((1, 1), (2, 700), (900, 1), (3, 5)):
        assert found.detect(np.full((height, width, 3), 96, np.uint8)) == []
    found.close()


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda path: detectors.scrfd(path, points=False), "1×12800×4"),
        (lambda path: detectors.yoloface(path, rows=5), "1×5×8400"),
        (lambda path: detectors.yoloface(path, rows=84), "1×84×8400"),
        (detectors.fan, "1×68×3"),
        (detectors.arcface, "1×256"),
    ],
)
def test_a_file_of_another_kind_is_named_with_what_was_found_and_expected(tmp_path, make, expected):
    path = make(tmp_path / "mine.onnx")
    with pytest.raises(EngineError) as caught:
        open_detector(path)
    said = str(caught.value)
    assert "mine" in said
    assert expected in said
    assert "1×20×8400" in said
    assert caught.value.fix


def test_a_detector_with_a_head_of_the_wrong_size_says_which(tmp_path):
    path = detectors.scrfd(tmp_path / "mine.onnx", layout=Layout(order=(0, 1, 2, 3, 4, 5, 6, 7, 7)))
    with pytest.raises(EngineError, match=r"mine is not an SCRFD detector: .* 3200×10 for stride 16"):
        open_detector(path)


@pytest.mark.parametrize("content", [b"", b"<html>404</html>", b"\0" * 4096])
def test_what_is_no_network_at_all(tmp_path, content):
    path = tmp_path / "mine.onnx"
    path.write_bytes(content)
    with pytest.raises((EngineError, Exception), match=r"mine\.onnx"):
        open_detector(path)


def rows(*boxes):
    return np.float32(boxes)


def test_one_face_is_found_once_and_never_without_numbers():
    boxes = rows(
        [0, 0, 40, 40], [2, 2, 42, 42], [100, 0, 140, 40], [np.nan, 0, 40, 40],
        [200, 0, 200, 40], [300, 0, 340, 40], [400, 0, 440, np.inf],
    )  # fmt: skip
    points = np.tile(np.float32(FIVE), (len(boxes), 1, 1))
    points[5, 2] = np.nan
    scores = np.float32([0.9, 0.95, 0.8, 0.99, 0.9, 0.9, 0.9])
    faces = faces_of(boxes, keypoints_of(points), scores, 2.0)
    assert [face.centre.tolist() for face in faces] == [[11, 11], [60, 10]]
    assert all(face.size == 20 for face in faces)
    assert faces[0].score == pytest.approx(0.95)
    assert distinct(boxes[:0]) == []


def test_a_network_that_is_sure_of_everything_ends_in_time():
    rng = np.random.default_rng(0)
    corners = rng.uniform(0, 600, (16_800, 2))
    boxes = np.float32(np.c_[corners, corners + 30])
    faces = faces_of(boxes, np.zeros((len(boxes), 6, 2), np.float32), np.ones(len(boxes), np.float32), 1.0)
    assert 1 < len(faces) <= 300


@pytest.mark.parametrize("name", FILES)
def test_six_keypoints_from_five_are_those_of_the_embedded_detector(name):
    """Eyes, nose and mouth to a part of the face; ears are an estimate, on their own sides of the eyes."""
    seen = detector("near").detect(portrait(name))[0]
    six = keypoints_of(five_of(mesh(name))[None])[0]
    assert np.abs(six[:4] - seen.keypoints[:4]).max() < 0.1 * seen.size
    assert np.abs(six[4:] - seen.keypoints[4:]).max() < 0.25 * seen.size
    right, left = six[4:]
    assert right[0] < six[0, 0] < six[1, 0] < left[0]
    one, other = region_of_detection(seen), region_of_detection(type(seen)(seen.centre, seen.size, six, 1.0))
    assert one.angle == pytest.approx(other.angle, abs=0.12)


@pytest.mark.parametrize("nchw", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize(("mean", "std"), [(0.0, 255.0), (127.5, 127.5), (127.5, 128.0), (0.0, 1.0)])
def test_every_crop_gets_into_a_network_as_red_green_blue(nchw, dtype, mean, std):
    image = np.random.default_rng(0).integers(0, 256, (9, 7, 3), np.uint8)
    expected = (image[:, :, ::-1].astype(np.float64) - mean) / std
    own = np.full((3, 9, 7) if nchw else (9, 7, 3), np.nan, dtype)
    put_rgb(np.moveaxis(own, 0, 2) if nchw else own, image.copy(), mean, std)
    made = own.transpose(1, 2, 0) if nchw else own
    np.testing.assert_allclose(made, expected, atol=2e-3 if dtype is np.float16 else 1e-4, rtol=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_a_networks_buffer_is_floats_on_both_ways(dtype):
    own = np.zeros((2, 3), dtype)
    buffer = FloatBuffer(own)
    assert buffer.array.dtype == np.float32 and (buffer.array is own) == (dtype == np.float32)
    buffer.array[:] = 1.5
    buffer.push()
    assert (own == 1.5).all()
    own[:] = 2.5
    buffer.pull()
    assert (buffer.array == 2.5).all()


@pytest.mark.parametrize("kind", ["detector", "landmarker", "embedder", "any"])
def test_whatever_it_is_for_a_network_gets_threads_by_its_size_alone(tmp_path, monkeypatch, kind):
    make, opened = {
        "detector": (detectors.yoloface, open_detector), "landmarker": (detectors.fan, open_landmarker),
        "embedder": (detectors.arcface, open_embedder), "any": (detectors.arcface, open_network),
    }[kind]  # fmt: skip
    path, asked, given = make(tmp_path / "own.onnx"), [], []
    real = ort.open_session
    monkeypatch.setattr(ort, "threads_for", lambda size: asked.append(size) or 2)
    monkeypatch.setattr(ort, "open_session", lambda *about: given.append(about[2].threads) or real(*about))
    opened(path).close()
    assert (asked, given) == ([path.stat().st_size], [2])
