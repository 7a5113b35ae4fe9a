"""The whole program, small: one photo on the animated portrait of the other."""

from __future__ import annotations

import json
import math

import pytest

from tests import networks
from tools.compare import __main__ as program
from tools.compare import clips


@pytest.mark.slow
def test_a_packaged_photo_on_the_packaged_portraits(capsys, tmp_path):
    document = tmp_path / "quality.md"
    document.write_text("# Quality\n<!-- compare: begin -->\n<!-- compare: end -->\n", encoding="utf-8")
    arguments = [
        "--photo",
        str(clips.PHOTOS[0]),
        "--frames",
        "24",
        "--every",
        "4",
        "--size",
        "480x360",
        "--json",
    ]
    arguments += ["--sheet", str(tmp_path / "sheet.png"), "--markdown", str(document)]
    code = program.main(arguments)
    out, err = capsys.readouterr()
    assert code == 0
    found = json.loads(out)
    # Nobody is put on herself.
    assert [(row["photo"], row["clip"]) for row in found["rows"]] == [("hopper", "portrait of astronaut")]
    assert "hopper on portrait of astronaut" in err
    for row in found["rows"]:
        assert (row["frames"], row["bare"], row["size"], row["untouched"]) == (24, 0, [480, 360], 0)
        assert row["out_photo"] > row["live_photo"] + 0.2
        assert row["out_live"] < 0.9
        assert 0 < row["expression"] < 0.02
        assert 0 <= row["gaze_median"] <= row["gaze_p95"] < 0.3
        assert 0 < row["tremble"] < row["tremble_raw"] < 5
        assert row["lag_raw_ms"] < row["lag_ms"] < 60
        assert 0.5 < row["seam"] < 3
        assert set(row["ms"]) == {"track", "swap", "blend", "all"}
        assert all(0 < stage["p50"] <= stage["p95"] for stage in row["ms"].values())
    for jaw in found["jaw"].values():
        assert math.isfinite(jaw["lag"])
    text = document.read_text(encoding="utf-8")
    assert text.count("| hopper | portrait of astronaut |") == 4
    assert (tmp_path / "sheet.png").stat().st_size > 20_000


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--clip", "nowhere.mp4"], "nowhere.mp4"),
        (["--photo", "nobody.jpg"], "nobody.jpg"),
        (["--identity", "none.onnx"], "none.onnx"),
        (["--markdown", "no-document.md"], "no-document.md"),
        (["--mask", "star"], "star"),
        (["--restore", "g:7"], "g:7"),
        (["--photo", str(clips.PHOTOS[0]), "--clip", f"portrait:{clips.PHOTOS[0]}"], "very photo"),
    ],
)
def test_what_cannot_be_used_is_named_before_any_work(capsys, arguments, says):
    assert program.main(arguments) == 2
    out, err = capsys.readouterr()
    assert says in err and not out
    assert "Traceback" not in err


@pytest.mark.slow
def test_an_engine_of_one_s_own_is_measured_like_any_other(capsys, tmp_path):
    """A DFM that gives the live face back: it is as like the live face as can be."""
    path = networks.dfm(tmp_path / "mine.dfm", side=128, morph=False)
    arguments = ["--engine", str(path), "--photo", str(clips.PHOTOS[0]), "--frames", "12", "--every", "4"]
    code = program.main([*arguments, "--size", "480x360", "--models", str(tmp_path / "none"), "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    found = json.loads(out)
    assert found["settings"]["engine"] == str(path)
    assert all(row["bare"] == 0 and row["out_live"] > 0.9 for row in found["rows"])


def test_an_engine_that_is_not_there_is_named(capsys, tmp_path):
    assert program.main(["--engine", str(tmp_path / "none.onnx"), "--photo", str(clips.PHOTOS[0])]) == 2
    assert "none.onnx" in capsys.readouterr().err
    assert program.main(["--engine", "nobody", "--photo", str(clips.PHOTOS[0])]) == 4
    assert "nobody" in capsys.readouterr().err
