"""Time by hand, and waits that end when they should."""

from __future__ import annotations

import threading

import pytest

from realtime.clock import ManualClock, StopFlag, SystemClock


def started(target, *args):
    thread = threading.Thread(target=target, args=args, daemon=True)
    thread.start()
    return thread


def test_the_systems_clock_never_goes_back():
    clock = SystemClock()
    times = [clock.now_ns() for _ in range(1000)]
    assert times == sorted(times)


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock(10**9)], ids=["system", "manual"])
def test_a_wait_for_what_is_past_ends_at_once(clock):
    condition = threading.Condition()
    with condition:
        clock.wait(condition, 0)
        clock.wait(condition, clock.now_ns())


def test_the_systems_clock_waits_no_longer_than_asked_and_wakes_when_notified():
    clock, condition, woken = SystemClock(), threading.Condition(), []

    def wait(until_ns):
        with condition:
            while not woken:
                clock.wait(condition, until_ns)

    threads = [started(wait, None), started(wait, clock.now_ns() + 10**12)]
    with condition:
        # Ends by itself.
        clock.wait(condition, clock.now_ns() + 1_000_000)
        woken.append(True)
        condition.notify_all()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def test_a_manual_clock_moves_only_when_told():
    clock = ManualClock(5)
    assert clock.now_ns() == 5
    clock.advance(7)
    assert clock.now_ns() == 12


def test_advancing_wakes_everyone_who_waits_until_then_and_nobody_is_missed():
    clock, condition, seen = ManualClock(), threading.Condition(), []

    def wait(until_ns):
        with condition:
            while clock.now_ns() < until_ns:
                clock.wait(condition, until_ns)
            seen.append((until_ns, clock.now_ns()))

    threads = [started(wait, until) for until in (10, 20, 30, 30)]
    clock.settle(4)
    clock.advance(10)
    threads[0].join(10)
    clock.settle(3)
    clock.advance(10)
    threads[1].join(10)
    clock.settle(2)
    assert sorted(seen) == [(10, 10), (20, 20)]
    clock.advance(1000)
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert sorted(seen)[2:] == [(30, 1020), (30, 1020)]
    # All who waited have gone.
    clock.settle(0)
    with pytest.raises(TimeoutError, match="0 threads wait, not 1"):
        clock.settle(1, timeout=0.01)


def test_a_stop_flag_ends_waits():
    clock = ManualClock()
    stop, seen = StopFlag(clock), []
    assert not stop
    assert stop.wait_until(0) is False
    threads = [started(lambda until: seen.append(stop.wait_until(until)), until) for until in (50, 10**18)]
    clock.settle(2)
    clock.advance(50)
    threads[0].join(10)
    clock.settle(1)
    assert seen == [False]
    stop.set()
    threads[1].join(10)
    assert seen == [False, True]
    assert stop
    stop.set()
    assert stop.wait_until(10**18) is True


def test_a_flag_that_is_raised_just_before_the_wait_is_seen():
    stop = StopFlag(SystemClock())
    stop.set()
    assert stop.wait_until(SystemClock().now_ns() + 10**12) is True
