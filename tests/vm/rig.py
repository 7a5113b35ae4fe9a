"""What the tests do with real devices: load modules, make faults, send and read pictures."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np

from realtime.clock import SystemClock
from realtime.frame import Frame, Kind
from realtime.sinks import v4l2
from realtime.sinks.virtualcam import VirtualCamSink

ROOT = Path(__file__).parents[2]
LOOPBACK = "/dev/video10"
SECOND_LOOPBACK = "/dev/video11"
VIVID = "/dev/video20"
VIVID_NAME = "vivid-000-vid-cap"
LABEL = "doppelcam"
SMALL = (640, 360)
FPS = 20.0
SIZES = (SMALL, (1280, 720), (1920, 1080))

BARS = (
    (255, 255, 255),
    (0, 255, 255),
    (255, 255, 0),
    (0, 255, 0),
    (255, 0, 255),
    (0, 0, 255),
    (255, 0, 0),
    (90, 90, 90),
)
"""White, yellow, cyan, green, magenta, red, blue, grey; BGR."""


def versions() -> list[str]:
    """The versions of v4l2loopback that there are, old ones first."""
    folder = os.environ.get("VCAM_VM_MODULES")
    found = [entry.name for entry in Path(folder).iterdir()] if folder else ["none"]
    return sorted(found, key=lambda text: [int(part) for part in text.split(".") if part.isdecimal()])


def shell(command: str, *, check: bool = True) -> str:
    """Runs a line as root; what it said."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    said = (done.stdout + done.stderr).strip()
    assert not check or done.returncode == 0, f"{command}: {said}"
    return said


def eventually(condition: Callable[[], object], what: str, seconds: float = 30.0) -> None:
    """Waits for something that a device or another program does; nothing else tells when it is done."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.1)


def load_loopback(version: str, *, exclusive: bool = True, devices: int = 1) -> None:
    """Loads v4l2loopback anew: /dev/video10 called doppelcam, and /dev/video11 called Second."""
    if Path("/sys/module/v4l2loopback").exists():
        eventually(
            lambda: subprocess.run(["rmmod", "v4l2loopback"], capture_output=True).returncode == 0,
            "v4l2loopback can be unloaded: a test left a device open",
        )
    numbers, labels = ",".join(("10", "11")[:devices]), ",".join((LABEL, "Second")[:devices])
    flags = ",".join(["1" if exclusive else "0"] * devices)
    module = Path(os.environ["VCAM_VM_MODULES"]) / version / "v4l2loopback.ko"
    shell(f"insmod {module} devices={devices} video_nr={numbers} exclusive_caps={flags} card_label={labels}")
    eventually(lambda: Path(LOOPBACK).exists(), "the device file")


def load_vivid(number: int = 20) -> None:
    """Loads vivid anew, as one webcam without an input to choose."""
    if Path("/sys/module/vivid").exists():
        eventually(
            lambda: subprocess.run(["rmmod", "vivid"], capture_output=True).returncode == 0,
            "vivid can be unloaded: a test left it open",
        )
    shell(f"modprobe vivid n_devs=1 node_types=0x1 num_inputs=1 input_types=0 vid_cap_nr={number}")
    eventually(lambda: Path(f"/dev/video{number}").exists(), "the device file of vivid")


def vivid_control(name: str, value: int) -> None:
    """Sets one of vivid's controls: its faults are made so."""
    shell(f"v4l2-ctl -d {VIVID} -c {name}={value}")


def plug(driver: str, plugged: bool) -> None:
    """Takes vivid from its driver, or gives it back: the device file goes and comes."""
    (Path("/sys/bus/platform/drivers/vivid") / ("bind" if plugged else "unbind")).write_text(driver)


