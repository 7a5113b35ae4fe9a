"""How fast a network is, measured with a clock that only the network moves."""

from __future__ import annotations

import pytest

from engines.errors import EngineError
from engines.runtime.rate import slow_advice, warm_up


class Slow:
    """A network whose runs take given times, ms; the last one for good."""

    def __init__(self, *taken):
        self.taken, self.now, self.runs = list(taken), 0, 0

    def run(self):
        self.now += round(1e6 * (self.taken.pop(0) if len(self.taken) > 1 else self.taken[0]))
        self.runs += 1

    def now_ns(self):
        return self.now


@pytest.mark.parametrize(
    ("taken", "ms", "runs"),
    [
        ((900, 10, 30, 20), 20, 4),
        ((5,), 5, 4),
        ((1400,), 1400, 3),
        ((5000, 1900, 500, 7), 1200, 3),
        ((5000, 900, 500, 7), 500, 4),
        ((9000,), 9000, 3),
    ],
)
def test_the_first_run_does_not_count_and_a_slow_one_is_not_repeated_for_ever(taken, ms, runs):
    network = Slow(*taken)
    found = warm_up(network, now_ns=network.now_ns)
    assert network.runs == runs
    assert found == pytest.approx(ms)


def test_the_rate_is_that_of_the_median():
    network = Slow(100, 20, 25, 200)
    assert warm_up(network, now_ns=network.now_ns) == pytest.approx(25)


def test_a_failure_comes_through():
    class Broken:
        def run(self):
            raise EngineError("out of memory")

    with pytest.raises(EngineError, match="out of memory"):
        warm_up(Broken())


@pytest.mark.parametrize(
    ("ms", "device", "said"),
    [
        (
            1420,
            "cpu",
            "The engine inswapper_128 gives about 0.7 frames a second on this CPU, and 30 are wanted.",
        ),
        (50, "cuda:0", "about 20 frames a second on cuda:0"),
    ],
)
def test_what_cannot_keep_the_rate_says_so_in_advance(ms, device, said):
    advice = slow_advice("inswapper_128", ms, 30, device)
    assert said in advice
    assert "--engine mesh" in advice


@pytest.mark.parametrize("ms", [0, 1, 33.3])
def test_what_keeps_it_says_nothing(ms):
    assert slow_advice("inswapper_128", ms, 30, "cpu") == ""
