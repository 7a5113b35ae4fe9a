"""Who passes by, hangs on the wall or crosses the way does not get the face: real faces, real networks.

The reported faults 18 (somebody turns away and a passer-by or a painting gets the face) and 19 (two people cross and
identities jump), with an identity network. What is left without one is told by the last test.
"""

from __future__ import annotations

import pytest

from tests.realtime.stage import Play

WIDTH = 100
MOST_WRONG = 1
"""Frames in which the face may still be on the other one, while both are one blur of two heads."""


@pytest.fixture
def play(tmp_path):
    made = []

    def begin(**how):
        made.append(Play(tmp_path, **how))
        return made[-1]

    yield begin
    for one in made:
        one.close()


def settle(stage, *people, frames=12):
    for _ in range(frames):
        chosen = stage.show(*people)
    return chosen


@pytest.mark.parametrize("owner_in_front", [True, False])
@pytest.mark.parametrize("speed", [pytest.param(4, marks=pytest.mark.slow), 9])
def test_two_who_cross_keep_their_identities(play, owner_in_front, speed):
    stage = play()
    wrong = right = clear = 0
    assert settle(stage, ("hopper", 110, 180, WIDTH), ("astronaut", 560, 180, WIDTH - 4)) == ["hopper"]
    for step in range(0, 440, speed):
        people = [("hopper", 110 + step, 180, WIDTH), ("astronaut", 560 - step, 180, WIDTH - 4)]
        chosen = stage.show(*(people if not owner_in_front else people[::-1]))
        wrong += chosen == ["astronaut"]
        if abs(450 - 2 * step) > 2.2 * WIDTH:
            clear += 1
            right += chosen == ["hopper"]
    assert wrong <= MOST_WRONG
    assert settle(stage, *people, frames=8) == ["hopper"]
    # Gone behind a head and found again costs a few frames, in which nobody is swapped.
    assert right >= 0.8 * clear


def test_somebody_who_takes_the_seat_does_not_get_the_face(play):
    """The very place, within a moment: by place and time alone it would be the owner."""
    stage = play()
    assert settle(stage, ("hopper", 300, 180, WIDTH)) == ["hopper"]
    for _ in range(3):
        stage.show()
    for step in range(100):
        assert stage.show(("astronaut", 300 + step % 7, 180, WIDTH)) == [], step
    assert settle(stage, ("hopper", 300, 180, WIDTH), ("astronaut", 480, 180, WIDTH)) == ["hopper"]


def test_a_painting_does_not_get_the_face_of_who_turns_away(play):
    """And somebody larger who passes before the painting does not either."""
    stage = play()
    painting = ("astronaut", 540, 90, 60)
    assert settle(stage, painting, ("hopper", 250, 190, 120)) == ["hopper"]
    for step in range(110):
        people = [painting, ("astronaut", step * 8 - 100, 200, 130)] if step > 40 else [painting]
        assert stage.show(*people) == [], step
    back = [stage.show(painting, ("hopper", 250, 190, 120)) for _ in range(12)]
    assert back[-1] == ["hopper"]
    assert all(chosen in ([], ["hopper"]) for chosen in back)
    # Found again within 0.3 s.
    assert ["hopper"] in back[:9]


def test_whoever_is_not_on_the_reference_photo_never_gets_it(play):
    stage = play(choice="reference", people=["astronaut"])
    for step in range(60):
        assert stage.show(("hopper", 120 + step, 180, WIDTH)) == []
    both = [stage.show(("hopper", 180, 180, WIDTH), ("astronaut", 450, 180, 70)) for _ in range(20)]
    assert both[-1] == ["astronaut"]
    assert all(chosen in ([], ["astronaut"]) for chosen in both)
    for _ in range(20):
        assert stage.show(("hopper", 180, 180, WIDTH)) == []


def test_each_person_keeps_their_own_number_through_a_crossing(play):
    """So each keeps the photo that belongs to them, and nobody is shown with somebody else's."""
    stage = play(choice="reference", people=["astronaut", "hopper"], count=2)
    swapped = {"hopper": 0, "astronaut": 0}
    wrong = 0
    for step in [0] * 12 + list(range(0, 440, 6)) + [440] * 12:
        names = stage.show(("hopper", 110 + step, 170, WIDTH), ("astronaut", 560 - step, 190, WIDTH))
        for name, face in zip(names, stage.faces, strict=True):
            wrong += ["astronaut", "hopper"][face.person] != name
            swapped[name] += 1
    assert wrong <= MOST_WRONG
    assert sorted(names) == ["astronaut", "hopper"]
    assert min(swapped.values()) > 60


def test_the_network_looks_seldom(play):
    """A face that nothing happens to: five looks in the first second, then one in two seconds."""
    stage = play()
    for _ in range(210):
        stage.show(("hopper", 300, 180, WIDTH))
    assert 5 <= stage.recogniser.looks <= 5 + 7 / 2 + 1


def test_without_an_identity_network_place_and_time_decide():
    """A painting elsewhere does not get the face; who takes the very seat may, after a while."""
    stage = Play(None)
    settle(stage, ("hopper", 300, 180, WIDTH))
    elsewhere = [stage.show(("astronaut", 540, 90, 60)) for _ in range(60)]
    assert not any(elsewhere)
    assert stage.show(("hopper", 300, 180, WIDTH), ("astronaut", 540, 90, 60)) == ["hopper"]
