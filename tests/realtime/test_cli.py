"""The command line from outside: what it prints where, and what it returns."""

from __future__ import annotations

import argparse
import io
import json
import shlex
import signal
import subprocess
import sys
import time

import pytest
from rich.console import Console

import realtime.cli
import realtime.cli.live
from engines.errors import BudgetMissed, DeviceError, EngineError, PhotoError, UsageError
from realtime import __version__
from realtime.cli import main
from realtime.cli.live import Preparing, line, view
from realtime.cli.parser import given_flags, make_parser
from realtime.pace.budget import Meter
from realtime.session import Snapshot
from realtime.settings.config import BENCH


@pytest.fixture(autouse=True)
def _no_configuration(monkeypatch, tmp_path):
    """The tests must not depend on who runs them."""
    for variable in ("XDG_CONFIG_HOME", "APPDATA"):
        monkeypatch.setenv(variable, str(tmp_path / "nobody"))
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))


def _parsers(parser: argparse.ArgumentParser):
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action.choices.values():
                yield from _parsers(choice)


ALL = list(_parsers(make_parser()))


def test_exactly_the_verbs_of_this_version_are_there():
    names = {parser.prog.removeprefix("doppelcam").strip() for parser in ALL}
    assert names == {
        "", "demo", "run", "bench", "devices", "doctor", "config", "config show", "config validate",
        "models", "models list", "models info", "models pull", "models verify",
        "engines", "engines build", "engines list", "engines clean",
    }  # fmt: skip


@pytest.mark.parametrize("parser", ALL, ids=lambda parser: parser.prog)
def test_the_help_of_every_verb_shows_an_example_that_parses(parser, capsys):
    assert main([*parser.prog.split()[1:], "--help"]) == 0
    out, err = capsys.readouterr()
    assert not err
    examples = [line.strip() for line in out.splitlines() if line.startswith("  doppelcam ")]
    assert examples
    for example in examples:
        words = shlex.split(example.partition(">")[0])[1:]
        args = make_parser().parse_args(words)
        assert args.verb == words[0]
        given_flags(args)


