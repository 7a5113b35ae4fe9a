"""A sink's ticks: the rate is true, and a regular frame does not wait."""

import random
from itertools import pairwise

import pytest

from realtime.pace.cadence import Cadence
from tests.realtime.fakes import MS, SECOND


def simulate(fps, arrivals, seconds, busy=lambda tick: 0):
    """Plays an output thread against frames that arrive at the given times.

    Returns:
        The time of every send, and for each new frame how long it lay about.
    """
    cadence = Cadence(fps)
    cadence.begin(0)
    arrivals = sorted(round(a) for a in arrivals)
    now, nth, sends, waits = 0, 0, [], []

    def next_until(until):
        """What lies there at ``now``, or the first to come until then; moves time to it."""
        nonlocal now, nth
        newest = None
        while nth < len(arrivals) and arrivals[nth] <= now:
            newest, nth = arrivals[nth], nth + 1
        if newest is None and nth < len(arrivals) and arrivals[nth] <= until:
            newest, nth = arrivals[nth], nth + 1
        now = max(now, until) if newest is None else max(now, newest)
        return newest

    while now < seconds * SECOND:
        now = max(now, cadence.opens_ns)
        before = next_until(now)
        newest = next_until(cadence.closes_ns if before is None else cadence.tick_ns)
        newest = before if newest is None else newest
        if newest is not None:
            waits.append(now - newest)
            cadence.arrived(newest)
        sends.append(now)
        now += busy(len(sends))
        cadence.advance(now)
    return sends, waits


def per_second(sends, seconds):
    """The most and the fewest sends in any second that starts with a send."""
    starts = [s for s in sends if s <= (seconds - 1) * SECOND]
    counts = [sum(1 for t in sends if s <= t < s + SECOND) for s in starts]
    return min(counts), max(counts)


def every(fps, seconds, phase=0.0, jitter=0.0, seed=0):
    rng = random.Random(seed)
    period = SECOND / fps
    return [(n + phase + rng.uniform(-jitter, jitter)) * period for n in range(1, int(fps * seconds))]


@pytest.mark.parametrize("fps", [15, 30, 60])
@pytest.mark.parametrize("phase", [0.0, 0.1, 0.3, 0.5, 0.7, 0.99])
def test_a_regular_frame_is_sent_the_moment_it_comes(fps, phase):
    sends, waits = simulate(fps, every(fps, 6, phase), 6)
    settled = waits[2 * fps :]
    assert max(settled) == 0
    assert len(settled) >= 4 * fps - 2  # And none is repeated or skipped.
    assert per_second(sends, 6)[1] <= fps + 1


@pytest.mark.parametrize("source", [29.97, 30.3, 29.7])
def test_it_follows_a_clock_that_is_slightly_off(source):
    sends, waits = simulate(30, every(source, 10, 0.4), 10)
    assert max(waits[60:]) == 0
    low, high = per_second(sends, 10)
    assert 29 <= low <= high <= 31


@pytest.mark.parametrize("seed", range(5))
def test_jitter_costs_little_and_the_rate_stays(seed):
    for jitter, mean_ms in ((0.1, 0), (0.2, 3)):
        _, waits = simulate(30, every(30, 10, 0.4, jitter=jitter, seed=seed), 10)
        settled = waits[60:]
        assert sum(settled) / len(settled) <= mean_ms * MS
    sends, _ = simulate(30, every(30, 10, 0.4, jitter=0.3, seed=seed), 10)
    low, high = per_second(sends, 10)
    assert 29 <= low <= high <= 31


@pytest.mark.parametrize(
    "arrivals",
    [
        every(15, 8, 0.3),
        every(60, 8, 0.3),
        every(50, 8, 0.7, jitter=0.3),
        every(24, 8, jitter=0.5),
        every(3, 8),
        [],
        [t for t in every(30, 8, 0.5) if not 2 * SECOND < t < 5 * SECOND],
    ],
    ids=["half", "double", "faster, irregular", "24, very irregular", "a tenth", "nothing", "a gap"],
)
def test_the_rate_is_true_whatever_comes(arrivals):
    low, high = per_second(simulate(30, arrivals, 8)[0], 8)
    assert 29 <= low <= high <= 31


def test_twice_as_many_frames_are_halved_without_waiting():
    _, waits = simulate(30, every(60, 6, 0.2), 6)
    assert max(waits[60:]) == 0


def test_half_as_many_frames_are_each_sent_once_without_waiting():
    _, waits = simulate(30, every(15, 6, 0.8), 6)
    assert max(waits[45:]) == 0
    assert len(waits) >= 15 * 6 - 3


def test_after_a_hiccup_nothing_is_sent_in_a_burst():
    sends, _ = simulate(30, every(30, 6), 6, busy=lambda n: 700 * MS if n == 60 else 0)
    gaps = [b - a for a, b in pairwise(sends)]
    assert max(gaps) >= 700 * MS
    after = gaps[gaps.index(max(gaps)) + 1 :]
    assert min(after) > 15 * MS


def test_a_sink_that_is_always_too_slow_never_catches_up_in_a_burst():
    sends, _ = simulate(30, every(30, 4), 4, busy=lambda n: 90 * MS)
    gaps = [b - a for a, b in pairwise(sends)]
    assert min(gaps) >= 90 * MS


def test_missed_ticks_are_counted():
    cadence = Cadence(10)
    cadence.begin(0)
    cadence.advance(50 * MS)
    assert (cadence.tick_ns, cadence.missed) == (100 * MS, 0)
    cadence.advance(SECOND)
    assert (cadence.tick_ns, cadence.missed) == (SECOND, 8)


@pytest.mark.parametrize("fps", [0, -1, float("nan")])
def test_a_rate_that_is_none_is_refused(fps):
    with pytest.raises(ValueError):
        Cadence(fps)


@pytest.mark.parametrize("reach", [0, 0.5, 1])
def test_a_window_of_a_whole_period_is_refused(reach):
    with pytest.raises(ValueError):
        Cadence(30, reach)
