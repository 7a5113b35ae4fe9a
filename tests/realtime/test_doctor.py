"""Doctor and devices: every fault is named with what mends it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

import realtime.cli.devices
import realtime.cli.doctor
import realtime.doctor.devices
import realtime.doctor.doctor
from engines.errors import EngineError
from realtime.cli import main
from realtime.doctor.check import Check
from realtime.doctor.doctor import check_kernels, check_weights, examine
from realtime.sinks.virtualcam import VirtualCamera
from realtime.sources.v4l2_names import CameraFormat, CameraInfo


@pytest.fixture
def weights(tmp_path):
    lines = []
    for name in ("one.onnx", "two.onnx"):
        (tmp_path / name).write_bytes(name.encode())
        lines.append(f"{hashlib.sha256(name.encode()).hexdigest()}  {name}\n")
    (tmp_path / "SHA256SUMS").write_text("".join(lines))
    return tmp_path


def test_whole_weights_are_well(weights):
    (check,) = check_weights(weights)
    assert (check.state, check.fix) == ("ok", "")
    assert "2 files" in check.found


@pytest.mark.parametrize("harm", ["damage", "truncate", "remove", "html"])
def test_each_broken_weight_is_named_with_its_fix(weights, harm):
    path = weights / "two.onnx"
    {
        "damage": lambda: path.write_bytes(b"two.onnX"),
        "truncate": lambda: path.write_bytes(b"two"),
        "remove": path.unlink,
        "html": lambda: path.write_text("<html>404</html>"),
    }[harm]()
    (check,) = check_weights(weights)
    assert check.state == "failed"
    assert "two.onnx" in check.found
    assert "pip install" in check.fix


def test_a_cache_that_cannot_be_written_is_said(tmp_path):
    (check,) = check_kernels(lambda: tmp_path / "made" / "later")
    assert check.state == "ok"
    (check,) = check_kernels(lambda: None)
    assert check.state == "missing"
    assert "NUMBA_CACHE_DIR" in check.fix


def test_one_check_that_breaks_does_not_stop_the_others(monkeypatch):
    def fails():
        raise EngineError("The runtime is not installed.", "pip install it")

    def trips():
        raise ImportError("no libfoo.so")

    monkeypatch.setattr(
        realtime.doctor.doctor,
        "_CHECKS",
        (("one", fails), ("two", trips), ("three", lambda: [Check("three", "ok", "")])),
    )
    monkeypatch.setattr(realtime.doctor.devices, "device_checks", lambda attempt: ())
    one, two, three = examine()
    assert (one.state, one.fix) == ("failed", "pip install it")
    assert (two.state, "libfoo" in two.found) == ("failed", True)
    assert three.state == "ok"


def test_every_finding_that_is_not_well_has_a_fix_on_this_machine():
    checks = list(examine())
    assert {"Python", "packages", "cores", "ONNX Runtime", "kernels", "codecs"} <= {
        check.name for check in checks
    }
    assert all(check.fix for check in checks if check.state != "ok")


@pytest.mark.parametrize(("states", "code"), [(("ok", "missing"), 0), (("ok", "failed"), 1), (("ok",), 0)])
def test_only_what_is_needed_fails(states, code, monkeypatch, capsys):
    checks = [Check("thing", state, "found [x]", "" if state == "ok" else "mend it") for state in states]
    monkeypatch.setattr(realtime.cli.doctor, "examine", lambda attempt: iter(checks))
    assert main(["doctor"]) == code
    out = capsys.readouterr().out
    assert "found [x]" in out
    assert ("mend it" in out) == (len(states) > 1)
    assert main(["doctor", "--json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] == (code == 0)
    assert [check["state"] for check in document["checks"]] == list(states)


CAMERA = CameraInfo(
    2, "/dev/video2", "Büro [HD]\x1b[31m", "/dev/v4l/by-id/usb-cam",
    (CameraFormat("YUYV", (640, 480), (30.0, 15.0)), CameraFormat("MJPG", (1920, 1080), (29.97,))),
)  # fmt: skip
VIRTUAL = VirtualCamera(
    "/dev/video9", "doppelcam", "v4l2loopback", False, "Another program holds it.", "Close it."
)


def test_devices_lists_what_to_type(monkeypatch, capsys):
    monkeypatch.setattr(realtime.cli.devices, "list_cameras", lambda: (CAMERA,))
    monkeypatch.setattr(realtime.cli.devices, "list_virtual_cameras", lambda: [VIRTUAL])
    assert main(["devices"]) == 0
    out = capsys.readouterr().out
    for said in ("Büro [HD]", "/dev/v4l/by-id/usb-cam", "MJPG", "1920×1080", "29.97", "30, 15", "/dev/video9",
                 "Another program holds it. Close it."):  # fmt: skip
        assert said in out
    assert "\x1b" not in out
    assert main(["devices", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["cameras"][0]["stable_id"] == "/dev/v4l/by-id/usb-cam"
    assert document["cameras"][0]["formats"][0] == {"fourcc": "YUYV", "size": [640, 480], "fps": [30.0, 15.0]}
    assert document["virtual_cameras"][0]["ready"] is False
    assert document["virtual_cameras"][0]["fix"] == "Close it."


def test_a_device_of_many_formats_fills_no_screen(monkeypatch, capsys):
    """Some drivers list thirty formats of the same sizes: each size is shown once for all of them."""
    sizes = ((1920, 1080), (1280, 720), (640, 480))
    formats = tuple(CameraFormat(f"F{n:02}", size, (30.0,)) for n in range(30) for size in sizes)
    compressed = tuple(CameraFormat("MJPG", size, (60.0,)) for size in sizes)
    camera = CameraInfo(0, "/dev/video0", "Many", "", formats + compressed)
    monkeypatch.setattr(realtime.cli.devices, "list_cameras", lambda: (camera,))
    monkeypatch.setattr(realtime.cli.devices, "list_virtual_cameras", list)
    assert main(["devices"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "×" in line or " more" in line]
    assert len(lines) <= 8
    assert "MJPG" in lines[0]
    assert any("F00" in line and "1920×1080" in line for line in lines)
    assert any("27 more" in line for line in lines)


def test_devices_without_any_says_how_to_get_one(monkeypatch, capsys):
    monkeypatch.setattr(realtime.cli.devices, "list_cameras", lambda: ())
    monkeypatch.setattr(realtime.cli.devices, "list_virtual_cameras", list)
    assert main(["devices"]) == 0
    out = capsys.readouterr().out
    assert "doppelcam demo" in out
    assert "modprobe" in out or "OBS" in out
    assert main(["devices", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"schema": 1, "cameras": [], "virtual_cameras": []}


def test_the_sums_of_the_weights_that_ship_are_those_of_the_files():
    folder = Path(realtime.doctor.doctor.WEIGHTS)
    assert all(check.state == "ok" for check in check_weights(folder))
