"""Another process of this Python: what it imports, and what it must not."""

from __future__ import annotations

import subprocess

from realtime import child


def test_nothing_is_imported_from_where_somebody_stands(tmp_path):
    (tmp_path / "realtime").mkdir()
    (tmp_path / "realtime" / "__init__.py").write_text("raise SystemExit('not ours')")
    done = subprocess.run(
        [*child.PYTHON, "realtime.clock"],
        cwd=tmp_path,
        env=child.environment(),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_importable_here_is_importable_there(tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("print('found')")
    monkeypatch.syspath_prepend(tmp_path)
    done = subprocess.run(
        [*child.PYTHON, "only_here"], env=child.environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout == "found\n"


def test_a_folder_that_was_meant_from_here_is_the_same_elsewhere(tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("print('found')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = subprocess.run(
        [*child.PYTHON, "only_here"], cwd=elsewhere, env=child.environment(), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout == "found\n"
