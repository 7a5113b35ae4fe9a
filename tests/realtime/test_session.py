"""A whole session, threads and all, in time that jumps: what viewers see, and when."""

import random
from collections import Counter
from itertools import pairwise

import pytest

from engines.errors import EngineError
from realtime.frame import Kind
from tests.realtime.fakes import MS, SECOND, SIZE, FakeSink, VirtualClock, make_frame
from tests.realtime.live import Live, no_threads


def test_a_camera_goes_out_swapped_at_full_rate():
    live = Live(cost_ns=8 * MS).play(5)
    live.session.check()
    swapped = [s for s in live.sent if s.kind is Kind.SWAPPED]
    assert all(s.swapped and not s.writeable for s in swapped)
    assert len(swapped) >= 140
    assert 148 <= len(live.sent) <= 152
    counts = live.counts
    assert counts["sent"] == len(live.sent)
    assert counts.get("dropped", 0) == 0
    assert counts["processed"] >= counts["captured"] - 1
    assert live.session.report().frame_age.p50 == pytest.approx(8, abs=0.1)
    assert live.session.report().stages["swap"].spread.p50 == pytest.approx(8, abs=0.1)
    assert (live.tracker.closed, live.swapper.closed, live.sinks[0].closed) == (1, 1, 1)
    assert live.source.closed >= 1
    assert no_threads()


def test_frames_leave_in_the_order_they_came():
    """Case 4. With a processor whose time varies more than a period."""
    rng = random.Random(3)
    live = Live(cost_ns=lambda n: rng.choice((1, 5, 60, 110)) * MS, sinks=2).play(20)
    for sink in live.sinks:
        seqs = [s.seq for s in sink.sent if s.kind is Kind.SWAPPED]
        assert seqs == sorted(seqs)
        assert len(set(seqs)) > 200


@pytest.mark.parametrize("cost_ms", [100, 330])
def test_a_processor_that_is_too_slow_bounds_the_age_and_counts_what_it_drops(cost_ms):
    """Case 1. Up to ten times too slow, for a minute: it is as late at the end as at the beginning."""
    live = Live(cost_ns=cost_ms * MS).play(60)
    fresh = {}
    for sent in live.sent:
        if sent.kind is Kind.SWAPPED:
            fresh.setdefault(sent.seq, sent)
    ages = [s.age for s in fresh.values()]
    # Waiting for the processor for less than one frame's work, because only the newest one waits.
    bound = (2 * cost_ms + 34 + 34) * MS
    assert max(ages) <= bound
    assert max(ages[-20:]) <= max(ages[:20]) + 34 * MS
    counts = live.counts
    assert counts["captured"] == pytest.approx(counts["processed"] + counts["dropped"], abs=3)
    assert counts["dropped"] > 0.6 * counts["captured"]
    assert {s.kind for s in live.sent} <= {Kind.SLATE, Kind.VEILED, Kind.SWAPPED}
    # What is processed next is always the newest there is.
    times = live.tracker.times
    assert all(b - a >= (cost_ms - 34) * MS for a, b in pairwise(times))


def test_before_the_first_swap_viewers_see_a_slate_and_then_the_veil():
    """Case 25."""
    live = Live(answer=lambda n: 0, opening_ns=2 * SECOND).play(5)
    assert live.sinks[0].kinds() == [Kind.SLATE, Kind.VEILED]
    assert live.begins()[Kind.VEILED] == pytest.approx(2, abs=0.1)
    assert not any(s.bare for s in live.sent)
    assert live.counts["veiled"] >= 85
    assert not live.session.ready.is_set()
    slates = [s for s in live.sent if s.at < 2 * SECOND]
    assert 58 <= len(slates) <= 62  # At full rate, while the engines open.


