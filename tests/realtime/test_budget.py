"""What is measured is what happened, and measuring for ever takes no more memory."""

from __future__ import annotations

import threading
import tracemalloc

import numpy as np
import pytest

from realtime.pace.budget import Meter
from realtime.pace.stages import DEFAULT_BUDGET_MS, STAGES, budget_for

MS = 1_000_000
SECOND = 1_000_000_000


def test_budgets_scale_with_the_period():
    assert budget_for(30) == pytest.approx(dict(DEFAULT_BUDGET_MS))
    assert budget_for(60) == pytest.approx({stage: ms / 2 for stage, ms in DEFAULT_BUDGET_MS.items()})
    assert budget_for(15)["swap"] == pytest.approx(24)
    assert set(budget_for(30)) == set(STAGES)
    assert all(np.isfinite(ms) for ms in budget_for(0).values())


def test_percentiles_and_the_largest():
    meter = Meter(0)
    for ms in np.random.default_rng(0).permutation(np.arange(1, 1001)):
        meter.stage("swap", int(ms) * MS)
    spread = meter.report(SECOND).stages["swap"].spread
    assert spread.n == 1000
    assert spread.p50 == pytest.approx(500.5)
    assert spread.p95 == pytest.approx(950.05)
    assert spread.p99 == pytest.approx(990.01)
    assert spread.max == 1000


def test_each_stage_has_its_own_and_over_is_counted_above_the_budget_only():
    meter = Meter(0, {"track": 4.0, "swap": 12.0})
    for ms in (3.9, 4.0, 4.1, 50):
        meter.stage("track", round(ms * MS))
        meter.stage("blend", round(ms * MS))
    report = meter.report(SECOND)
    assert list(report.stages) == list(STAGES)
    assert (report.stages["track"].over, report.stages["track"].budget_ms) == (2, 4.0)
    assert report.stages["swap"].spread.n == report.stages["swap"].over == 0
    # Without a budget nothing is over it.
    assert (report.stages["blend"].over, report.stages["blend"].budget_ms) == (0, 0.0)


def test_nothing_measured_is_zeros():
    report = Meter(0).report(0)
    for spread in (report.process, report.frame_age, *(stage.spread for stage in report.stages.values())):
        assert (spread.n, spread.p50, spread.p95, spread.p99, spread.max) == (0, 0, 0, 0, 0)
    assert report.fps("sent") == 0


def test_rates_and_counts():
    meter = Meter(2 * SECOND)
    for _ in range(90):
        meter.count("sent")
    meter.count("dropped", 7)
    meter.count("repeated", 0)
    report = meter.report(5 * SECOND)
    assert report.seconds == 3
    assert report.fps("sent") == 30
    assert report.fps("nothing") == 0
    assert report.counts["dropped"] == 7


def test_a_report_does_not_change_any_more():
    meter = Meter(0)
    meter.count("sent")
    meter.age(5 * MS)
    report = meter.report(SECOND)
    meter.count("sent")
    meter.age(500 * MS)
    assert report.counts["sent"] == 1
    assert (report.frame_age.n, report.frame_age.max) == (1, 5)


def test_the_latest_ones_count_and_the_largest_of_all():
    meter = Meter(0, window=100)
    for ms in (1000, *[10] * 1000, *[20] * 100):
        meter.process(ms * MS)
        meter.stage("track", ms * MS)
    spread = meter.report(SECOND).process
    assert (spread.n, spread.p50, spread.p99, spread.max) == (1101, 20, 20, 1000)
    assert meter.report(SECOND).stages["track"].over == 1101


def test_reset_forgets_everything():
    meter = Meter(0)
    meter.stage("swap", 100 * MS)
    meter.process(100 * MS)
    meter.age(100 * MS)
    meter.count("sent")
    meter.reset(9 * SECOND)
    report = meter.report(10 * SECOND)
    assert report.seconds == 1
    assert not report.counts
    assert report.process.n == report.frame_age.n == report.stages["swap"].spread.n == 0
    assert report.stages["swap"].over == report.stages["swap"].spread.max == 0
    meter.age(3 * MS)
    assert meter.report(10 * SECOND).frame_age.p99 == 3


def test_memory_does_not_grow():
    meter = Meter(0, window=256)

    def run():
        for i in range(3000):
            for stage in STAGES:
                meter.stage(stage, i)
            meter.process(i)
            meter.age(i)
            meter.count("sent")
        meter.report(SECOND)

    run()
    tracemalloc.start()
    try:
        run()
        before = tracemalloc.get_traced_memory()[0]
        run()
        assert tracemalloc.get_traced_memory()[0] - before < 2000
    finally:
        tracemalloc.stop()


def test_an_unknown_stage_is_a_mistake():
    with pytest.raises(KeyError):
        Meter(0).stage("dance", 1)


def test_reports_may_be_made_while_others_measure():
    meter, done = Meter(0, window=64), threading.Event()

    def measure():
        i = 0
        while not done.is_set():
            meter.stage("swap", 5 * MS)
            meter.count(f"kind {i % 50}")
            i += 1

    thread = threading.Thread(target=measure, daemon=True)
    thread.start()
    try:
        for _ in range(300):
            spread = meter.report(SECOND).stages["swap"].spread
            assert spread.n == 0 or spread.max == 5
    finally:
        done.set()
        thread.join(10)