def test_version_goes_to_stdout(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"doppelcam {__version__}\n"


def test_no_verb_is_a_mistake_that_shows_the_help(capsys):
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert "doppelcam demo" in err


MISTAKES = {
    "rnu": "Did you mean run?", "models delete": "no verb 'delete'", "engines delete": "no verb 'delete'",
    "config delete": "no verb 'delete'", "run --fsp 3": "Did you mean --fps?",
    "run --remote 80": "does not know", "bench --loopback --max": "do not go together",
    "run --fps": "--fps", "run --fps fast": "--fps must be", "run --size 3x3": "--size must be",
    "run --sink stream:x --face nothing.jpg": "no file", "run --sink stream:": "stream:URL",
    "demo --fps 1e9": "--fps must be",
    "bench --seconds x": "--seconds must be", "bench --seconds nan": "--seconds must be",
    "bench --slow -1": "--slow must be", "bench --face-width 0": "--face-width must be",
    "bench --compare nothing.json": "no file", "config validate nothing.toml": "no file",
    "run --config nothing.toml": "no file", "run": "doppelcam run --face person.jpg",
    "run --face nothing.jpg": "no file", "run --source file:nothing.mp4 --face nothing.jpg": "no file",
}  # fmt: skip


@pytest.mark.parametrize("typed", MISTAKES)
def test_mistakes_are_two_lines_on_stderr_and_exit_2(typed, capsys):
    assert main(shlex.split(typed)) == 2
    out, err = capsys.readouterr()
    assert not out
    assert MISTAKES[typed] in err
    lines = err.splitlines()
    assert lines[0].startswith("error: ")
    assert len(lines) == 2
    assert lines[1].startswith("fix:   ")


class _Verb:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def main(self, args):
        raise self.error


@pytest.mark.parametrize(("error", "code"), [
    (UsageError("It is wrong.", "Do this."), 2), (PhotoError("It is wrong.", "Do this."), 2),
    (DeviceError("It is wrong.", "Do this."), 3), (EngineError("It is wrong.", "Do this."), 4),
    (BudgetMissed("It is wrong.", "Do this."), 5),
])  # fmt: skip
def test_every_error_has_its_exit_code_and_no_traceback(error, code, monkeypatch, capsys):
    monkeypatch.setattr(realtime.cli.importlib, "import_module", lambda name: _Verb(error))
    assert main(["doctor"]) == code
    assert capsys.readouterr().err == "error: It is wrong.\nfix:   Do this.\n"
    assert main(["doctor", "-v"]) == code
    assert "Traceback" in capsys.readouterr().err


def test_markup_in_a_message_is_text(monkeypatch, capsys):
    error = UsageError("No file [bold]x[/].", "See [/] here.")
    monkeypatch.setattr(realtime.cli.importlib, "import_module", lambda name: _Verb(error))
    assert main(["doctor"]) == 2
    assert "[bold]x[/]" in capsys.readouterr().err


def test_an_accident_is_a_short_sentence_and_its_traceback_only_with_v(monkeypatch, capsys):
    monkeypatch.setattr(realtime.cli.importlib, "import_module", lambda name: _Verb(KeyError("oops")))
    assert main(["doctor"]) == 1
    err = capsys.readouterr().err
    assert "oops" in err
    assert "again with -v" in err
    assert "Traceback" not in err
    assert main(["-v", "doctor"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_an_interruption_is_exit_130_and_says_nothing(monkeypatch, capsys):
    monkeypatch.setattr(realtime.cli.importlib, "import_module", lambda name: _Verb(KeyboardInterrupt()))
    before = signal.getsignal(signal.SIGTERM)
    assert main(["doctor"]) == 130
    assert capsys.readouterr() == ("", "")
    assert signal.getsignal(signal.SIGTERM) is before


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from realtime.cli import main; main(['run', '--help']);"
        "print([m for m in ('numpy', 'cv2', 'numba', 'av', 'onnxruntime', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()[-1]
    assert loaded == "[]"


def test_config_show_says_where_everything_comes_from(tmp_path, monkeypatch, capsys):
    file = tmp_path / "mine.toml"
    file.write_text("# me\nfps = 25\n")
    monkeypatch.setenv("DOPPELCAM_SIZE", "640x480")
    monkeypatch.setenv("COLUMNS", "240")
    arguments = ["config", "show", "--config", str(file), "--no-label"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    assert rows["fps"][1] == "25"
    # A long path goes on in the next line.
    assert "mine.toml:2" in "".join(out.split())
    assert rows["size"][1:] == ["640x480", "DOPPELCAM_SIZE"]
    assert rows["label"][1:] == ["false", "--no-label"]
    assert rows["engine"][1:] == ["mesh", "default"]
    assert main([*arguments, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)["values"]
    assert values["fps"] == {"value": 25.0, "from": "file", "where": f"{file}:2"}
    assert values["size"] == {"value": [640, 480], "from": "environment", "where": "DOPPELCAM_SIZE"}


def test_config_validate_finds_the_file_of_the_environment_in_the_home_folder(tmp_path, capsys, monkeypatch):
    for variable in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(variable, str(tmp_path))
    (tmp_path / "mine.toml").write_text("fps = 25\n")
    monkeypatch.setenv("DOPPELCAM_CONFIG", "~/mine.toml")
    assert main(["config", "validate"]) == 0
    assert "valid, sets 1 of" in capsys.readouterr().out


def test_config_validate_says_yes_or_where_not(tmp_path, capsys):
    file = tmp_path / "mine.toml"
    file.write_text("fps = 25\n")
    assert main(["config", "validate", str(file)]) == 0
    assert "valid" in capsys.readouterr().out
    file.write_text("fps = 25\nfsp = 3\n")
    assert main(["config", "validate", str(file)]) == 2
    assert "line 2: the key 'fsp' is not known" in capsys.readouterr().err
    assert main(["config"]) == 2


HOPPER = str(BENCH.face[0])
RUN = ["run", "--face", HOPPER, "--source", "pattern", "--size", "320x240", "--fps", "20", "--sink", "null"]


def test_run_says_what_runs_where_and_ends_by_itself(capsys):
    assert main([*RUN, "--duration", "0.4", "--on-lost", "slate"]) == 0
    out, err = capsys.readouterr()
    for said in ("pattern", "320×240 at 20 fps", "mesh on cpu: the engine mesh runs on the CPU",
                 "face_mesh_468: CPUExecutionProvider",
                 "null", "slate", "label"):  # fmt: skip
        assert said in err
    assert "frame age" in out
    assert "frames out" in out


def test_run_warns_when_the_real_face_may_be_shown(capsys):
    assert main([*RUN, "--duration", "0.2", "--on-lost", "passthrough", "--no-label"]) == 0
    err = capsys.readouterr().err
    assert "the real face is SHOWN" in err
    assert "off" in err


@pytest.mark.parametrize(("flags", "says"), [
    (["--device", "cuda"], "--device cpu"), (["--device", "cuda:3"], "cuda:3"), (["--engine", "inswapper"], "mesh"),
])  # fmt: skip
def test_what_this_version_cannot_run_on_is_exit_4_and_honest(flags, says, capsys):
    assert main([*RUN, *flags]) == 4
    assert says in capsys.readouterr().err


def test_ctrl_c_ends_a_run_with_its_figures_and_130(monkeypatch, capsys):
    def interrupted(session, *_):
        assert not session.wait(time.monotonic_ns() + 200_000_000)
        raise KeyboardInterrupt

    monkeypatch.setattr(realtime.cli.live, "_watch", interrupted)
    assert main(RUN) == 130
    out, err = capsys.readouterr()
    assert "frame age" in out
    assert "error" not in err


def test_a_still_picture_has_no_end_and_is_not_processed_offline(tmp_path, capsys):
    out = tmp_path / "out.mkv"
    arguments = ["run", "--face", HOPPER, "--offline", "--source", f"file:{HOPPER}", "--sink", f"file:{out}"]
    assert main(arguments) == 2
    assert "no end" in capsys.readouterr().err
    assert not out.exists()


def _snapshot(state: str) -> Snapshot:
    meter = Meter(0)
    meter.stage("swap", 20_000_000)
    meter.count("sent", 30)
    return Snapshot(state, True, meter.report(1_000_000_000))


@pytest.mark.parametrize(("state", "says"), [
    ("starting", "starting"), ("live", "live"), ("veiled", "no face"), ("lost", "camera lost"),
])  # fmt: skip
def test_every_state_can_be_seen_on_a_terminal_and_in_a_log(state, says):
    console = Console(file=io.StringIO(), width=100)
    console.print(view(_snapshot(state), "640×480 at 30 fps"))
    shown = console.file.getvalue()
    assert says in shown
    assert "640×480 at 30 fps" in shown
    assert "30.0 fps" in shown
    assert max(len(row) for row in shown.splitlines()) <= 80
    assert says in line(_snapshot(state))


def test_kernels_are_announced_as_done_once(monkeypatch):
    console = Console(file=io.StringIO(), width=100)
    now = [0.0]
    monkeypatch.setattr(realtime.cli.live.time, "monotonic", lambda: now[0])
    with Preparing(console) as preparing:
        preparing("kernel 1/8: composite")
        assert not console.file.getvalue()
        now[0] = 5.0
        preparing("kernel 3/8: facing")
        preparing("kernel 3/8: facing")
    assert console.file.getvalue() == "Preparing kernels for this machine (once): 3/8 …\n"
