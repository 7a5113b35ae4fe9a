"""A picture in place of the camera's: it does what the live face does, and nothing of the camera is left."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import cv2
import numpy as np
import pytest

from engines.analysis.landmarks import region_of_detection
from engines.analysis.topology import LEFT_EYE_RINGS, RIGHT_EYE_RINGS, canonical
from engines.errors import EngineError, UsageError
from engines.faces import Face, Patch
from engines.portrait.fields import CONTROLS
from engines.portrait.follow import PITCH, ROLL, YAW
from engines.portrait.mesh import PortraitMesh
from engines.portrait.state import HeadState
from engines.swap.base import PaintsAll
from engines.swap.portrait import PortraitOptions, PortraitSwapper
from tests.engines.scenes import detector, landmarks, mesh, source

SIZE = (480, 360)
PATCH = Patch(np.zeros((8, 8, 3), np.float32), np.zeros((2, 3), np.float32))


@cache
def actor():
    """The live face: a mesh of a portrait that can be told what to do."""
    return PortraitMesh(mesh("hopper", 478))


def acting(iris=(0.0, 0.0), **state):
    """(478, 3) landmarks of the live face, doing something."""
    body, rest = actor(), mesh("hopper", 478)
    posed = body.pose(HeadState(**state))
    points = rest.astype(np.float64).copy()
    points[:468, :2] = posed.points[:468]
    turned = posed.head[:468] @ _turn(state.get("yaw", 0), state.get("pitch", 0), state.get("roll", 0)).T
    points[:468, 2] = turned[:, 2] * body.width / 0.87
    for start, ring in ((468, RIGHT_EYE_RINGS[0]), (473, LEFT_EYE_RINGS[0])):
        middle = points[list(ring)].mean(0) - rest[list(ring)].mean(0)
        wide = np.linalg.norm(rest[ring[8], :2] - rest[ring[0], :2])
        points[start : start + 5] = rest[start : start + 5] + middle + [iris[0] * wide, iris[1] * wide, 0]
    return points.astype(np.float32)


def _turn(yaw, pitch, roll):
    (cy, sy), (cp, sp), (cr, sr) = ((np.cos(a), np.sin(a)) for a in (yaw, pitch, roll))
    return (
        np.array([[cr, -sr, 0], [sr, cr, 0], [0, 0, 1]])
        @ np.array([[1, 0, 0], [0, cp, -sp], [0, sp, cp]])
        @ np.array([[cy, 0, -sy], [0, 1, 0], [sy, 0, cy]])
    )


def face(points, track=1, patch=PATCH):
    return Face(track, points, 1.0, patch)


def opened(name="astronaut", size=SIZE, **options):
    swapper = PortraitSwapper(source(name, 478), PortraitOptions(size=size, **options))
    swapper.open(lambda text: None)
    return swapper


def frame(swapper, points, size=SIZE, fill=0, track=1):
    image = np.full((size[1], size[0], 3), fill, np.uint8)
    swapper.blend(image, swapper.swap(image, face(points, track)))
    return image


@pytest.fixture
def swapper():
    swapper = opened()
    yield swapper
    swapper.close()


@pytest.fixture
def acquainted(swapper):
    """Has seen a minute's start of the neutral face, and is wide awake."""
    for _ in range(60):
        swapper.swap(np.empty((SIZE[1], SIZE[0], 3), np.uint8), face(acting()))
    return swapper


def seen(image):
    """What the network of 478 landmarks sees in the output, from where the picture's face is."""
    large = cv2.resize(image, None, fx=2, fy=2, interpolation=cv2.INTER_CUBIC)
    return landmarks(478).acquire(large, region_of_detection(detector("near").detect(large)[0])).points


def gap(points):
    return np.linalg.norm(points[13, :2] - points[14, :2]) / np.linalg.norm(points[33, :2] - points[263, :2])


def lids(points, ring):
    return np.mean([np.linalg.norm(points[ring[i], :2] - points[ring[i + 8], :2]) for i in (3, 4, 5)]) / (
        np.linalg.norm(points[ring[0], :2] - points[ring[8], :2])
    )


# What it does


def test_an_open_mouth_opens_the_pictures(acquainted):
    shut = gap(seen(frame(acquainted, acting())))
    wide = gap(seen(frame(acquainted, acting(jaw=1.0))))
    assert wide > shut + 0.12


def test_a_smile_that_shows_its_teeth_is_shut_by_a_shut_mouth(acquainted):
    """Or it could not speak; and with nobody there the picture is as it was painted."""
    painted = gap(source("astronaut", 478).points)
    assert gap(seen(frame(acquainted, acting(press=1.0)))) < 0.6 * painted


