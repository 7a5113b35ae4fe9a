"""What is installed beside the program: the systemd unit, the module's options, the image for a GPU."""

from __future__ import annotations

import configparser
import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from engines import errors
from realtime.cli import INTERRUPTED
from realtime.cli.parser import given_flags, make_parser
from realtime.settings.load import load
from realtime.sinks.loopback_faults import LOAD_MODULE
from tests.pages import ROOT

PACKAGING = ROOT / "packaging"
UNIT = PACKAGING / "systemd" / "doppelcam.service"
MODULE_OPTIONS = PACKAGING / "modprobe.d" / "doppelcam.conf"
DOCKER = PACKAGING / "docker"
PARAMETERS = {"devices", "video_nr", "exclusive_caps", "card_label", "max_buffers", "max_openers", "max_width",
              "max_height", "debug"}  # fmt: skip
"""Of v4l2loopback 0.12 and 0.15, by modinfo."""


@pytest.fixture(scope="module")
def unit():
    parser = configparser.ConfigParser(interpolation=None, delimiters="=", strict=True)
    parser.optionxform = str
    parser.read(UNIT, encoding="utf-8")
    return parser


def test_the_unit_starts_what_our_parser_knows(unit, tmp_path):
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    assert program == "%h/.local/bin/doppelcam"
    args = make_parser().parse_args(words)
    assert args.verb == "run"
    load(given_flags(args), {"XDG_CONFIG_HOME": str(tmp_path)})


def test_the_unit_knows_our_exit_codes(unit):
    service = unit["Service"]
    assert service["SuccessExitStatus"] == str(INTERRUPTED)
    never = {int(code) for code in service["RestartPreventExitStatus"].split()}
    assert never == {errors.UsageError.exit_code, errors.EngineError.exit_code}
    assert errors.DeviceError.exit_code not in never
    assert service["Restart"] == "on-failure"


def test_the_unit_lets_machine_code_be_made(unit):
    assert "MemoryDenyWriteExecute" not in unit["Service"]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze")
def test_systemd_accepts_the_unit(tmp_path):
    program = tmp_path / ".local" / "bin" / "doppelcam"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(UNIT)], capture_output=True, text=True, timeout=60,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def module_options(text):
    """The values of each line, remarks included: what is proposed there has to be right as well."""
    for line in text.splitlines():
        found = re.match(r"(?:#\s+)?options v4l2loopback (.*)", line)
        if found:
            yield dict(word.split("=", 1) for word in shlex.split(found[1]))


def test_the_modules_options_are_those_that_doctor_prints():
    lines = list(module_options(MODULE_OPTIONS.read_text()))
    assert len(lines) == 2
    printed = dict(word.split("=", 1) for word in shlex.split(LOAD_MODULE) if "=" in word)
    for options in lines:
        assert set(options) <= PARAMETERS
        count = int(options.pop("devices", "1"))
        assert all(len(value.split(",")) == count for value in options.values())
        assert {name: options[name].split(",")[0] for name in printed} == printed


@pytest.mark.skipif(not Path("/sbin/modprobe").exists(), reason="there is no modprobe")
def test_modprobe_reads_the_options(tmp_path):
    shutil.copy(MODULE_OPTIONS, tmp_path)
    done = subprocess.run(
        ["/sbin/modprobe", "-C", str(tmp_path), "-c"], capture_output=True, text=True, timeout=60
    )
    read = [line for line in done.stdout.splitlines() if "options v4l2loopback" in line]
    assert read == ["options v4l2loopback video_nr=10 exclusive_caps=1 card_label=doppelcam"], done.stderr


def instructions(path):
    """Of a Dockerfile: name and rest, lines joined, remarks left out."""
    text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE)
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            yield name, rest


STEPS = list(instructions(DOCKER / "Dockerfile"))


def test_the_image_has_instructions_only():
    known = {
        "FROM",
        "ARG",
        "ENV",
        "RUN",
        "WORKDIR",
        "COPY",
        "USER",
        "VOLUME",
        "STOPSIGNAL",
        "ENTRYPOINT",
        "CMD",
    }
    assert STEPS[0][0] == "FROM"
    assert {name for name, _ in STEPS} <= known


def test_every_file_that_the_image_copies_is_there_and_sent():
    ignored = (DOCKER / "Dockerfile.dockerignore").read_text().split()
    sent = [pattern[1:] for pattern in ignored if pattern.startswith("!")]
    copied = [
        word for name, rest in STEPS if name == "COPY" and "--from" not in rest for word in rest.split()[:-1]
    ]
    assert copied
    for name in copied:
        assert (ROOT / name).exists(), name
        assert any(name == one or name.startswith(one + "/") for one in sent), f"{name} is left out"
    assert ignored[0] == "*"
    assert not any(fnmatch.fnmatch(".venv/x", one) or fnmatch.fnmatch("tests", one) for one in sent)


def test_the_image_runs_as_nobody_special_and_starts_doppelcam():
    last = dict(STEPS)
    assert last["USER"] == "1000"
    assert last["ENTRYPOINT"] == '["doppelcam"]'
    make_parser().parse_args(re.findall(r'"(.*?)"', last["CMD"]))


def extras():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("extra", ["gpu", "gpu-cu13"])
def test_the_images_versions_are_pinned_within_the_extra(extra):
    lines = (DOCKER / "constraints" / f"{extra}.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    allowed = {one.name: one for one in map(Requirement, extras()[extra])}
    assert {pin.name for pin in pins} == set(allowed) - {"onnx"}
    for pin in pins:
        (only,) = pin.specifier
        assert only.operator == "=="
        newest = only.version.replace("*", "0")
        assert allowed[pin.name].specifier.contains(newest), f"{pin} is not in {allowed[pin.name]}"


def test_each_cuda_has_its_own_packages():
    names = {path.stem: path.read_text() for path in (DOCKER / "constraints").iterdir()}
    assert set(names) == {"gpu", "gpu-cu13"}
    assert "onnxruntime-gpu==1.26.0" in names["gpu"], "1.26.0 is the last one that is built for CUDA 12"
    assert "cu13" not in names["gpu"].replace("gpu-cu13", "")
    assert "cuda12x" not in names["gpu-cu13"]


def test_the_images_python_is_one_that_doppelcam_runs_on():
    wanted = SpecifierSet(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"])
    bases = {re.match(r"python:([\d.]+)-", rest)[1] for name, rest in STEPS if name == "FROM"}
    assert len(bases) == 1
    assert wanted.contains(bases.pop())


@pytest.mark.skipif(not shutil.which("hadolint"), reason="there is no hadolint")
def test_hadolint_finds_nothing():
    done = subprocess.run(
        ["hadolint", str(DOCKER / "Dockerfile")], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout
