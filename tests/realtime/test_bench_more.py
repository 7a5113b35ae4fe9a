"""The benchmark's looks inside: parts of stages, sweeps, what comes before, what measuring costs, back-pressure."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from itertools import pairwise, product

import cv2
import numpy as np
import pytest

import realtime.cli.bench
from engines.analysis.crop import Cropper
from engines.errors import DoppelcamError, UsageError
from realtime.bench import overhead
from realtime.bench.machine import process_age_ms
from realtime.bench.measure import Task
from realtime.bench.profile import POINTS, Part, Point, Profile
from realtime.bench.result import Cold
from realtime.bench.sweep import Cell, plot, read_engines, read_sizes, read_widths, sweep, sweep_table
from realtime.cli import main
from realtime.clock import SystemClock
from realtime.frame import Kind
from realtime.pace.governor import Governor
from realtime.pace.rungs import EverySecond
from realtime.pace.stages import STAGES
from realtime.settings.config import BENCH
from realtime.show import stdout
from tests.realtime.fakes import MS, SECOND
from tests.realtime.live import Live
from tests.realtime.test_bench import GOOD, TINY, made


class Work:
    """Something to look into."""

    def outer(self):
        return self.inner() + 1

    def inner(self):
        return 1

    def fails(self):
        raise ValueError("no")


def here(*names, **kw):
    points = [Point("swap", name, __name__, f"Work.{name}") for name in names]
    return Profile(points, thread=threading.current_thread().name, **kw)


def test_parts_are_timed_while_it_runs_and_untouched_before_and_after():
    before = dict(vars(Work))
    with here("inner", "outer") as profile:
        assert dict(vars(Work)) == before
        profile.begin()
        work = Work()
        assert work.inner() == 1
        profile.end()
        assert dict(vars(Work)) == before
        work.inner()
        profile.begin()
    assert dict(vars(Work)) == before
    assert profile.parts() == []


def test_a_part_within_a_part_counts_once():
    with here("inner", "outer") as profile:
        profile.begin()
        assert Work().outer() == 2
        assert Work().inner() == 1
    assert {part.name: part.calls for part in profile.parts()} == {"inner": 1, "outer": 1}


def test_a_part_that_fails_fails_as_before():
    with here("fails", "inner") as profile:
        profile.begin()
        for _ in range(2):
            with pytest.raises(ValueError, match="no"):
                Work().fails()
        Work().inner()
    assert {part.name: part.calls for part in profile.parts()} == {"fails": 2, "inner": 1}


def test_other_threads_are_not_timed():
    with here("inner") as profile:
        profile.begin()
        thread = threading.Thread(target=Work().inner)
        thread.start()
        thread.join()
    assert profile.parts() == []


def test_a_part_that_is_not_there_is_said_and_harms_nothing():
    with here("inner", "nothing") as profile:
        profile.begin()
        Work().inner()
    assert [point.part for point in profile.missing] == ["nothing"]
    assert len(profile.parts()) == 1


def test_every_point_of_this_version_is_there():
    original = Cropper.read
    with Profile() as profile:
        profile.begin()
        assert Cropper.read is not original
        assert profile.missing == []
    assert Cropper.read is original
    assert {point.stage for point in POINTS} <= {*STAGES, ""}


def test_the_profile_is_in_the_document_per_frame():
    result = replace(made(GOOD, frames=100), parts=[Part("track", "detector", 10, 50.0, 5.0, 6.0)])
    (part,) = result.as_json()["profile"]
    assert part == {
        "stage": "track", "part": "detector", "calls": 10, "per_frame_ms": 0.5, "p50_ms": 5.0, "p95_ms": 6.0,
    }  # fmt: skip
    assert "profile" not in made(GOOD).as_json()


@pytest.fixture
def measured(monkeypatch):
    """Measures nothing; time grows with the size of the face. A face of 24 pixels is not found."""
    tasks = []

    def fake(task, progress, clock=None, profile=None):
        tasks.append((task, profile))
        if task.face_width == 24:
            raise DoppelcamError("No face was swapped.")
        result = made(GOOD | {"swap": (task.face_width or 100) / 50}, task.config.fps, frames=20)
        parts = [Part("track", "detector", 10, 50.0, 5.0, 6.0)] if profile is not None else []
        return replace(result, size=task.config.size, parts=parts, cold=Cold(500.0, 200.0, 1000.0, 150.0))

    monkeypatch.setattr(realtime.cli.bench, "measure", fake)
    return tasks


def test_profile_is_asked_for_and_shown(measured, capsys):
    assert main([*TINY, "--profile"]) == 0
    assert measured[0][1] is not None
    row = next(line for line in capsys.readouterr().out.splitlines() if "detector" in line)
    assert row.split() == ["track", "detector", "2.50", "10", "5.00", "6.00"]
    assert main(TINY) == 0
    assert measured[1][1] is None


def test_what_was_cold_is_told_apart(measured, capsys):
    assert main([*TINY, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["cold"] == {
        "import_ms": 500.0, "assemble_ms": 200.0, "open_ms": 1000.0, "first_frame_ms": 150.0,
    }  # fmt: skip
    assert main(TINY) == 0
    assert "500 ms to load the program" in capsys.readouterr().out
    unknown = replace(made(GOOD), cold=Cold(None, 1, 2, 3)).as_json()["cold"]
    assert unknown["import_ms"] is None


def test_a_sweep_measures_every_size_with_every_face_that_fits(measured, capsys, tmp_path):
    picture = tmp_path / "sweep.png"
    arguments = ["bench", "--sweep", "--sizes", "320x240,640x360", "--face-widths", "24,100,300"]
    assert main([*arguments, "--json", "--plot", str(picture)]) == 0
    document = json.loads(capsys.readouterr().out)
    cells = {(*cell["size"], cell["face_width"]): cell for cell in document["sweep"]}
    assert document["schema"] == 1
    assert len(cells) == 6
    assert cells[320, 240, 300.0]["result"] is None
    assert "wider" in cells[320, 240, 300.0]["why"]
    assert cells[320, 240, 24.0]["why"] == "No face was swapped."
    assert cells[640, 360, 300.0]["result"]["stages"]["swap"]["p50_ms"] == 6.0
    assert [task.config.size for task, _ in measured] == [(320, 240)] * 2 + [(640, 360)] * 3
    assert cv2.imread(str(picture)).shape == (600, 960, 3)
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "640×360" in out
    assert "Left out: wider" in out


def test_a_sweep_that_misses_a_budget_says_where(measured, capsys):
    arguments = ["bench", "--sweep", "--sizes", "1280x720", "--face-widths", "100,700", "--enforce"]
    assert main(arguments) == 5
    assert "1280x720, 700 px: swap took 14.0" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [
    ["--sweep", "--max"], ["--sweep", "--profile"], ["--max", "--profile"], ["--sizes", "320x240"],
    ["--face-widths", "100"], ["--engines", "mesh"], ["--sweep", "--engine", "mesh"],
    ["--sweep", "--engines", "mesh,mesh"], ["--sweep", "--engines", ","], ["--plot", "a.png"],
    ["--sweep", "--size", "320x240"],
    ["--sweep", "--face-width", "100"], ["--sweep", "--sizes", "321x240"], ["--sweep", "--sizes", "x"],
    ["--sweep", "--sizes", ""], ["--sweep", "--face-widths", "nan"], ["--sweep", "--face-widths", "3"],
    ["--sweep", "--face-widths", "100," * 200 + "100"], ["--sweep", "--compare", "old.json"],
    ["--faces", "2"], ["--sweep", "--faces", "0"], ["--sweep", "--faces", "9"], ["--sweep", "--faces", "1,1"],
    ["--sweep", "--faces", "²"], ["--sweep", "--faces", "1.5"], ["--sweep", "--faces", ""],
    ["--sweep", "--faces", "9" * 5000],
])  # fmt: skip
def test_what_does_not_go_together_is_refused_before_anything_is_measured(wrong, measured, capsys):
    assert main(["bench", *wrong]) == 2
    assert "fix:" in capsys.readouterr().err
    assert not measured


def test_a_sweep_over_numbers_of_faces_leaves_out_those_that_have_no_room(measured, capsys, tmp_path):
    picture = tmp_path / "sweep.png"
    arguments = ["bench", "--sweep", "--sizes", "640x360", "--face-widths", "100,300", "--faces", "1,2,4"]
    assert main([*arguments, "--json", "--plot", str(picture)]) == 0
    cells = json.loads(capsys.readouterr().out)["sweep"]
    assert [(cell["faces"], cell["face_width"]) for cell in cells] == list(product((1, 2, 4), (100, 300)))
    assert [cell.get("why") for cell in cells] == [None] * 3 + ["together wider than the frame", None] + [
        "together wider than the frame"
    ]
    assert [(task.faces, task.config.max_faces) for task, _ in measured] == [(1, 1), (1, 1), (2, 2), (4, 4)]
    sheet = cv2.imread(str(picture))
    assert all((sheet == colour).all(2).any() for colour in [(180, 119, 31), (14, 127, 255), (44, 160, 44)])
    assert main(arguments) == 0
    rows = [line.split()[:3] for line in capsys.readouterr().out.splitlines() if "640×360" in line]
    assert rows == [["640×360", n, w] for n in ("1", "2", "4") for w in ("100", "300")]
    assert (
        main([*arguments[:2], "--sizes", "1920x1080", "--face-widths", "620", "--faces", "2", "--enforce"])
        == 5
    )
    assert "1920x1080, 2 faces of 620 px: swap took 12.4" in capsys.readouterr().err


def test_a_plot_that_cannot_be_written_is_said(measured, capsys, tmp_path):
    arguments = ["bench", "--sweep", "--sizes", "320x240", "--face-widths", "100"]
    assert main([*arguments, "--plot", str(tmp_path / "none" / "a.png")]) == 2
    assert "--plot" in capsys.readouterr().err


def test_the_plot_shows_lines_where_the_figures_are():
    def cell(size, width, ms):
        return Cell(size, width, made(GOOD | {"swap": ms - 2}))

    cells = [
        cell((640, 360), 100, 10),
        cell((640, 360), 200, 20),
        cell((1280, 720), 100, 40),
        Cell((1, 1), 9, None),
    ]
    sheet = plot(cells, 1000 / 30)
    first, second = (np.argwhere((sheet == colour).all(2)) for colour in [(180, 119, 31), (14, 127, 255)])
    plotted = [points[(points[:, 0] > 150)] for points in (first, second)]
    # Rows grow downwards: the line rises to the right, and 40 ms stand above 20.
    left, right = plotted[0][:, 1].argmin(), plotted[0][:, 1].argmax()
    assert plotted[0][left, 0] > plotted[0][right, 0]
    empty = plot([Cell((640, 360), 100, None)], 33.3)
    assert (empty != 255).any()
    with stdout().capture():
        stdout().print(sweep_table(cells))


def test_a_sweep_of_one_cell_and_lists_are_read():
    assert read_sizes("640x360, 1280x720") == [(640, 360), (1280, 720)]
    assert read_widths("80,160.5") == [80, 160.5]
    with pytest.raises(UsageError, match="more than"):
        sweep(Task(BENCH, 1.0), [(640, 360)] * 13, [1.0] * 5, lambda task: None)
    assert read_engines("mesh, inswapper_128") == ["mesh", "inswapper_128"]


def test_a_sweep_over_engines_has_a_line_for_each_and_says_which_is_not_there(monkeypatch, capsys, tmp_path):
    def fake(task, progress, clock=None, profile=None):
        if task.config.engine == "nothing":
            raise DoppelcamError("There is no engine nothing.")
        result = made(GOOD | {"swap": 9.0 if task.config.engine == "other" else 3.0}, frames=20)
        return replace(result, config=task.config, size=task.config.size)

    monkeypatch.setattr(realtime.cli.bench, "measure", fake)
    arguments = ["bench", "--sweep", "--sizes", "640x360", "--face-widths", "80,160"]
    arguments += ["--engines", "mesh,other,nothing", "--plot", str(tmp_path / "a.png")]
    assert main([*arguments, "--json"]) == 0
    cells = json.loads(capsys.readouterr().out)["sweep"]
    assert [cell["engine"] for cell in cells] == ["mesh", "mesh", "other", "other", "nothing", "nothing"]
    assert [cell["result"] and cell["result"]["config"]["engine"] for cell in cells[:4:2]] == [
        "mesh",
        "other",
    ]
    assert cells[-1]["why"] == "There is no engine nothing."
    sheet = cv2.imread(str(tmp_path / "a.png"))
    assert all((sheet == colour).all(2).any() for colour in [(180, 119, 31), (14, 127, 255)])
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert out.count("other") == 2
    assert "Left out: There is no engine nothing." in out


def test_measuring_costs_less_than_a_hundredth_of_a_frame():
    """Of the cheapest frame there is: a period of 60 fps, a tenth of it spent on the frame."""
    per_frame = overhead.ns_per_frame(SystemClock())
    assert per_frame > 0
    assert overhead.percent(600, per_frame, 0, 600 * SECOND / 60 / 10) < 5
    assert overhead.percent(100, 1000, 50_000, 15_000_000) == pytest.approx(1.0)
    assert overhead.percent(0, 1000, 0, 0) == 0


def test_a_process_knows_how_old_it_is():
    first = process_age_ms()
    assert first is None or first > 0
    if first is not None:
        assert process_age_ms() >= first


@pytest.mark.parametrize("governed", [False, True])
@pytest.mark.parametrize("slow", [60, 45, 100])
def test_a_frame_of_twice_its_time_makes_fewer_frames_and_never_older_ones(slow, governed):
    """The reported fault: 3.5 s late after ten seconds, and growing."""
    governor = Governor([EverySecond(30.0)], 30.0) if governed else None
    live = Live(cost_ns=slow * MS, governor=governor).play(60)
    sent = [s for s in live.sent if s.kind is Kind.SWAPPED]
    shown = [sent[0]] + [s for before, s in pairwise(sent) if s.seq != before.seq]
    ages = np.array([s.age for s in shown]) / MS
    bound = 2 * slow + 1000 / 30
    for second in range(1, 59):
        now = [s.age / MS for s in shown if second * SECOND <= s.at < (second + 1) * SECOND]
        assert now
        assert max(now) <= bound
    assert np.percentile(ages, 99) <= bound
    seqs = [s.seq for s in shown]
    assert seqs == sorted(set(seqs))
    counts = live.counts
    # Each captured frame was worked on, left out, dropped, or is one of the two that were under way at the end.
    fate = counts["processed"] + counts["dropped"] + counts.get("left_out", 0)
    assert 0 <= counts["captured"] - fate <= 2
    assert counts["sent"] >= 60 * 30 - 3
