from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from engines.errors import DeviceError
from realtime.clock import ManualClock
from realtime.sources import camera as module
from realtime.sources.camera import CameraSource, list_cameras
from realtime.sources.v4l2_names import CameraFormat, CameraInfo

MJPG = float(cv2.VideoWriter.fourcc(*"MJPG"))
YUYV = float(cv2.VideoWriter.fourcc(*"YUYV"))


class FakeCapture:
    """``cv2.VideoCapture`` as OpenCV 5 behaves: it fills a buffer that fits and returns a new one otherwise.

    Args:
        images: What it gives: arrays, False for a failed grab, None for one that cannot be decoded, an
            exception for one that raises; the last one for ever.
        reports: Property values that it answers, whatever was set.
        period_ns: How far each grab moves the clock.
    """

    def __init__(
        self,
        images: Iterable[Any] = (),
        *,
        reports: dict[int, float] | None = None,
        opens: bool = True,
        clock: ManualClock | None = None,
        period_ns: int = 33_000_000,
        refuses: bool = False,
    ) -> None:
        self.images = list(images)
        self.reports = reports or {}
        self.opens, self.clock, self.period_ns, self.refuses = opens, clock, period_ns, refuses
        self.calls: list[tuple[Any, ...]] = []
        self.props: dict[int, float] = {}
        self.at = -1
        self.copies = 0

    def isOpened(self) -> bool:
        return self.opens and ("release",) not in self.calls

    def set(self, prop: int, value: float) -> bool:
        self.calls.append(("set", prop, value))
        if self.refuses:
            raise cv2.error("Unsupported property")
        self.props[prop] = value
        return True

    def get(self, prop: int) -> float:
        return self.reports.get(prop, self.props.get(prop, 0.0))

    def grab(self) -> bool:
        self.calls.append(("grab",))
        if self.clock is not None:
            self.clock.advance(self.period_ns)
        self.at = min(self.at + 1, len(self.images) - 1)
        return bool(self.images) and self.images[self.at] is not False

    def retrieve(self, image: Any = None) -> tuple[bool, Any]:
        given = self.images[self.at]
        if isinstance(given, Exception):
            raise given
        if given is None:
            return False, image
        if image is not None and image.shape == given.shape and image.dtype == given.dtype:
            image[...] = given
            return True, image
        self.copies += 1
        return True, given.copy()

    def release(self) -> None:
        self.calls.append(("release",))


