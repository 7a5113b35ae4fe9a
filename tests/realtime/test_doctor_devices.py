"""What the doctor says of cameras, of the virtual camera, and of the module behind it."""

from __future__ import annotations

import os

import pytest

import realtime.doctor.devices as module
from engines.errors import DeviceError
from realtime.clock import ManualClock
from realtime.doctor.devices import (
    check_access,
    check_cameras,
    check_virtual_cameras,
    device_checks,
    try_cameras,
    try_virtual_cameras,
)
from realtime.doctor.round_trip import Seen
from realtime.frame import Frame
from realtime.sinks.loopback_module import LoopbackModule
from realtime.sinks.virtualcam import VirtualCamera
from realtime.sources.v4l2_names import CameraFormat, CameraInfo

RELEASE = "6.1.0-57-amd64"


def camera(*formats):
    return CameraInfo(0, "/dev/video0", "Webcam", "", tuple(CameraFormat(*one) for one in formats))


@pytest.mark.parametrize(
    ("formats", "state", "said", "fix"),
    [
        ((), "ok", "Webcam (/dev/video0)", ""),
        (
            (("MJPG", (1920, 1080), (30.0,)), ("YUYV", (1920, 1080), (5.0,))),
            "ok",
            "MJPG up to 1920×1080 at 30",
            "",
        ),
        (
            (("YUYV", (1280, 720), (10.0,)), ("YUYV", (640, 480), (30.0,))),
            "missing",
            "only 10 fps",
            "--size 640x480",
        ),
        ((("YUYV", (1280, 720), (10.0, 5.0)),), "missing", "only 10 fps", "USB 3"),
        (
            (("YUYV", (640, 480), (30.0,)), ("YUYV", (320, 240), (30.0,))),
            "missing",
            "no 1280×720",
            "--size 640x480",
        ),
        ((("YUYV", (1280, 720), ()),), "ok", "YUYV up to 1280×720", ""),
        ((("", (0, 0), ()),), "missing", "no 1280×720", "--size"),
    ],
)
def test_what_a_camera_can_give(formats, state, said, fix):
    (check,) = check_cameras([camera(*formats)])
    assert check.state == state
    assert said in check.found
    assert fix in check.fix
    assert bool(check.fix) == (state != "ok")


def test_no_camera_at_all():
    (check,) = check_cameras([])
    assert (check.state, check.found) == ("missing", "none found")
    assert check.fix


def test_devices_without_permission_are_named(tmp_path, monkeypatch):
    for name in ("video0", "video1", "null"):
        (tmp_path / name).touch()
    (check,) = check_access(tmp_path)
    assert check.state == "ok"
    monkeypatch.setattr(os, "access", lambda path, mode: path.name != "video1")
    monkeypatch.setattr(module, "permission_fix", lambda path: f"mend {path}")
    (check,) = check_access(tmp_path)
    assert check.state == "failed"
    assert "video1" in check.found and "video0" not in check.found
    assert check.fix == f"mend {tmp_path / 'video1'}"


READY = VirtualCamera("/dev/video9", "doppelcam", "v4l2 loopback", True, "")
HELD = VirtualCamera("/dev/video10", "other", "v4l2 loopback", False, "It is held.", "Let it go.")


@pytest.mark.parametrize(
    ("cameras", "states"),
    [
        ([READY], ["ok"]),
        ([HELD], ["failed"]),
        ([READY, HELD], ["ok", "missing"]),
        ([HELD, HELD], ["failed", "failed"]),
    ],
)
def test_virtual_cameras(tmp_path, cameras, states):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/modules").write_text("v4l2loopback\n")
    *checks, last = check_virtual_cameras(cameras, LoopbackModule(tmp_path, RELEASE), "linux")
    assert [check.state for check in checks] == states
    assert all(
        check.fix == "Let it go." and "It is held." in check.found for check in checks if check.state != "ok"
    )
    assert (last.name, last.state) == ("module", "ok")


def test_a_module_that_is_gone_after_a_restart(tmp_path):
    version = tmp_path / "sys/module/v4l2loopback/version"
    version.parent.mkdir(parents=True)
    version.write_text("0.15.0\n")
    _, last = check_virtual_cameras([READY], LoopbackModule(tmp_path, RELEASE), "linux")
    assert last.state == "missing"
    assert "v4l2loopback 0.15.0. The virtual camera will be gone after a restart" in last.found
    assert "/etc/modules-load.d/" in last.fix and "exclusive_caps=1" in last.fix
    folder = tmp_path / "etc/modules-load.d"
    folder.mkdir(parents=True)
    (folder / "mine.conf").write_text("# v4l2loopback\nloop\nv4l2loopback\n")
    _, last = check_virtual_cameras([READY], LoopbackModule(tmp_path, RELEASE), "linux")
    assert last.state == "ok"


@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_other_systems_name_obs(platform):
    (check,) = check_virtual_cameras([], platform=platform)
    assert check.state == "missing"
    assert "Install OBS Studio" in check.fix
    assert [c.state for c in check_virtual_cameras([READY], platform=platform)] == ["ok"]


# --- why there is none


def why(root, release=RELEASE):
    finding = LoopbackModule(root, release).why_none()
    assert finding.what and finding.fix
    return finding


def module_file(root, release=RELEASE, name="v4l2loopback.ko", content=b"ELF"):
    path = root / "lib/modules" / release / "updates/dkms" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(content)


def secure_boot(root, on):
    path = root / "sys/firmware/efi/efivars/SecureBoot-8be4df61"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\6\0\0\0" + bytes([on]))


