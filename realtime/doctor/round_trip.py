"""Sends colour bars to the virtual camera and reads them back, as another program would see them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import cv2
import numpy as np

from engines.errors import DeviceError
from engines.faces import Image
from realtime.clock import Clock
from realtime.frame import Frame, Kind
from realtime.sinks.virtualcam import VirtualCamSink
from realtime.sources.camera import Capture, open_capture

SIZES: Final = ((640, 360), (1280, 720), (1920, 1080))
TOLERANCE: Final = 4
"""Levels of 255 that the way through YUV and back may cost."""

_COLOURS: Final = (
    (255, 255, 255), (0, 255, 255), (255, 255, 0), (0, 255, 0), (255, 0, 255), (0, 0, 255), (255, 0, 0), (0, 0, 0),
)  # fmt: skip
_FPS: Final = 30.0
_PATIENCE: Final = 15
_FIX: Final = (
    "Load the module anew: sudo modprobe -r v4l2loopback; and close programs that change the camera's format."
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What came back.

    Attributes:
        size: Width and height, pixels.
        off: The largest difference of a colour, in levels of 255.
    """

    size: tuple[int, int]
    off: int


def round_trip(
    device: str,
    size: tuple[int, int],
    clock: Clock,
    *,
    make_sink: Callable[[str, Clock], VirtualCamSink] = VirtualCamSink,
    open_capture: Callable[[int | str], Capture] = open_capture,
) -> Seen:
    """Sends bars of one size and looks at what comes out. Whoever watches the camera sees them, too.

    Args:
        device: Path of the virtual camera.
        size: Width and height to send, pixels, both even.
        clock: Stamps the frames.
        make_sink: Makes the sink.
        open_capture: Opens the device as any program does.

    Raises:
        DeviceError: The sink cannot be opened, or another program cannot read what it is sent.
    """
    bars = colour_bars(size)
    sink = make_sink(device, clock)
    sink.open(size, _FPS)
    try:
        with _Sending(sink, bars, clock):
            return _look(device, open_capture)
    finally:
        sink.close()


def colour_bars(size: tuple[int, int]) -> Image:
    """Eight upright bars, height×width×3 uint8 BGR."""
    width, height = size
    bars = np.empty((height, width, 3), np.uint8)
    for number, colour in enumerate(_COLOURS):
        bars[:, number * width // 8 : (number + 1) * width // 8] = colour
    return bars


class _Sending:
    """Goes on sending in a thread: a reader gets only what is sent while it waits."""

    def __init__(self, sink: VirtualCamSink, picture: Image, clock: Clock) -> None:
        self._sink, self._picture, self._clock = sink, picture, clock
        self._stop = threading.Event()
        self._error: DeviceError | None = None
        self._thread = threading.Thread(target=self._run, name="doppelcam-bars", daemon=True)

    def __enter__(self) -> None:
        self._send()
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._stop.wait(1 / _FPS):
                self._send()
        except DeviceError as error:
            self._error = error

    def _send(self) -> None:
        self._sink.send(Frame(self._picture, 0, self._clock.now_ns(), kind=Kind.SLATE))


def _look(device: str, open_capture: Callable[[int | str], Capture]) -> Seen:
    capture = open_capture(device)
    try:
        if not capture.isOpened():
            raise DeviceError(f"No program can open {device} to show it.", _FIX)
        seen: Seen | None = None
        for _ in range(_PATIENCE):
            ok, image = (False, None) if not capture.grab() else capture.retrieve()
            if ok and image is not None:
                seen = _compare(image)
                # The first ones may have lain in the device since its last use.
                if seen.off <= TOLERANCE:
                    return seen
        if seen is None:
            raise DeviceError(f"A program that shows {device} gets no picture.", _FIX)
        return seen
    finally:
        capture.release()


def _compare(image: np.ndarray[Any, Any]) -> Seen:
    height, width = image.shape[:2]
    off = 0
    for number, colour in enumerate(_COLOURS):
        middle = (2 * number + 1) * width // 16
        patch = image[height // 4 : 3 * height // 4, middle - width // 40 : middle + width // 40]
        mean, _ = cv2.meanStdDev(patch)
        off = max(off, round(float(np.abs(mean[:3, 0] - colour).max())))
    return Seen((width, height), off)