def test_a_face_that_is_lost_is_held_then_veiled_and_back_within_a_third_of_a_second():
    """Case 21."""
    live = Live(answer=lambda n: 0 if 60 <= n < 120 else 1).play(6)
    assert live.sinks[0].kinds(since=SECOND) == [Kind.SWAPPED, Kind.HELD, Kind.VEILED, Kind.SWAPPED]
    held = [s for s in live.sent if s.kind is Kind.HELD]
    assert len(held) == pytest.approx(15, abs=1)
    assert all(s.swapped for s in held)
    back = next(s.at for s in live.sent if s.kind is Kind.SWAPPED and s.at > 3 * SECOND)
    assert back - live.tracker.times[120] <= 300 * MS


def test_an_unplugged_camera_is_held_veiled_a_slate_and_goes_on_when_it_is_back():
    """Case 11."""
    live = Live(gone=((3 * SECOND, 8 * SECOND),))
    live.session.start()
    live.clock.run_until(6 * SECOND)
    assert live.session.snapshot().state == "lost"
    live.clock.run_until(15 * SECOND)
    assert live.session.snapshot().state == "live"
    live.session.stop()
    live.session.check()
    assert live.sinks[0].kinds(since=SECOND) == [Kind.SWAPPED, Kind.VEILED, Kind.SLATE, Kind.SWAPPED]
    since = {kind: next(s.at for s in live.sent if s.at > 2 * SECOND and s.kind is kind) / SECOND
             for kind in (Kind.VEILED, Kind.SLATE)}  # fmt: skip
    assert since[Kind.VEILED] == pytest.approx(3.5, abs=0.07)
    assert since[Kind.SLATE] == pytest.approx(4.0, abs=0.07)
    back = next(s.at for s in live.sent if s.kind is Kind.SWAPPED and s.at > 5 * SECOND)
    assert 8 * SECOND <= back <= 12.2 * SECOND
    assert 448 <= len(live.sent) <= 452
    assert len(live.source.tried) <= 8


def test_a_camera_that_blocks_its_read_does_not_block_the_sink():
    """Case 12."""
    live = Live(blocked=((2 * SECOND, 12 * SECOND),)).play(14)
    assert live.sinks[0].kinds(since=SECOND) == [Kind.SWAPPED, Kind.VEILED, Kind.SLATE, Kind.SWAPPED]
    assert 418 <= len(live.sent) <= 422


def test_a_pipeline_that_hangs_is_held_then_veiled_for_as_long_as_it_hangs():
    live = Live(cost_ns=lambda n: 6 * SECOND if n == 60 else 0).play(10)
    kinds = live.sinks[0].kinds(since=SECOND)
    assert kinds == [Kind.SWAPPED, Kind.VEILED, Kind.SWAPPED]
    veiled = [s.at / SECOND for s in live.sent if s.kind is Kind.VEILED and s.at > SECOND]
    assert veiled[0] == pytest.approx(2.5, abs=0.1)
    assert veiled[-1] == pytest.approx(8, abs=0.1)
    assert not any(s.bare for s in live.sent)


@pytest.mark.parametrize("policy", [("hold", "slate"), ("veil",), ("slate",)])
def test_every_policy_covers_a_failing_swap(policy):
    live = Live(swap=lambda n: ValueError() if n % 3 == 0 else None, policy=policy).play(4)
    live.session.check()
    assert not any(s.bare for s in live.sent)
    assert Kind.BARE not in live.sinks[0].kinds()


