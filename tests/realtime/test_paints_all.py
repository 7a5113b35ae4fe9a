"""A swapper that paints every pixel: trusted without a face, and nothing of the camera behind any veil."""

from __future__ import annotations

import numpy as np
import pytest

from engines.errors import EngineError
from engines.swap.base import PaintsAll
from realtime.clock import ManualClock
from realtime.frame import Kind
from realtime.outcome import Outcome
from realtime.pace.budget import Meter
from realtime.pipeline import Pipeline
from realtime.settings.config import Config, contradiction
from realtime.shown.guard import Guard
from tests.realtime.fakes import SECOND, FakeSwapper, FakeTracker, make_frame


class Whole(FakeSwapper):
    """Paints all of the frame: 7 for a face, 3 for none."""

    def __init__(self):
        super().__init__()
        self.swapped = 0

    def swap(self, image, face):
        self.swapped += 1
        return 7

    def rest(self, image):
        return 3

    def blend(self, image, layer):
        image[:] = layer


def pipeline(tracker, swapper):
    clock = ManualClock()
    made = Pipeline(tracker, swapper, Meter(0), clock, label=None)
    made.open(lambda text: None)
    return made


def painted(outcome):
    return set(np.unique(outcome.frame.image))


def test_what_a_protocol_is():
    assert isinstance(Whole(), PaintsAll)
    assert not isinstance(FakeSwapper(), PaintsAll)


def test_a_frame_without_a_face_is_painted_and_trusted():
    made = pipeline(FakeTracker(lambda n: 1 - n), Whole())
    assert painted(made.process(make_frame())) == {7}
    outcome = made.process(make_frame(1))
    assert outcome.trusted
    assert outcome.faces == 0
    assert painted(outcome) == {3}


def test_somebody_who_is_missing_is_no_danger():
    tracker = FakeTracker()
    tracker.lost = True
    assert pipeline(tracker, Whole()).process(make_frame()).trusted
    assert not pipeline(tracker, FakeSwapper()).process(make_frame()).trusted


def test_the_first_face_drives():
    swapper = Whole()
    assert pipeline(FakeTracker(lambda n: 3), swapper).process(make_frame()).trusted
    assert swapper.swapped == 1


def test_a_failure_is_not_trusted():
    class Broken(Whole):
        def rest(self, image):
            raise EngineError("No.")

    assert not pipeline(FakeTracker(lambda n: 0), Broken()).process(make_frame()).trusted


@pytest.mark.parametrize("faces", [0, 1])
def test_one_that_gives_nothing_to_paint_is_not_trusted(faces):
    class Unwilling(Whole):
        def swap(self, image, face=None):
            return None

        rest = swap

    outcome = pipeline(FakeTracker(lambda n: faces), Unwilling()).process(make_frame())
    assert (outcome.trusted, outcome.faces, outcome.error) == (False, 0, None)


def test_the_swapper_of_the_moment_decides():
    made = pipeline(FakeTracker(lambda n: 0), Whole())
    assert made.paints_all
    made.replace_swapper(FakeSwapper())
    assert not made.paints_all
    assert not made.process(make_frame()).trusted


@pytest.mark.parametrize("policy", [("hold", "veil"), ("veil",), ("slate",), ("passthrough",)])
@pytest.mark.parametrize("drawn", [False, True])
def test_a_private_guard_shows_nothing_of_the_camera(policy, drawn):
    guard = Guard(policy, private=lambda: True)
    guard.curtain.drawn = drawn
    standby = guard.standby()
    live = make_frame()
    for shown in (guard.judge(Outcome(live, 0, False), 0), standby.show(live, 0, live.size, "Starting…")):
        assert shown.kind is Kind.SLATE
    other = make_frame()
    other.image[:] = 255 - other.image
    again = standby.show(other, SECOND, live.size, "Starting…")
    assert np.array_equal(again.image, standby.show(live, SECOND, live.size, "Starting…").image)


def test_one_that_is_not_private_any_more_veils_again():
    private = [True]
    guard = Guard(("veil",), private=lambda: private[0])
    assert guard.judge(Outcome(make_frame(), 0, False), 0).kind is Kind.SLATE
    private[0] = False
    assert guard.judge(Outcome(make_frame(), 0, False), 1).kind is Kind.VEILED


def test_a_bare_camera_does_not_go_with_it():
    assert "passthrough" in contradiction(Config(engine="portrait", on_lost=("passthrough",)))
    assert not contradiction(Config(engine="portrait"))
    assert not contradiction(Config(engine="mesh", on_lost=("passthrough",)))
