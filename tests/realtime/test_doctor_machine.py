"""The doctor on the machine itself: its clock, its power and its folders."""

from __future__ import annotations

import itertools
import os
import sys

import pytest

from realtime.doctor.doctor import examine
from realtime.doctor.machine import check_clock, check_folders, check_power


def only(checks):
    (check,) = checks
    assert bool(check.fix) == (check.state != "ok")
    return check


def ticking(*steps):
    """A clock that goes on by these steps, over and over, ns."""
    now = itertools.accumulate(itertools.cycle(steps), initial=10**12)
    return lambda: next(now)


def test_a_fine_clock_is_well():
    check = only(check_clock(ticking(50, 0, 70), 300))
    assert (check.state, check.found) == ("ok", "steps of 50 ns or less, 40 ns to ask, never back")
    assert only(check_clock()).found


@pytest.mark.parametrize(("steps", "state", "said"), [
    ((100, -1), "failed", "goes back"), ((0,), "missing", "stands still"),
    ((0,) * 99 + (15_600_000,), "missing", "steps of 15.6 ms"), ((9_000,), "missing", "9.0 µs"),
])  # fmt: skip
def test_a_clock_that_cannot_be_measured_with_is_said(steps, state, said):
    check = only(check_clock(ticking(*steps), 1000))
    assert check.state == state
    assert said in check.found


def cores(root, governor, driver, count=2):
    for n in range(count):
        folder = root / f"cpu{n}" / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text(f"{governor}\n")
        (folder / "scaling_driver").write_text(f"{driver}\n")


@pytest.mark.parametrize(("governor", "driver", "state"), [
    ("powersave", "acpi-cpufreq", "missing"), ("conservative", "intel_cpufreq", "missing"),
    ("performance", "acpi-cpufreq", "ok"), ("schedutil", "amd-pstate", "ok"),
])  # fmt: skip
def test_a_processor_that_is_kept_slow_is_a_finding(tmp_path, governor, driver, state):
    cores(tmp_path, governor, driver)
    check = only(check_power(tmp_path))
    assert check.state == state
    assert governor in check.found


def test_powersave_of_a_driver_that_follows_the_load_and_no_word_at_all_are_no_finding(tmp_path):
    assert list(check_power(tmp_path)) == []
    cores(tmp_path, "powersave", "intel_pstate")
    assert list(check_power(tmp_path)) == []


def test_folders_of_ones_own_and_those_not_yet_made(tmp_path):
    (tmp_path / "there").mkdir(mode=0o755)
    check = only(check_folders({"networks": tmp_path / "there", "plans": tmp_path / "a" / "b"}))
    assert check.state == "ok"


@pytest.mark.skipif(sys.platform == "win32", reason="rights are not kept in a mode there")
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o702 | 0o020])
def test_a_folder_that_others_can_write_in_fails(tmp_path, mode):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(mode)
    check = only(check_folders({"plans": folder}))
    assert check.state == "failed"
    assert f"chmod go-w '{folder}'" in check.fix


def test_a_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    check = only(check_folders({"networks": tmp_path / "a"}))
    assert (check.state, "cannot be written" in check.found) == ("missing", True)


def test_the_doctor_makes_them():
    names = {check.name for check in itertools.islice(examine(), 8)}
    assert {"clock", "folders"} <= names