def test_passthrough_shows_the_live_picture_because_it_was_asked_for():
    live = Live(answer=lambda n: 1 if 30 <= n < 60 else 0, policy=("passthrough",)).play(4)
    assert live.sinks[0].kinds(since=SECOND // 5) == [Kind.BARE, Kind.SWAPPED, Kind.BARE]
    assert all(s.bare for s in live.sent if s.kind is Kind.BARE)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_goes_wrong_the_real_face_is_never_sent(seed):
    rng = random.Random(seed)
    faults = (EngineError("no"), ValueError("bug"), MemoryError())
    spans = sorted(rng.sample(range(1, 29), 6))
    live = Live(
        answer=lambda n: rng.choice((0, 1, 1, 1, 2, rng.choice(faults))),
        swap=lambda n: rng.choice((None, None, rng.choice(faults))),
        cost_ns=lambda n: rng.choice((0, 10, 50, 400, 1500)) * MS,
        gone=tuple((a * SECOND, b * SECOND) for a, b in zip(spans[::2], spans[1::2], strict=True)),
        opening_ns=rng.choice((0, SECOND)),
        policy=rng.choice((("hold", "veil"), ("hold", "slate"), ("veil",), ("slate",))),
        sinks=2,
        most_failures=10_000,
    ).play(30)
    live.session.check()
    for sink in live.sinks:
        assert len(sink.sent) > 850
        for sent in sink.sent:
            assert sent.kind in (Kind.SWAPPED, Kind.HELD, Kind.VEILED, Kind.SLATE)
            assert not sent.bare
            assert sent.swapped or sent.kind not in (Kind.SWAPPED, Kind.HELD)
    shown = Counter(s.kind.value for s in live.sent)
    assert shown["swapped"] > 0


def test_a_slow_sink_does_not_hold_up_the_other_one():
    live = Live(sinks=2)
    live.sinks[1].work = lambda n: live.spend(700 * MS)
    live.play(5)
    assert 148 <= len(live.sent) <= 152
    assert max(s.age for s in live.sent if s.kind is Kind.SWAPPED) <= 34 * MS
    assert len(live.sinks[1].sent) <= 8


def test_a_clip_starts_at_its_beginning_and_ends_after_its_last_frame():
    live = Live(device=False, fps=30.0, end=90, opening_ns=5 * SECOND)
    report = live.run()
    assert live.source.given == 90
    seqs = {s.seq for s in live.sent if s.kind is Kind.SWAPPED}
    assert {0, 89} <= seqs and len(seqs) >= 88
    assert live.sent[-1].seq == 89
    assert report.counts["captured"] == 90
    assert live.sent[-1].at == pytest.approx(8 * SECOND, abs=150 * MS)
    assert no_threads()


def test_a_duration_counts_from_when_the_engines_are_open():
    report = Live(opening_ns=7 * SECOND).run(duration_s=3)
    assert report.seconds == pytest.approx(3, abs=0.01)
    assert report.counts["sent"] == pytest.approx(90, abs=2)
    assert report.fps("processed") == pytest.approx(30, abs=1)


def test_ready_is_told_with_the_first_swap():
    live = Live(answer=lambda n: int(n >= 60), opening_ns=SECOND)
    live.session.start()
    live.clock.run_until(2 * SECOND)
    assert (live.session.ready.is_set(), live.session.snapshot().state) == (False, "veiled")
    live.clock.run_until(4 * SECOND)
    assert live.session.ready.is_set()
    live.session.stop()
    assert len(live.readied) == 1
    assert live.readied[0] == pytest.approx(3 * SECOND, abs=70 * MS)


def test_the_snapshot_says_what_state_it_is_in():
    live = Live(opening_ns=SECOND, answer=lambda n: int(n < 30))
    assert live.session.snapshot().state == "starting"
    live.session.start()
    states = []
    for tenth in range(1, 40):
        live.clock.run_until(tenth * SECOND // 10)
        states.append(live.session.snapshot().state)
    live.session.stop()
    assert (states[0], states[8], states[14], states[-1]) == ("starting", "starting", "live", "veiled")
    snapshot = live.session.snapshot()
    assert snapshot.ready
    assert snapshot.report.counts["sent"] > 0


def test_sizes_are_made_even_once_for_everyone():
    live = Live(size=(65, 49)).play(1)
    assert live.sinks[0].opened == [(SIZE, 30.0)]
    live.session.check()


def test_memory_does_not_grow_with_time():
    live = Live(cost_ns=20 * MS, answer=lambda n: int(n % 50 < 40), sinks=2).play(60)
    assert live.source._pool.allocated <= 8


def test_the_fakes_can_tell_a_bare_face():
    sink = FakeSink(VirtualClock())
    sink.send(make_frame())
    assert sink.sent[0].bare and not sink.sent[0].swapped
