"""A still photo as a webcam: the person moves, blinks and speaks."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from engines.analysis.detect import Detector, Range
from engines.analysis.landmarks import LandmarkNetwork, region_of_detection
from engines.analysis.photo import read_photo
from engines.analysis.topology import REFINED_POINTS
from engines.errors import PhotoError, UsageError
from engines.faces import Floats, Image
from engines.portrait.scene import place
from engines.portrait.stage import Grain, Stage
from engines.portrait.state import HeadState
from realtime.clock import Clock
from realtime.frame import Frame, FramePool
from realtime.sources.portrait_motion import Motion

PACKAGED: Final = Path(__file__).parent.parent / "assets" / "astronaut.png"

NOISE: Final = 1.6
"""Sensor noise of a webcam in a lit room, levels of 0…255."""

_FACE_WIDTH: Final = 430 / 1080
_LEAST: Final = 64
_MOST_NOISE: Final = 20.0
_PRESENT: Final = 0.5
_DETECTORS: Final[tuple[Range, ...]] = ("near", "far")


class PortraitSource:
    """A photo, animated.

    A frame is a function of photo, size, rate, seed and its number: the same everywhere and at any speed.
    There is no end.

    Args:
        path: The photo; the packaged one if None.
        size: Width and height of the frames, pixels; odd ones are made even, downwards.
        fps: Frames a second: how far the person moves from frame to frame.
        clock: Tells the time of capture.
        seed: Another seed moves otherwise.
        face_width: Width of the face's landmarks, pixels; 430 of 1080 of the height if None.
        noise: Standard deviation of the sensor noise, levels of 0…255.

    Raises:
        UsageError: Size, rate, face or noise are out of range.
    """

    device = False

    def __init__(
        self,
        path: Path | None,
        size: tuple[int, int],
        fps: float,
        clock: Clock,
        seed: int = 0,
        face_width: float | None = None,
        noise: float = NOISE,
    ) -> None:
        self._path = PACKAGED if path is None else path
        self.name = f"portrait {self._path.name}"
        self.size = (size[0] // 2 * 2, size[1] // 2 * 2)
        self.fps = fps
        if min(self.size) < _LEAST or max(self.size) > 8192:
            raise UsageError(
                f"A portrait cannot be {size[0]}x{size[1]} pixels.", f"Take sides of {_LEAST} to 8192."
            )
        if not 1 <= fps <= 1000:
            raise UsageError(f"A portrait cannot have {fps:g} frames a second.", "Take 1 to 1000.")
        self._face_width = self.size[1] * _FACE_WIDTH if face_width is None else float(face_width)
        if not 24 <= self._face_width <= 2 * max(self.size):
            raise UsageError(
                f"A face {self._face_width:g} pixels wide does not suit {size[0]}x{size[1]} frames.",
                f"Take 24 to {2 * max(self.size)}.",
            )
        if not 0 <= noise <= _MOST_NOISE:
            raise UsageError(f"Noise of {noise:g} levels is out of range.", f"Take 0 to {_MOST_NOISE:g}.")
        self._clock, self._seed, self._noise = clock, seed, float(noise)
        self._stage: Stage | None = None
        self._pool: FramePool | None = None
        self._next = 0

    def open(self) -> None:
        """Finds the face in the photo and makes everything ready; the next frame is number 0.

        Raises:
            PhotoError: The photo cannot be read, or there is no face in it.
            EngineError: A network that comes with the package cannot be opened.
        """
        photo = read_photo(self._path)
        points = _landmarks(photo, self._path)
        where = place(points, self.size, self._face_width)
        self._stage = Stage(photo, points, where, self.size, Grain(self._noise, self._seed))
        self._motion = Motion(self._seed, self.fps)
        self._pool = FramePool(self.size)
        self._next = 0
        # Compiled code is loaded now and not in the first frame.
        self._stage.render(self._pool.lease().buffer, self._stage.pose(self._motion.at(0)), 0)

    def state(self, frame: int) -> HeadState:
        """What the person does in a frame: the truth to hold a tracker against."""
        return Motion(self._seed, self.fps).at(frame)

    def read(self) -> Frame | None:
        """See :class:`realtime.sources.base.Source`; the time of capture is when the picture is complete.

        Raises:
            UsageError: The source is not open.
        """
        if self._stage is None or self._pool is None:
            raise UsageError(f"The {self.name} is not open.")
        lease = self._pool.lease()
        number, self._next = self._next, self._next + 1
        self._stage.render(lease.buffer, self._stage.pose(self._motion.at(number)), number)
        return Frame(lease.buffer, number, self._clock.now_ns(), lease=lease)

    @property
    def buffers(self) -> int:
        """How many frames had to be allocated so far."""
        return 0 if self._pool is None else self._pool.allocated

    def close(self) -> None:
        """See :class:`realtime.sources.base.Source`."""
        self._stage = self._pool = None


def _landmarks(photo: Image, path: Path) -> Floats:
    network = LandmarkNetwork(REFINED_POINTS)
    try:
        for reach in _DETECTORS:
            detector = Detector(reach)
            try:
                faces = detector.detect(photo)
            finally:
                detector.close()
            if not faces:
                continue
            found = network.acquire(photo, region_of_detection(faces[0]))
            if found.presence >= _PRESENT and np.ptp(found.points[:, 0]) >= 1:
                return found.points
    finally:
        network.close()
    raise PhotoError(
        f"There is no face to be found in {path}.", "Take a photo that shows one from the front."
    )
