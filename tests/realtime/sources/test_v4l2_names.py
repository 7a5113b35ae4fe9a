from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

import pytest

from realtime.sources.v4l2_names import (
    ENUM_FMT,
    ENUM_FRAMEINTERVALS,
    ENUM_FRAMESIZES,
    CameraFormat,
    v4l2_cameras,
)
from realtime.v4l2_capability import QUERYCAP

CAPTURE, OUTPUT, METADATA, DEVICE_CAPS = 1, 2, 0x00800000, 0x80000000


class Machine:
    """A fake /sys and /dev, and a kernel that answers for them."""

    def __init__(self, folder: Path) -> None:
        self.sysfs, self.dev, self.devices = folder / "class", folder / "dev", folder / "devices"
        for made in (self.sysfs, self.dev):
            made.mkdir()
        self.caps: dict[int, tuple[bytes, bytes, int, int]] = {}
        self.formats: dict[int, list[tuple[bytes, list]]] = {}
        self.endless = False
        self.asked = 0

    def add(
        self, number: int, name: str, *, bus: str = "pci0000:00/usb1", index: int = 0, caps: int = CAPTURE,
        driver: bytes = b"uvcvideo", whole: int | None = None, formats: list | None = None,
        answers: bool = True,
    ) -> None:  # fmt: skip
        real = self.devices / bus / "video4linux" / f"video{number}"
        real.mkdir(parents=True)
        (real / "name").write_bytes(name.encode() + b"\n")
        (real / "index").write_text(f"{index}\n")
        (self.sysfs / f"video{number}").symlink_to(real)
        os.mkfifo(self.dev / f"video{number}")
        if answers:
            everything = caps | DEVICE_CAPS if whole is None else whole
            self.caps[number] = (driver, b"card " + name.encode()[:20], everything, caps)
        self.formats[number] = formats or []

    def link(self, folder: str, name: str, number: int) -> str:
        place = self.dev / "v4l" / folder
        place.mkdir(parents=True, exist_ok=True)
        (place / name).symlink_to(f"../../video{number}")
        return str(place / name)

    def ioctl(self, descriptor: int, request: int, data: bytearray) -> int:
        self.asked += 1
        number = int(Path(f"/proc/self/fd/{descriptor}").readlink().name.removeprefix("video"))
        assert len(data) == request >> 16 & 0x3FFF
        if number not in self.caps:
            raise OSError(errno.ENOTTY, "not a video device")
        if request == QUERYCAP:
            driver, card, whole, own = self.caps[number]
            struct.pack_into("<16s32s32sIII", data, 0, driver, card, b"usb-1", 0x60100, whole, own)
            return 0
        formats = self.formats[number]
        at = struct.unpack_from("<I", data)[0]
        if self.endless:
            at = 0
        if request == ENUM_FMT:
            assert struct.unpack_from("<I", data, 4)[0] == 1
            self._fill(data, 44, "<4s", [(code,) for code, _ in formats], at)
        elif request == ENUM_FRAMESIZES:
            sizes = next(sizes for code, sizes in formats if code == bytes(data[4:8]))
            self._fill(
                data, 8, "<7I", [(kind, *where, *[0] * (6 - len(where))) for kind, where, _ in sizes], at
            )
        elif request == ENUM_FRAMEINTERVALS:
            sizes = next(sizes for code, sizes in formats if code == bytes(data[4:8]))
            wanted = struct.unpack_from("<II", data, 8)
            rates = next((r for _, where, r in sizes if tuple(where[:2]) == wanted), sizes[0][2])
            self._fill(data, 16, "<7I", [(kind, *rate, *[0] * (6 - len(rate))) for kind, rate in rates], at)
        return 0

    @staticmethod
    def _fill(data: bytearray, offset: int, form: str, entries: list, at: int) -> None:
        if at >= len(entries):
            raise OSError(errno.EINVAL, "no more")
        struct.pack_into(form, data, offset, *entries[at])

    def cameras(self):
        return v4l2_cameras(self.sysfs, self.dev, self.ioctl)


@pytest.fixture
def machine(tmp_path):
    if not Path("/proc/self/fd").exists() or not hasattr(os, "mkfifo"):
        pytest.skip("needs Linux")
    return Machine(tmp_path)


def test_the_requests_are_the_kernels():
    assert [hex(r) for r in (QUERYCAP, ENUM_FMT, ENUM_FRAMESIZES, ENUM_FRAMEINTERVALS)] == [
        "0x80685600",
        "0xc0405602",
        "0xc02c564a",
        "0xc034564b",
    ]