def picture(width: int = 64, height: int = 48, value: int = 90) -> np.ndarray:
    image = np.full((height, width, 3), value, np.uint8)
    image[: height // 2, :, 2] = 200
    return image


class Rig:
    """A machine with cameras whose nodes are pipes in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cameras: list[CameraInfo] = []
        self.captures: list[FakeCapture] = []
        self.opened: list[int | str] = []
        self.clock = ManualClock()

    def add(self, name: str, index: int | None = None, **more: Any) -> CameraInfo:
        index = len(self.cameras) if index is None else index
        path = self.folder / f"video{index}"
        os.mkfifo(path)
        info = CameraInfo(index, str(path), name, **more)
        self.cameras.append(info)
        return info

    def open_capture(self, target: int | str) -> FakeCapture:
        self.opened.append(target)
        return self.captures.pop(0)

    def source(self, which: int | str | None = None, *captures: FakeCapture, **more: Any) -> CameraSource:
        self.captures = list(captures) or [FakeCapture([picture()])]
        size, fps = more.pop("size", (64, 48)), more.pop("fps", 30.0)
        return CameraSource(
            which, size, fps, self.clock, open_capture=self.open_capture,
            find=lambda: tuple(self.cameras), platform=more.pop("platform", "linux"),
        )  # fmt: skip


@pytest.fixture
def rig(tmp_path):
    if not hasattr(os, "mkfifo"):
        pytest.skip("needs nodes that are no files")
    return Rig(tmp_path)


# --- which one


def test_by_default_the_first_that_is_not_virtual(rig):
    rig.add("OBS Virtual Camera", virtual=True)
    rig.add("HD Webcam")
    source = rig.source()
    source.open()
    assert rig.opened == [rig.cameras[1].path]
    assert "HD Webcam" in source.name and source.device is True
    source.close()


@pytest.mark.parametrize("which", [1, "1"])
def test_by_number(rig, which):
    rig.add("A"), rig.add("B")
    source = rig.source(which)
    source.open()
    assert rig.opened == [rig.cameras[1].path]


@pytest.mark.parametrize("which", ["Logitech C920", "logitech c920", "C920", " c9 ", "ogitech"])
def test_by_name_in_any_case_or_by_a_part_of_it(rig, which):
    rig.add("HD Webcam"), rig.add("Logitech C920")
    source = rig.source(which)
    source.open()
    assert rig.opened == [rig.cameras[1].path]


def test_the_whole_name_goes_before_a_part(rig):
    rig.add("Webcam Pro"), rig.add("webcam")
    source = rig.source("Webcam")
    source.open()
    assert rig.opened == [rig.cameras[1].path]


def test_an_ambiguous_name_lists_them(rig):
    rig.add("Webcam left"), rig.add("Webcam right"), rig.add("Other")
    with pytest.raises(DeviceError) as caught:
        rig.source("webcam").open()
    assert "Webcam left" in str(caught.value) and "Webcam right" in str(caught.value)
    assert "Other" not in str(caught.value)


def test_by_path_and_by_stable_link(rig):
    link = rig.folder / "by-id"
    rig.add("A")
    info = rig.add("B", stable_id=str(link))
    link.symlink_to(info.path)
    other = rig.folder / "mine"
    other.symlink_to(info.path)
    for which in (info.path, str(link), str(other)):
        source = rig.source(which)
        source.open()
        assert rig.opened[-1] == info.path


def test_a_path_that_is_not_listed_is_tried(rig):
    os.mkfifo(rig.folder / "odd")
    source = rig.source(str(rig.folder / "odd"))
    source.open()
    assert rig.opened == [str(rig.folder / "odd")]


@pytest.mark.parametrize("which", [7, "7", "Nikon", "/dev/video77"])
def test_a_missing_one_is_named_and_the_others_listed(rig, which):
    rig.add("HD Webcam"), rig.add("Loop", virtual=True)
    with pytest.raises(DeviceError) as caught:
        rig.source(which).open()
    assert str(which) in str(caught.value) and "HD Webcam" in str(caught.value)
    assert "Loop" not in str(caught.value)
    assert not rig.opened


def test_no_camera_at_all(rig):
    rig.add("Loop", virtual=True)
    with pytest.raises(DeviceError, match="No camera was found"):
        rig.source().open()
    with pytest.raises(DeviceError, match="No camera was found"):
        rig.source("x").open()


def test_a_virtual_one_when_it_is_asked_for(rig):
    rig.add("Cam link"), rig.add("OBS Cam", virtual=True)
    for which in (1, "OBS Cam", rig.cameras[1].path):
        source = rig.source(which)
        source.open()
        assert rig.opened[-1] == rig.cameras[1].path
    source = rig.source("cam")  # A part of both: the real one is meant.
    source.open()
    assert rig.opened[-1] == rig.cameras[0].path


@pytest.mark.parametrize("how", ["stable", "name"])
def test_plugged_in_again_it_is_found_under_its_new_number(rig, how):
    rig.add("Left", 0), rig.add("Right", 1, stable_id="/by-id/right" if how == "stable" else "")
    source = rig.source(
        None if how == "none" else 1, FakeCapture([picture(), False]), FakeCapture([picture()])
    )
    source.open()
    source.read()
    with pytest.raises(DeviceError):
        source.read()
    (rig.folder / "video1").unlink()
    right = rig.cameras.pop()
    with pytest.raises(DeviceError, match="Right"):  # Never the left one instead.
        source.open()
    rig.add("Right", 5, stable_id=right.stable_id)
    source.open()
    assert rig.opened == [right.path, rig.cameras[-1].path]
    assert source.read().size == (64, 48)


def test_by_default_it_does_not_jump_to_another_camera(rig):
    rig.add("Mine"), rig.add("Yours")
    source = rig.source(None)
    source.open()
    source.close()
    rig.cameras.pop(0)
    with pytest.raises(DeviceError, match=r"Mine.*Yours"):
        source.open()


def test_where_there_are_only_numbers(rig):
    for which, target in ((None, 0), ("2", 2), (1, 1)):
        source = rig.source(which, platform="win32")
        source.open()
        assert rig.opened[-1] == target
        source.close()
    with pytest.raises(DeviceError, match=r"HD Webcam.*only numbers.*pip install cv2-enumerate-cameras"):
        rig.source("HD Webcam", platform="darwin").open()
    with pytest.raises(DeviceError, match="camera 0"):
        rig.source(0, FakeCapture(opens=False), platform="win32").open()


# --- why not


def test_one_that_opens_but_gives_nothing_is_held_by_another(rig):
    rig.add("HD Webcam")
    capture = FakeCapture([False])
    source = rig.source(None, capture)
    with pytest.raises(DeviceError, match=r"HD Webcam.*no picture.*Another program may hold it"):
        source.open()
    assert capture.calls[-1] == ("release",)
    assert capture.calls.count(("grab",)) == 1


def test_one_that_does_not_open_is_held_by_another(rig):
    rig.add("HD Webcam")
    capture = FakeCapture(opens=False)
    with pytest.raises(DeviceError, match=r"HD Webcam.*Another program may hold it"):
        rig.source(None, capture).open()
    assert ("release",) in capture.calls


def test_a_virtual_one_that_nobody_sends_to(rig):
    rig.add("OBS Cam", virtual=True)
    with pytest.raises(DeviceError, match="OBS Cam") as caught:
        rig.source("OBS Cam", FakeCapture(opens=False)).open()
    assert "sends to it" in caught.value.fix


def test_no_permission_names_the_group(rig, monkeypatch):
    rig.add("HD Webcam")
    monkeypatch.setattr(module.os, "access", lambda *_: False)
    monkeypatch.setattr(module, "permission_fix", lambda path: f"mend {path}")
    with pytest.raises(DeviceError, match=r"not permitted to use the camera HD Webcam") as caught:
        rig.source().open()
    assert caught.value.fix == f"mend {rig.cameras[0].path}"
    assert not rig.opened


def test_a_video_given_as_a_camera(rig):
    clip = rig.folder / "clip.mp4"
    clip.write_bytes(b"x")
    with pytest.raises(DeviceError) as caught:
        rig.source(str(clip)).open()
    assert f"file:{clip}" in caught.value.fix


def test_gone_between_listing_and_opening(rig):
    Path(rig.add("HD Webcam").path).unlink()
    with pytest.raises(DeviceError, match="not there any more"):
        rig.source().open()


def test_unplugged_it_fails_at_once_and_every_time(rig):
    rig.add("HD Webcam")
    capture = FakeCapture([picture(), picture(), False])
    source = rig.source(None, capture)
    source.open()
    source.read(), source.read()
    for n in range(3):
        with pytest.raises(DeviceError, match=r"HD Webcam.*lost"):
            source.read()
        assert capture.calls.count(("grab",)) == 3 + n  # One try each: no loop of its own.
    source.close()
    with pytest.raises(DeviceError):
        source.read()


@pytest.mark.parametrize("bad", [None, cv2.error("corrupt"), np.empty((0, 0, 3), np.uint8)])
def test_a_few_broken_pictures_are_skipped_and_many_are_a_loss(rig, bad):
    rig.add("HD Webcam")
    source = rig.source(None, FakeCapture([picture(), bad, bad, picture(value=30), *[bad] * 50]))
    source.open()
    source.read()
    assert source.read().image[-1, 0, 0] == 30
    with pytest.raises(DeviceError):
        source.read()
    assert rig.clock.now_ns() == 0


def test_closing_is_always_possible(rig):
    rig.add("HD Webcam")
    capture = FakeCapture([picture()])
    source = rig.source(None, capture)
    source.close()
    source.open()
    source.close()
    source.close()
    assert capture.calls.count(("release",)) == 1


def test_opened_twice_the_first_one_is_let_go(rig):
    rig.add("HD Webcam")
    first, second = FakeCapture([picture()]), FakeCapture([picture()])
    source = rig.source(None, first, second)
    source.open()
    source.open()
    assert ("release",) in first.calls and ("release",) not in second.calls


# --- agreeing on a format


def test_the_format_is_asked_for_before_size_and_rate(rig):
    rig.add("HD Webcam")
    capture = FakeCapture([picture(1280, 720)])
    rig.source(None, capture, size=(1280, 720), fps=60.0).open()
    order = [call[1] for call in capture.calls if call[0] == "set"]
    assert order.index(cv2.CAP_PROP_FOURCC) == 0
    assert order.index(cv2.CAP_PROP_FRAME_WIDTH) < order.index(cv2.CAP_PROP_FPS)
    assert ("set", cv2.CAP_PROP_FOURCC, MJPG) in capture.calls
    assert ("set", cv2.CAP_PROP_FRAME_WIDTH, 1280.0) in capture.calls
    assert ("set", cv2.CAP_PROP_FRAME_HEIGHT, 720.0) in capture.calls
    assert ("set", cv2.CAP_PROP_FPS, 60.0) in capture.calls
    assert capture.props[cv2.CAP_PROP_BUFFERSIZE] <= 2
    assert capture.calls.index(("grab",)) > max(k for k, c in enumerate(capture.calls) if c[0] == "set")


def test_a_camera_that_refuses_everything_is_used_as_it_is(rig):
    rig.add("HD Webcam")
    source = rig.source(None, FakeCapture([picture(320, 240)], refuses=True), size=(1280, 720))
    source.open()
    assert source.size == (320, 240) and source.fps == 30.0 and source.fourcc == ""
    assert source.read().size == (320, 240)


@pytest.mark.parametrize("fps", [0.0, -1.0, math.nan, math.inf, -math.inf, 1e9, 0.2])
def test_nonsense_rates_fall_back_to_the_asked_one(rig, fps):
    rig.add("HD Webcam")
    source = rig.source(None, FakeCapture([picture()], reports={cv2.CAP_PROP_FPS: fps}), fps=25.0)
    source.open()
    assert source.fps == 25.0


def test_a_sane_rate_is_believed(rig):
    rig.add("HD Webcam")
    source = rig.source(None, FakeCapture([picture()], reports={cv2.CAP_PROP_FPS: 15.0}))
    source.open()
    assert source.fps == 15.0


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (MJPG, "MJPG"), (YUYV, "YUYV"), (808596553.0, "I420"),
        (0.0, ""), (-1.0, ""), (math.nan, ""), (1e300, ""), (22.0, ""),
    ],
)  # fmt: skip
def test_the_negotiated_format(rig, code, text):
    rig.add("HD Webcam")
    source = rig.source(None, FakeCapture([picture()], reports={cv2.CAP_PROP_FOURCC: code}))
    source.open()
    assert source.fourcc == text


@pytest.mark.parametrize(
    "reported", [(64.0, 48.0), (0.0, 0.0), (math.nan, 48.0), (1e12, 1e12), (1920.0, 1080.0)]
)
@pytest.mark.parametrize("given", [(64, 48), (32, 24)])
def test_the_size_is_what_comes_and_not_what_is_said(rig, reported, given):
    rig.add("HD Webcam")
    reports = {cv2.CAP_PROP_FRAME_WIDTH: reported[0], cv2.CAP_PROP_FRAME_HEIGHT: reported[1]}
    source = rig.source(None, FakeCapture([picture(*given)], reports=reports))
    source.open()
    assert source.size == given
    for _ in range(3):
        frame = source.read()
        assert frame.size == given and (frame.image == picture(*given)).all()


@pytest.mark.parametrize("given", [(65, 49), (64, 49), (65, 48)])
def test_odd_sizes_are_cropped(rig, given):
    rig.add("HD Webcam")
    image = np.random.default_rng(0).integers(0, 255, (given[1], given[0], 3), np.uint8)
    capture = FakeCapture([image])
    source = rig.source(None, capture)
    source.open()
    assert source.size == (64, 48)
    for _ in range(3):
        frame = source.read()
        assert (frame.image == image[:48, :64]).all() and frame.image.flags.c_contiguous


@pytest.mark.parametrize("given", [(64, 48), (65, 49)])
@pytest.mark.parametrize("kind", ["grey", "grey1", "bgra", "yuyv", "deep"])
def test_other_kinds_of_pictures_are_converted(rig, kind, given):
    rig.add("HD Webcam")
    width, height = given
    images = {
        "grey": np.full((height, width), 90, np.uint8),
        "grey1": np.full((height, width, 1), 90, np.uint8),
        "bgra": np.dstack([np.full((height, width, 3), 90, np.uint8), np.full((height, width), 7, np.uint8)]),
        "yuyv": np.dstack([np.full((height, width), 93, np.uint8), np.full((height, width), 128, np.uint8)]),
        "deep": np.full((height, width), 90 << 8, np.uint16),
    }
    source = rig.source(None, FakeCapture([images[kind]]))
    source.open()
    for _ in range(3):
        frame = source.read()
        assert frame.image.shape == (48, 64, 3) and frame.image.flags.c_contiguous
        assert np.abs(frame.image.astype(int) - 90).max() <= 1


def test_a_kind_nobody_knows_is_named(rig):
    rig.add("HD Webcam")
    with pytest.raises(DeviceError, match="5 channels"):
        rig.source(None, FakeCapture([np.zeros((48, 64, 5), np.uint8)])).open()
    with pytest.raises(DeviceError, match="float32"):
        rig.source(None, FakeCapture([np.zeros((48, 64, 3), np.float32)])).open()


def test_a_size_that_changes_on_the_way_is_a_loss(rig):
    rig.add("HD Webcam")
    source = rig.source(
        None, FakeCapture([picture(), picture(), picture(32, 24)]), FakeCapture([picture(32, 24)])
    )
    source.open()
    source.read(), source.read()
    with pytest.raises(DeviceError, match="64x48 to 32x24"):
        source.read()
    source.open()
    assert source.size == (32, 24) and source.read().size == (32, 24)


# --- frames


def test_pictures_land_in_the_pools_buffers_without_a_copy(rig):
    rig.add("HD Webcam")
    capture = FakeCapture([picture()])
    source = rig.source(None, capture)
    source.open()
    seen = set()
    for _ in range(6):
        frame = source.read()
        assert frame.lease is not None and frame.image is frame.lease.buffer
        seen.add(frame.image.ctypes.data)
        del frame
    assert len(seen) <= 2 and capture.copies == 0


def test_held_frames_keep_their_picture(rig):
    rig.add("HD Webcam")
    source = rig.source(None, FakeCapture([picture(value=v) for v in range(10, 16)]))
    source.open()
    frames = [source.read() for _ in range(6)]
    assert [int(f.image[-1, 0, 0]) for f in frames] == list(range(10, 16))
    assert [f.seq for f in frames] == list(range(6))


def test_stamped_when_it_arrives_and_before_it_is_decoded(rig):
    rig.add("HD Webcam")

    class Slow(FakeCapture):
        def retrieve(self, image=None):
            rig.clock.advance(8_000_000)
            return super().retrieve(image)

    source = rig.source(None, Slow([picture()], clock=rig.clock, period_ns=25_000_000))
    source.open()
    assert [source.read().captured_ns for _ in range(3)] == [25_000_000, 58_000_000, 91_000_000]


# --- rate and advice


def watched(rig, *, period_ms: float, fourcc: float, formats=(), fps: float = 30.0) -> CameraSource:
    rig.add("HD Webcam", formats=formats)
    reports = {cv2.CAP_PROP_FOURCC: fourcc, cv2.CAP_PROP_FPS: 30.0}
    capture = FakeCapture([picture()], reports=reports, clock=rig.clock, period_ns=int(period_ms * 1e6))
    source = rig.source(None, capture, fps=fps)
    source.open()
    for _ in range(40):
        source.read()
    return source


def test_the_rate_is_measured(rig):
    source = watched(rig, period_ms=200, fourcc=YUYV)
    assert source.fps == 30.0
    assert source.measured_fps == pytest.approx(5.0)


def test_a_camera_that_says_30_and_gives_5_gets_advice(rig):
    advice = watched(rig, period_ms=200, fourcc=YUYV).advice
    for part in ("5.0 fps", "YUYV", "64x48", "not 30", "smaller size", "USB 3", "MJPG"):
        assert part in advice


def test_advice_when_the_camera_could_send_mjpg(rig):
    advice = watched(
        rig, period_ms=200, fourcc=YUYV, formats=(CameraFormat("MJPG", (64, 48), (30.0,)),)
    ).advice
    assert "It can send MJPG" in advice


def test_advice_in_the_dark(rig):
    advice = watched(rig, period_ms=100, fourcc=MJPG).advice
    assert "10.0 fps of MJPG" in advice and "light" in advice


@pytest.mark.parametrize("period_ms", [33, 40])
def test_no_advice_when_all_is_well(rig, period_ms):
    assert watched(rig, period_ms=period_ms, fourcc=YUYV).advice == ""


def test_too_few_frames_tell_nothing(rig):
    rig.add("HD Webcam")
    source = rig.source(None, FakeCapture([picture()], clock=rig.clock, period_ns=10**9))
    assert source.measured_fps == 0.0 and source.advice == ""
    source.open()
    for _ in range(5):
        source.read()
    assert source.measured_fps == 0.0 and source.advice == ""


def test_a_clock_that_stands_still_divides_nothing_by_zero(rig):
    rig.add("HD Webcam")
    source = rig.source()
    source.open()
    for _ in range(60):
        source.read()
    assert source.measured_fps == 0.0 and source.advice == ""


def test_the_measured_rate_follows_and_begins_anew_after_a_loss(rig):
    rig.add("HD Webcam")
    fast = FakeCapture([picture()], clock=rig.clock, period_ns=20_000_000)
    slow = FakeCapture([picture()], clock=rig.clock, period_ns=100_000_000)
    source = rig.source(None, fast, slow)
    source.open()
    for _ in range(90):
        source.read()
    assert source.measured_fps == pytest.approx(50.0)
    fast.period_ns = 40_000_000
    for _ in range(90):
        source.read()
    assert source.measured_fps == pytest.approx(25.0)
    rig.clock.advance(10**10)
    source.open()
    assert source.measured_fps == 0.0
    for _ in range(30):
        source.read()
    assert source.measured_fps == pytest.approx(10.0)


# --- the list


def test_the_list_leaves_virtual_ones_out(rig):
    rig.add("HD Webcam"), rig.add("Loop", virtual=True)
    assert [c.name for c in list_cameras(lambda: tuple(rig.cameras), rig.open_capture, "linux")] == [
        "HD Webcam"
    ]
    assert not rig.opened


def test_elsewhere_numbers_are_tried_and_let_go():
    captures = {n: FakeCapture(opens=n in (0, 3)) for n in range(10)}
    found = list_cameras(tuple, captures.__getitem__, "win32")
    assert [camera.index for camera in found] == [0, 3]
    assert all(("release",) in capture.calls for capture in captures.values())
