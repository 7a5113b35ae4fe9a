"""A webcam."""

from __future__ import annotations

import logging
import math
import os
import stat
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import cv2
import numpy as np

from engines.errors import DeviceError
from engines.faces import Image
from realtime.clock import Clock
from realtime.device_access import permission_fix
from realtime.frame import Frame, FramePool
from realtime.sources.camera_choice import choose_camera, listing, same_camera
from realtime.sources.camera_names import named_cameras
from realtime.sources.v4l2_names import COMPRESSED, CameraInfo, fourcc_name

log = logging.getLogger(__name__)

_BUFFERS: Final = 2
"""Pictures the driver may hold. One is decoded while the other is filled; with a single one the camera has
nowhere to write meanwhile and many give half their rate. More than two would let stale pictures wait."""

_MOST_FPS: Final = 1000.0
_WINDOW: Final = 60
_ENOUGH: Final = 20
_MOST_BAD: Final = 10
"""Pictures in a row that arrive but cannot be decoded, before the camera counts as lost."""


class Capture(Protocol):
    """What is used of ``cv2.VideoCapture``."""

    def isOpened(self) -> bool: ...  # noqa: D102
    def set(self, prop: int, value: float) -> bool: ...  # noqa: D102
    def get(self, prop: int) -> float: ...  # noqa: D102
    def grab(self) -> bool: ...  # noqa: D102
    def retrieve(self, image: Any = None) -> tuple[bool, Any]: ...  # noqa: D102
    def release(self) -> None: ...  # noqa: D102


def open_capture(target: int | str) -> Capture:
    """Opens a camera by number or path through OpenCV; whether that worked, ``isOpened`` tells."""
    api = {"linux": cv2.CAP_V4L2, "win32": cv2.CAP_DSHOW, "darwin": cv2.CAP_AVFOUNDATION}
    return cv2.VideoCapture(target, api.get(sys.platform, cv2.CAP_ANY))


def list_cameras(
    find: Callable[[], tuple[CameraInfo, ...]] = named_cameras,
    open_capture: Callable[[int | str], Capture] = open_capture,
    platform: str = sys.platform,
) -> tuple[CameraInfo, ...]:
    """The cameras of this machine, without virtual ones.

    Where the system cannot be asked, the numbers 0 to 9 are tried, which turns each camera on for a moment.

    Args:
        find: How the system is asked.
        open_capture: How a camera is tried.
        platform: As ``sys.platform``.
    """
    known = find()
    if known or platform.startswith("linux"):
        return tuple(camera for camera in known if not camera.virtual)
    found = []
    for index in range(10):
        capture = open_capture(index)
        try:
            if capture.isOpened():
                found.append(CameraInfo(index, "", f"camera {index}"))
        finally:
            capture.release()
    return tuple(found)


