"""The virtual camera on real modules, old and new: it is found, comes back, and says what is wrong with it."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import cv2
import numpy as np
import pytest

from engines.errors import DeviceError
from realtime.clock import SystemClock
from realtime.sinks import v4l2
from realtime.sinks.virtualcam import list_virtual_cameras
from realtime.sources.camera import CameraSource
from realtime.v4l2_capability import DRIVER
from tests.vm import rig

BARS = rig.bars(rig.SMALL)


def refused(device=None, size=rig.SMALL):
    """What the sink says when it is opened; as one text."""
    target = rig.sink(device)
    with pytest.raises(DeviceError) as caught:
        target.open(size, 30)
    target.close()
    assert caught.value.fix
    return str(caught.value)


def works(device=None, size=rig.SMALL):
    with rig.sending(rig.bars(size), device):
        seen = rig.opencv_reads(rig.LOOPBACK)
    assert (seen.shape[1], seen.shape[0]) == size
    assert rig.off_by(seen) <= 3


@pytest.mark.parametrize("device", [None, "10", "/dev/video10", rig.LABEL, rig.LABEL.upper(), "link"])
def test_it_is_found_by_number_path_link_and_name(newest_loopback, device, tmp_path):
    if device == "link":
        device = str(tmp_path / "by-id")
        Path(device).symlink_to(rig.LOOPBACK)
    with rig.sending(BARS, device):
        assert rig.off_by(rig.opencv_reads(rig.LOOPBACK)) <= 3


def test_a_second_start_and_another_size_need_no_help(loopback):
    for size in (rig.SMALL, (320, 240), rig.SMALL):
        works(size=size)
        (camera,) = list_virtual_cameras()
        assert (camera.name, camera.ready, camera.why_not) == (rig.LABEL, True, "")


@pytest.mark.parametrize("watched", [False, True])
def test_a_second_start_after_kill_9(loopback, watched):
    """With a program that goes on showing the camera, too: it sees the new start, in the same window."""
    with rig.forked(lambda: rig.feed(loopback)) as other:
        rig.eventually(lambda: rig.gives_pictures(loopback), "the other one sends")
        capture = cv2.VideoCapture(loopback, cv2.CAP_V4L2) if watched else None
        if capture is not None:
            assert capture.read()[0]
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)
    if capture is not None:
        (camera,) = list_virtual_cameras()
        assert camera.ready, camera.why_not
        with rig.sending(rig.bars(rig.SMALL)[:, ::-1].copy()):
            try:
                rig.eventually(lambda: rig.off_by(capture.read()[1][:, ::-1]) <= 3, "the new picture")
            finally:
                capture.release()
    works()


def test_another_size_while_a_program_watches_is_refused_and_said(loopback):
    with rig.sending(BARS):
        capture = cv2.VideoCapture(loopback, cv2.CAP_V4L2)
        assert capture.read()[0]
    try:
        text = refused(size=(1280, 720))
        assert "keeps 640x360, not 1280x720" in text
        assert "--size 640x360" in text
    finally:
        capture.release()
    works(size=(1280, 720))


def test_a_device_that_another_program_feeds_is_busy(loopback):
    with rig.forked(lambda: rig.feed(loopback)) as other:
        rig.eventually(lambda: rig.gives_pictures(loopback), "the other one sends")
        text = refused(loopback)
        assert f"Another doppelcam (process {other}) feeds" in text
        assert f"kill {other}" in text
        (camera,) = list_virtual_cameras()
        assert not camera.ready
        # It is the other one's picture that is seen, undisturbed.
        assert rig.off_by(rig.opencv_reads(loopback)) <= 3


def test_without_exclusive_caps_it_is_told_apart(version):
    rig.load_loopback(version, exclusive=False)
    assert "exclusive_caps" in refused()
    assert "modprobe -r" in refused(rig.LOOPBACK)
    (camera,) = list_virtual_cameras()
    assert not camera.ready
    assert "exclusive_caps" in camera.why_not


def test_a_device_that_a_stranger_feeds_is_busy(newest_loopback):
    line = [
        "-f",
        "lavfi",
        "-i",
        "testsrc=s=320x240:r=10",
        "-pix_fmt",
        "yuv420p",
        "-f",
        "v4l2",
        newest_loopback,
    ]
    with rig.ffmpeg(line):
        rig.eventually(lambda: not list_virtual_cameras()[0].ready, "ffmpeg sends")
        text = refused(newest_loopback)
        assert "Another program feeds" in text
        assert "fuser" in text
    rig.eventually(lambda: list_virtual_cameras()[0].ready, "ffmpeg has let go")
    works()


def test_a_device_that_is_not_there(newest_loopback):
    assert "There is no device /dev/video77" in refused("77")
    assert "doppelcam" in refused("Nobody")
    rig.load_vivid()
    assert "vivid" in refused(rig.VIVID)
    rig.shell("rmmod v4l2loopback")
    text = refused()
    assert "no virtual camera" in text
    assert "modprobe v4l2loopback exclusive_caps=1" in text


def as_nobody(body):
    """What ``body`` returns, or the error it raises, as a user without any group."""
    reading, writing = os.pipe()

    def child():
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            said = str(body())
        except BaseException as error:
            said = str(error)
        os.write(writing, said.encode())

    with rig.forked(child), os.fdopen(reading) as pipe:
        os.close(writing)
        return pipe.read()


def test_without_permission_the_group_is_named(newest_loopback, vivid):
    for path in (newest_loopback, vivid):
        Path(path).chmod(0o660)
        shutil.chown(path, "root", "video")
    for wanted in (None, newest_loopback):
        said = as_nobody(lambda wanted=wanted: rig.sink(wanted).open(rig.SMALL, 30))
        assert "not permitted" in said
        assert "usermod -aG video" in said
    camera = CameraSource(rig.VIVID_NAME, rig.SMALL, 30, SystemClock())
    said = as_nobody(camera.open)
    assert f"not permitted to use the camera {rig.VIVID_NAME}" in said
    assert "usermod -aG video" in said


def test_permission_that_is_taken_away_does_not_stop_a_stream(newest_loopback):
    with rig.sending(BARS) as sender:
        Path(newest_loopback).chmod(0)
        before = sender.sent
        rig.eventually(lambda: sender.sent > before + 5, "it goes on")
        assert rig.off_by(rig.opencv_reads(newest_loopback)) <= 3


def test_programs_that_look_every_moment_disturb_nobody(newest_loopback):
    """Some ask every camera every few seconds what it is: whoever shows it meanwhile sees nothing of that."""
    with rig.sending(BARS) as sender:
        capture = cv2.VideoCapture(newest_loopback, cv2.CAP_V4L2)
        try:
            for _ in range(5):
                rig.shell(f"v4l2-ctl -d {newest_loopback} --all --list-formats-ext")
                before = sender.sent
                for _ in range(3):
                    ok, picture = capture.read()
                    assert ok
                    assert rig.off_by(picture) <= 3
                assert sender.sent > before
        finally:
            capture.release()


def test_readers_that_come_and_go_see_the_right_picture_each_time(newest_loopback):
    with rig.sending(BARS) as sender:
        for _ in range(5):
            before = sender.sent
            assert rig.off_by(rig.opencv_reads(newest_loopback, 1)) <= 3
            rig.eventually(lambda before=before: sender.sent > before + 1, "it goes on")


def test_frames_come_in_the_order_they_were_sent(newest_loopback):
    """The number of each frame is in its pixels; readers may miss some, and see none twice in another order."""
    with rig.sending(np.zeros((360, 640, 3), np.uint8), fps=20) as sender:

        def number(n):
            # Sixteen squares, black or white.
            picture = np.zeros((360, 640, 3), np.uint8)
            for bit in range(16):
                if n >> bit & 1:
                    picture[:, bit * 40 : bit * 40 + 40] = 255
            return picture

        capture = cv2.VideoCapture(newest_loopback, cv2.CAP_V4L2)
        seen = []
        for n in range(1, 40):
            sender.picture = number(n)
            ok, picture = capture.read()
            assert ok
            seen.append(sum((picture[180, bit * 40 + 20, 0] > 128) << bit for bit in range(16)))
        capture.release()
    assert seen == sorted(seen)
    assert len(set(seen)) > 5


def test_what_the_device_says_of_itself_is_read_rightly(loopback, version):
    """The structures of the kernel, as this file packs and unpacks them."""
    (node,) = [node for node in v4l2.nodes() if node.loopback]
    assert (node.path, node.name) == (rig.LOOPBACK, rig.LABEL)
    assert v4l2.loaded_exclusive()
    device = v4l2.Device(loopback, v4l2.SystemKernel())
    try:
        caps = device.capabilities()
        assert (caps.driver, caps.card, caps.output) == (DRIVER, rig.LABEL, True)
        with rig.sending(BARS):
            assert device.capabilities().capture
    finally:
        device.close()
    assert Path(rig.LOOPBACK).is_char_device()