@pytest.mark.parametrize(
    ("about", "line"),
    [
        ("ID=debian", f"apt install v4l2loopback-dkms linux-headers-{RELEASE}"),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"', "apt install v4l2loopback-dkms"),
        ("ID=arch", "pacman -S v4l2loopback-dkms"),
        ('ID="fedora"', "akmod-v4l2loopback"),
        ('ID="opensuse-tumbleweed"\nID_LIKE="opensuse suse"', "zypper install"),
        ("", "Install v4l2loopback"),
    ],
)
def test_not_installed(tmp_path, about, line):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text(about)
    finding = why(tmp_path)
    assert "not installed" in finding.what
    assert line in finding.fix
    assert "modprobe v4l2loopback exclusive_caps=1" in finding.fix


def test_built_for_another_kernel(tmp_path):
    module_file(tmp_path, "5.10.0-1-amd64")
    finding = why(tmp_path)
    assert "5.10.0-1-amd64" in finding.what and RELEASE in finding.what
    assert f"dkms autoinstall -k {RELEASE}" in finding.fix


@pytest.mark.parametrize("name", ["v4l2loopback.ko", "v4l2loopback.ko.xz", "v4l2loopback.ko.zst"])
def test_there_and_not_loaded(tmp_path, name):
    module_file(tmp_path, name=name)
    assert why(tmp_path).fix.startswith("sudo modprobe v4l2loopback")


@pytest.mark.parametrize(
    ("on", "content", "refused"),
    [
        (True, b"ELF", True),
        (True, b"ELF" + b"x" * 99 + b"~Module signature appended~\n", False),
        (False, b"ELF", False),
        (True, b"", True),
    ],
)
def test_secure_boot(tmp_path, on, content, refused):
    module_file(tmp_path, content=content)
    secure_boot(tmp_path, on)
    finding = why(tmp_path)
    assert ("Secure Boot" in finding.what) == refused
    assert ("mokutil --import" in finding.fix) == refused


def test_loaded_without_a_device(tmp_path):
    (tmp_path / "sys/module/v4l2loopback").mkdir(parents=True)
    assert "modprobe -r" in why(tmp_path).fix


@pytest.mark.parametrize("mark", [".dockerenv", "run/.containerenv"])
def test_in_a_container(tmp_path, mark):
    (tmp_path / mark).parent.mkdir(exist_ok=True)
    (tmp_path / mark).touch()
    assert "--device /dev/video" in why(tmp_path).fix


def test_in_wsl(tmp_path):
    assert "Windows itself" in why(tmp_path, "5.15.153.1-microsoft-standard-WSL2").fix


def test_this_machine_can_be_asked():
    assert why(LoopbackModule().__dict__["_root"])
    assert [name for name, _ in device_checks(False)] == ["camera", "permission", "virtual camera"]
    assert len(device_checks(True)) == 5


# --- tried


class Source:
    """A camera whose pictures come ``period_ms`` apart."""

    fourcc, size, fps, slow_fix = "YUYV", (1280, 720), 30.0, "Use another port."

    def __init__(self, clock, period_ms, error=None):
        self.clock, self.period, self.error, self.closed = clock, period_ms * 1_000_000, error, 0

    def open(self):
        if self.error:
            raise self.error

    def read(self):
        self.clock.advance(self.period)
        return Frame(None, 0, self.clock.now_ns())

    def close(self):
        self.closed += 1


@pytest.mark.parametrize(
    ("period", "state", "said"),
    [(33, "ok", "30.3 fps"), (100, "missing", "10.0 fps"), (4000, "missing", "0.2 fps")],
)
def test_the_measured_rate_counts_and_not_the_promised_one(period, state, said):
    clock = ManualClock()
    source = Source(clock, period)
    (check,) = try_cameras([camera()], lambda which: source, clock)
    assert (check.state, check.fix) == (state, "" if state == "ok" else "Use another port.")
    assert f"{said} of YUYV at 1280×720, measured" in check.found
    assert source.closed


def test_a_camera_that_gives_nothing_does_not_stop_the_others():
    clock = ManualClock()
    sources = [Source(clock, 33, DeviceError("Opens but gives no picture.", "Close it.")), Source(clock, 33)]
    first, second = try_cameras([camera(), camera()], lambda which: sources.pop(0), clock)
    assert (first.state, first.fix) == ("failed", "Close it.")
    assert second.state == "ok"


@pytest.mark.parametrize(
    ("seen", "state", "said"),
    [
        (Seen((640, 360), 2), "ok", "right colours"),
        (Seen((640, 360), 40), "failed", "40 of 255 levels off"),
        (Seen((320, 240), 2), "failed", "640×360 was sent and 320×240 came back"),
        (DeviceError("It gets no picture.", "Reload."), "failed", "It gets no picture."),
    ],
)
def test_the_round_trip(seen, state, said):
    def send(path, size, clock):
        assert (path, size) == ("/dev/video9", (640, 360))
        if isinstance(seen, Exception):
            raise seen
        return seen

    (check,) = try_virtual_cameras([READY, HELD], send, "linux", [(640, 360)])
    assert check.state == state
    assert said in check.found
    assert bool(check.fix) == (state == "failed")


def test_elsewhere_it_cannot_be_read_back():
    (check,) = try_virtual_cameras([READY], lambda *_: pytest.fail("sent"), "win32")
    assert check.state == "ok" and "cannot be read back" in check.found
