"""Whether a face is still the same person's, who is missing, and where detectors look for them."""

from __future__ import annotations

import numpy as np
import pytest

from engines.analysis.landmarks import region_of_points
from engines.faces import Patch, Region
from realtime.tracking.continuity import ALIKE, Continuity, likeness, look_of
from realtime.tracking.missing import HELD_NS, Missing
from tests.engines.scenes import landmarks, mesh, placed, placing
from tests.realtime.test_track import FRAME, IMAGE, Person, Run

SECOND = 1_000_000_000
NOBODY = np.zeros(432, np.float32)


def seen(name, light=1.0, shift=0.0, noise=0.0, turn=0.0):
    picture = placed(name, (480, 480), 150, (240, 240), turn).astype(np.float32) * light
    picture += np.random.default_rng(0).normal(0, noise, picture.shape) if noise else 0
    matrix = placing(name, 150, (240 + shift, 240), turn)
    points = mesh(name)[:, :2] @ matrix[:, :2].T + matrix[:, 2]
    region = region_of_points(np.c_[points, mesh(name)[:, 2]].astype(np.float32))
    return look_of(landmarks().read(np.clip(picture, 0, 255).astype(np.uint8), region).patch)


@pytest.mark.parametrize("name", ["astronaut", "hopper"])
@pytest.mark.parametrize("how", [{"light": 0.3}, {"shift": 8}, {"noise": 12}, {"turn": 0.5}, {"turn": 3.0}])
def test_one_person_looks_alike_in_other_light_and_elsewhere(name, how):
    assert likeness(seen(name), seen(name, **how)) > ALIKE


def test_two_people_do_not():
    assert likeness(seen("astronaut"), seen("hopper")) < ALIKE
    assert likeness(seen("astronaut", light=0.4), seen("hopper", noise=8)) < ALIKE


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_what_says_nothing_is_like_everything(value):
    blank = look_of(Patch(np.full((192, 192, 3), value, np.float32), np.zeros((2, 3), np.float32)))
    assert not blank.any()
    assert likeness(blank, seen("hopper")) == 1.0


def followed(look, speed=0.0, frames=20):
    continuity = Continuity()
    for i in range(frames):
        continuity.goes_on(np.float32([300 + speed * i, 200, 220]), look, i * FRAME)
    return continuity, np.float32([300 + speed * frames, 200, 220]), frames * FRAME


@pytest.mark.parametrize("speed", [0.0, 12.0, -25.0])
def test_who_goes_on_as_before_is_the_same_whatever_they_look_like(speed):
    continuity, place, now = followed(seen("hopper"), speed)
    assert not continuity.broken(place, seen("astronaut"), now)
    assert continuity.apart(place, now) < 0.03


@pytest.mark.parametrize("jump", [(90, 0, 0), (0, -70, 0), (0, 0, 90), (0, 0, -60)])
def test_who_jumps_and_looks_unlike_is_somebody_else(jump):
    continuity, place, now = followed(seen("hopper"), 5.0)
    assert continuity.broken(place + np.float32(jump), seen("astronaut"), now)
    assert not continuity.broken(place + np.float32(jump), seen("hopper"), now)


def test_after_a_gap_nothing_is_expected_of_the_speed():
    continuity, place, now = followed(seen("hopper"), 20.0)
    assert continuity.apart(place - np.float32([20, 0, 0]), now + SECOND) < 0.01
    assert Continuity().apart(place, now) == 0.0
    assert not Continuity().broken(place, NOBODY, now)


def test_somebody_else_in_the_place_of_a_missing_one_is_held_back_and_then_let_go():
    missing, there = Missing(), Region(400, 300, 200, 0)
    missing.went(there, seen("hopper"), IMAGE, 0)
    assert missing.came(there, seen("astronaut"), SECOND) == HELD_NS
    assert missing
    assert missing.came(Region(800, 100, 90, 0), seen("astronaut"), SECOND) == 0
    assert missing
    assert missing.came(there, seen("hopper"), SECOND) == 0
    assert not missing
    missing.went(there, seen("hopper"), IMAGE, 0)
    assert missing.came(there, seen("astronaut"), HELD_NS) == 0
    assert not missing


def test_of_two_tracks_on_one_face_the_one_that_was_going_there_stays():
    """A fault that was met: whoever came later in the list was dropped, were it the chosen one."""
    for first in (True, False):
        owner, other = Person(300), Person(700, width=140)
        run = Run(*((owner, other) if first else (other, owner)), choice="owner", count=2)
        numbers = {round(face.points[:, 0].mean()): face.track for face in run.step(3)}
        for _ in range(20):
            owner.x, other.x = owner.x + 6, other.x - 4
            run.step()
        before = owner.x
        run.world.people = [owner]
        for track in run.tracker._tracks:
            track.region = Region(before, 300, 400, 0)
        (face,) = run.step()
        assert face.track == numbers[300]


def test_a_chosen_track_is_not_dropped_for_one_that_is_not_chosen():
    owner, other = Person(300, width=160), Person(700, width=140)
    run = Run(other, owner, choice="largest")
    (chosen,) = run.step(3)
    run.world.people = [owner]
    for track in run.tracker._tracks:
        track.region = Region(owner.x, 300, 400, 0)
    assert [face.track for face in run.step()] == [chosen.track]
    assert not run.tracker.lost


def test_a_newcomer_in_a_still_room_is_looked_at_in_the_frame_they_come():
    run = Run(Person(200), count=2)
    run.step(80)
    run.world.people.append(Person(800))
    image = IMAGE.copy()
    image[150:450, 700:900] = 180
    before = run.tracker.detections
    run.tracker.track(image, run.at)
    assert run.tracker.detections == before + 1


def test_what_was_no_face_is_not_read_again_at_every_turn():
    run = Run(Person(400), every=3)
    run.world.clouds = [(800, 300)]
    run.step(3)
    before = run.world.reads
    run.step(25)
    # One read a frame for the face, and hardly any for the cloud.
    assert run.world.reads - before <= 25 + 2
