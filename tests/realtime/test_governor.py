"""What gives way when frames take too long: step by step, back again with patience, and never to and fro."""

from __future__ import annotations

import logging
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from engines.analysis.networks import open_networks
from engines.errors import EngineError
from realtime.choosing.select import Selector
from realtime.clock import ManualClock
from realtime.frame import Kind
from realtime.pace.governor import CALM, MOST_PATIENCE, WINDOW, Governor, Rung
from realtime.pace.rungs import EverySecond, FewerLandmarks, RareDetection, ladder
from realtime.tracking.track import Tracker
from tests.engines.scenes import placed
from tests.realtime.fakes import MS, SECOND
from tests.realtime.live import Live

FPS = 30.0
PERIOD = round(SECOND / FPS)


class Saves(Rung):
    """Takes a share off every frame while it is in use; says it saves more than it does."""

    def __init__(self, name, share, saves=None):
        self.name, self.share, self.on = name, share, False
        self.saves = share if saves is None else saves

    def engage(self):
        assert not self.on
        self.on = True

    def release(self):
        assert self.on
        self.on = False


class Load:
    """A machine that works frame by frame on a clock of its own; newest frame wins."""

    def __init__(self, rungs, inherent_ns=0, noise=0.0, seed=0):
        self.rungs, self.clock = rungs, ManualClock()
        self.counts = []
        self.governor = Governor(rungs, FPS, self.counts.append)
        self.inherent, self.noise, self.rng = inherent_ns, noise, np.random.default_rng(seed)
        self.depths = []

    def run(self, seconds, cost):
        """Lives for a while; ``cost(t)`` is what a frame takes with nothing given way, in periods."""
        until = self.clock.now_ns() + round(seconds * SECOND)
        while (now := self.clock.now_ns()) < until:
            newest = now // PERIOD * PERIOD
            captured = newest - self.inherent
            if self.governor.wants(captured):
                share = np.prod([1 - r.share for r in self.rungs if getattr(r, "on", False)])
                took = cost(now / SECOND) * share * (1 + self.noise * self.rng.standard_normal())
                self.clock.advance(max(1, round(took * PERIOD)))
                self.governor.worked(captured, now, self.clock.now_ns())
                self.depths.append((self.clock.now_ns() / SECOND, self.governor.depth))
            # Waits for the next one.
            self.clock.advance(max(0, newest + PERIOD - self.clock.now_ns()))
        return self

    def trajectory(self, since=0.0):
        """The depths it went through, without repetitions."""
        found = [depth for at, depth in self.depths if at >= since]
        return [d for i, d in enumerate(found) if not i or found[i - 1] != d]


def three():
    return [Saves("a", 0.2), Saves("b", 0.3), Saves("c", 0.2)]


def test_nothing_gives_way_while_there_is_time():
    assert Load(three()).run(60, lambda t: 0.95).trajectory() == [0]


def test_it_steps_down_one_at_a_time_until_it_fits_and_stays_there():
    load = Load(three()).run(60, lambda t: 1.5)
    # 1.5 → 1.2 → 0.84
    assert load.trajectory() == [0, 1, 2]
    assert load.trajectory(since=5) == [2]
    assert load.governor.rung == "a, b"
    assert load.counts == ["steps_down"] * 2


def test_it_never_steps_before_a_whole_window_was_over():
    load = Load(three()).run(60, lambda t: 3.0 if t % 2 < 0.2 else 0.5)
    assert load.trajectory() == [0]


def test_the_last_rung_is_the_end_of_it():
    load = Load(three()).run(60, lambda t: 9.0)
    assert load.trajectory() == [0, 1, 2, 3]


def test_up_again_in_order_and_with_patience():
    load = Load(three()).run(20, lambda t: 1.5).run(60, lambda t: 0.4)
    assert load.trajectory() == [0, 1, 2, 1, 0]
    ups = [
        at for (at, depth), (_, before) in zip(load.depths[1:], load.depths, strict=False) if depth < before
    ]
    patience = CALM * WINDOW / FPS
    assert ups[0] - 20 >= patience - 1
    assert ups[1] - ups[0] >= patience
    assert ups[1] < 20 + 3 * patience
    assert load.governor.rung == ""


def test_just_under_the_limit_is_no_room():
    """Without the rung it would be over again at once."""
    load = Load([Saves("a", 0.4)]).run(10, lambda t: 1.1).run(600, lambda t: 1.05)
    assert load.trajectory(since=5) == [1]
    load.run(60, lambda t: 0.6)
    assert load.trajectory(since=5) == [1, 0]


