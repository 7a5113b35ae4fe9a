import errno
import inspect
import sys

import cv2
import numpy as np
import pytest

from engines.errors import DeviceError, DoppelcamError, UsageError
from realtime.clock import ManualClock
from realtime.sinks import virtualcam
from realtime.sinks.virtualcam import VirtualCamSink, list_virtual_cameras
from tests.realtime.sinks.loopback import FakeKernel, LoopbackDevice, make_sysfs
from tests.realtime.sinks.pictures import bar_colours, bars, frame

SIZE = (192, 64)


@pytest.fixture(autouse=True)
def _no_claims(tmp_path, monkeypatch):
    """Where nobody has noted anything, and nothing is noted that a real session would find."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


@pytest.fixture
def sysfs(tmp_path):
    return make_sysfs(tmp_path, video0="Webcam", video10=("doppelcam", True))


@pytest.fixture(params=["0.12.7", "0.15"])
def device(request):
    return LoopbackDevice(old=request.param == "0.12.7")


def sink_for(kernel, sysfs, device=None, **options):
    options = {"factory": kernel.factory, "sysfs": sysfs, "kernel": kernel, "platform": "linux"} | options
    return VirtualCamSink(device, options.pop("clock", ManualClock()), **options)


def refused(sink, error=DeviceError, size=SIZE):
    with pytest.raises(error) as caught:
        sink.open(size, 30)
    assert caught.value.fix
    return str(caught.value)


@pytest.mark.parametrize("name", [None, "10", "/dev/video10", "doppelcam"])
def test_frames_arrive_as_i420_of_the_right_colours(sysfs, device, name):
    kernel = FakeKernel(video10=device)
    sink = sink_for(kernel, sysfs, name)
    assert sink.device == ""
    sink.open(SIZE, 30)
    assert sink.device == "/dev/video10"
    image = bars()
    sink.send(frame(image))
    sink.send(frame(bars()[:, ::-1].copy()))
    sink.close()
    assert len(device.pictures) == 2
    back = cv2.cvtColor(device.pictures[0].reshape(SIZE[1] * 3 // 2, SIZE[0]), cv2.COLOR_YUV2BGR_I420)
    assert np.abs(bar_colours(back) - bar_colours(image)).max() <= 4
    mirrored = cv2.cvtColor(device.pictures[1].reshape(SIZE[1] * 3 // 2, SIZE[0]), cv2.COLOR_YUV2BGR_I420)
    assert np.abs(bar_colours(mirrored)[::-1] - bar_colours(image)).max() <= 4
    assert not kernel.files
    assert device.openers == 0


def test_the_same_device_is_opened_again_and_again(sysfs, device):
    kernel = FakeKernel(video10=device)
    for _ in range(3):
        sink = sink_for(kernel, sysfs)
        sink.open(SIZE, 30)
        sink.send(frame(bars()))
        sink.close()
        sink.close()
        assert device.caps() == 0x2, "left as an output for the next program"
        assert device.openers == 0


def test_an_old_device_is_mended_even_while_a_reader_stays(tmp_path):
    sysfs = make_sysfs(tmp_path, "Y,N,N,N", video10=("doppelcam", True))
    device = LoopbackDevice(old=True)
    kernel = FakeKernel(video10=device)
    sink = sink_for(kernel, sysfs)
    sink.open(SIZE, 30)
    sink.send(frame(bars()))
    reader = device.open()
    sink.close()
    assert device.caps() == 0x3, "it looks as if it had no exclusive_caps"
    sink.open(SIZE, 30)
    sink.close()
    device.close(reader)


def test_an_old_device_whose_writer_was_killed_is_mended_at_the_start(sysfs):
    device = LoopbackDevice(old=True)
    kernel = FakeKernel(video10=device)
    killed = kernel.factory(*SIZE, 30, "/dev/video10")
    killed.send(np.zeros(SIZE[0] * SIZE[1] * 3 // 2, np.uint8))
    killed.close()
    assert device.caps() == 0
    assert list_virtual_cameras(sysfs=sysfs, kernel=kernel, platform="linux")[0].ready
    assert device.mended == 0, "looking changes nothing"
    sink = sink_for(kernel, sysfs)
    sink.open(SIZE, 30)
    assert device.mended == 1
    sink.close()


@pytest.mark.parametrize("ours", [True, False])
def test_an_old_device_whose_writer_was_killed_while_a_reader_stays(tmp_path, monkeypatch, ours):
    """It looks as if it were being fed. Only if the dead writer was one of ours is it safe to take it over."""
    sysfs = make_sysfs(tmp_path, "Y,N,N,N", video10=("doppelcam", True))
    device = LoopbackDevice(old=True)
    kernel = FakeKernel(video10=device)
    monkeypatch.setattr(virtualcam.Claim, "left_behind", lambda self: ours and device.mended == 0)
    reader = device.open()
    killed = kernel.factory(*SIZE, 30, "/dev/video10")
    killed.send(np.zeros(SIZE[0] * SIZE[1] * 3 // 2, np.uint8))
    killed.close()
    assert device.caps() == 0x1
    (camera,) = list_virtual_cameras(sysfs=sysfs, kernel=kernel, platform="linux")
    assert (camera.ready, device.mended) == (ours, 0), "looking changes nothing"
    if ours:
        sink = sink_for(kernel, sysfs)
        sink.open(SIZE, 30)
        sink.send(frame(bars()))
        assert len(device.pictures) == 2
        sink.close()
    else:
        assert "Another program" in refused(sink_for(kernel, sysfs))
        assert device.mended == 0
    device.close(reader)


def test_another_doppelcam_is_named(sysfs, monkeypatch):
    device = LoopbackDevice()
    kernel = FakeKernel(video10=device)
    other = kernel.factory(*SIZE, 30, "/dev/video10")
    other.send(np.zeros(SIZE[0] * SIZE[1] * 3 // 2, np.uint8))
    monkeypatch.setattr(virtualcam.Claim, "owner", lambda self: 4321)
    text = refused(sink_for(kernel, sysfs))
    assert "Another doppelcam (process 4321)" in text
    assert "kill 4321" in text
    other.close()


def test_a_new_device_is_never_mended(sysfs):
    device = LoopbackDevice()
    device.stream_on = lambda opener: pytest.fail("VIDIOC_STREAMON on a healthy device")
    sink = sink_for(FakeKernel(video10=device), sysfs)
    sink.open(SIZE, 30)
    sink.send(frame(bars()))
    sink.close()


def test_no_device_at_all(tmp_path):
    assert "no virtual camera" in (text := refused(sink_for(FakeKernel(), tmp_path)))
    assert "modprobe v4l2loopback exclusive_caps=1" in text


def test_a_path_that_is_not_there(sysfs):
    assert "no device /dev/video77" in refused(sink_for(FakeKernel(), sysfs, "/dev/video77"))


def test_not_permitted(sysfs):
    kernel = FakeKernel(video10=LoopbackDevice())
    kernel.refuse["/dev/video10"] = errno.EACCES
    for name in (None, "doppelcam"):
        assert "usermod -aG video" in refused(sink_for(kernel, sysfs, name))


def test_another_program_writes(sysfs, device):
    kernel = FakeKernel(video10=device)
    other = kernel.factory(*SIZE, 30, "/dev/video10")
    other.send(np.zeros(SIZE[0] * SIZE[1] * 3 // 2, np.uint8))
    for name in (None, "10"):
        assert "Another program" in refused(sink_for(kernel, sysfs, name))
    assert device.mended == 0, "mending would let two writers in"
    other.close()


def test_another_program_took_the_format_but_sent_nothing_yet(sysfs):
    device = LoopbackDevice()
    kernel = FakeKernel(video10=device)
    other = kernel.factory(*SIZE, 30, "/dev/video10")
    assert "Another program" in refused(sink_for(kernel, sysfs))
    other.close()
    assert device.openers == 0


def test_too_many_openers(sysfs):
    device = LoopbackDevice()
    device.max_openers = 0
    assert "Another program" in refused(sink_for(FakeKernel(video10=device), sysfs))


def test_a_device_without_exclusive_caps(sysfs):
    device = LoopbackDevice(exclusive=False)
    text = refused(sink_for(FakeKernel(video10=device), sysfs))
    assert "without exclusive_caps" in text
    assert "modprobe -r" in text
    assert device.openers == 0


def test_a_real_camera_is_not_written_to(sysfs):
    device = LoopbackDevice(driver=b"uvcvideo", card="Webcam")
    text = refused(sink_for(FakeKernel(video0=device), sysfs, "Webcam"))
    assert "not a virtual camera" in text
    assert "uvcvideo" in text


def test_a_size_that_a_reader_keeps_is_refused(sysfs, device):
    kernel = FakeKernel(video10=device)
    device.size = (640, 360)
    readers = [device.open(), device.open()]
    device.set_format = lambda opener, size: None
    text = refused(sink_for(kernel, sysfs))
    assert "640x360" in text
    assert "192x64" in text
    assert "--size 640x360" in text
    for reader in readers:
        device.close(reader)
    assert device.openers == 0


def test_a_missing_package(sysfs):
    def missing(*_):
        raise ModuleNotFoundError("No module named 'pyvirtualcam'")

    device = LoopbackDevice()
    text = refused(sink_for(FakeKernel(video10=device), sysfs, factory=missing))
    assert "pip install pyvirtualcam" in text
    assert device.openers == 0


@pytest.mark.parametrize("size", [(191, 64), (192, 63), (0, 64), (192, -2)])
@pytest.mark.parametrize("fps", [30])
def test_odd_and_empty_sizes(sysfs, size, fps):
    assert "even" in refused(sink_for(FakeKernel(video10=LoopbackDevice()), sysfs), UsageError, size)


@pytest.mark.parametrize("fps", [0, -1, float("nan"), float("inf")])
def test_rates_that_are_none(sysfs, fps):
    with pytest.raises(UsageError, match="frames a second"):
        sink_for(FakeKernel(video10=LoopbackDevice()), sysfs).open(SIZE, fps)


def test_the_first_ready_device_is_chosen(tmp_path):
    sysfs = make_sysfs(tmp_path, video1=("a", True), video2=("b", True), video3=("c", True))
    kernel = FakeKernel(
        video1=LoopbackDevice(exclusive=False), video2=LoopbackDevice(), video3=LoopbackDevice()
    )
    sink = sink_for(kernel, sysfs)
    sink.open(SIZE, 30)
    assert sink.device == "/dev/video2"
    sink.close()


def test_a_device_that_goes_away_is_noticed(sysfs, device):
    kernel = FakeKernel(video10=device)
    sink = sink_for(kernel, sysfs)
    sink.open(SIZE, 30)
    sink.send(frame(bars()))
    device.gone = True
    with pytest.raises(DeviceError, match="gone"):
        sink.send(frame(bars()))
    sink.close()
    assert not kernel.files


def test_writes_that_fail_in_silence_are_noticed_after_a_second(sysfs, device):
    clock = ManualClock()
    sink = sink_for(FakeKernel(video10=device), sysfs, clock=clock)
    sink.open(SIZE, 30)
    device.deaf = True
    sink.send(frame(bars()))
    clock.advance(900_000_000)
    sink.send(frame(bars()))
    device.deaf = False
    sink.send(frame(bars()))  # it came back: the second starts anew
    device.deaf, device.ready_for_capture = True, 0
    clock.advance(900_000_000)
    sink.send(frame(bars()))
    clock.advance(1_000_000_000)
    with pytest.raises(DeviceError, match="shows none"):
        sink.send(frame(bars()))
    sink.close()


def test_a_backend_that_raises_while_sending(sysfs):
    kernel = FakeKernel(video10=LoopbackDevice())

    def factory(*args):
        camera = kernel.factory(*args)

        def send(picture):
            raise RuntimeError("queue closed")

        camera.send = send
        return camera

    sink = sink_for(kernel, sysfs, factory=factory)
    sink.open(SIZE, 30)
    with pytest.raises(DeviceError, match="queue closed"):
        sink.send(frame(bars()))
    sink.close()


def test_a_frame_costs_one_ioctl_and_no_new_picture(sysfs):
    kernel = FakeKernel(video10=LoopbackDevice())
    seen = []

    def factory(*args):
        camera = kernel.factory(*args)
        real = camera.send

        def send(picture):
            seen.append(picture.__array_interface__["data"][0])
            real(picture)

        camera.send = send
        return camera

    sink = sink_for(kernel, sysfs, factory=factory)
    sink.open(SIZE, 30)
    before = kernel.calls
    for _ in range(3):
        sink.send(frame(bars()))
    assert kernel.calls - before == 3
    assert len(set(seen)) == 1
    sink.close()


def test_sending_before_opening_or_another_size_is_a_fault_of_the_caller(sysfs):
    sink = sink_for(FakeKernel(video10=LoopbackDevice()), sysfs)
    sink.close()
    with pytest.raises(ValueError, match="open"):
        sink.send(frame(bars()))
    sink.open(SIZE, 30)
    with pytest.raises(ValueError, match="shape"):
        sink.send(frame(bars((96, 64))))
    sink.close()


class ObsCamera:
    device = "OBS Virtual Camera"

    def __init__(self):
        self.sent, self.closed = 0, 0

    def send(self, picture):
        self.sent += 1

    def close(self):
        self.closed += 1


@pytest.mark.parametrize("platform", ["win32", "darwin"])
@pytest.mark.parametrize("wanted", [None, "Unity Video Capture"])
def test_other_systems_go_by_name_and_make_no_linux_calls(tmp_path, platform, wanted):
    camera, asked = ObsCamera(), []

    def factory(width, height, fps, device):
        asked.append((width, height, fps, device))
        return camera

    sink = sink_for(FakeKernel(), tmp_path, wanted, platform=platform, factory=factory)
    sink.open(SIZE, 25)
    sink.send(frame(bars()))
    assert sink.device == "OBS Virtual Camera"
    sink.close()
    assert asked == [(*SIZE, 25, wanted)]
    assert (camera.sent, camera.closed) == (1, 1)


def test_other_systems_say_what_the_backend_said(tmp_path):
    def factory(*_):
        raise RuntimeError("'obs' backend: OBS Virtual Camera device not found! Did you install OBS?")

    text = refused(sink_for(FakeKernel(), tmp_path, platform="win32", factory=factory))
    assert "not found" in text
    assert "Install OBS Studio" in text


def test_listing_says_what_is_ready_and_why_not(tmp_path):
    sysfs = make_sysfs(
        tmp_path,
        video0="Webcam",
        video1=("fine", True),
        video2=("shared", True),
        video3=("secret", True),
        video4=("written", True),
        video5=("missing", True),
        video6=("dying", True),
    )
    written, dying = LoopbackDevice(), LoopbackDevice()
    written.write(None)
    dying.gone = True
    kernel = FakeKernel(
        video0=LoopbackDevice(driver=b"uvcvideo"),
        video1=LoopbackDevice(),
        video2=LoopbackDevice(exclusive=False),
        video3=LoopbackDevice(),
        video4=written,
        video6=dying,
    )
    kernel.refuse["/dev/video3"] = errno.EACCES
    kernel.refuse["/dev/video0"] = errno.EIO  # a real camera is not even opened
    cameras = list_virtual_cameras(sysfs=sysfs, kernel=kernel, platform="linux")
    assert [(camera.path, camera.name, camera.ready) for camera in cameras] == [
        ("/dev/video1", "fine", True),
        ("/dev/video2", "shared", False),
        ("/dev/video3", "secret", False),
        ("/dev/video4", "written", False),
        ("/dev/video5", "missing", False),
        ("/dev/video6", "dying", False),
    ]
    assert {camera.driver for camera in cameras} == {"v4l2 loopback"}
    assert cameras[0].why_not == ""
    for camera, word in zip(
        cameras[1:], ["exclusive_caps", "usermod", "Another program", "no device", "gone"], strict=True
    ):
        assert word in f"{camera.why_not} {camera.fix}"
        assert camera.fix
    assert not kernel.files


@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_listing_other_systems(platform):
    there = list_virtual_cameras(platform=platform, obs_installed=lambda: True)
    assert [(camera.name, camera.driver, camera.ready) for camera in there] == [
        ("OBS Virtual Camera", "obs", True)
    ]
    assert list_virtual_cameras(platform=platform, obs_installed=lambda: False) == []


def test_the_fake_has_the_real_surface():
    pyvirtualcam = pytest.importorskip("pyvirtualcam", exc_type=ImportError)
    for name in ("device", "send", "close"):
        assert hasattr(pyvirtualcam.Camera, name)
    inspect.signature(pyvirtualcam.Camera).bind(
        192, 64, 30.0, fmt=pyvirtualcam.PixelFormat.I420, device="/dev/video10"
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux's backend")
def test_the_real_library_refuses_a_device_that_is_not_there(sysfs):
    pytest.importorskip("pyvirtualcam", exc_type=ImportError)
    device = LoopbackDevice()
    kernel = FakeKernel(video987654=device)
    sink = sink_for(kernel, sysfs, "/dev/video987654", factory=virtualcam.open_pyvirtualcam)
    assert "does not exist" in refused(sink)
    assert device.openers == 0


def test_every_refusal_is_one_of_ours(sysfs):
    """Whatever the kernel answers, the sink says a sentence and a fix, and keeps nothing open."""
    for code in errno.errorcode:
        kernel = FakeKernel(video10=LoopbackDevice())
        kernel.refuse["/dev/video10"] = code
        with pytest.raises(DoppelcamError) as caught:
            sink_for(kernel, sysfs, "10").open(SIZE, 30)
        assert "/dev/video10" in caught.value.what
        assert caught.value.fix
        assert not kernel.files
