"""When an identity network looks at whom, and whose place a face is then given."""

from __future__ import annotations

import numpy as np
import pytest

from engines.errors import EngineError
from engines.faces import Face, Patch
from realtime.choosing.recognise import Recogniser
from realtime.choosing.select import Known, Selector
from tests.engines.scenes import mesh

IMAGE = np.zeros((600, 1000, 3), np.uint8)
SIZE = (1000, 600)
FRAME = 1_000_000_000 // 30
PATCH = Patch(np.zeros((4, 4, 3), np.float32), np.zeros((2, 3), np.float32))
PEOPLE = np.eye(8, dtype=np.float32)


def shape(turned=0.0):
    """A real mesh, one wide, around nothing; turned by radians about its upright axis."""
    points = np.array(mesh("hopper"), np.float32)
    points -= points.mean(0)
    points /= np.ptp(points[:, 0])
    cos, sin = np.cos(turned), np.sin(turned)
    points[:, [0, 2]] = points[:, [0, 2]] @ np.float32([[cos, -sin], [sin, cos]])
    return points


class Room:
    """People who move, tracks that follow them or go astray, and a network that knows who is who."""

    def __init__(self, choice="owner", count=1, people=(), limit=0.6):
        self.counted = 0
        self.recogniser = Recogniser(self._count)
        self.selector = Selector(choice, count, Known(self.recogniser, len(people), limit))
        self.selector.know([PEOPLE[who] for who in people])
        self.now = 0
        self.blind = False
        self.patch = PATCH
        self.looked = []

    def _count(self):
        self.counted += 1

    def identity(self, image, points):
        x = float(points[:, 0].mean())
        track, who = min(self.here.items(), key=lambda one: abs(one[1][1] - x))[1][0], None
        self.looked.append(track)
        if self.blind:
            raise EngineError("nothing to be seen")
        who = PEOPLE[track] if isinstance(track, int) else track
        return np.asarray(who / np.linalg.norm(who), np.float32)

    def step(self, here, turned=0.0):
        """One frame; ``here`` says for each track who is on it, where and how wide."""
        self.now += FRAME
        self.here = {track: (*one, 150.0)[:3] for track, one in here.items()}
        faces = [
            Face(track, shape(turned) * np.float32(width) + np.float32([x, 300, 0]), 1.0, self.patch)
            for track, (_, x, width) in self.here.items()
        ]
        self.selector.recognise(self, IMAGE, faces, self.now)
        self.chosen = self.selector.choose(faces, SIZE, self.now)
        return [face.track for face in self.chosen]


