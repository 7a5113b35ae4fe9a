import ctypes
import errno

import pytest

from engines.errors import DeviceError, UsageError
from realtime.sinks import v4l2
from realtime.v4l2_capability import Capabilities
from tests.realtime.sinks.loopback import FakeKernel, LoopbackDevice, make_sysfs


def test_requests_carry_the_size_of_the_kernels_structures():
    class Pix(ctypes.Structure):
        _fields_ = [(name, ctypes.c_uint32) for name in "abcdefghijkl"]

    class Union(ctypes.Union):
        # v4l2_window holds pointers, which sets the union's alignment.
        _fields_ = [("pix", Pix), ("window", ctypes.c_void_p * 2), ("raw", ctypes.c_uint8 * 200)]

    class Format(ctypes.Structure):
        _fields_ = [("type", ctypes.c_uint32), ("fmt", Union)]

    assert ctypes.sizeof(Format) == v4l2._FORMAT_SIZE
    assert Format.fmt.offset == v4l2._PIX_AT
    direction_both = 3 << 30
    assert direction_both | ctypes.sizeof(Format) << 16 | ord("V") << 8 | 4 == v4l2._G_FMT


@pytest.mark.parametrize("old", [True, False])
def test_a_device_tells_its_state(old):
    device = LoopbackDevice(old=old, card="Käfer 🎥", size=(640, 360))
    kernel = FakeKernel(video1=device)
    look = v4l2.Device("/dev/video1", kernel)
    assert look.capabilities() == Capabilities("v4l2 loopback", "Käfer 🎥", capture=False, output=True)
    assert look.output_size() == (640, 360)
    device.write(None)
    caps = look.capabilities()
    assert (caps.capture, caps.output, caps.stuck) == (True, False, False)
    look.close()
    look.close()
    assert not kernel.files
    with pytest.raises(OSError, match="closed"):
        look.capabilities()


def test_mending_frees_an_old_device_and_leaves_a_new_one_alone():
    old, new = LoopbackDevice(old=True), LoopbackDevice()
    old.ready_for_output = False
    kernel = FakeKernel(video1=old, video2=new)
    for path in kernel.devices:
        look = v4l2.Device(path, kernel)
        assert look.capabilities().stuck == (path == "/dev/video1")
        look.mend()
        look.close()
        look = v4l2.Device(path, kernel)
        assert look.capabilities().output
        look.close()


def test_mending_reports_what_is_not_an_old_modules_answer():
    device = LoopbackDevice(old=True)
    kernel = FakeKernel(video1=device)
    look = v4l2.Device("/dev/video1", kernel)
    device.gone = True
    with pytest.raises(OSError) as caught:
        look.mend()
    assert caught.value.errno == errno.ENODEV
    look.close()


def test_sysfs_is_read_in_the_order_of_the_numbers(tmp_path):
    sysfs = make_sysfs(tmp_path, video10=("doppelcam", True), video2="Webcam", videoX="odd")
    (sysfs / "video3").mkdir()  # no name: gone while we looked
    assert v4l2.nodes(sysfs) == [
        v4l2.Node("/dev/video2", "Webcam", False),
        v4l2.Node("/dev/video10", "doppelcam", True),
    ]
    assert v4l2.nodes(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("says", "exclusive"),
    [
        ("Y,Y,N,N", True),
        ("1,1", True),
        ("Y,N,N,N", False),
        ("N,N,N,N", False),
        ("Y", False),
        ("", False),
        (None, False),
    ],
)
def test_the_module_says_whether_it_was_loaded_with_exclusive_caps(tmp_path, says, exclusive):
    sysfs = make_sysfs(tmp_path, says, video0="Webcam", video1=("a", True), video2=("b", True))
    assert v4l2.loaded_exclusive(sysfs) is exclusive


def test_no_virtual_camera_was_loaded_with_exclusive_caps(tmp_path):
    assert not v4l2.loaded_exclusive(make_sysfs(tmp_path, "Y,Y", video0="Webcam"))


KNOWN = [
    v4l2.Node("/dev/video0", "Webcam", False),
    v4l2.Node("/dev/video10", "doppelcam", True),
    v4l2.Node("/dev/video11", "OBS Cam", True),
    v4l2.Node("/dev/video12", "OBS Cam", True),
    v4l2.Node("/dev/video13", "obs cam", True),
    v4l2.Node("/dev/video14", "Webcam", True),
]


@pytest.mark.parametrize(
    ("device", "path"),
    [
        ("10", "/dev/video10"),
        ("007", "/dev/video7"),
        ("/dev/video99", "/dev/video99"),
        ("doppelcam", "/dev/video10"),
        ("DoppelCam", "/dev/video10"),
        ("obs cam", "/dev/video13"),  # the exact name before one that differs in case
        ("Webcam", "/dev/video14"),  # a virtual camera before a real one of the same name
    ],
)
def test_numbers_paths_and_names_are_found(device, path):
    assert v4l2.find(device, KNOWN) == path


def test_a_name_of_two_is_refused_with_both_paths():
    with pytest.raises(UsageError, match="2 video devices") as caught:
        v4l2.find("OBS Cam", KNOWN)
    assert "/dev/video11, /dev/video12" in caught.value.fix


def test_an_unknown_name_is_refused_with_what_there_is():
    with pytest.raises(DeviceError, match="nope") as caught:
        v4l2.find("nope", KNOWN)
    assert "/dev/video10" in caught.value.fix
    assert "/dev/video0)" not in caught.value.fix
    with pytest.raises(DeviceError, match="none"):
        v4l2.find("nope", [])


def test_a_link_is_followed_only_to_a_video_device(tmp_path):
    link = tmp_path / "by-id"
    link.symlink_to("/dev/video77")
    assert v4l2.find(str(link), []) == "/dev/video77"
    link.unlink()
    link.symlink_to("/dev/null")
    assert v4l2.find(str(link), []) == str(link)