@pytest.mark.parametrize("seed", range(12))
def test_after_a_step_in_load_it_settles_and_stays(seed):
    """Whatever the rungs save (never more than they say), whatever the load, with noise."""
    rng = np.random.default_rng(seed)
    rungs = [
        Saves(str(i), share, saves)
        for i, share in enumerate(rng.uniform(0, 0.5, rng.integers(1, 6)))
        for saves in [min(0.9, share + rng.uniform(0, 0.2))]
    ]
    load, at = Load(rungs, noise=0.08, seed=seed), 0.0
    for _ in range(4):
        cost = rng.uniform(0.2, 3.0)
        load.run(300, lambda t, cost=cost: cost)
        # Down takes two windows a rung, each of them at most three periods a frame long; up takes patience.
        settled = at + len(rungs) * max(2 * WINDOW / FPS * 3, (MOST_PATIENCE / 4) * CALM * WINDOW / FPS)
        assert len(load.trajectory(since=min(settled, at + 250))) == 1, (seed, cost)
        at += 300
    monotone = np.diff(load.trajectory())
    assert len(monotone) <= 4 * len(rungs)


def test_a_load_that_comes_and_goes_is_not_followed_for_ever():
    """Each return that did not last makes the next one wait twice as long."""
    load = Load([Saves("a", 0.0)]).run(1800, lambda t: 1.3 if t % 20 < 8 else 0.3)
    early = len(load.trajectory()) - len(load.trajectory(since=300))
    late = len(load.trajectory(since=1500))
    assert early > 2
    assert late <= 3


def test_patience_comes_back_when_it_was_worth_it():
    load = Load([Saves("a", 0.1)]).run(200, lambda t: 1.3 if t % 20 < 8 else 0.3)
    assert load.governor._patience > CALM
    load.run(1200, lambda t: 0.3)
    assert load.trajectory(since=1300) == [0]
    assert load.governor._patience == CALM


def test_a_camera_that_is_late_by_itself_is_no_reason_to_give_way():
    assert Load(three(), inherent_ns=5 * PERIOD).run(60, lambda t: 0.6).trajectory() == [0]


