"""One slot, newest wins, and whoever waits is woken."""

from __future__ import annotations

import threading

import pytest

from realtime.clock import ManualClock, SystemClock
from realtime.mailbox import Mailbox


@pytest.fixture
def box():
    return Mailbox(ManualClock())


def started(target):
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread


def test_the_newest_wins_and_what_it_replaced_is_counted(box):
    for item in range(5):
        box.put(item)
    assert box.dropped == 4
    assert box.get() == 4
    box.put(5)
    assert box.get() == 5
    assert box.dropped == 4


@pytest.mark.parametrize("item", [0, "", False, (), 0.0])
def test_an_item_that_is_false_is_an_item(box, item):
    box.put(item)
    assert box.get() == item
    box.put(item)
    box.put(item)
    assert box.dropped == 1


def test_empty_is_none_when_the_time_has_come(box):
    assert box.get(until_ns=0) is None
    clock = box._clock
    seen = []
    thread = started(lambda: seen.append(box.get(until_ns=100)))
    clock.settle(1)
    clock.advance(99)
    clock.settle(1)
    assert not seen
    clock.advance(1)
    thread.join(10)
    assert seen == [None]


def test_a_waiter_gets_what_comes_while_it_waits(box):
    seen = []
    thread = started(lambda: seen.append(box.get()))
    box._clock.settle(1)
    box.put("frame")
    thread.join(10)
    assert seen == ["frame"]
    assert box.dropped == 0
    assert box.get(until_ns=0) is None


def test_close_wakes_everyone_and_what_lies_there_can_still_be_taken(box):
    seen = []
    threads = [started(lambda: seen.append(box.get())) for _ in range(3)]
    box._clock.settle(3)
    box.close()
    for thread in threads:
        thread.join(10)
    assert seen == [None] * 3

    other = Mailbox(ManualClock())
    other.put("last")
    other.close()
    other.close()
    assert other.closed
    assert other.get() == "last"
    assert other.get() is None


def test_after_close_nothing_is_taken_in(box):
    box.close()
    box.put("late")
    assert box.get() is None
    assert box.dropped == 0


def test_an_item_is_not_kept_alive_once_taken(box):
    import weakref

    class Item:
        pass

    item = Item()
    watch = weakref.ref(item)
    box.put(item)
    del item
    assert box.get() is watch()
    assert watch() is None


@pytest.mark.parametrize("readers", [1, 3])
def test_between_threads_nothing_is_given_twice_or_lost_uncounted_or_out_of_order(readers):
    box, count = Mailbox(SystemClock()), 5000
    taken = [[] for _ in range(readers)]

    def read(mine):
        while (item := box.get()) is not None:
            mine.append(item)

    threads = [started(lambda mine=mine: read(mine)) for mine in taken]
    for item in range(count):
        box.put(item)
    box.close()
    for thread in threads:
        thread.join(20)
    everything = [item for mine in taken for item in mine]
    assert len(everything) == len(set(everything))
    assert all(mine == sorted(mine) for mine in taken)
    assert len(everything) + box.dropped == count
    assert max(everything) == count - 1
