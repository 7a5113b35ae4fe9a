"""A webcam on the real driver: chosen by name, lost and found, busy, slow, compressed."""

from __future__ import annotations

import contextlib
import time

import cv2
import pytest

from engines.errors import DeviceError
from realtime.clock import SystemClock
from realtime.sources.camera import CameraSource, list_cameras
from tests.vm import rig


@contextlib.contextmanager
def camera(which=rig.VIVID_NAME, size=rig.SMALL, fps=30.0):
    source = CameraSource(which, size, fps, SystemClock())
    source.open()
    try:
        yield source
    finally:
        source.close()


def is_lost(source, reads=8):
    """Reads on until the loss is noticed; a few pictures may still lie in the driver."""
    with pytest.raises(DeviceError, match="lost"):
        for _ in range(reads):
            source.read()


def test_the_list_has_names_formats_sizes_and_rates(newest_loopback, vivid):
    (info,) = list_cameras()
    assert (info.index, info.path, info.name, info.virtual) == (20, vivid, rig.VIVID_NAME, False)
    rates = {(one.fourcc, one.size): one.rates for one in info.formats}
    assert rates["YUYV", (640, 360)][:3] == (40.0, 30.0, 25.0)
    assert rates["YUYV", (1920, 1080)][0] == 5.0
    assert all(one.fourcc.isascii() and one.fourcc.isprintable() for one in info.formats)


@pytest.mark.parametrize("which", [None, rig.VIVID_NAME, "VIVID", "20", rig.VIVID])
def test_it_is_chosen_by_name_number_path_or_as_the_only_one(newest_loopback, vivid, which):
    with camera(which) as source:
        first, second = source.read(), source.read()
        assert source.name == f"{rig.VIVID_NAME} ({rig.VIVID})"
        assert first.size == second.size == source.size == rig.SMALL
        assert (first.seq, second.seq) == (0, 1)
        assert first.captured_ns < second.captured_ns
        assert first.image.std() > 30


def test_what_was_agreed_on_and_what_really_comes_is_said(vivid):
    """Asked for 30 at 720p it gives 12.5 at most, as many webcams do."""
    with camera(size=(1280, 720)) as source:
        assert source.size == (1280, 720)
        assert source.fps == pytest.approx(12.5)
        assert len(source.fourcc) == 4
        assert source.measured_fps == 0.0
        for _ in range(25):
            source.read()
        assert 0 < source.measured_fps < 14
        assert f"fps of {source.fourcc} at 1280x720, not 30" in source.advice


def test_the_disconnect_control_is_a_loss_and_opened_again_it_works(vivid):
    with camera() as source:
        source.read()
        rig.vivid_control("disconnect", 1)
        is_lost(source)
        # Once nobody holds it, vivid is plugged in again by itself.
        source.close()
        source.open()
        assert source.read().size == rig.SMALL


def test_unplugged_it_is_lost_and_plugged_in_again_it_is_found(vivid):
    with camera() as source:
        source.read()
        rig.plug("vivid.0", plugged=False)
        began = time.monotonic()
        is_lost(source)
        assert time.monotonic() - began < 9, "a driver that is gone must not be waited for"
        source.close()
        with pytest.raises(DeviceError, match="not there any more"):
            source.open()
        rig.plug("vivid.0", plugged=True)
        source.open()
        assert source.read().size == rig.SMALL


def test_under_another_number_it_is_still_the_same_camera(vivid):
    with camera() as source:
        source.read()
        source.close()
        rig.load_vivid(number=23)
        source.open()
        assert source.name == f"{rig.VIVID_NAME} (/dev/video23)"
        assert source.read().size == rig.SMALL


def test_one_that_another_program_holds_is_said_to_be_held(vivid):
    with camera() as first:
        first.read()
        with pytest.raises(DeviceError, match="Another program may hold it"):
            CameraSource(rig.VIVID_NAME, rig.SMALL, 30, SystemClock()).open()
        assert first.read().size == rig.SMALL
    with camera() as again:
        again.read()


def test_an_mjpg_camera(tmp_path):
    """The second loopback, fed with compressed pictures, is one."""
    rig.load_loopback(rig.versions()[-1], devices=2)
    cv2.imwrite(str(tmp_path / "bars.png"), rig.bars(rig.SMALL))
    line = ["-re", "-loop", "1", "-framerate", "15", "-i", str(tmp_path / "bars.png"), "-c:v", "mjpeg", "-q:v", "2",
            "-pix_fmt", "yuvj422p", "-f", "v4l2", rig.SECOND_LOOPBACK]  # fmt: skip
    with pytest.raises(DeviceError, match="Second") as caught:
        CameraSource("Second", rig.SMALL, 15, SystemClock()).open()
    assert "sends to it" in caught.value.fix
    with rig.ffmpeg(line):
        rig.eventually(lambda: rig.gives_pictures(rig.SECOND_LOOPBACK), "ffmpeg sends")
        with camera("Second", fps=15) as source:
            assert source.fourcc == "MJPG"
            assert source.size == rig.SMALL
            for _ in range(3):
                seen = source.read()
            assert rig.off_by(seen.image) <= 6  # JPEG's own rounding comes on top.
        assert list_cameras() == () or all(not info.virtual for info in list_cameras())
