"""``doppelcam models`` from outside, with a real server on this machine behind it."""

from __future__ import annotations

import io
import json
import sys

import pytest
from rich.console import Console

import realtime.cli.models
from engines.catalogue.catalogue import Catalogue
from engines.catalogue.store import Store
from realtime.cli import main
from realtime.cli.progress import Downloading
from realtime.doctor.models import check_models
from realtime.show import stderr
from tests.engines.catalogue.networks import MODEL, OTHER, catalogue_of, digest, entry_for, put, shaped
from tests.engines.catalogue.server import cut, page, serving, status

UNIFACE = shaped(Catalogue.load().entry("uniface_256"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder of models, and nobody's configuration."""
    for variable in ("XDG_CONFIG_HOME", "APPDATA", "HOME", "XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(variable, str(tmp_path / "nobody"))
    monkeypatch.setenv("DOPPELCAM_MODELS", str(tmp_path / "models"))
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    return tmp_path / "models"


@pytest.fixture
def site(monkeypatch):
    with serving() as made:
        monkeypatch.setenv("DOPPELCAM_MIRROR", made.url)
        made.files["/uniface_256.onnx"] = UNIFACE
        yield made


@pytest.fixture
def tiny(monkeypatch):
    """Puts a catalogue of one small model in the place of the real one."""

    def use(**changes):
        entry = entry_for("https://example.invalid/tiny.onnx", **changes)
        monkeypatch.setattr(realtime.cli.models, "Store", lambda at: Store(at, catalogue_of(entry)))
        return entry

    return use


def test_without_an_action_it_says_which_there_are(folder, capsys):
    assert main(["models"]) == 2
    assert "verify" in capsys.readouterr().out


def test_list_shows_every_model_with_its_licence(folder, capsys):
    assert main(["models", "list"]) == 0
    out = capsys.readouterr().out
    for entry in Catalogue.load():
        assert entry.name in out
    assert "non-commercial" in out
    assert main(["models", "list", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["folder"] == str(folder)
    assert [one["name"] for one in document["models"]] == list(Catalogue.load().entries)
    assert {one["state"] for one in document["models"]} == {"missing"}
    assert not folder.exists()


def test_list_of_one_kind_and_of_none(folder, capsys):
    assert main(["models", "list", "--kind", "restore", "--json"]) == 0
    assert {one["kind"] for one in json.loads(capsys.readouterr().out)["models"]} == {"restore"}
    assert main(["models", "list", "--kind", "swop"]) == 2
    assert "Did you mean swap?" in capsys.readouterr().err


def test_list_shows_what_was_dropped_in_by_hand(folder, capsys):
    put(folder, "from a friend.onnx", UNIFACE)
    put(folder, "strange.onnx", MODEL)
    put(folder, "page.onnx", b"<html>")
    assert main(["models", "list"]) == 0
    out = capsys.readouterr().out
    assert "from a friend.onnx" in out
    assert "strange.onnx" in out
    assert main(["models", "list", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    found = next(one for one in document["models"] if one["name"] == "uniface_256")
    assert (found["state"], found["told_by"], found["actual_sha256"]) == (
        "unpinned",
        "contract",
        digest(UNIFACE),
    )
    assert document["unknown_files"] == [str(folder / "page.onnx"), str(folder / "strange.onnx")]


def test_info_says_licence_address_sum_and_contract(folder, capsys):
    assert main(["models", "info", "blendswap_256"]) == 0
    out = capsys.readouterr().out
    for said in ("mapooon", "no commercial use", "blendswap_256.onnx", "first download is recorded and pinned",
                 "ffhq_512", "256×256 RGB NCHW", "image", "here"):  # fmt: skip
        assert said in out
    assert main(["models", "info", "scrfd_10g", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["expected_sha256"] == Catalogue.load().entry("scrfd_10g").sha256
    assert document["contract"]["side"] == 640
    assert main(["models", "info", "blendswop_256"]) == 2
    assert "Did you mean blendswap_256?" in capsys.readouterr().err


def test_info_of_a_file_says_what_it_takes_and_what_it_can_be(folder, tmp_path, capsys):
    path = put(tmp_path, "x.onnx", shaped(Catalogue.load().entry("simswap_256")))
    assert main(["models", "info", str(path)]) == 0
    out = capsys.readouterr().out
    for said in ("1×3×256×256 float32", "simswap_256", "ghost_1_256", "the file's name"):
        assert said in out
    path = put(tmp_path, "y.onnx", UNIFACE)
    assert main(["models", "info", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["fits"], document["model"]["name"]) == (["uniface_256"], "uniface_256")
    assert main(["models", "info", str(put(tmp_path, "z.onnx", b"<html>"))]) == 4
    assert "web page" in capsys.readouterr().err
    assert main(["models", "info", str(tmp_path / "none.onnx")]) == 2
    assert "no file" in capsys.readouterr().err


def test_a_licence_is_shown_and_has_to_be_accepted_before_anything_is_asked(folder, site, capsys):
    assert main(["models", "pull", "uniface_256"]) == 2
    out, err = capsys.readouterr()
    assert not out
    for said in ("not stated", "xc-csc101", "--accept-licence", site.url):
        assert said in err
    assert not site.asked
    assert not folder.exists()


@pytest.mark.parametrize(("typed", "code"), [("yes\n", 0), ("Y\n", 0), ("no\n", 2), ("\n", 2), ("", 2)])
def test_on_a_terminal_it_asks(folder, site, monkeypatch, capsys, typed, code):
    stdin = io.StringIO(typed)
    monkeypatch.setattr(stdin, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", stdin)
    assert main(["models", "pull", "uniface_256"]) == code
    assert (folder / "uniface_256.onnx").exists() == (code == 0)
    assert len(site.asked) == (code == 0)


def test_a_pull_says_that_it_pins_and_is_not_done_twice(folder, site, capsys):
    assert main(["models", "pull", "uniface_256", "--accept-licence"]) == 0
    out, err = capsys.readouterr()
    assert out.strip() == str(folder / "uniface_256.onnx")
    assert f"From now on it has to be sha256 {digest(UNIFACE)}" in err
    assert "\x1b" not in err
    assert main(["models", "pull", "uniface_256"]) == 0
    assert "is there" in capsys.readouterr().err
    assert len(site.asked) == 1
    assert main(["models", "pull", "uniface_256", "--again", "--accept-licence"]) == 0
    assert len(site.asked) == 2
    assert main(["models", "verify"]) == 0


def test_what_a_model_needs_is_pulled_first(folder, site, capsys):
    """The embedder cannot be had here, so nothing behind it is asked for."""
    assert main(["models", "pull", "ghost_1_256", "--accept-licence"]) == 1
    err = capsys.readouterr().err
    assert "arcface_w600k_r50 could not be got" in err
    assert [path for path, _ in site.asked] == ["/arcface_w600k_r50.onnx"]


def test_a_free_licence_needs_no_yes(folder, site, tiny, capsys):
    tiny(commercial="yes")
    site.files["/tiny.onnx"] = MODEL
    assert main(["models", "pull", "tiny"]) == 0
    assert (folder / "tiny.onnx").read_bytes() == MODEL


@pytest.mark.parametrize(("fault", "says"), [(page(), "text/html"), (None, "404")])
def test_a_pull_that_fails_is_two_lines_and_exit_1(folder, site, tiny, capsys, fault, says):
    tiny(commercial="yes")
    if fault:
        site.always["/tiny.onnx"] = fault
    assert main(["models", "pull", "tiny"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[-2].startswith("error: ")
    assert says in lines[-2]
    assert lines[-1].startswith("fix: ")


def test_a_wrong_file_is_replaced_and_a_wrong_answer_replaces_nothing(folder, site, tiny, capsys):
    tiny(commercial="yes")
    put(folder, "tiny.onnx", b"damaged")
    site.files["/tiny.onnx"] = OTHER[: len(MODEL)] if len(OTHER) > len(MODEL) else OTHER
    assert main(["models", "pull", "tiny"]) == 1
    assert (folder / "tiny.onnx").read_bytes() == b"damaged"
    assert digest(MODEL) in capsys.readouterr().err
    site.files["/tiny.onnx"] = MODEL
    assert main(["models", "pull", "tiny"]) == 0
    assert (folder / "tiny.onnx").read_bytes() == MODEL


def test_ctrl_c_leaves_a_part_that_the_next_pull_goes_on_with(folder, site, tiny, monkeypatch, capsys):
    tiny(commercial="yes")
    site.files["/tiny.onnx"] = MODEL
    site.plan["/tiny.onnx"] = [cut(0.5)]

    def interrupted(seconds):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(realtime.cli.models, "Puller", _puller_with(interrupted))
        assert main(["models", "pull", "tiny"]) == 130
    part = folder / "tiny.onnx.part"
    assert part.read_bytes() == MODEL[: len(MODEL) // 2]
    assert main(["models", "pull", "tiny"]) == 0
    assert site.asked[-1][1]["Range"] == f"bytes={len(MODEL) // 2}-"
    assert (folder / "tiny.onnx").read_bytes() == MODEL
    assert not part.exists()


def test_waiting_for_a_server_is_said(folder, site, tiny, monkeypatch, capsys):
    tiny(commercial="yes")
    site.files["/tiny.onnx"] = MODEL
    site.plan["/tiny.onnx"] = [status(503, Retry_After="4")]
    waits = []
    monkeypatch.setattr(realtime.cli.models.time, "sleep", waits.append)
    assert main(["models", "pull", "tiny"]) == 0
    assert waits == [4.0]
    assert "once more in 4 s" in capsys.readouterr().err


def _puller_with(wait):
    from engines.catalogue.pull import Puller

    return lambda store, mirror, **_: Puller(store, mirror, wait=wait)


def test_a_folder_takes_the_place_of_the_network(folder, tmp_path, capsys):
    stick = tmp_path / "stick"
    put(stick, "uniface_256.onnx", UNIFACE)
    assert main(["models", "pull", "uniface_256", "--from", str(stick), "--accept-licence"]) == 0
    assert (folder / "uniface_256.onnx").read_bytes() == UNIFACE
    assert main(["models", "pull", "blendswap_256", "--from", str(stick), "--accept-licence"]) == 2
    assert "blendswap_256.onnx" in capsys.readouterr().err


def test_the_folder_and_the_mirror_come_from_the_configuration(tmp_path, folder, site, monkeypatch, capsys):
    monkeypatch.delenv("DOPPELCAM_MIRROR")
    file = tmp_path / "mine.toml"
    file.write_text(f'models = "here"\nmirror = "{site.url}"\n', "utf-8")
    arguments = ["models", "pull", "uniface_256", "--accept-licence", "--config", str(file)]
    assert main([*arguments, "--models", str(tmp_path / "there")]) == 0
    assert (tmp_path / "there" / "uniface_256.onnx").exists()
    monkeypatch.delenv("DOPPELCAM_MODELS")
    assert main(arguments) == 0
    assert (tmp_path / "here" / "uniface_256.onnx").exists()


def test_verify_names_file_both_sums_and_what_mends_it(folder, tiny, capsys):
    tiny()
    assert main(["models", "verify"]) == 0
    assert "no model" in capsys.readouterr().out
    put(folder, "tiny.onnx", OTHER)
    assert main(["models", "verify"]) == 1
    out = capsys.readouterr().out
    for said in ("tiny.onnx", digest(MODEL), digest(OTHER), "doppelcam models pull tiny --again"):
        assert said in out
    assert main(["models", "verify", "tiny", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is False
    assert document["models"][0]["expected_sha256"] == digest(MODEL)
    assert document["models"][0]["actual_sha256"] == digest(OTHER)
    # A sum that is published cannot be overruled.
    assert main(["models", "verify", "--pin"]) == 1
    put(folder, "tiny.onnx", MODEL)
    assert main(["models", "verify"]) == 0
    assert main(["models", "verify", "tinny"]) == 2


def test_verify_reads_again_what_was_remembered(folder, tiny, capsys):
    """Bits that rot change neither the size nor the time of a file."""
    import os

    tiny()
    path = put(folder, "tiny.onnx", MODEL)
    assert main(["models", "verify"]) == 0
    before = path.stat()
    path.write_bytes(MODEL[:-1] + bytes([MODEL[-1] ^ 1]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert main(["models", "verify"]) == 1
    assert digest(MODEL) in capsys.readouterr().out


def test_verify_pins_what_nobody_knows_when_asked_to(folder, tiny, capsys):
    tiny(known=False)
    assert main(["models", "verify", "tiny"]) == 1  # named, and not there
    assert "models pull tiny" in capsys.readouterr().out
    put(folder, "tiny.onnx", MODEL)
    assert main(["models", "verify"]) == 0
    assert "--pin" in capsys.readouterr().out
    assert main(["models", "verify", "--pin"]) == 0
    put(folder, "tiny.onnx", OTHER)
    assert main(["models", "verify"]) == 1
    assert main(["models", "verify", "--pin"]) == 0
    assert main(["models", "verify"]) == 0


def test_a_name_that_a_terminal_would_obey_is_only_shown(folder, capsys):
    put(folder, "x\x1b[31m.onnx", UNIFACE)
    put(folder, "y\x1b]0;z\x07.onnx", MODEL)
    for action in ("list", "verify"):
        main(["models", action])
        assert "\x1b" not in capsys.readouterr().out


def test_progress_is_a_few_lines_in_a_log(capsys):
    with Downloading("tiny", stderr()) as progress:
        for done in range(0, 401):
            progress(done * 1_000_000, 400_000_000)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"tiny: {done} of 400 MB" for done in (0, 100, 200, 300, 400)]
    with Downloading("tiny", stderr()) as progress:
        progress(0, None)
        progress(250_000_000, None)
    assert capsys.readouterr().err.splitlines() == ["tiny: 0 MB", "tiny: 250 MB"]


def test_progress_is_a_bar_on_a_terminal_that_goes_when_it_is_done():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with pytest.raises(KeyboardInterrupt), Downloading("tiny", console) as progress:
        progress(0, None)
        progress(50_000_000, 100_000_000)
        raise KeyboardInterrupt
    shown = console.file.getvalue()
    assert "50.0/100.0 MB" in shown
    assert shown.endswith("\x1b[2K") or "\x1b[?25h" in shown


def test_the_doctor_compares_sums(folder, capsys):
    known, other = entry_for(), entry_for(known=False, name="other", file="other.onnx")
    store = Store(folder, catalogue_of(known, other))
    (check,) = check_models(store)
    assert (check.state, check.fix) == ("ok", "")
    put(folder, "tiny.onnx", MODEL)
    (check,) = check_models(store)
    assert (check.state, "1 in" in check.found) == ("ok", True)
    put(folder, "other.onnx", MODEL)
    states = {check.state: check for check in check_models(store)}
    assert set(states) == {"ok", "missing"}
    assert "other" in states["missing"].found
    assert "--pin" in states["missing"].fix
    put(folder, "tiny.onnx", OTHER)
    states = {check.state: check for check in check_models(store)}
    assert digest(MODEL) in states["failed"].found
    assert digest(OTHER) in states["failed"].found
    assert "models pull tiny --again" in states["failed"].fix


def test_the_doctor_looks_into_the_users_own_folder(folder):
    put(folder, "xseg_1.onnx", MODEL)
    checks = {check.state: check for check in check_models()}
    assert "xseg_1.onnx" in checks["failed"].found