def test_frames_that_lie_about_are_a_reason():
    governor = Governor([Saves("a", 0.1)], FPS)
    for n in range(10 * WINDOW):
        waited = 0 if n < 3 * WINDOW else 2 * PERIOD
        governor.worked(n * PERIOD, n * PERIOD + waited, n * PERIOD + waited + PERIOD // 2)
    assert governor.depth == 1


def test_a_rung_that_does_not_work_is_left_out_and_said(caplog):
    class Broken(Saves):
        def engage(self):
            raise EngineError("There is no such network.")

    with caplog.at_level(logging.INFO):
        load = Load([Broken("the broken one", 0.5), Saves("b", 0.5)]).run(20, lambda t: 1.5)
        load.run(60, lambda t: 0.3)
    assert load.trajectory() == [0, 1, 0]
    assert "the broken one" in caplog.text
    assert "running with b" in caplog.text
    assert "running with everything" in caplog.text


@pytest.mark.parametrize("points", [468, 478])
def test_the_ladder_of_a_cpu_is_climbed_down_and_up(points):
    tracker = Tracker(points, Selector("owner", 1), 10)
    governor = Governor(ladder(tracker, points, FPS), FPS)
    names = [RareDetection.name, *([FewerLandmarks.name] if points == 478 else []), EverySecond.name]

    def frames(n, took):
        for _ in range(n):
            governor.worked(0, 0, round(took * PERIOD))

    def state():
        return tracker.attention.interval, tracker.plain, [governor.wants(n * PERIOD) for n in range(4)]

    rested = state()
    assert rested == (10, False, [True] * 4)
    frames(WINDOW, 1.5)
    seen = [state()]
    while governor.depth < len(names):
        assert governor.rung == ", ".join(names[: governor.depth])
        frames(2 * WINDOW, 1.5)
        seen.append(state())
    every = [True] * 4
    expected = [(20, False, every), *([(20, True, every)] if points == 478 else [])]
    assert seen == [*expected, (20, points == 478, [True, False, True, False])]
    for depth in reversed(range(len(names))):
        frames((CALM + 2) * WINDOW, 0.3)
        assert governor.depth == depth
    assert state() == rested


class Way:
    """One way in which a part of another package can do with less."""

    def __init__(self, name, saves=0.3, broken=False):
        self.name, self.saves, self.broken, self.low = name, saves, broken, False

    def lower(self):
        if self.broken:
            raise EngineError("There is nothing to do without.")
        self.low = True

    def restore(self):
        self.low = False


class Part:
    name, saves = "a swapper, which is no rung itself", 1.0

    def __init__(self, *ways):
        self.gives_way = ways


def test_what_other_parts_can_do_without_gives_way_first_and_comes_back_last():
    restorer, masks = (
        Part(Way("no restorer", 1.0), Way("restorer every second frame")),
        Part(Way("plain masks")),
    )
    tracker = Tracker(468, Selector("owner", 1), 10)
    governor = Governor(ladder(tracker, 468, FPS, [restorer, object(), masks, None]), FPS)
    ways = [*restorer.gives_way, *masks.gives_way]
    for depth in range(1, 4):
        for _ in range(2 * WINDOW):
            governor.worked(0, 0, round(1.5 * PERIOD))
        assert [way.low for way in ways] == [i < depth for i in range(3)]
        assert governor.rung == ", ".join(way.name for way in ways[:depth])
        assert tracker.attention.rest == 1
    for _ in range(60 * CALM * WINDOW):
        governor.worked(0, 0, round(0.02 * PERIOD))
    assert [way.low for way in ways] == [False] * 3
    assert governor.depth == 0


def test_with_another_swapper_come_other_ways_and_those_of_the_old_one_are_left():
    tracker = Tracker(468, Selector("owner", 1), 10)
    old, new = Part(Way("no restorer")), Part(Way("plain masks"))
    governor = Governor(ladder(tracker, 468, FPS, [old]), FPS)
    for _ in range(6 * WINDOW):
        governor.worked(0, 0, round(1.5 * PERIOD))
    assert (old.gives_way[0].low, tracker.attention.rest, governor.depth) == (True, 2, 3)
    governor.replace(ladder(tracker, 468, FPS, [new]))
    assert (old.gives_way[0].low, tracker.attention.rest, governor.depth, governor.rung) == (False, 1, 0, "")
    for _ in range(2 * WINDOW):
        governor.worked(0, 0, round(1.5 * PERIOD))
    assert (old.gives_way[0].low, new.gives_way[0].low, governor.rung) == (False, True, "plain masks")


def test_a_part_that_cannot_is_passed_over():
    broken, fine = Way("the broken one", broken=True), Way("the fine one")
    governor = Governor(ladder(Tracker(468, Selector("owner", 1), 10), 468, FPS, [Part(broken, fine)]), FPS)
    for _ in range(WINDOW):
        governor.worked(0, 0, 2 * PERIOD)
    assert (broken.low, fine.low, governor.rung) == (False, True, "the fine one")


@pytest.mark.parametrize("saves", [-1.0, 1.0, 7.0])
def test_what_a_part_says_it_saves_is_kept_within_reason(saves):
    (rung, *_) = ladder(Tracker(468, Selector("owner", 1), 10), 468, FPS, [Part(Way("x", saves))])
    assert 0 <= rung.saves < 1


def test_fewer_landmarks_go_on_with_the_same_track():
    """With the real networks: nobody is lost on the way, and nobody has to be found again."""
    tracker = Tracker(478, Selector("owner", 1), 600, partial(open_networks, plain=True))
    tracker.open(lambda line: None)
    rung, image = FewerLandmarks(tracker), placed("astronaut", (640, 480), 150.0, (320, 240))
    (before,) = tracker.track(image, 0)
    found, n = [], 1
    for step in (rung.engage, rung.release):
        step()
        for _ in range(3):
            found += tracker.track(image, n * PERIOD)
            assert not tracker.lost
            n += 1
    assert [len(face.points) for face in found] == [468] * 3 + [478] * 3
    assert {face.track for face in found} == {before.track}
    apart = [np.abs(face.points[:468, :2] - before.points[:468, :2]).mean() for face in found]
    assert max(apart) < 0.02 * before.width
    assert tracker.detections == 1
    assert len(tracker.nodes) == 4
    tracker.close()


def test_without_the_other_networks_nothing_changes():
    tracker = Tracker(468, Selector("owner", 1), 600, partial(open_networks, plain=True))
    tracker.open(lambda line: None)
    FewerLandmarks(tracker).engage()
    (face,) = tracker.track(placed("astronaut", (640, 480), 150.0, (320, 240)), 0)
    assert len(face.points) == 468
    tracker.close()


@pytest.mark.parametrize("jitter", [0, 5 * MS, 12 * MS])
def test_every_second_frame_stays_every_second_with_jitter_and_leaves_out_none_of_what_is_dropped_anyway(
    jitter,
):
    rung, rng = EverySecond(FPS), np.random.default_rng(1)
    rung.engage()
    at = [n * PERIOD + int(rng.uniform(-jitter, jitter)) for n in range(0, 40)]
    wanted = [rung.wants(ns) for ns in at]
    assert 18 <= sum(wanted) <= 21
    rung.engage()
    assert all(rung.wants(n * PERIOD) for n in range(0, 40, 2))
    assert rung.wants(0), "time that went back: another device"


def test_in_a_session_it_gives_way_and_age_does_not_grow():
    """40 ms for a frame that comes every 33."""
    governor = Governor([EverySecond(FPS)], FPS)
    live = Live(cost_ns=40 * MS, governor=governor).play(20)
    assert governor.rung == EverySecond.name
    assert live.session.snapshot().rung == EverySecond.name
    settled = [s for s in live.sent if 3 * SECOND < s.at < 19 * SECOND]
    assert {s.kind for s in settled} == {Kind.SWAPPED}
    seqs = [s.seq for s in settled]
    assert seqs == sorted(seqs)
    assert set(np.diff(sorted(set(seqs)))) == {2}
    # One for each tick, so every frame is seen twice.
    new = [s for before, s in pairwise(settled) if s.seq != before.seq]
    assert max(s.age for s in new) <= 80 * MS
    assert live.counts["left_out"] > 200


def test_a_session_that_has_time_leaves_nothing_out():
    governor = Governor([EverySecond(FPS)], FPS)
    live = Live(cost_ns=20 * MS, governor=governor).play(10)
    assert governor.depth == 0
    assert "left_out" not in live.counts
    assert live.session.snapshot().rung == ""
