"""MediaPipe behind the tracker: its bundle is looked into first, and it is asked once a frame; then the real package.

The bundle in ``tests/data`` is made by ``python -m tools.convert_models.task``. The last tests run the real package on
it, offline, wherever it is installed; how to install it beside this program's OpenCV: ``docs/faces.md``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import types
import zipfile
from pathlib import Path

import numpy as np
import pytest

from engines.analysis.landmarks import region_of_detection, region_of_points
from engines.analysis.mediapipe import WholeFrame, check_bundle, open_mediapipe
from engines.errors import EngineError, UsageError
from engines.faces import Region
from realtime.choosing.select import Selector
from realtime.tracking.track import Tracker
from tests.engines.scenes import FILES, landmarks, mesh, placed, portrait

BUNDLE = Path(__file__).parents[2] / "data" / "face_landmarker.task"
BUNDLE_SUM = "2c1192f04c8ebfc29ad45bd65c09876aede20b5b1670c27c8e75eba2c184de3d"
FRAME = 33_333_333
REAL = pytest.mark.skipif(
    importlib.util.find_spec("mediapipe") is None,
    reason="MediaPipe is not installed here: see docs/faces.md for how to, beside this program's OpenCV",
)


def bundle(path, members, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as file:
        for name in members:
            file.writestr(name, b"TFL3" * 100)
    return path


PARTS = ("face_detector.tflite", "face_landmarks_detector.tflite")


class TestBundle:
    def test_the_carried_one_is_the_one_that_is_made(self):
        assert hashlib.sha256(BUNDLE.read_bytes()).hexdigest() == BUNDLE_SUM
        check_bundle(BUNDLE)

    def test_more_than_the_two_networks_may_be_in_it(self, tmp_path):
        check_bundle(bundle(tmp_path / "a.task", (*PARTS, "face_blendshapes.tflite", "notes.txt")))

    @pytest.mark.parametrize("missing", PARTS)
    def test_a_network_that_is_missing_is_named(self, tmp_path, missing):
        path = bundle(tmp_path / "a.task", [*(set(PARTS) - {missing}), "other.tflite"])
        with pytest.raises(UsageError, match=rf"has no {missing}; it holds .*other\.tflite") as caught:
            check_bundle(path)
        assert "zip -0" in caught.value.fix

    def test_a_compressed_one_is_refused_with_how_to_zip_it(self, tmp_path):
        with pytest.raises(UsageError, match=r"face_detector\.tflite in .* is compressed") as caught:
            check_bundle(bundle(tmp_path / "a.task", PARTS, zipfile.ZIP_DEFLATED))
        assert "zip -0" in caught.value.fix

    @pytest.mark.parametrize(
        "content",
        [b"TFL3" * 50, b"<html>404</html>", b"PK\x03\x04" + b"\0" * 60, BUNDLE.read_bytes()[:200_000]],
    )
    def test_what_is_no_bundle_at_all(self, tmp_path, content):
        path = tmp_path / "a.task"
        path.write_bytes(content)
        with pytest.raises(UsageError, match=r"a\.task' is no bundle"):
            check_bundle(path)

    def test_nothing_and_a_folder(self, tmp_path):
        (tmp_path / "empty.task").touch()
        for path in (tmp_path / "none.task", tmp_path, tmp_path / "empty.task"):
            with pytest.raises(UsageError):
                check_bundle(path)


class Fake:
    """A package that sees whatever it is told to, and remembers how it was asked."""

    def __init__(self, monkeypatch):
        self.asked, self.meshes, self.fails, self.closed = [], [], None, 0
        package, tasks, python, vision = (types.ModuleType("mediapipe" + end) for end in
                                          ("", ".tasks", ".tasks.python", ".tasks.python.vision"))  # fmt: skip
        package.Image = lambda image_format, data: data
        package.ImageFormat = types.SimpleNamespace(SRGB=1)
        python.BaseOptions = lambda model_asset_path: model_asset_path
        python.vision = vision
        vision.RunningMode = types.SimpleNamespace(VIDEO="video")
        vision.FaceLandmarkerOptions = lambda **options: options
        vision.FaceLandmarker = types.SimpleNamespace(create_from_options=self._create)
        for name, module in (("", package), (".tasks", tasks), (".tasks.python", python),
                             (".tasks.python.vision", vision)):  # fmt: skip
            monkeypatch.setitem(sys.modules, "mediapipe" + name, module)

    def _create(self, options):
        if self.fails == "create":
            raise RuntimeError("unsupported operator")
        self.options = options
        return self

    def detect_for_video(self, picture, at_ms):
        if self.fails == "run":
            raise RuntimeError("calculator failed")
        self.asked.append((picture.copy(), at_ms))
        height, width = picture.shape[:2]
        points = [
            [types.SimpleNamespace(x=x / width, y=y / height, z=z / width) for x, y, z in points]
            for points in self.meshes
        ]
        return types.SimpleNamespace(face_landmarks=points)

    def close(self):
        self.closed += 1


@pytest.fixture
def fake(monkeypatch):
    return Fake(monkeypatch)


def face(x, y, width, points=478):
    shape = np.array(mesh("hopper", 478)[:points], np.float32)
    shape -= shape.mean(0)
    return shape / np.ptp(shape[:, 0]) * np.float32(width) + np.float32([x, y, 0])


def test_it_is_asked_once_a_frame_in_video_mode_with_rgb_and_growing_times(fake):
    networks = open_mediapipe(BUNDLE, 2)
    assert fake.options["running_mode"] == "video"
    assert fake.options["num_faces"] == 2
    fake.meshes = [face(150, 200, 100), face(450, 220, 160)]
    times = (5 * FRAME, 5 * FRAME + 10, 4 * FRAME, 9 * FRAME)
    for number, at in enumerate(times):
        image = np.zeros((400, 600, 3), np.uint8)
        image[:, :] = (number, 100, 200)
        networks.begin(image, at)
        found = networks.near.detect(image)
        assert [round(one.size) for one in found] == sorted((round(one.size) for one in found), reverse=True)
        for one, expected in zip(found, fake.meshes[::-1], strict=True):
            seen = networks.landmarks[0].read(image, region_of_detection(one))
            np.testing.assert_allclose(seen.points, expected, atol=1e-2)
            assert seen.presence == 1
            assert seen.patch.image.shape == (192, 192, 3)
            assert seen.patch.image[96, 96] == pytest.approx([200 / 255, 100 / 255, number / 255], abs=0.01)
        assert networks.landmarks[1].read(image, Region(300, 380, 60, 0)).presence == 0
    assert [picture[0, 0].tolist() for picture, _ in fake.asked] == [[200, 100, n] for n in range(4)]
    asked = [at for _, at in fake.asked]
    assert asked == sorted(set(asked))
    networks.close()
    networks.close()
    assert fake.closed == 1


def test_in_parts_of_a_frame_and_before_the_first_nobody_is_seen(fake):
    networks = open_mediapipe(BUNDLE, 1)
    fake.meshes = [face(150, 200, 100)]
    image = np.zeros((400, 600, 3), np.uint8)
    assert networks.near.detect(image) == []
    networks.begin(image, FRAME)
    assert networks.near.detect(image[:200, :200]) == []
    assert networks.near.detect(image.copy()) == []
    assert len(networks.near.detect(image)) == 1
    networks.close()


def test_meshes_that_are_none_are_nobody(fake):
    networks = open_mediapipe(BUNDLE, 1)
    broken = face(150, 200, 100)
    broken[3, 1] = np.nan
    fake.meshes = [broken, face(150, 200, 100, points=468), np.zeros((0, 3))]
    image = np.zeros((400, 600, 3), np.uint8)
    networks.begin(image, FRAME)
    assert networks.near.detect(image) == []
    networks.close()


def test_what_it_says_becomes_a_sentence(fake):
    fake.fails = "create"
    with pytest.raises(EngineError, match=r"MediaPipe cannot use .*unsupported operator"):
        open_mediapipe(BUNDLE, 1)
    fake.fails = None
    whole = WholeFrame(BUNDLE, 1)
    image = np.zeros((40, 60, 3), np.uint8)
    whole.begin(image, FRAME)
    fake.fails = "run"
    with pytest.raises(EngineError, match="MediaPipe failed: calculator failed"):
        whole.faces(image)
    whole.close()


def test_an_identity_network_that_fails_leaves_nothing_open(fake):
    def broken():
        raise EngineError("no such network")

    with pytest.raises(EngineError, match="no such network"):
        open_mediapipe(BUNDLE, 1, broken)
    assert fake.closed == 1


@pytest.mark.parametrize("blocked", ["mediapipe", "mediapipe.tasks.python"])
def test_without_the_package_it_says_what_to_install(fake, monkeypatch, blocked):
    monkeypatch.setitem(sys.modules, blocked, None)
    with pytest.raises(EngineError, match="not installed") as caught:
        WholeFrame(BUNDLE, 1)
    assert "--no-deps mediapipe" in caught.value.fix


def test_a_tracker_follows_what_it_sees(fake):
    tracker = Tracker(478, Selector("owner", 1), 5, lambda points, count: open_mediapipe(BUNDLE, count))
    tracker.open(lambda line: None)
    for step in range(10):
        fake.meshes = [face(200 + 5 * step, 200, 120)]
        found = tracker.track(np.zeros((400, 600, 3), np.uint8), step * FRAME)
        assert [one.track for one in found] == [1]
        assert abs(found[0].points[:, 0].mean() - (200 + 5 * step)) < 4
    fake.meshes = []
    assert tracker.track(np.zeros((400, 600, 3), np.uint8), 10 * FRAME) == []
    assert tracker.lost
    assert tracker.nodes == {"face_landmarker": {"MediaPipe": 1}}
    assert len(fake.asked) == 11
    tracker.close()


@REAL
@pytest.mark.parametrize("name", FILES)
def test_the_real_package_sees_what_the_embedded_networks_see(name):
    networks = open_mediapipe(BUNDLE, 1)
    image = np.array(portrait(name))
    for step in range(6):
        networks.begin(image, step * FRAME)
        [found] = networks.near.detect(image)
        seen = networks.landmarks[0].read(image, region_of_detection(found))
    networks.close()
    own = landmarks(478).acquire(image, region_of_points(seen.points))
    width = np.ptp(own.points[:, 0])
    apart = np.linalg.norm((seen.points - own.points)[:, :2], axis=1)
    assert apart.mean() < 0.015 * width
    assert apart[468:].max() < 0.03 * width


@REAL
def test_the_real_package_follows_a_face_and_sees_nobody_where_nobody_is():
    tracker = Tracker(478, Selector("owner", 1), 5, lambda points, count: open_mediapipe(BUNDLE, count))
    tracker.open(lambda line: None)
    for step in range(20):
        at = (250 + 6 * step, 200)
        found = tracker.track(placed("hopper", (640, 400), 120, at), step * FRAME)
    assert len(found) == 1
    assert np.abs(found[0].points[:, :2].mean(0) - at).max() < 20
    for step in range(20, 24):
        assert tracker.track(np.full((400, 640, 3), 127, np.uint8), step * FRAME) == []
    tracker.close()