@pytest.mark.parametrize("sides", [("right",), ("left",), ("right", "left")])
def test_lids_close_each_for_itself(acquainted, sides):
    rings = {"right": RIGHT_EYE_RINGS[0], "left": LEFT_EYE_RINGS[0]}
    wide = seen(frame(acquainted, acting()))
    shut = seen(frame(acquainted, acting(**{f"{side}_lid": 1.0 for side in sides})))
    for side, ring in rings.items():
        part = lids(shut, ring) / lids(wide, ring)
        assert part < 0.6 if side in sides else part > 0.6


@pytest.mark.parametrize("name, axis", [("yaw", 0), ("pitch", 1), ("roll", 2)])
def test_the_head_turns_the_same_way(acquainted, name, axis):
    def pose(points):
        a, b = canonical() - canonical().mean(0), points[:468] - points[:468].mean(0)
        u, _, vt = np.linalg.svd(a.T @ b)
        turn = (u @ np.diag([1, 1, np.sign(np.linalg.det(u @ vt))]) @ vt).T
        ahead = turn @ [0, 0, -1]
        return (np.arctan2(ahead[0], -ahead[2]), np.arcsin(ahead[1]), np.arctan2(turn[1, 0], turn[0, 0]))[
            axis
        ]

    one, other = (pose(seen(frame(acquainted, acting(**{name: angle})))) for angle in (0.2, -0.2))
    assert one - other > 0.15


def test_eyes_follow(acquainted):
    right, left = (acquainted.swap(np.empty((SIZE[1], SIZE[0], 3), np.uint8), face(acting(iris=(x, 0)))).posed.state
                   for x in (0.08, -0.08))  # fmt: skip
    assert right.gaze_x > 0.3 > -0.3 > left.gaze_x
    unknown = acquainted.swap(np.empty((SIZE[1], SIZE[0], 3), np.uint8), face(acting()[:468])).posed.state
    assert (unknown.gaze_x, unknown.gaze_y) == (0, 0)


def test_a_still_face_is_a_still_picture(acquainted):
    """Tremble of landmarks as a tracker leaves it moves the picture's vertices by less than it."""
    random, found = np.random.default_rng(3), []
    for _ in range(12):
        points = acting() + random.normal(0, 0.15, (478, 3)).astype(np.float32)
        posed = acquainted.swap(np.empty((SIZE[1], SIZE[0], 3), np.uint8), face(points)).posed
        found.append(posed.points[list(CONTROLS)])
    assert np.std(found, axis=0).mean() < 0.35


def test_the_neutral_face_is_learnt_and_talking_is_not(swapper):
    image = np.empty((SIZE[1], SIZE[0], 3), np.uint8)
    for _ in range(60):
        swapper.swap(image, face(acting()))
    before = swapper.swap(image, face(acting(jaw=0.8))).posed.drop
    for n in range(300):
        swapper.swap(image, face(acting(jaw=0.8 * (n % 8 < 5))))
    assert swapper.swap(image, face(acting(jaw=0.8))).posed.drop > 0.6 * before


# What is left of the camera


def test_no_pixel_depends_on_the_camera(acquainted):
    random = np.random.default_rng(0)
    other = opened()
    for _ in range(60):
        other.swap(np.empty((SIZE[1], SIZE[0], 3), np.uint8), face(acting()))
    for state in ({}, {"jaw": 1.0, "yaw": 0.4, "left_lid": 1.0}):
        points = acting(**state)
        pictures = []
        for one in (acquainted, other):
            image = random.integers(0, 255, (SIZE[1], SIZE[0], 3), np.uint8)
            patch = Patch(random.random((192, 192, 3), np.float32), np.float32([[1, 0, 0], [0, 1, 0]]))
            one.blend(image, one.swap(image, face(points, patch=patch)))
            pictures.append(image)
        assert np.array_equal(*pictures)


@pytest.mark.parametrize("background", [None, "#102030"])
def test_the_largest_poses_tear_nothing(background):
    """Whatever was in the frame, all of it is painted over: in poses further than any head gets."""
    swapper = opened(background=background)
    for _ in range(40):
        swapper.swap(np.empty((SIZE[1], SIZE[0], 3), np.uint8), face(acting()))
    for yaw in (-1.2, 1.2):
        for pitch in (-0.9, 0.9):
            points = acting(yaw=yaw, pitch=pitch, roll=yaw, jaw=1.0, right_lid=1.0, x=3.0, zoom=1.8)
            image = np.zeros((SIZE[1], SIZE[0], 3), np.uint8)
            layer = swapper.swap(image, face(points))
            state = layer.posed.state
            assert abs(state.yaw) <= YAW
            assert abs(state.pitch) <= PITCH
            assert abs(state.roll) <= ROLL
            pictures = []
            for fill in (0, 255):
                image[:] = fill
                swapper.blend(image, layer)
                pictures.append(image.copy())
            assert np.array_equal(*pictures)