def bars(size: tuple[int, int]) -> np.ndarray:
    """Eight upright bars, BGR."""
    width, height = size
    picture = np.empty((height, width, 3), np.uint8)
    for number, colour in enumerate(BARS):
        picture[:, number * width // 8 : (number + 1) * width // 8] = colour
    return picture


def off_by(picture: np.ndarray, swap: bool = False) -> int:
    """How far the bars are from what they should be, in levels: the worst pixel in the middle of all bars."""
    assert picture is not None
    height, width = picture.shape[:2]
    worst = 0
    for number, colour in enumerate(BARS):
        middle = (2 * number + 1) * width // 16
        patch = picture[height // 4 : 3 * height // 4, middle - width // 40 : middle + width // 40, :3]
        wanted = np.array(colour[::-1] if swap else colour, np.int16)
        worst = max(worst, int(np.abs(patch.astype(np.int16) - wanted).max()))
    return worst


def frame(picture: np.ndarray, seq: int = 0) -> Frame:
    """As the output thread hands it over."""
    return Frame(picture, seq, time.monotonic_ns(), kind=Kind.SWAPPED)


def sink(device: str | None = LOOPBACK) -> VirtualCamSink:
    """A sink as the program makes it."""
    return VirtualCamSink(device, SystemClock())


class Sender:
    """Sends one picture again and again, as the output thread does.

    Attributes:
        sent: How often.
        failed: What the sink raised; None while all is well.
    """

    def __init__(self, target: VirtualCamSink, picture: np.ndarray, fps: float) -> None:
        self.sent = 0
        self.failed: BaseException | None = None
        self.picture = picture
        self._target, self._fps = target, fps
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sender")
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.wait(1 / self._fps):
                self._target.send(frame(self.picture, self.sent))
                self.sent += 1
        except BaseException as error:
            self.failed = error

    def end(self) -> None:
        """Stops sending."""
        self._stop.set()
        self._thread.join()


@contextlib.contextmanager
def sending(picture: np.ndarray, device: str | None = LOOPBACK, fps: float = FPS) -> Iterator[Sender]:
    """The sink open and fed, until the block ends."""
    target = sink(device)
    target.open((picture.shape[1], picture.shape[0]), fps)
    try:
        sender = Sender(target, picture, fps)
        try:
            eventually(lambda: sender.sent or sender.failed, "the first frame")
            yield sender
            if sender.failed is not None:
                raise sender.failed
        finally:
            sender.end()
    finally:
        target.close()


def gives_pictures(path: str) -> bool:
    """Whether somebody feeds a loopback device."""
    device = v4l2.Device(path, v4l2.SystemKernel())
    try:
        return device.capabilities().capture
    finally:
        device.close()


def opencv_reads(device: str, count: int = 2) -> np.ndarray:
    """The last of some pictures that OpenCV, as it comes, reads."""
    capture = cv2.VideoCapture(device, cv2.CAP_V4L2)
    try:
        assert capture.isOpened(), f"OpenCV cannot open {device}"
        for _ in range(count):
            ok, picture = capture.read()
            assert ok, f"OpenCV reads nothing from {device}"
        return picture
    finally:
        capture.release()


def ffmpeg_reads(device: str, size: tuple[int, int], count: int = 2) -> np.ndarray:
    """The last of some pictures that ffmpeg reads, RGB. It is told no format: it takes what the device has."""
    line = ["ffmpeg", "-v", "error", "-f", "v4l2", "-i", device, "-frames:v", str(count), "-f", "rawvideo",
            "-pix_fmt", "rgb24", "-"]  # fmt: skip
    done = subprocess.run(line, capture_output=True, timeout=90, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-500:]
    pictures = np.frombuffer(done.stdout, np.uint8).reshape(-1, size[1], size[0], 3)
    assert len(pictures) == count
    return pictures[-1]


@contextlib.contextmanager
def forked(body: Callable[[], object]) -> Iterator[int]:
    """Another process, which does ``body``; it is killed at the end, if it still runs. Gives its number.

    A fork, because a new Python takes seconds here. OpenCV has no threads of its own in these tests.
    """
    child = os.fork()
    if child == 0:
        try:
            body()
        finally:
            os._exit(0)
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def feed(device: str) -> None:
    """Feeds a virtual camera for ever; for another process, to be killed."""
    target = sink(device)
    target.open(SMALL, FPS)
    while True:
        target.send(frame(bars(SMALL)))
        time.sleep(1 / FPS)


@contextlib.contextmanager
def ffmpeg(arguments: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """ffmpeg until the block ends."""
    process = subprocess.Popen(
        ["ffmpeg", "-v", "error", "-y", *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