def test_names_and_numbers_in_order(machine):
    machine.add(10, "Zehn"), machine.add(2, "Zwei: HD Größe")
    found = machine.cameras()
    assert [(c.index, c.name, c.path) for c in found] == [
        (2, "Zwei: HD Größe", str(machine.dev / "video2")),
        (10, "Zehn", str(machine.dev / "video10")),
    ]
    assert not any(c.virtual for c in found)


def test_nodes_for_metadata_and_output_are_no_cameras(machine):
    machine.add(0, "HD Webcam")
    machine.add(1, "HD Webcam", index=1, caps=METADATA, whole=CAPTURE | METADATA | DEVICE_CAPS)
    machine.add(2, "Display", caps=OUTPUT)
    assert [c.index for c in machine.cameras()] == [0]


def test_an_old_driver_tells_only_the_whole(machine):
    machine.add(0, "Old", caps=0, whole=CAPTURE)
    assert [c.name for c in machine.cameras()] == ["Old"]


def test_loopback_devices_are_virtual_written_to_or_not(machine):
    machine.add(0, "OBS", bus="virtual", driver=b"v4l2 loopback", caps=OUTPUT)
    machine.add(1, "Other", bus="virtual", driver=b"v4l2 loopback", caps=CAPTURE)
    machine.add(2, "vivid", bus="platform/vivid.0", driver=b"vivid")
    assert [(c.index, c.virtual) for c in machine.cameras()] == [(0, True), (1, True), (2, False)]


def test_without_an_answer_sysfs_decides(machine):
    machine.add(0, "HD Webcam", answers=False)
    machine.add(1, "HD Webcam", index=1, answers=False)
    machine.add(2, "Loop", bus="virtual", answers=False)
    assert [(c.index, c.virtual, c.formats) for c in machine.cameras()] == [(0, False, ()), (2, True, ())]


def test_a_node_that_is_gone_is_still_listed_by_sysfs(machine):
    machine.add(0, "HD Webcam")
    (machine.dev / "video0").unlink()
    assert [c.name for c in machine.cameras()] == ["HD Webcam"]


def test_the_stable_link_is_the_cameras_own_before_its_sockets(machine):
    machine.add(0, "A"), machine.add(1, "B"), machine.add(2, "C")
    own = machine.link("by-id", "usb-A-video-index0", 0)
    machine.link("by-path", "pci-1-video-index0", 0)
    socket = machine.link("by-path", "pci-2-video-index0", 1)
    assert [c.stable_id for c in machine.cameras()] == [own, socket, ""]


def test_formats_sizes_and_rates(machine):
    discrete = [(1, (1, 30)), (1, (1, 15)), (1, (0, 5)), (1, (1, 0))]
    machine.add(
        0,
        "HD Webcam",
        formats=[
            (b"MJPG", [(1, (640, 480), discrete), (1, (1920, 1080), [(1, (1001, 30000))]), (1, (0, 0), [])]),
            (b"YUYV", [(3, (160, 1280, 16, 120, 720, 8), [(3, (1, 60, 1, 5, 1, 1))])]),
            (b"GREY", []),
        ],
    )
    (camera,) = machine.cameras()
    assert camera.formats == (
        CameraFormat("MJPG", (1920, 1080), (29.97,)),
        CameraFormat("MJPG", (640, 480), (30.0, 15.0)),
        CameraFormat("YUYV", (1280, 720), (60.0, 5.0)),
        CameraFormat("YUYV", (160, 120), (60.0, 5.0)),
    )


def test_a_driver_whose_lists_never_end(machine):
    machine.add(0, "Broken", formats=[(b"MJPG", [(1, (640, 480), [(1, (1, 30))])])])
    machine.endless = True
    (camera,) = machine.cameras()
    assert set(camera.formats) == {CameraFormat("MJPG", (640, 480), (30.0,))}
    assert machine.asked < 10_000


def test_names_with_control_characters_are_made_harmless(machine):
    machine.add(0, "Evil\x1b[31m\nCam")
    assert "\x1b" not in machine.cameras()[0].name and "\n" not in machine.cameras()[0].name


def test_other_entries_and_missing_folders(machine, tmp_path):
    machine.add(0, "HD Webcam")
    for name in ("vbi0", "v4l-subdev0", "radio0", "video", "videox", "video-1"):
        (machine.sysfs / name).mkdir()
    assert len(machine.cameras()) == 1
    assert v4l2_cameras(tmp_path / "none", machine.dev, machine.ioctl) == ()


def test_no_descriptor_stays_open(machine):
    machine.add(0, "HD Webcam"), machine.add(1, "Mute", answers=False)
    before = len(list(Path("/proc/self/fd").iterdir()))
    machine.cameras()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