def test_the_same_faces_make_the_same_pictures(swapper):
    other = opened()
    for n in range(20):
        points = acting(jaw=(n % 5) / 5, yaw=0.02 * n)
        assert np.array_equal(frame(swapper, points, fill=9), frame(other, points, fill=200))


# When nobody is there


def test_it_eases_to_the_picture_as_it_was_painted(acquainted):
    assert isinstance(acquainted, PaintsAll)
    image = np.empty((SIZE[1], SIZE[0], 3), np.uint8)
    acquainted.swap(image, face(acting(jaw=1.0, yaw=0.2)))
    yaws = [acquainted.rest(image).posed.state.yaw for _ in range(200)]
    assert yaws[0] > 0.5 * max(yaws) > 0
    assert np.abs(np.diff(yaws)).max() < 0.02
    assert yaws[-1] == 0
    acquainted.blend(image, acquainted.rest(image))
    fresh = opened()
    still = np.empty_like(image)
    fresh.blend(still, fresh.rest(still))
    assert np.array_equal(image, still)
    assert gap(seen(image)) > 0.6 * gap(source("astronaut", 478).points)


def test_who_comes_back_is_known_and_who_is_another_is_learnt(acquainted):
    image = np.empty((SIZE[1], SIZE[0], 3), np.uint8)
    for _ in range(80):
        acquainted.rest(image)
    jump = acquainted.swap(image, face(acting(jaw=1.0), track=2)).posed
    assert jump.drop < 0.3
    for _ in range(40):
        posed = acquainted.swap(image, face(acting(jaw=1.0), track=2)).posed
    assert posed.drop > 0.4
    stranger = mesh("astronaut", 478).copy()
    stranger[:, 1] = (stranger[:, 1] - stranger[:, 1].mean()) * 1.4 + stranger[:, 1].mean()
    for _ in range(60):
        posed = acquainted.swap(image, face(stranger, track=3)).posed
    assert abs(posed.state.yaw) < 0.02
    assert posed.drop < 0.15


# Pictures and frames of any kind


@pytest.mark.parametrize("size", [(64, 64), (1280, 720), (360, 640), (1000, 64)])
def test_any_size_even_when_it_changes(acquainted, size):
    image = frame(acquainted, acting(), size)
    assert image.std() > 5
    assert frame(acquainted, acting()).std() > 5


def test_a_transparent_picture_stands_before_its_background():
    cut = np.zeros(source("astronaut", 478).image.shape[:2], np.uint8)
    low, high = source("astronaut", 478).points[:, :2].min(0), source("astronaut", 478).points[:, :2].max(0)
    centre, half = tuple((low + high) / 2), tuple((high - low) * 0.8)
    cv2.ellipse(cut, (tuple(map(int, centre)), tuple(map(int, 2 * np.array(half))), 0), 255, -1, cv2.LINE_AA)
    mascot = replace(source("astronaut", 478), alpha=cut)
    swapper = PortraitSwapper(mascot, PortraitOptions("#20c040", SIZE))
    swapper.open(lambda text: None)
    for _ in range(60):
        image = frame(swapper, acting())
    turned = frame(swapper, acting(yaw=0.3))
    green = (image == (0x40, 0xC0, 0x20)).all(-1)
    assert green[:, :20].all()
    assert green[:20].all()
    assert 0.2 < green.mean() < 0.95
    # What moves takes its edge along: no rim of another colour, no hole where it was.
    changed = (turned != image).any(-1)
    assert changed.any()
    assert (turned == (0x40, 0xC0, 0x20)).all(-1)[changed].any()


@pytest.mark.parametrize("background", ["#12345", "#gggggg", "#", "nobody.png", "file:nobody.png"])
def test_a_background_that_is_none(background):
    with pytest.raises(UsageError):
        opened(background=background)


def test_landmarks_that_are_no_numbers(swapper):
    for points in (np.full((478, 3), np.nan), np.full((468, 3), np.inf), np.zeros((5, 3))):
        with pytest.raises(EngineError, match="not numbers"):
            swapper.swap(np.empty((SIZE[1], SIZE[0], 3), np.uint8), face(points.astype(np.float32)))


@pytest.mark.parametrize("points", [np.zeros((478, 3)), np.full((478, 3), 7.0), np.eye(478, 3) * 1e6])
def test_landmarks_that_are_no_face_break_nothing(swapper, points):
    image = frame(swapper, points.astype(np.float32))
    assert np.array_equal(image, frame(opened(), points.astype(np.float32), fill=255))


def test_not_open_and_closed_twice():
    swapper = PortraitSwapper(source("astronaut", 478))
    with pytest.raises(EngineError, match="opened"):
        swapper.rest(np.empty((SIZE[1], SIZE[0], 3), np.uint8))
    swapper.close()
    swapper.close()
