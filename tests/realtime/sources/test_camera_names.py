"""Cameras of Windows and macOS by name."""

from __future__ import annotations

from types import SimpleNamespace

import cv2
import pytest

from engines.errors import DeviceError
from realtime.clock import ManualClock
from realtime.sources.camera import CameraSource, list_cameras
from realtime.sources.camera_choice import same_camera
from realtime.sources.camera_names import named_cameras
from realtime.sources.v4l2_names import CameraInfo, fourcc_name
from tests.realtime.sources.test_camera import FakeCapture, picture

USB = "\\\\?\\usb#vid_046d&pid_082d#7&1"


def listed(*names, paths=()):
    return [
        SimpleNamespace(index=n, name=name, path=paths[n] if n < len(paths) else None)
        for n, name in enumerate(names)
    ]


@pytest.mark.parametrize(
    ("platform", "backend"), [("win32", cv2.CAP_DSHOW), ("darwin", cv2.CAP_AVFOUNDATION)]
)
def test_they_are_asked_for_in_the_order_in_which_they_are_opened(platform, backend):
    asked = []

    def ask(which):
        asked.append(which)
        return reversed(listed("OBS Virtual Camera", "Caméra\x1b HD", None, paths=(None, USB)))

    cameras = named_cameras(platform, ask)
    assert asked == [backend]
    assert cameras == (
        CameraInfo(0, "", "OBS Virtual Camera", virtual=True),
        CameraInfo(1, "", "Caméra  HD", USB),
        CameraInfo(2, "", "camera 2"),
    )
    assert [
        camera.index for camera in list_cameras(lambda: cameras, lambda _: pytest.fail("opened"), platform)
    ] == [1, 2]


@pytest.mark.parametrize("error", [ImportError("none"), OSError("COM"), RuntimeError("service")])
def test_where_they_cannot_be_asked_there_are_only_numbers(error):
    def ask(_):
        raise error

    assert named_cameras("win32", ask) == ()
    assert named_cameras("freebsd", lambda _: pytest.fail("asked")) == ()


def source(which, cameras, opened):
    def open_capture(target):
        opened.append(target)
        return FakeCapture([picture()])

    return CameraSource(
        which,
        (64, 48),
        30.0,
        ManualClock(),
        open_capture=open_capture,
        find=lambda: cameras,
        platform="win32",
    )


OBS = CameraInfo(0, "", "OBS Virtual Camera", virtual=True)
LEFT, RIGHT = CameraInfo(1, "", "Left", USB), CameraInfo(2, "", "Right", USB[:-1] + "2")


@pytest.mark.parametrize(
    ("which", "index"),
    [(None, 1), ("Right", 2), ("right", 2), ("2", 2), (RIGHT.stable_id, 2), ("OBS Virtual Camera", 0)],
)
def test_by_name_number_or_id(which, index):
    opened = []
    source(which, (OBS, LEFT, RIGHT), opened).open()
    assert opened == [index]


def test_back_under_another_number():
    cameras, opened = [LEFT, RIGHT], []
    mine = CameraSource(
        "Right", (64, 48), 30.0, ManualClock(), platform="darwin", find=lambda: tuple(cameras),
        open_capture=lambda target: opened.append(target) or FakeCapture([picture()]),
    )  # fmt: skip
    mine.open()
    mine.close()
    cameras[:] = [LEFT]
    with pytest.raises(DeviceError, match=r"Right.*not there any more.*Left"):
        mine.open()
    cameras[:] = [CameraInfo(0, "", "Right", RIGHT.stable_id), LEFT]
    mine.open()
    assert opened == [2, 0]


def test_a_missing_one_lists_the_others_without_empty_brackets():
    with pytest.raises(DeviceError) as caught:
        source("Nikon", (CameraInfo(0, "", "Left"),), []).open()
    assert "0 Left." in str(caught.value)


def test_twins_without_ids_are_told_by_their_place():
    first, second = CameraInfo(0, "", "Twin"), CameraInfo(1, "", "Twin")
    assert same_camera(second, (first, second)) is second


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0x47504A4D, "MJPG"), (0x56595559, "YUYV"), (0x20363159, "Y16"), (0x80000000 | 0x20363159, "Y16-BE"),
        (0, ""), (0xFFFFFFFF, ""), (0x01020304, ""), (0x80000000, ""), (0x20202020, ""),
    ],
)  # fmt: skip
def test_formats_have_names_that_can_be_printed(code, name):
    assert fourcc_name(code) == name
