"""``doppelcam engines``: what is shown, what is removed, and what a refused plan ends with."""

from __future__ import annotations

import json

import pytest

from engines.catalogue.store import Store
from engines.errors import EngineError
from engines.prepare import Maker, Wish
from engines.runtime.trt.build import build
from engines.runtime.trt.plans import PlanStore
from realtime.cli import engines as cli
from realtime.cli import main
from tests.engines.runtime.graphs import double
from tests.engines.runtime.test_build import child
from tests.engines.runtime.test_open import DRIVER
from tests.engines.runtime.test_plans import PLAN, note
from tests.engines.test_prepare import PACKAGE, PHOTOS


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cli, "_here", lambda: ())
    return PlanStore()


def said(capsys, *arguments):
    code = main(["engines", *arguments])
    out = capsys.readouterr()
    return code, out.out, out.err


def test_list_and_clean_where_there_is_nothing(cache, capsys):
    code, out, _ = said(capsys, "list")
    assert code == 0 and "There is no plan" in out
    assert json.loads(said(capsys, "list", "--json")[1])["plans"] == []
    assert json.loads(said(capsys, "clean", "--json")[1]) == {"schema": 1, "removed": [], "bytes": 0}
    assert not cache.folder.path.exists()


def test_list_tells_each_plan_and_clean_removes_what_is_not_used(cache, capsys):
    cache.put(note(), PLAN)
    cache.put(note(recipe="fp32", verdict=None), PLAN)
    (cache.folder.path / "x-0123456789abcdef-0123456789ab.plan").write_bytes(b"12345")
    (cache.folder.path / ".building-1").mkdir()
    code, out, _ = said(capsys, "list")
    assert code == 0
    for text in ("swap_128", "ready", "unproven", "never compared", "RTX 4090", "1×3×128×128"):
        assert text in out
    document = json.loads(said(capsys, "list", "--json")[1])
    assert sorted(plan["state"] for plan in document["plans"]) == ["ready", "unproven"]
    assert {plan["verdict"] and plan["verdict"]["passed"] for plan in document["plans"]} == {None, True}
    removed = json.loads(said(capsys, "clean", "--json")[1])
    assert sorted(one["state"] for one in removed["removed"]) == ["left over", "left over", "unproven"]
    assert removed["bytes"] > len(PLAN)
    assert [held.state for held in cache.all()] == ["ready"]
    assert "removed" in said(capsys, "clean", "--all")[1]
    assert not cache.any()


def test_build_says_what_it_needs(cache, capsys, monkeypatch):
    assert said(capsys, "build")[0] == 2
    for arguments, text in (
        (("x.onnx", "--device", "cpu"), "for a GPU"),
        (("x.onnx", "--precision", "int8"), "no precision 'int8'"),
        (("x.onnx", "--keep-fp32", "Conv;rm"), "no list of operators"),
        (("x.onnx", "--boost", "x"), "--boost 'x' is no number"),
        (("x.onnx", "--batch", "0"), "--batch '0' is no number"),
        (("x.onnx", "--side", "9999999"), "no number"),
    ):
        code, _, err = said(capsys, "build", *arguments)
        assert code == 2 and text in err, err


def test_build_shows_the_verdict_and_fails_where_the_plan_was_refused(cache, capsys, monkeypatch, tmp_path):
    answers = iter(
        ("RESULTS = 1; d = np.load('samples.npz'); np.savez('results.npz', **{n: d[n] for n in d.files})",)
        * 2
    )
    path = double(tmp_path / "double.onnx", shape=("n", 3, "h", "w"), out=("n", 3, "h", "w"))
    maker, wish = Maker(Store(tmp_path), PHOTOS, DRIVER, "570.86", PACKAGE), Wish(str(path), side=16)

    def run(again):
        command = child(f"plan(); {next(answers)}; done()")
        monkeypatch.setattr(
            cli, "build", lambda job, store, progress, again: build(job, store, progress, again, command)
        )
        return cli._build(maker, cache, wish, again, True)

    with pytest.raises(EngineError, match="was refused and will not be used") as caught:
        run(False)  # it gives the picture once, where the model gives it twice
    assert "--precision fp32" in caught.value.fix
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"]["passed"] is False and document["new"] is True
    with pytest.raises(EngineError, match="was refused"):
        run(False)
    assert json.loads(capsys.readouterr().out)["new"] is False


def test_ctrl_c_ends_with_130(cache, capsys, monkeypatch):
    def interrupted(*about):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_list", interrupted)
    assert main(["engines", "list"]) == 130
