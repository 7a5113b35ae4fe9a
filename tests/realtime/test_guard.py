"""The real face is never shown, whatever happens in whichever order."""

import random

import numpy as np
import pytest

from engines.errors import UsageError
from realtime.frame import Kind
from realtime.outcome import Outcome
from realtime.shown import slate
from realtime.shown.guard import POLICIES, Guard
from tests.realtime.fakes import FACE, MS, SECOND, SIZE, SKIN, looks_like_the_live_face, make_frame, picture


def swapped(seq=0, at=0):
    frame = make_frame(seq, at)
    frame.image[FACE] = SKIN
    return Outcome(frame, 1, True)


def failed(seq=0, at=0):
    """Half painted: the worst case."""
    frame = make_frame(seq, at)
    frame.image[FACE][:16] = SKIN
    return Outcome(frame, 2, False)


def bare(frame):
    return looks_like_the_live_face(frame.image[FACE])


def test_a_trusted_frame_is_shown_as_it_is():
    outcome = swapped(seq=3, at=5)
    shown = Guard().judge(outcome, 10)
    assert (shown.kind, shown.seq, shown.captured_ns) == (Kind.SWAPPED, 3, 5)
    assert np.shares_memory(shown.image, outcome.frame.image)


@pytest.mark.parametrize("policy", POLICIES)
def test_before_the_first_swap_the_cover_comes_at_once(policy):
    shown = Guard(policy).judge(failed(), 0)
    assert shown.kind is {"veil": Kind.VEILED, "slate": Kind.SLATE, "passthrough": Kind.BARE}[policy[-1]]
    assert bare(shown) is (policy == ("passthrough",))


def test_the_last_trusted_picture_is_held_for_half_a_second_and_no_longer():
    guard = Guard()
    guard.judge(swapped(seq=1, at=0), 1000)
    for after in (1, 33 * MS, 499 * MS, 500 * MS):
        shown = guard.judge(failed(seq=2), 1000 + after)
        assert (shown.kind, shown.seq) == (Kind.HELD, 1)
        assert (shown.image[FACE] == SKIN).all()
    assert guard.judge(failed(seq=3), 1000 + 500 * MS + 1).kind is Kind.VEILED
    # A moment of trust does not come back by itself.
    assert guard.judge(failed(seq=4), 1000 + 500 * MS).kind is Kind.VEILED


def test_a_face_that_is_found_again_is_shown_at_once():
    guard = Guard()
    guard.judge(swapped(seq=0), 0)
    for n in range(60):
        guard.judge(failed(seq=n), n * 33 * MS)
    shown = guard.judge(swapped(seq=99), 2 * SECOND)
    assert (shown.kind, shown.seq) == (Kind.SWAPPED, 99)


@pytest.mark.parametrize(
    ("policy", "kinds"),
    [
        (("hold", "veil"), [Kind.SWAPPED, Kind.HELD, Kind.VEILED]),
        (("hold", "slate"), [Kind.SWAPPED, Kind.HELD, Kind.SLATE]),
        (("veil",), [Kind.SWAPPED, Kind.VEILED, Kind.VEILED]),
        (("slate",), [Kind.SWAPPED, Kind.SLATE, Kind.SLATE]),
        (("passthrough",), [Kind.SWAPPED, Kind.BARE, Kind.BARE]),
    ],
)
def test_each_policy_shows_what_it_says(policy, kinds):
    guard = Guard(policy)
    outcomes = ((swapped(), 0), (failed(), 100 * MS), (failed(), SECOND))
    assert [guard.judge(outcome, now).kind for outcome, now in outcomes] == kinds


def test_an_unknown_policy_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="hold,veil"):
        Guard(("veil", "hold"))


@pytest.mark.parametrize("policy", [p for p in POLICIES if p != ("passthrough",)])
@pytest.mark.parametrize("seed", range(5))
def test_no_order_of_events_ever_shows_the_real_face(policy, seed):
    """Outcomes, stalls and lost cameras in any order; judged frames reach the standby late or never."""
    rng = random.Random(seed)
    guard = Guard(policy)
    standby = guard.standby()
    now, live = 0, None
    for seq in range(400):
        now += rng.choice((1, 16, 33, 33, 33, 200, 700)) * MS
        if rng.random() < 0.8:
            live = make_frame(seq, now - rng.choice((0, 5, 40)) * MS)
        shown = guard.judge(rng.choice((swapped, failed))(seq, now), now)
        if rng.random() < 0.5:
            standby.published(shown, now)
        sent = standby.show(rng.choice((live, None)), now, SIZE, slate.WAITING)
        for frame in (shown, sent):
            assert frame.kind not in (Kind.LIVE, Kind.BARE)
            assert not bare(frame)
            assert not frame.image.flags.writeable
            assert frame.size == SIZE