class TestWhen:
    def test_five_looks_at_a_new_face_and_then_one_in_two_seconds(self):
        room = Room()
        looks = []
        for _ in range(300):
            room.step({1: (0, 500)})
            looks.append(room.recogniser.looks)
        assert looks[0] == 1
        assert 4 <= looks[29] <= 5
        assert looks[299] <= 5 + 10 / 2
        assert room.counted == looks[299]

    def test_never_more_than_one_a_frame_however_many_there_are(self):
        room = Room(count=5)
        before = 0
        for step in range(60):
            room.step({track: (track, 120 + 150 * track + step) for track in range(6)})
            assert room.recogniser.looks - before <= 1
            before = room.recogniser.looks
        assert {0, 1, 2, 3, 4, 5} <= set(room.looked)

    def test_an_unknown_face_comes_before_one_that_is_known(self):
        room = Room()
        for _ in range(30):
            room.step({1: (0, 300)})
        looks = len(room.looked)
        room.step({1: (0, 300), 2: (1, 700)})
        assert room.looked[looks:] == [1]

    @pytest.mark.parametrize(
        "after",
        [{1: (0, 420)}, {1: (0, 300, 220.0)}, {1: (0, 300), 2: (1, 400)}],
        ids=["leapt", "grew", "touched"],
    )
    def test_what_may_have_made_it_somebody_else_is_worth_a_look(self, after):
        room = Room()
        for _ in range(40):
            room.step({1: (0, 300), 2: (1, 800)})
        looks = len(room.looked)
        for _ in range(3):
            room.step({2: (1, 800), **after})
        assert 0 in room.looked[looks:]

    def test_one_who_vanishes_beside_another_makes_that_one_doubtful(self):
        """Two tracks have ended on one face, and one of them was given up."""
        room = Room()
        for _ in range(40):
            room.step({1: (0, 300), 2: (1, 480)})
        looks = len(room.looked)
        room.step({1: (0, 300)})
        assert room.looked[looks:] == [0]

    def test_another_picture_in_the_same_place_is_worth_a_look(self):
        """A film is cut: the track goes on, and nothing moved."""
        room = Room()
        rng = np.random.default_rng(0)
        one, other = (Patch(rng.random((24, 24, 3), np.float32), PATCH.affine) for _ in range(2))
        room.patch = one
        for _ in range(50):
            room.step({1: (0, 300)})
        looks = len(room.looked)
        room.patch = other
        assert room.step({1: (1, 300)}) == []
        assert room.looked[looks:] == [1]

    @pytest.mark.parametrize("turned", [1.2, -1.2])
    def test_who_is_turned_away_is_not_looked_at(self, turned):
        room = Room()
        for _ in range(30):
            assert room.step({1: (0, 500)}, turned=turned) == [1]
        assert room.looked == []

    def test_nor_who_is_too_small_or_outside(self):
        room = Room()
        for _ in range(30):
            room.step({1: (0, 500, 20.0), 2: (1, -40)})
        assert room.looked == []

    def test_a_network_that_sees_nothing_is_not_asked_in_every_frame_and_that_is_said_once(self, caplog):
        room = Room()
        room.blind = True
        for _ in range(60):
            room.step({1: (0, 500)})
        assert 2 <= len(room.looked) <= 12
        assert [record.message for record in caplog.records] == [
            "A face could not be looked at: nothing to be seen"
        ]


class TestOwner:
    def test_whose_track_went_over_to_somebody_else_gets_it_back_on_another(self):
        room = Room()
        for _ in range(40):
            assert room.step({1: (0, 300), 2: (1, 700)}) == [1]
        # They cross, and each track goes on with the other person.
        for step in range(40):
            room.step({1: (0, 300 + 5 * step), 2: (1, 700 - 5 * step)})
        swapped = [room.step({1: (1, 500 - 5 * step), 2: (0, 500 + 5 * step)}) for step in range(40)]
        assert swapped[-1] == [2]
        wrong = [chosen for chosen in swapped if chosen == [1]]
        assert len(wrong) <= 2

    def test_missing_as_long_as_somebody_else_is_on_the_track(self):
        room = Room()
        for _ in range(40):
            room.step({1: (0, 300)})
        assert not room.selector.missing
        for _ in range(5):
            assert room.step({1: (1, 460)}) == []
        assert room.selector.missing
        room.step({1: (1, 460), 2: (0, 800)})
        assert room.step({1: (1, 460), 2: (0, 800)}) == [2]
        assert not room.selector.missing

    def test_one_bad_look_costs_a_frame_or_two(self):
        room = Room()
        for _ in range(70):
            room.step({1: (0, 300)})
        blur = PEOPLE[5]
        chosen = [room.step({1: (blur if step == 0 else 0, 300 + 80 * (step == 0))}) for step in range(10)]
        assert chosen.count([]) <= 2
        assert chosen[-1] == [1]

    def test_nobody_else_gets_the_place_at_once_and_somebody_does_after_half_a_minute(self):
        room = Room()
        for _ in range(40):
            room.step({1: (0, 300)})
        given = [step for step in range(1000) if room.step({2: (1, 300)})]
        assert given
        assert 29 * 30 <= given[0] <= 31 * 30
        assert given == list(range(given[0], 1000))

    def test_turned_away_and_found_again_at_once_is_believed_by_place(self):
        room = Room()
        for _ in range(40):
            room.step({1: (0, 300)})
        for _ in range(6):
            room.step({})
        assert room.step({2: (0, 310)}, turned=1.2) == [2]
        assert room.step({2: (0, 310)}) == [2]
        # And if it was not, the first look tells.
        for _ in range(6):
            room.step({})
        assert room.step({3: (1, 310)}, turned=1.2) == [3]
        assert room.step({3: (1, 310)}) == []

    def test_turned_away_and_found_again_late_has_to_be_seen(self):
        room = Room()
        for _ in range(40):
            room.step({1: (0, 300)})
        for _ in range(60):
            room.step({})
        assert room.step({2: (0, 310)}, turned=1.2) == []
        assert room.step({2: (0, 310)}) == [2]

    def test_what_an_owner_looks_like_is_learnt_from_more_than_one_look(self):
        room = Room()
        side = PEOPLE[0] + 0.9 * PEOPLE[3]
        for _ in range(3):
            room.step({1: (side, 300)})
        for _ in range(40):
            assert room.step({1: (0, 300)}) == [1]
        assert room.step({2: (0, 700)}) == [2]

    def test_two_owners_who_change_tracks_keep_their_places(self):
        room = Room(count=2)
        for _ in range(60):
            assert room.step({1: (0, 300, 160.0), 2: (1, 700)}) == [1, 2]
        for _ in range(8):
            room.step({1: (1, 460, 160.0), 2: (0, 540)})
        assert [room.step({1: (1, 460, 160.0), 2: (0, 540)}) for _ in range(3)][-1] == [2, 1]


