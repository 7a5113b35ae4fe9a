"""The benchmark: its document, its verdicts and its options."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.metadata import PackageNotFoundError

import pytest

import realtime.cli.bench
from engines.errors import UsageError
from engines.runtime.driver import Driver, Gpu
from realtime.bench.compare import differences, ratios, read_result
from realtime.bench.load import SlowTracker
from realtime.bench.machine import CpuMeter, cpu_name, rss_mb, this_machine, usable_cores, versions
from realtime.bench.measure import Task, highest_rate, keeps_up, measure
from realtime.bench.result import Result
from realtime.cli import main
from realtime.pace.budget import Meter
from realtime.pace.stages import STAGES, budget_for
from realtime.settings.config import BENCH
from realtime.settings.load import from_flags

TINY = ["bench", "--size", "320x240", "--seconds", "0.5", "--fps", "15"]


def made(durations_ms: dict[str, float], fps: float = 30.0, dropped: int = 0, frames: int = 100) -> Result:
    """A result as if every frame had taken so long in each stage."""
    meter = Meter(0, budget_for(fps))
    for _ in range(frames):
        for stage, ms in durations_ms.items():
            meter.stage(stage, round(ms * 1e6))
        meter.process(round(sum(durations_ms.get(stage, 0) for stage in ("track", "swap", "blend")) * 1e6))
        meter.age(round(sum(durations_ms.values()) * 1e6))
        for name in ("captured", "processed", "sent"):
            meter.count(name)
    meter.count("dropped", dropped)
    report = meter.report(round(frames / fps * 1e9))
    nodes = {"face_mesh_468": {"CPUExecutionProvider": 191}}
    return Result(BENCH, "cpu", nodes, (1920, 1080), fps, report, 345.6, 50.0, 200.0)


GOOD = dict.fromkeys(STAGES, 1.0)


def test_the_document_is_schema_1():
    document = json.loads(json.dumps(made(GOOD).as_json()))
    assert document["schema"] == 1
    assert set(document["machine"]) == {"cpu", "cores", "gpu", "driver"}
    assert document["config"] == {
        "source": "portrait", "engine": "mesh", "device": "cpu", "size": [1920, 1080], "fps": 30, "seconds": 3.3,
    }  # fmt: skip
    assert document["providers"] == {"face_mesh_468": "CPUExecutionProvider"}
    assert list(document["stages"]) == ["capture", "track", "swap", "blend", "output"]
    for stage in document["stages"].values():
        assert set(stage) == {"n", "p50_ms", "p95_ms", "p99_ms", "max_ms", "budget_ms", "over"}
    for spread in (document["frame_age_ms"], document["process_ms"]):
        assert set(spread) == {"p50", "p95", "p99", "max"}
    assert set(document["frames"]) == {
        "captured", "processed", "sent", "dropped", "repeated", "left_out", "skipped_detection", "duplicates",
    }  # fmt: skip
    assert document["fps"] == {"processed": 30.0, "sent": 30.0}
    assert document["process_ms"]["p50"] == 3.0
    assert document["start_to_first_frame_ms"] == 345.6
    assert document["budget_met"] is True


@pytest.mark.parametrize("stage", STAGES)
def test_each_stage_over_its_budget_is_named(stage):
    result = made(GOOD | {stage: 13.0})
    assert not result.as_json()["budget_met"]
    assert len(result.missed()) == 1
    assert result.missed()[0].startswith(stage)


def test_a_stage_never_reached_and_a_frame_too_long_are_misses():
    assert made({stage: 1.0 for stage in STAGES if stage != "swap"}).missed() == ["swap was never reached"]
    assert any("a frame took" in miss for miss in made(GOOD | {"swap": 40.0}).missed())


@pytest.fixture
def measured(monkeypatch):
    """Replaces the measuring by results made up by rate; returns the tasks that were asked for."""
    tasks: list[Task] = []

    def fake(task, progress, clock=None, profile=None):
        tasks.append(task)
        fps = task.config.fps
        cost = dict.fromkeys(STAGES, 1.0) | {"track": 1.0 + task.slow_ms}
        period = sum(cost[stage] for stage in ("track", "swap", "blend"))
        return made(cost, fps, dropped=int(1000 / fps < period), frames=20)

    monkeypatch.setattr(realtime.cli.bench, "measure", fake)
    return tasks


def test_options_reach_the_measurement(measured, capsys):
    assert main([*TINY, "--slow", "3", "--face-width", "100", "--seed", "7", "--landmarks", "468"]) == 0
    (task,) = measured
    assert (task.seconds, task.slow_ms, task.face_width) == (0.5, 3.0, 100.0)
    config = task.config
    assert (config.size, config.fps, config.seed, config.landmarks) == ((320, 240), 15.0, 7, 468)
    assert config.sink == ("null",)
    out = capsys.readouterr().out
    assert "frame age" in out
    assert "Every budget met." in out


def test_the_users_configuration_does_not_change_a_benchmark(measured, monkeypatch):
    monkeypatch.setenv("DOPPELCAM_ENGINE", "other")
    assert main(TINY) == 0
    assert measured[0].config.engine == "mesh"


def test_enforce_exits_with_5_and_says_which(measured, capsys):
    assert main([*TINY, "--enforce"]) == 0
    capsys.readouterr()
    assert main([*TINY, "--enforce", "--slow", "20", "--json"]) == 5
    out, err = capsys.readouterr()
    assert json.loads(out)["budget_met"] is False
    assert "track took 21.0 ms (p95) of 8.0" in err
    assert main([*TINY, "--slow", "20"]) == 0


def test_max_finds_the_highest_rate(measured, capsys):
    assert main(["bench", "--max", "--slow", "9", "--json"]) == 0
    # Track 10 ms, swap and blend 1 ms each: 12 ms a frame.
    assert json.loads(capsys.readouterr().out)["max_fps"] == 83
    assert all(task.seconds <= 2 for task in measured)
    assert main(["bench", "--max", "--slow", "900"]) == 0
    assert "not even 5 fps" in capsys.readouterr().out


def test_a_source_that_is_too_slow_does_not_count_as_keeping_up():
    assert keeps_up(made(GOOD))
    assert not keeps_up(made(GOOD, dropped=1))
    assert not keeps_up(replace(made(GOOD, fps=30), fps=60.0))


@pytest.mark.parametrize("limit", [5, 6, 29, 30, 31, 77, 119, 120])
def test_bisection_ends_at_the_limit(limit):
    assert highest_rate(lambda rate: rate <= limit, 5, 120, steps=10) == limit


def test_bisection_below_the_lowest_and_with_one_hiccup():
    assert highest_rate(lambda rate: False, 5, 120) is None
    asked: list[float] = []

    def hiccups(rate: float) -> bool:
        asked.append(rate)
        return rate <= 40 and asked.count(rate) == 2

    assert highest_rate(hiccups, 5, 120, steps=10) == 40


def test_compare_shows_ratios_and_what_is_not_alike(measured, tmp_path, capsys):
    old = tmp_path / "old.json"
    assert main([*TINY, "--json", "--slow", "9"]) == 0
    old.write_text(capsys.readouterr().out)
    assert main([*TINY, "--compare", str(old)]) == 0
    out = capsys.readouterr().out
    row = next(line for line in out.splitlines() if line.startswith("track p50"))
    assert row.split()[-3:] == ["10.00", "1.00", "0.10"]
    assert "Not alike" not in out
    assert main([*TINY, "--fps", "30", "--compare", str(old), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["compare"]["track p50"] == {"old": 10.0, "new": 1.0, "ratio": 0.1}
    assert differences(json.loads(old.read_text()), document) == ["fps: 15 then, 30 now"]


def test_a_zero_has_no_ratio_and_what_is_missing_is_left_out():
    new = made(GOOD).as_json()
    assert ratios({"frames": {"dropped": 0}, "stages": 3, "fps": {"processed": True}}, new) == {
        "frames dropped": {"old": 0.0, "new": 0.0, "ratio": None}
    }


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "{}", '{"schema": 2}', "<html>"])
def test_what_is_no_result_is_refused(text, tmp_path):
    path = tmp_path / "old.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"old\.json"):
        read_result(path)


def test_slow_adds_work_to_every_frame_and_hands_everything_on():
    class Inner:
        lost, skipped_detections, calls, others = True, 4, 0, ()

        def open(self, progress):
            self.calls += 1

        def track(self, image, now_ns):
            return [now_ns]

        def look_on(self):
            self.calls += 10

        def close(self):
            self.calls += 1

    import time

    inner = Inner()
    slow = SlowTracker(inner, 5)
    slow.open(lambda _: None)
    before = time.thread_time_ns()
    assert slow.track(None, 7) == [7]
    assert time.thread_time_ns() - before >= 5_000_000
    assert (slow.lost, slow.skipped_detections) == (True, 4)
    assert (slow.frames, slow.faces) == (1, 1)
    slow.look_on()
    assert inner.calls == 11
    slow.close()
    assert inner.calls == 12


def test_the_machine_is_described(tmp_path):
    assert cpu_name()
    assert "\n" not in cpu_name()
    (tmp_path / "cpuinfo").write_text("processor : 0\nmodel name\t: Fast  CPU @ 3\n")
    assert cpu_name(tmp_path / "cpuinfo") == "Fast CPU @ 3"
    assert cpu_name(tmp_path / "none")
    assert usable_cores() >= 1
    assert rss_mb() > 1
    assert CpuMeter().percent() >= 0


def test_the_gpu_and_its_driver_are_described():
    two = Driver((Gpu(0, "RTX 4090", 24564, (8, 9)), Gpu(1, "T4", 15360, (7, 5))), (12, 8))
    for device, name in (("cpu", "RTX 4090"), ("cuda", "RTX 4090"), ("cuda:1", "T4")):
        machine = this_machine(device, lambda: two, lambda: "570.86.10")
        assert (machine["gpu"], machine["driver"]) == (name, "570.86.10, CUDA 12.8")
    assert this_machine("cpu", lambda: two, lambda: "")["driver"] == "CUDA 12.8"
    nothing = this_machine("cpu", lambda: Driver(why_not="there is none"), lambda: "570")
    assert (nothing["gpu"], nothing["driver"]) == (None, None)
    assert (nothing["cpu"], nothing["cores"]) == (cpu_name(), usable_cores())


def test_versions_are_those_that_are_there():
    def version(name):
        if name not in ("numpy", "onnxruntime"):
            raise PackageNotFoundError(name)
        return "9.9"

    found = versions(version)
    assert found.pop("python").startswith("3.")
    assert found == {"numpy": "9.9", "onnxruntime": "9.9"}
    assert {"numpy", "numba", "python"} <= set(made(GOOD).as_json()["versions"])


def test_a_face_width_needs_a_portrait():
    config = from_flags({"source": "pattern", "size": "320x240"}, BENCH)
    with pytest.raises(UsageError, match="face-width"):
        measure(Task(config, 0.5, face_width=100.0), lambda _: None)


@pytest.mark.slow
def test_a_real_run_is_measured_and_prints_one_document(capsys):
    assert main([*TINY, "--json", "--face-width", "90", "--slow", "1"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["frames"]["processed"] > 0
    assert all(stage["n"] > 0 for stage in document["stages"].values())
    assert document["stages"]["track"]["p50_ms"] >= 1
    assert document["start_to_first_frame_ms"] > 0
    assert document["providers"]
    assert document["rss_mb"] > 10