class CameraSource:
    """A webcam, by number, device path, or name.

    Args:
        which: A number, the path of a device, or a name: the whole one in any case, or a part of it that only
            one camera has. None takes the first camera that is not virtual.
        size: Width and height to ask for, pixels.
        fps: Frames a second to ask for.
        clock: Stamps the frames.
        open_capture: Opens a number or a path as ``cv2.VideoCapture`` does.
        find: Lists the cameras of the system, virtual ones too. Where it lists none there are only numbers.
        platform: As ``sys.platform``.

    Attributes:
        name: The camera's name and device, for messages.
        size: What it really gives, cropped to even numbers. Known after :meth:`open`.
        fps: What it says it gives; the asked rate where that is nonsense.
        fourcc: The negotiated pixel format, such as "MJPG"; empty where the camera does not say.
    """

    device = True

    def __init__(
        self,
        which: int | str | None,
        size: tuple[int, int],
        fps: float,
        clock: Clock,
        *,
        open_capture: Callable[[int | str], Capture] = open_capture,
        find: Callable[[], tuple[CameraInfo, ...]] = named_cameras,
        platform: str = sys.platform,
    ) -> None:
        self._which = int(which) if isinstance(which, str) and which.isdecimal() else which
        self._asked_size, self._asked_fps = size, fps
        self._clock = clock
        self._open_capture = open_capture
        self._find = find
        self._linux = platform.startswith("linux")
        self._known: CameraInfo | None = None
        self._capture: Capture | None = None
        self._pool = FramePool(size)
        self._raw: Image | None = None
        self._pending: Frame | None = None
        self._times: deque[int] = deque(maxlen=_WINDOW + 1)
        self._seq = 0
        self.name = "camera" if which is None else f"camera {which}"
        self.size = size
        self.fps = fps
        self.fourcc = ""

    def open(self) -> None:
        """Finds the camera, agrees on a format and waits for the first picture.

        Opened again, it looks for the same camera and takes no other one for it.

        Raises:
            DeviceError: There is no such camera, there are several, it may not be used, or it gives nothing.
        """
        self.close()
        target = self._target()
        self._check_access(target)
        capture = self._open_capture(target)
        try:
            if not capture.isOpened():
                raise self._not_opened(target)
            self._negotiate(capture)
            self._capture = capture
            self._times.clear()
            self._raw = None
            first = self._take(capture)
            if first is None:
                raise DeviceError(f"{self._title()} opens but gives no picture.", _HELD_FIX)
            self._pending = first
        except BaseException:
            self._capture = None
            capture.release()
            raise
        width, height = self.size
        log.info(
            "%s: %dx%d %s at %.4g fps", self.name, width, height, self.fourcc or "(format unknown)", self.fps
        )

    def read(self) -> Frame:
        """The next picture; blocks until the camera has one.

        Raises:
            DeviceError: The camera was lost, sends only what cannot be decoded, or has changed its size.
        """
        if self._capture is None:
            raise DeviceError(f"{self._title()} is not open.")
        frame, self._pending = self._pending, None
        if frame is None:
            frame = self._take(self._capture)
        if frame is None:
            raise DeviceError(
                f"{self._title()} was lost: it gives no more pictures.",
                "Plug it in again, and close other programs that use it.",
            )
        return frame

    def close(self) -> None:
        """See :class:`realtime.sources.base.Source`."""
        capture, self._capture, self._pending = self._capture, None, None
        if capture is not None:
            capture.release()

    @property
    def measured_fps(self) -> float:
        """Frames a second as they really came lately; 0 as long as there are too few to tell."""
        if len(self._times) <= _ENOUGH:
            return 0.0
        times = tuple(self._times)
        elapsed = times[-1] - times[0]
        return (len(times) - 1) * 1e9 / elapsed if elapsed > 0 else 0.0

    @property
    def advice(self) -> str:
        """What to do about a rate far below the asked one; empty when there is nothing to say."""
        measured, (width, height) = self.measured_fps, self.size
        if not measured or measured >= 0.7 * self._asked_fps:
            return ""
        kind = f" of {self.fourcc}" if self.fourcc else ""
        what = f"The camera gives {measured:.1f} fps{kind} at {width}x{height}, not {self._asked_fps:.4g}."
        return f"{what} {self.slow_fix}"

    @property
    def slow_fix(self) -> str:
        """What helps when this camera, as it was opened, is too slow."""
        if self.fourcc in COMPRESSED:
            return "Give it more light or a fixed exposure: in the dark, cameras slow down. Or ask for less."
        if self._known and any(f.fourcc == "MJPG" and f.size == self.size for f in self._known.formats):
            return "It can send MJPG here but does not: close programs that use it, and plug it in again."
        return (
            "Uncompressed pictures of this size fill the cable: ask for a smaller size "
            f"({_smaller(self.size)}), use a USB 3 port, or a camera that sends MJPG."
        )

    # Finding it.

    def _target(self) -> int | str:
        """What to open: a path where there are paths, else a number."""
        cameras = self._find()
        if not cameras and not self._linux:
            if isinstance(self._which, str):
                raise DeviceError(
                    f"The camera {self._which!r} cannot be looked up: without the package cv2-enumerate-cameras "
                    "they have only numbers here.",
                    "pip install cv2-enumerate-cameras; or use camera:0, camera:1, …",
                )
            return self._which or 0
        if self._known is None:
            camera = choose_camera(self._which, cameras)
            if camera is None:  # A path that the system does not list.
                return str(self._which)
        else:
            camera = same_camera(self._known, cameras)
            if camera is None:
                what = f"{self._title()} is not there any more. {listing(cameras)}"
                raise DeviceError(what, "Plug it in again, or choose another one.")
        self._known = camera
        self.name = f"{camera.name} ({camera.path or camera.index})"
        return camera.path or camera.index

    def _check_access(self, target: int | str) -> None:
        if not isinstance(target, str):
            return
        path = Path(target)
        try:
            about = path.stat()
        except OSError:
            raise DeviceError(f"{self._title()} is not there any more.", "Plug it in again.") from None
        if stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode):
            raise DeviceError(f"{target!r} is not a camera.", f"For a video, use file:{target}.")
        if not os.access(path, os.R_OK | os.W_OK):
            raise DeviceError(f"You are not permitted to use {self._title(False)}.", permission_fix(target))

    def _not_opened(self, target: int | str) -> DeviceError:
        if isinstance(target, str):
            if self._known is not None and self._known.virtual:
                what = f"{self._title()} is a virtual camera that gives no picture."
                return DeviceError(what, "Start the program that sends to it first.")
            return DeviceError(f"{self._title()} cannot be opened.", _HELD_FIX)
        return DeviceError(
            f"There is no camera {target if self._known is None else self.name}, or it cannot be opened.",
            f"{_HELD_FIX} Allow programs to use cameras in the system's privacy settings.",
        )

    def _title(self, first: bool = True) -> str:
        """The camera in a sentence, which it begins or not."""
        name = self.name.removeprefix("camera").strip()
        return f"{'The' if first else 'the'} camera {name}".rstrip()

    # Agreeing on a format, and taking pictures.

    def _negotiate(self, capture: Capture) -> None:
        width, height = self._asked_size
        # The format first: the sizes and rates a camera agrees to depend on it.
        for prop, value in (
            (cv2.CAP_PROP_FOURCC, float(cv2.VideoWriter.fourcc(*"MJPG"))),
            (cv2.CAP_PROP_FRAME_WIDTH, float(width)),
            (cv2.CAP_PROP_FRAME_HEIGHT, float(height)),
            (cv2.CAP_PROP_FPS, float(self._asked_fps)),
            (cv2.CAP_PROP_BUFFERSIZE, float(_BUFFERS)),
        ):
            try:
                capture.set(prop, value)  # A refusal is no fault: what counts is what comes.
            except cv2.error:
                log.debug("%s refuses property %d", self.name, prop)
        fps = _number(capture.get(cv2.CAP_PROP_FPS))
        self.fps = fps if 1.0 <= fps <= _MOST_FPS else self._asked_fps
        self.fourcc = fourcc_name(int(_number(capture.get(cv2.CAP_PROP_FOURCC))) & 0xFFFFFFFF)
        given = (
            int(_number(capture.get(cv2.CAP_PROP_FRAME_WIDTH))),
            int(_number(capture.get(cv2.CAP_PROP_FRAME_HEIGHT))),
        )
        self._set_size(given if min(given) >= 2 and max(given) <= 1 << 14 else self._asked_size)

    def _set_size(self, raw: tuple[int, int]) -> None:
        self.size = (raw[0] & ~1, raw[1] & ~1)
        self._pool = FramePool(self.size)

    def _take(self, capture: Capture) -> Frame | None:
        """The next picture that can be decoded; None when the camera gives none."""
        for _ in range(_MOST_BAD):
            try:
                if not capture.grab():
                    return None
                # Here and not after decoding, which belongs to the frame's age.
                captured = self._clock.now_ns()
                lease = self._pool.lease()
                whole = self._raw is None
                ok, image = capture.retrieve(lease.buffer if whole else self._raw)
            except cv2.error as reason:
                log.debug("%s: a picture cannot be decoded: %s", self.name, reason)
                continue
            if not ok or not isinstance(image, np.ndarray) or image.size == 0:
                continue
            if not (whole and image is lease.buffer):
                width, height = image.shape[1] & ~1, image.shape[0] & ~1
                if (width, height) != self.size:
                    if self._times:
                        was = f"{self.size[0]}x{self.size[1]}"
                        raise DeviceError(
                            f"{self._title()} changed its picture from {was} to {width}x{height}.",
                            "It is opened again with the new size.",
                        )
                    self._set_size((width, height))
                    lease = self._pool.lease()
                # Odd, grey or otherwise not what the buffer holds: decode beside it, then convert.
                if image.shape[:2] != (height, width) or image.ndim != 3 or image.shape[2] != 3:
                    self._raw = image
                self._convert(image[:height, :width], lease.buffer)
            self._times.append(captured)
            frame = Frame(lease.buffer, self._seq, captured, lease=lease)
            self._seq += 1
            return frame
        return None

    def _convert(self, image: np.ndarray[Any, Any], out: Image) -> None:
        if image.dtype == np.uint16:  # Infrared and machine vision cameras.
            image = cv2.convertScaleAbs(image, alpha=1 / 256)
        channels = 1 if image.ndim == 2 else image.shape[2]
        code = {1: cv2.COLOR_GRAY2BGR, 2: cv2.COLOR_YUV2BGR_YUY2, 4: cv2.COLOR_BGRA2BGR}.get(channels)
        if image.dtype != np.uint8 or (code is None and channels != 3):
            raise DeviceError(
                f"{self._title()} gives pictures of {channels} channels of {image.dtype}: unusable.",
                "Choose another camera or another size.",
            )
        if code is None:
            np.copyto(out, image)
        else:
            cv2.cvtColor(image, code, dst=out)


_HELD_FIX: Final = "Another program may hold it: close video calls, browsers and OBS, or plug it in again."


def _number(value: float) -> float:
    """A property as a number; 0 for what is none (drivers answer NaN, infinity and -1)."""
    return float(value) if math.isfinite(value) and value > 0 else 0.0


def _smaller(size: tuple[int, int]) -> str:
    sizes = ((1920, 1080), (1280, 720), (640, 480), (320, 240))
    width, height = next((s for s in sizes if s[0] * s[1] < size[0] * size[1]), (160, 120))
    return f"{width}x{height}"
