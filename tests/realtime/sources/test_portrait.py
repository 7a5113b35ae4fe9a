"""The animated portrait: what it shows is read back from its pixels by the project's own networks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest

from engines.analysis.align import five_points
from engines.analysis.detect import Detector
from engines.analysis.landmarks import LandmarkNetwork, region_of_detection
from engines.analysis.topology import LEFT_EYE_RINGS, RIGHT_EYE_RINGS, canonical
from engines.errors import PhotoError, UsageError
from engines.portrait.fields import FIELDS
from engines.portrait.state import HeadState
from engines.runtime.ort.network import OnnxNetwork
from realtime.clock import ManualClock
from realtime.frame import FramePool, Kind
from realtime.sources.portrait import PACKAGED, PortraitSource
from realtime.sources.portrait_motion import PITCH, ROLL, YAW

SMALL = (640, 360)
HOPPER = PACKAGED.with_name("hopper.jpg")
TEMPLATE = np.float32(
    [[38.2946, 51.6963], [73.5318, 51.5014], [56.0252, 71.7366], [41.5493, 92.3655], [70.7299, 92.2041]]
)


def opened(size=SMALL, fps=30.0, path=None, **options) -> PortraitSource:
    source = PortraitSource(path, size, fps, ManualClock(7), **options)
    source.open()
    return source


def images(source: PortraitSource, count: int) -> list[np.ndarray]:
    return [source.read().image.copy() for _ in range(count)]


@pytest.fixture(scope="module")
def eyes() -> Iterator[LandmarkNetwork]:
    """Even a real blink is invisible to the network of 468 points: the refined one sees it."""
    network = LandmarkNetwork(478)
    yield network
    network.close()


@pytest.fixture(scope="module")
def mesh() -> Iterator[LandmarkNetwork]:
    network = LandmarkNetwork(468)
    yield network
    network.close()


@pytest.fixture(scope="module")
def detector() -> Iterator[Detector]:
    detector = Detector("near")
    yield detector
    detector.close()


@pytest.fixture(scope="module")
def source() -> PortraitSource:
    return opened((960, 540), noise=0.0)


@pytest.fixture(scope="module", params=[PACKAGED, HOPPER], ids=lambda path: path.stem)
def person(request) -> PortraitSource:
    return opened((960, 540), path=request.param)


def shown(source: PortraitSource, monkeypatch, **state) -> np.ndarray:
    """The frame of one state, read the way a session reads it."""
    monkeypatch.setattr(source._motion, "at", lambda frame: HeadState(**state))
    image = source.read().image
    monkeypatch.undo()
    return image


def found(network: LandmarkNetwork, detector: Detector, image: np.ndarray) -> np.ndarray:
    faces = detector.detect(image)
    assert len(faces) == 1
    landmarks = network.acquire(image, region_of_detection(faces[0]))
    assert landmarks.presence > 0.9
    return landmarks.points


def lid_opening(points: np.ndarray, ring: tuple[int, ...]) -> float:
    heights = [np.linalg.norm(points[ring[i], :2] - points[ring[i + 8], :2]) for i in (3, 4, 5)]
    return float(np.mean(heights) / np.linalg.norm(points[ring[0], :2] - points[ring[8], :2]))


def mouth_opening(points: np.ndarray) -> float:
    return float(
        np.linalg.norm(points[13, :2] - points[14, :2]) / np.linalg.norm(points[33, :2] - points[263, :2])
    )


def pose(points: np.ndarray) -> np.ndarray:
    """Yaw, pitch and roll in radians, by laying the canonical face over the landmarks."""
    a, b = canonical() - canonical().mean(0), points[:468] - points[:468].mean(0)
    u, _, vt = np.linalg.svd(a.T @ b)
    turn = (u @ np.diag([1, 1, np.sign(np.linalg.det(u @ vt))]) @ vt).T
    ahead = turn @ [0, 0, -1]
    return np.array(
        [math.atan2(ahead[0], -ahead[2]), math.asin(ahead[1]), math.atan2(turn[1, 0], turn[0, 0])]
    )


# Motion


def test_the_same_seed_gives_the_same_bytes_and_reopening_starts_again():
    one, other = opened(seed=3), opened(seed=3)
    first = images(one, 6)
    assert all(np.array_equal(a, b) for a, b in zip(first, images(other, 6), strict=True))
    one.open()
    assert all(np.array_equal(a, b) for a, b in zip(first, images(one, 6), strict=True))


def test_another_seed_moves_otherwise():
    states = [PortraitSource(None, SMALL, 30, ManualClock(), seed=seed).state(45) for seed in range(20)]
    assert len(set(states)) == 20
    assert not np.array_equal(opened(seed=3).read().image, opened(seed=4).read().image)


def test_motion_depends_on_time_and_not_on_the_rate():
    slow, fast = (PortraitSource(None, SMALL, fps, ManualClock()) for fps in (30, 60))
    for frame in range(0, 300, 7):
        a, b = slow.state(frame), fast.state(2 * frame)
        assert (a.yaw, a.pitch, a.x, a.jaw) == pytest.approx((b.yaw, b.pitch, b.x, b.jaw))


@pytest.mark.parametrize("seed", [0, 2**63, -5])
def test_a_minute_is_varied_smooth_and_within_its_limits(seed):
    source = PortraitSource(None, SMALL, 30, ManualClock(), seed=seed)
    states = np.array([dataclasses.astuple(source.state(n)) for n in range(1800)])
    column = {field.name: states[:, n] for n, field in enumerate(dataclasses.fields(HeadState))}
    assert np.isfinite(states).all()
    for name, limit in (("yaw", YAW), ("pitch", PITCH), ("roll", ROLL)):
        assert np.abs(column[name]).max() <= limit
        assert np.ptp(column[name]) > 0.8 * limit
        assert np.abs(np.diff(column[name])).max() < limit / 4
    assert np.abs(column["x"]).max() < 0.25
    assert np.abs(column["zoom"] - 1).max() < 0.1
    for name in ("jaw", "press", "pucker", "lip", "right_lid", "left_lid", "frown"):
        assert column[name].min() >= 0
        assert column[name].max() <= 1
    assert column["jaw"].max() > 0.5
    assert (column["jaw"] == 0).mean() > 0.1


@pytest.mark.parametrize("fps", [24, 30, 50])
def test_blinks_shut_on_a_frame_and_are_short(fps):
    source = PortraitSource(None, SMALL, fps, ManualClock(), seed=4)
    lids = np.array([source.state(n).right_lid for n in range(40 * fps)])
    shut = lids > 0.99
    blinks = np.flatnonzero(np.diff(shut.astype(int)) == 1)
    assert 8 <= len(blinks) <= 28
    edges = np.flatnonzero(np.diff(np.r_[0, lids > 0.3, 0].astype(int)))
    lengths = (edges[1::2] - edges[::2]) / fps
    assert lengths.max() < 0.3
    assert all(shut[a:b].any() for a, b in zip(edges[::2], edges[1::2], strict=True))


# What the networks see


def test_a_face_is_tracked_in_every_frame_and_stays_itself(person, mesh, detector):
    network = OnnxNetwork(Path(__file__).parents[2] / "data" / "mobileface.onnx")

    def identity(image, points):
        affine, _ = cv2.estimateAffinePartial2D(five_points(points), TEMPLATE, method=cv2.LMEDS)
        face = cv2.warpAffine(image, affine, (112, 112))[:, :, ::-1]
        network.inputs[0][...] = face.reshape(network.inputs[0].shape)
        network.run()
        vector = network.outputs[0].ravel().copy()
        return vector / np.linalg.norm(vector)

    photo = cv2.imread(str(person._path))
    truth = identity(photo, found(mesh, detector, photo))
    cosines = []
    image = np.empty((540, 960, 3), np.uint8)
    for n in range(0, 240, 16):
        person._stage.render(image, person._stage.pose(person.state(n)), n)
        cosines.append(float(identity(image, found(mesh, detector, image)) @ truth))
    network.close()
    assert np.median(cosines) > 0.7


def test_closed_lids_are_seen_as_closed(source, eyes, detector, monkeypatch):
    wide = found(eyes, detector, shown(source, monkeypatch))
    shut = found(eyes, detector, shown(source, monkeypatch, right_lid=1.0, left_lid=1.0))
    for rings in (RIGHT_EYE_RINGS, LEFT_EYE_RINGS):
        assert lid_opening(shut, rings[0]) < 0.35 * lid_opening(wide, rings[0])


def test_one_lid_closes_alone(source, eyes, detector, monkeypatch):
    wink = found(eyes, detector, shown(source, monkeypatch, left_lid=1.0))
    assert lid_opening(wink, LEFT_EYE_RINGS[0]) < 0.6 * lid_opening(wink, RIGHT_EYE_RINGS[0])


def test_eyes_look_both_to_the_same_side(source, eyes, detector, monkeypatch):
    right, left = (found(eyes, detector, shown(source, monkeypatch, gaze_x=x)) for x in (1.0, -1.0))
    for iris, corners in ((468, (33, 133)), (473, (362, 263))):
        travel = (right[iris, 0] - left[iris, 0]) / (right[corners[1], 0] - right[corners[0], 0])
        assert travel > 0.08


def test_the_jaw_opens_the_mouth(person, eyes, detector, monkeypatch):
    seen = [
        mouth_opening(found(eyes, detector, shown(person, monkeypatch, jaw=jaw))) for jaw in (0, 0.3, 0.6, 1)
    ]
    assert np.diff(seen).min() > 0.02
    assert seen[-1] - seen[0] > 0.15


def test_the_inside_of_an_open_mouth_is_dark(person, eyes, detector, monkeypatch):
    image = shown(person, monkeypatch, jaw=1.0)
    points = found(eyes, detector, image)
    x, y = (0.3 * points[13, :2] + 0.7 * points[14, :2]).astype(int)  # Below the upper teeth.
    cheek_x, cheek_y = points[50, :2].astype(int)
    inside = image[y - 3 : y + 4, x - 3 : x + 4].mean()
    assert inside < 0.5 * image[cheek_y - 3 : cheek_y + 4, cheek_x - 3 : cheek_x + 4].mean()


def test_pressed_lips_close_a_smile(source, eyes, detector, monkeypatch):
    rest, closed = (mouth_opening(found(eyes, detector, shown(source, monkeypatch, press=p))) for p in (0, 1))
    assert closed < 0.5 * rest


@pytest.mark.parametrize("axis, name, size", [(0, "yaw", YAW), (1, "pitch", PITCH), (2, "roll", ROLL)])
def test_the_head_turns_as_told(person, mesh, detector, monkeypatch, axis, name, size):
    ahead, back = (
        pose(found(mesh, detector, shown(person, monkeypatch, **{name: amount}))) for amount in (size, -size)
    )
    assert 0.5 * 2 * size < (ahead - back)[axis] < 1.6 * 2 * size


def test_the_largest_poses_leave_no_hole(source):
    """Every pixel of the moving part is painted: nothing of a frame that lay in the buffer before shows through."""
    extremes = [HeadState(yaw=y, pitch=p, roll=r, jaw=j, zoom=z) for y in (-YAW, YAW) for p in (-PITCH, PITCH)
                for r in (-ROLL, ROLL) for j, z in ((0.5, 1.06),)]  # fmt: skip
    out = np.empty((540, 960, 3), np.uint8)
    for state in extremes:
        pictures = []
        for fill in (0, 255):
            out[:] = fill
            source._stage.render(out, source._stage.pose(state), 0)
            pictures.append(out.copy())
        # The edges of eyes and mouth are blended over what was just painted, so equal means painted.
        assert np.array_equal(*pictures)


def test_every_field_of_the_mesh_shows(source, monkeypatch):
    rest = shown(source, monkeypatch)
    rest = rest.copy()
    for name in FIELDS:
        assert (cv2.absdiff(shown(source, monkeypatch, **{name: 1.0}), rest).max(2) > 6).sum() > 50, name


# The picture


@pytest.mark.parametrize("size", [(320, 240), (1280, 720), (3840, 2160), (64, 96)])
def test_any_size(size):
    frame = opened(size).read()
    assert frame.size == size
    assert frame.image.dtype == np.uint8
    assert frame.image.flags.c_contiguous
    assert frame.kind is Kind.LIVE


def test_odd_sizes_become_even():
    source = opened((641, 361))
    assert source.size == (640, 360)
    assert source.read().size == (640, 360)


@pytest.mark.parametrize("size, width", [((1280, 720), 215), ((640, 360), 90)])
def test_the_face_has_the_wanted_width_and_place(mesh, detector, monkeypatch, size, width):
    source = opened(size, face_width=width)
    points = found(mesh, detector, shown(source, monkeypatch))[:468, :2]
    middle = (points.min(0) + points.max(0)) / 2
    assert np.ptp(points[:, 0]) == pytest.approx(width, rel=0.06)
    assert middle[0] == pytest.approx(size[0] / 2, abs=0.05 * width)
    assert 0.4 * size[1] < middle[1] < 0.5 * size[1]


def test_the_default_face_is_a_share_of_the_height(source, mesh, detector, monkeypatch):
    for one, height in ((source, 540), (opened((640, 480)), 480)):
        points = found(mesh, detector, shown(one, monkeypatch))[:468]
        assert np.ptp(points[:, 0]) == pytest.approx(height * 430 / 1080, rel=0.06)


def test_a_photo_narrower_than_the_frame_is_continued_and_not_barred():
    """No column outside of the photo is flat, and none jumps from its neighbour."""
    image = opened((1280, 360), path=HOPPER, noise=0.0).read().image.astype(np.float32)
    assert image.std(0).mean(1).min() > 2
    columns = cv2.GaussianBlur(image, (0, 0), 3).mean(0)
    outside = np.r_[0:350, 930:1280]
    assert np.abs(np.diff(columns, axis=0))[outside[:-1]].max() < 12


@pytest.fixture(scope="module")
def clean() -> np.ndarray:
    return np.stack(images(opened((320, 180), noise=0.0), 4)).astype(np.float32)


@pytest.mark.parametrize("noise", [1.0, 2.5])
def test_noise_is_there_and_as_small_as_told(clean, noise):
    noisy = np.stack(images(opened((320, 180), noise=noise), 4)).astype(np.float32)
    # Where the picture is dark or bright it is cut to leave the noise its room; elsewhere it is only noisy.
    middle = (clean > 20).all(-1) & (clean < 235).all(-1)
    difference = (noisy - clean)[middle]
    assert difference.std() == pytest.approx(noise, rel=0.25)
    assert abs(difference.mean()) < 0.3
    corner = noisy[:, :20, :20]
    assert all(not np.array_equal(a, b) for a, b in pairwise(corner))


def test_without_noise_the_background_stands_still(clean):
    assert np.array_equal(clean[0][:, :20], clean[3][:, :20])


# Reading


def test_frames_are_numbered_and_stamped():
    clock = ManualClock(1000)
    source = PortraitSource(None, SMALL, 30, clock)
    source.open()
    assert not source.device
    assert (source.fps, source.size) == (30, SMALL)
    first = source.read()
    clock.advance(5)
    second = source.read()
    assert [(f.seq, f.captured_ns) for f in (first, second)] == [(0, 1000), (1, 1005)]


def test_buffers_come_back_and_a_frame_in_use_is_left_alone(monkeypatch):
    pools = []
    lease = FramePool.lease
    monkeypatch.setattr(FramePool, "lease", lambda pool: (pools.append(pool), lease(pool))[1])
    source = opened()
    kept = source.read()
    before = kept.image.copy()
    for _ in range(12):
        source.read()
    assert np.array_equal(kept.image, before)
    assert pools[-1].allocated <= 3


def test_closing_is_always_allowed_and_ends_reading():
    source = PortraitSource(None, SMALL, 30, ManualClock())
    source.close()
    source.open()
    source.close()
    source.close()
    with pytest.raises(UsageError, match="not open"):
        source.read()


# What cannot be used


def test_a_picture_without_a_face(tmp_path):
    path = tmp_path / "wall.png"
    cv2.imwrite(str(path), np.random.default_rng(0).integers(0, 255, (200, 300, 3), np.uint8))
    with pytest.raises(PhotoError, match=r"wall\.png"):
        opened(path=path)


@pytest.mark.parametrize("content", [b"", b"no picture", PACKAGED.read_bytes()[:5000]])
def test_a_file_that_is_no_picture(tmp_path, content):
    path = tmp_path / "broken.png"
    path.write_bytes(content)
    with pytest.raises(PhotoError, match=r"broken\.png"):
        opened(path=path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(PhotoError, match=r"nobody\.jpg"):
        opened(path=tmp_path / "nobody.jpg")


@pytest.mark.parametrize("options", [
    {"size": (0, 0)}, {"size": (63, 400)}, {"size": (-640, 360)}, {"size": (9000, 720)}, {"fps": 0}, {"fps": math.nan},
    {"fps": math.inf}, {"face_width": 0}, {"face_width": math.nan}, {"face_width": 1e9}, {"noise": -1},
    {"noise": math.nan}, {"noise": 100},
])  # fmt: skip
def test_numbers_out_of_range(options):
    with pytest.raises(UsageError):
        PortraitSource(**{"path": None, "size": SMALL, "fps": 30, "clock": ManualClock(), **options})