class TestReference:
    def test_needs_somebody(self):
        with pytest.raises(ValueError, match="not said"):
            Selector("reference", 1)

    def test_only_the_one_on_the_photo(self):
        room = Room("reference", people=[3])
        for _ in range(100):
            assert room.step({1: (0, 300, 300.0), 2: (1, 700)}) == []
        chosen = [room.step({1: (0, 300, 300.0), 2: (1, 700), 3: (3, 900, 60.0)}) for _ in range(5)]
        assert chosen[-1] == [3]

    @pytest.mark.parametrize(("limit", "expected"), [(0.2, []), (0.5, [1])])
    def test_within_the_distance_asked_for(self, limit, expected):
        room = Room("reference", people=[0], limit=limit)
        alike = PEOPLE[0] + 0.9 * PEOPLE[4]
        for _ in range(10):
            chosen = room.step({1: (alike, 300)})
        assert chosen == expected

    def test_each_of_several_has_their_own_number_and_the_nearest_one_counts(self):
        room = Room("reference", people=[0, 1], limit=0.9)
        between = PEOPLE[0] + 0.8 * PEOPLE[1]
        for _ in range(10):
            room.step({7: (1, 300), 8: (between, 700), 9: (5, 900)})
        assert {face.track: face.person for face in room.chosen} == {8: 0, 7: 1}

    def test_two_who_look_like_one_person_are_not_both_that_person(self):
        room = Room("reference", people=[0])
        for _ in range(20):
            chosen = room.step({1: (0, 300), 2: (0, 700)})
        assert len(chosen) == 1

    def test_candidates_are_one_more_than_people(self):
        assert Room("reference", people=[0, 1, 2]).selector.candidates == 4


@pytest.mark.parametrize("choice", ["largest", "center"])
def test_nobody_is_looked_at_where_it_does_not_matter(choice):
    room = Room(choice)
    for _ in range(20):
        assert room.step({1: (0, 500)}) == [1]
    assert room.looked == []


def test_any_coming_and_going_keeps_to_the_rules():
    """Never more than wanted, never one twice, never somebody who was seen to be another one."""
    rng = np.random.default_rng(0)
    for choice, people in (("owner", ()), ("reference", (0, 1))):
        room = Room(choice, count=2, people=people)
        for _ in range(400):
            here = {
                int(track): (
                    int(rng.integers(0, 5)),
                    float(rng.uniform(0, 1000)),
                    float(rng.uniform(40, 300)),
                )
                for track in rng.permutation(5)[: rng.integers(0, 5)]
            }
            chosen = room.step(here)
            assert len(chosen) == len(set(chosen)) <= 2
            assert set(chosen) <= set(here)
            for face in room.chosen:
                look = room.recogniser.look_of(face.track)
                if choice == "reference" and look is not None:
                    assert float(look.who @ PEOPLE[face.person]) > 0.4
