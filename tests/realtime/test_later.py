"""Looks that wait until the frame is on its way find what they would have found, and nobody is found later for them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import cv2
import numpy as np
import pytest

from engines.analysis.networks import Networks
from engines.analysis.tiles import Look
from engines.errors import EngineError
from engines.faces import Detection
from realtime.choosing.select import Selector
from realtime.tracking.later import Later
from realtime.tracking.track import Tracker
from tests.engines.scenes import detector, placed
from tests.realtime.heads import Head, opened
from tests.realtime.live import Live
from tests.realtime.test_track import FRAME, FakeLandmarks, Part, Person, World

SIZE = (1280, 720)


def painted(*people, size=SIZE):
    """Red where people are, on grey."""
    image = np.full((size[1], size[0], 3), 90, np.uint8)
    for one in people:
        cv2.circle(image, (round(one.x), round(one.y)), round(one.width / 3), (0, 0, 255), -1)
    return image


class SeesRed(Part):
    """Finds what is red in the picture it is given, whatever is in front of the camera by then."""

    def __init__(self, world, name, reaches=True):
        super().__init__(world, name)
        self.reaches, self.pictures, self.fails = reaches, [], None

    def detect(self, image):
        self.pictures.append(image)
        if self.fails is not None:
            raise self.fails
        count, _, stats, centres = cv2.connectedComponentsWithStats(
            np.uint8((image[..., 2] > 180) & (image[..., 1] < 60))
        )
        found = []
        for n in range(1, count) if self.reaches else ():
            (x, y), width = centres[n], stats[n, cv2.CC_STAT_WIDTH] * 1.5
            eyes = [[x - width / 4, y], [x + width / 4, y]]
            points = np.float32([*eyes, [x, y], [x, y], *eyes])
            found.append(Detection(np.float32([x, y]), float(width), points, 0.9))
        return found


@dataclass
class Run:
    """A tracker in front of what was painted. Whether it looks on between frames should not matter."""

    later: bool = True
    looks_on: bool = True
    every: int = 5
    near: bool = True
    """Whether the near detector finds anybody."""
    world: World = field(default_factory=lambda: World([Person(300, 360, 150)]))
    at: int = 0

    def __post_init__(self):
        self.detectors = SeesRed(self.world, "near", self.near), SeesRed(self.world, "far")
        landmarks = [FakeLandmarks(self.world, f"landmarks {n}") for n in range(2)]
        networks = Networks(*self.detectors, landmarks, later=self.later)
        self.tracker = Tracker(
            468, Selector("owner", 1), self.every, networks=lambda points, count: networks, longest=self.every
        )
        self.tracker.open(lambda line: None)

    def step(self, size=SIZE):
        """One frame; how many are followed in it."""
        image = painted(*self.world.people, size=size)
        faces = self.tracker.track(image, self.at * FRAME)
        followed = len(faces) + len(self.tracker.others)
        # As the pipeline does: what was captured is gone.
        image[:] = 0
        if self.looks_on:
            self.tracker.look_on()
        self.at += 1
        return followed

    def until_found(self, quiet):
        """Frames until a newcomer is followed, who comes after so many frames."""
        for _ in range(quiet):
            assert self.step() == 1
        self.world.people.append(Person(900, 360, 120))
        # Out of the background, where no motion is seen.
        self.tracker.attention.news = None
        for n in range(1, 40):
            if self.step() == 2:
                return n
        raise AssertionError("never found")


@pytest.fixture(autouse=True)
def _no_motion(monkeypatch):
    """Whoever comes, comes slowly: what moves is another matter, and is looked at in the same frame."""
    monkeypatch.setattr("realtime.tracking.attention.Attention._elsewhere", lambda self, image, faces: False)


@pytest.fixture
def all_of_the_frame(monkeypatch):
    """No look is at a part of the frame only."""
    monkeypatch.setattr("realtime.tracking.finder._OTHERWISE", 10**6)


@pytest.mark.parametrize("every", [1, 2, 3, 5, 10, 15])
def test_the_longest_wait_is_no_longer_than_with_looks_in_the_frame(every, all_of_the_frame):
    longest = {
        later: max(Run(later, every=every).until_found(quiet) for quiet in range(30, 30 + every))
        for later in (False, True)
    }
    assert longest[False] == every
    assert longest[True] <= every


@pytest.mark.parametrize("every", [4, 15])
def test_nor_is_it_where_only_one_of_the_detectors_sees_them(every, all_of_the_frame):
    longest = {
        later: max(
            Run(later, every=every, near=False).until_found(quiet) for quiet in range(30, 30 + 2 * every)
        )
        for later in (False, True)
    }
    assert longest[True] <= longest[False] <= 2 * every


@pytest.mark.parametrize("every", [2, 5, 10])
def test_when_the_look_is_taken_changes_nothing(every):
    """Between two frames in a live session, in the next frame in an offline one."""
    runs = [Run(looks_on=looks_on, every=every) for looks_on in (True, False)]
    seen = []
    for run in runs:
        course = [run.step() for _ in range(13)]
        run.world.people.append(Person(900, 360, 120))
        course += [run.step() for _ in range(20)]
        seen.append((course, run.tracker.detections, run.tracker.skipped_detections))
    assert seen[0] == seen[1]
    assert seen[0][0][-1] == 2


def test_no_detector_runs_while_the_frame_waits_but_where_somebody_is_missed():
    run = Run(looks_on=False, every=5)
    run.step()
    for _ in range(4):
        run.step()
        if run.tracker._finder._later:
            break
    before = [len(one.pictures) for one in run.detectors]
    run.tracker.look_on()
    assert sum(len(one.pictures) for one in run.detectors) == sum(before) + 1
    run.tracker.look_on()
    assert sum(len(one.pictures) for one in run.detectors) == sum(before) + 1
    run.world.people.clear()
    run.step()
    assert sum(len(one.pictures) for one in run.detectors) == sum(before) + 3
    assert run.tracker.lost


def test_a_frame_counts_once_whatever_looked_at_it():
    run = Run(every=4)
    for _ in range(41):
        run.step()
    assert run.tracker.detections + run.tracker.skipped_detections == 41
    # The first frame, and every third of those that follow.
    assert run.tracker.detections == 1 + 40 // 3


@pytest.mark.parametrize("size", [(640, 360), (1920, 1080), (360, 640), (700, 500)])
@pytest.mark.parametrize("turns", [0, 2])
def test_a_look_finds_what_was_there_when_it_was_kept(size, turns):
    later, red = Later(), SeesRed(World(), "red")
    image = painted(Person(size[0] * 0.3, size[1] * 0.4, 90), size=size)
    later.keep(Look((0, 0, *size), turns), red, image)
    image[:] = 255
    assert later
    (found,) = later.found(image)
    assert np.abs(found.centre - (size[0] * 0.3, size[1] * 0.4)).max() < 3
    assert found.size == pytest.approx(90, rel=0.1)
    assert not later
    assert max(red.pictures[0].shape) <= 640


def test_frames_of_another_size_know_nothing_of_it():
    later, red = Later(), SeesRed(World(), "red")
    later.keep(Look((0, 0, *SIZE)), red, painted(Person(300, 300, 90)))
    assert later.found(painted(size=(640, 360))) == []
    run = Run(every=2)
    for size in (SIZE, SIZE, (640, 360), (640, 360), SIZE, SIZE):
        run.step(size)


@pytest.mark.parametrize("kind", [EngineError, RuntimeError, cv2.error, MemoryError])
def test_a_detector_that_fails_fails_in_a_frame_and_not_between_two(kind):
    """There it is counted, the frame is covered, and the session goes on."""
    run = Run(every=2)
    run.step()
    for one in run.detectors:
        one.fails = kind("The detector failed.")
    run.looks_on = False
    run.step()
    assert run.tracker._finder._later
    run.tracker.look_on()
    with pytest.raises(kind, match="detector failed"):
        run.step()
    run.looks_on = True
    for one in run.detectors:
        one.fails = None
    assert [run.step() for _ in range(4)] == [1] * 4


def test_what_waits_goes_with_the_networks():
    run = Run(looks_on=False, every=3)
    for _ in range(3):
        run.step()
    run.tracker.close()
    run.tracker.look_on()
    assert not run.tracker._finder._later


def test_a_session_looks_on_after_each_frame_was_handed_over():
    live = Live()
    tracker, order = live.tracker, []
    look_on, track = tracker.look_on, tracker.track
    tracker.look_on = lambda: (order.append("look"), look_on())
    tracker.track = lambda image, now_ns: (order.append("track"), track(image, now_ns))[1]
    live.play(1.0)
    assert tracker.looks_on >= 20
    assert order == ["track", "look"] * tracker.looks_on


@pytest.mark.parametrize("who", ["astronaut", "hopper"])
@pytest.mark.parametrize("reach", ["near", "far"])
def test_the_smaller_picture_shows_a_face_where_the_frame_does(who, reach):
    image = placed(who, (1920, 1080), 400, (700, 500))
    (whole,) = detector(reach).detect(image)
    (small,) = Look((0, 0, 1920, 1080)).detect(detector(reach), image)
    assert np.abs(whole.centre - small.centre).max() < 0.03 * whole.size
    assert np.abs(whole.keypoints - small.keypoints).max() < 0.05 * whole.size
    assert small.size == pytest.approx(whole.size, rel=0.05)


def test_with_the_real_networks_both_ways_come_to_the_same():
    """Somebody beside one who is followed."""
    first, second = Head("360p", "astronaut", 110, (180, 180)), Head("360p", "hopper", 80, (480, 180))
    ground = first.picture()
    both = second.picture(onto=ground)
    found = []
    for later in (True, False):
        networks = replace(opened(), later=later)
        tracker = Tracker(
            468, Selector("owner", 2), 4, networks=lambda points, count, own=networks: own, longest=4
        )
        tracker.open(lambda line: None)
        frames = [tracker.track(ground, n * FRAME) for n in range(9)]
        frames += [tracker.track(both, n * FRAME) for n in range(9, 18)]
        assert len(frames[8]) == 1
        found.append(next(n for n, faces in enumerate(frames) if len(faces) == 2))
        assert min(second.off(face) for face in frames[-1]) < 0.15
    assert max(found) <= 9 + 4