def test_what_is_published_cannot_be_painted_over():
    for outcome, policy in ((swapped(), ("hold", "veil")), (failed(), ("passthrough",))):
        shown = Guard(policy).judge(outcome, 0)
        with pytest.raises(ValueError, match="read-only"):
            shown.image[0] = 0
        outcome.frame.image[0] = 0  # The pool's buffer itself stays usable.


def trajectory(policy, last, live_until=1 << 62, until=3 * SECOND):
    """What a standby shows from when nothing is published any more: each kind with the time it began."""
    standby = Guard(policy).standby()
    if last is not None:
        standby.published(last, 0)
    seen = []
    for now in range(0, until, 10 * MS):
        live = make_frame(1, min(now, live_until))
        shown = standby.show(live, now, SIZE, slate.RECONNECTING)
        if not seen or seen[-1][1] is not shown.kind:
            seen.append((now // MS, shown.kind))
    return seen


def test_a_pipeline_that_hangs_is_held_then_veiled():
    last = Guard().judge(swapped(), 0)
    assert trajectory(("hold", "veil"), last) == [(0, Kind.SWAPPED), (510, Kind.VEILED)]


def test_a_camera_that_is_gone_is_held_then_veiled_then_a_slate():
    last = Guard().judge(swapped(), 0)
    assert trajectory(("hold", "veil"), last, live_until=0) == [
        (0, Kind.SWAPPED), (510, Kind.VEILED), (1010, Kind.SLATE)
    ]  # fmt: skip


def test_passthrough_too_does_not_freeze():
    last = Guard(("passthrough",)).judge(failed(), 0)
    assert trajectory(("passthrough",), last, live_until=0) == [(0, Kind.BARE), (1010, Kind.SLATE)]


def test_a_held_picture_gets_no_second_half_second_from_the_standby():
    guard = Guard()
    standby = guard.standby()
    standby.published(guard.judge(swapped(), 0), 0)
    standby.published(guard.judge(failed(), 450 * MS), 450 * MS)
    live = make_frame(1, 450 * MS)
    assert standby.show(live, 500 * MS, SIZE, "").kind is Kind.HELD
    assert standby.show(live, 501 * MS, SIZE, "").kind is Kind.VEILED
    # Not even when it arrives late.
    standby.published(guard.judge(failed(), 500 * MS), 520 * MS)
    assert standby.show(live, 520 * MS, SIZE, "").kind is Kind.VEILED


def test_nothing_changes_what_a_repeated_picture_is():
    standby = Guard().standby()
    last = Guard().judge(swapped(), 0)
    standby.published(last, 0)
    assert standby.show(None, 0, SIZE, "") is standby.show(None, 400 * MS, SIZE, "") is last


def test_the_live_frame_itself_is_left_alone():
    live = make_frame(0)
    Guard().judge(Outcome(live, 0, False), 0)
    assert np.array_equal(live.image, picture())
    assert live.image.flags.writeable


@pytest.mark.parametrize("policy", POLICIES)
def test_a_drawn_curtain_veils_the_very_next_frame_however_good_the_swap_is(policy):
    guard = Guard(policy)
    assert guard.judge(swapped(), 0).kind is Kind.SWAPPED
    guard.curtain.drawn = True
    for seq, outcome in enumerate((swapped(1, MS), failed(2, MS), swapped(3, MS)), 1):
        shown = guard.judge(outcome, seq * MS)
        assert shown.kind is Kind.VEILED
        assert not bare(shown)
        assert not (shown.image[FACE] == SKIN).all()
    guard.curtain.drawn = False
    # What was trusted before does not come back as a held picture.
    assert guard.judge(failed(4, 5 * MS), 5 * MS).kind is not Kind.HELD
    assert guard.judge(swapped(5, 6 * MS), 6 * MS).kind is Kind.SWAPPED


@pytest.mark.parametrize("policy", POLICIES)
def test_a_drawn_curtain_hides_what_was_published_already_and_what_stands_in(policy):
    guard = Guard(policy)
    standby = guard.standby()
    published = guard.judge(swapped(0, 0), 0)
    standby.published(published, 0)
    assert standby.show(make_frame(1, MS), MS, SIZE, slate.WAITING) is published
    guard.curtain.drawn = True
    # The process thread hangs: what it published is repeated, and then the live picture stands in.
    kinds = []
    for at in range(0, 3 * SECOND, 40 * MS):
        shown = standby.show(make_frame(1, at), at, SIZE, slate.WAITING)
        kinds.append(shown.kind)
        assert not bare(shown)
        assert not shown.image.flags.writeable or shown.kind is Kind.SLATE
    assert set(kinds) == {Kind.VEILED}
    assert standby.show(None, 4 * SECOND, SIZE, slate.WAITING).kind is Kind.SLATE
