"""Several people in one picture: each gets the face that is theirs, and one who fails does not leave others open."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines.errors import EngineError
from engines.faces import Face, Patch
from engines.swap.cast import Cast

IMAGE = np.zeros((8, 8, 3), np.uint8)
FACE = Face(
    1,
    np.zeros((468, 3), np.float32),
    1.0,
    Patch(np.zeros((4, 4, 3), np.float32), np.eye(2, 3, dtype=np.float32)),
)


class Paints:
    """A swapper that paints its own number."""

    def __init__(self, number, landmarks=468, fails=False, covers=True):
        self.name, self.landmarks, self.nodes = "paints", landmarks, {f"net {number}": {"CPU": number}}
        self.number, self.fails, self.covers = number, fails, covers
        self.is_open = False
        self.closed = 0

    def open(self, progress):
        progress(f"number {self.number}")
        if self.fails:
            raise EngineError("no paint")
        self.is_open = True

    def swap(self, image, face):
        assert self.is_open
        return (self.number, face.track) if self.covers else None

    def blend(self, image, layer):
        image[:] = layer[0]

    def close(self):
        self.is_open, self.closed = False, self.closed + 1


def test_each_person_gets_their_own_face_whatever_the_track():
    cast = Cast([Paints(10), Paints(20, landmarks=478), Paints(30)])
    said = []
    cast.open(said.append)
    assert said == ["number 10", "number 20", "number 30"]
    assert (cast.name, cast.landmarks) == ("paints", 478)
    assert cast.nodes == {"net 10": {"CPU": 10}, "net 20": {"CPU": 20}, "net 30": {"CPU": 30}}
    image = IMAGE.copy()
    for person, track in ((1, 7), (0, 7), (2, 9), (1, 8)):
        layer = cast.swap(image, replace(FACE, track=track, person=person))
        assert (layer.person, layer.layer) == (person, (10 * person + 10, track))
        cast.blend(image, layer)
        assert (image == 10 * person + 10).all()
    cast.close()
    cast.close()


def test_advice_is_passed_on_once_and_so_is_what_gives_way():
    slow, fast, other = Paints(1), Paints(2), Paints(3)
    assert Cast([fast]).advice == "" and list(Cast([fast]).gives_way) == []
    slow.advice = fast.advice = "Slow."
    other.advice = "Slower."
    slow.gives_way, other.gives_way = ("a", "b"), ("c",)
    cast = Cast([slow, fast, other])
    assert cast.advice == "Slow. Slower."
    assert list(cast.gives_way) == ["a", "b", "c"]


def test_a_face_that_is_not_covered_is_none_of_anybody():
    cast = Cast([Paints(1), Paints(2, covers=False)])
    cast.open(lambda line: None)
    assert cast.swap(IMAGE, replace(FACE, person=1)) is None
    assert cast.swap(IMAGE, replace(FACE, person=0)) is not None


@pytest.mark.parametrize("person", [-1, 2, 99])
def test_somebody_nobody_knows_is_an_error_and_not_somebody_else(person):
    cast = Cast([Paints(1), Paints(2)])
    cast.open(lambda line: None)
    with pytest.raises(EngineError, match="Nobody knows"):
        cast.swap(IMAGE, replace(FACE, person=person))


def test_where_one_fails_to_open_none_stays_open():
    swappers = [Paints(1), Paints(2, fails=True), Paints(3)]
    with pytest.raises(EngineError, match="no paint"):
        Cast(swappers).open(lambda line: None)
    assert not any(swapper.is_open for swapper in swappers)
    assert [swapper.closed for swapper in swappers] == [1, 1, 0]


def test_where_one_fails_to_close_the_others_are_closed():
    swappers = [Paints(1), Paints(2)]

    def broken():
        raise EngineError("stuck")

    cast = Cast(swappers)
    cast.open(lambda line: None)
    swappers[1].close = broken
    with pytest.raises(EngineError, match="stuck"):
        cast.close()
    assert swappers[0].closed == 1


def test_a_cast_of_nobody_is_none():
    with pytest.raises(ValueError, match="without anybody"):
        Cast([])
