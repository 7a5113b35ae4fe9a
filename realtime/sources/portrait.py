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
from engines.faces import Array, Floats, Image
from realtime.clock import Clock
from realtime.frame import Frame, FramePool
from realtime.sources.portrait_inside import Eyes, Mouth
from realtime.sources.portrait_mesh import PortraitMesh
from realtime.sources.portrait_motion import HeadState, Motion
from realtime.sources.portrait_render import Rasteriser, add_noise, copy_outside, noise_strip, pack
from realtime.sources.portrait_scene import canvas, place

PACKAGED: Final = Path(__file__).parent.parent / "assets" / "astronaut.png"

NOISE: Final = 1.6
"""Sensor noise of a webcam in a lit room, levels of 0…255."""

_FACE_WIDTH: Final = 430 / 1080
_LEAST: Final = 64
_MOST_NOISE: Final = 20.0
_PRESENT: Final = 0.5
_DETECTORS: Final[tuple[Range, ...]] = ("near", "far")
_BACKGROUNDS: Final = 4
"""Noisy still pictures that take turns; the eye finds no period in four."""


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
        self._stage: _Stage | None = None
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
        self._stage = _Stage(photo, points, self.size, self._face_width, self._noise, self._seed)
        self._motion = Motion(self._seed, self.fps)
        self._pool = FramePool(self.size)
        self._next = 0
        # Compiled code is loaded now and not in the first frame.
        self._stage.render(self._pool.lease().buffer, self._motion.at(0), 0)

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
        self._stage.render(lease.buffer, self._motion.at(number), number)
        return Frame(lease.buffer, number, self._clock.now_ns(), lease=lease)

    @property
    def buffers(self) -> int:
        """How many frames had to be allocated so far."""
        return 0 if self._pool is None else self._pool.allocated

    def close(self) -> None:
        """See :class:`realtime.sources.base.Source`."""
        self._stage = self._pool = None


class _Stage:
    """One photo, ready to be shown in any state."""

    def __init__(
        self, photo: Image, points: Floats, size: tuple[int, int], face_width: float, noise: float, seed: int
    ) -> None:
        width, height = size
        where = place(points, size, face_width)
        self._mesh = PortraitMesh(where.of(points))
        border = self._mesh.rest[self._mesh.border]
        low, high = np.floor(border.min(0)).astype(int) - 2, np.ceil(border.max(0)).astype(int) + 4
        rect = (min(0, int(low[0])), min(0, int(low[1])), max(width, int(high[0])), max(height, int(high[1])))
        picture = canvas(photo, where, rect, face_width)
        left, top = low - rect[:2]
        moving = picture[top : top + high[1] - low[1], left : left + high[0] - low[0]]
        still = picture[-rect[1] : height - rect[1], -rect[0] : width - rect[0]]
        self._strip, room = noise_strip(noise, seed & 0xFFFFFFFF)
        self._texture = pack(moving, room)
        self._rasteriser = Rasteriser(self._mesh.rest - low, self._mesh.triangles, self._texture, size)
        origin = (int(low[0]), int(low[1]))
        self._eyes = Eyes(self._mesh, moving, origin, self._texture, room)
        self._mouth = Mouth(self._mesh, moving, origin, room)
        self._left, self._right = _extent(border, size)
        self._grounds = [np.empty((height, width, 3), np.uint8) for _ in range(_BACKGROUNDS)]
        for n, ground in enumerate(self._grounds):
            add_noise(still, self._strip, room, -1 - n, ground)

    def render(self, out: Image, state: HeadState, frame: int) -> None:
        points = self._mesh.pose(state)
        # 0 1 2 3 2 0 3 1: no ground follows itself, and the order hides the period.
        ground = self._grounds[(0, 1, 2, 3, 2, 0, 3, 1)[frame % 8]]
        copy_outside(ground, self._left, self._right, out)
        self._rasteriser.draw(out, points, self._strip, frame)
        self._eyes.paint(out, points, state, self._strip, frame)
        self._mouth.paint(out, state, self._strip, frame)


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


def _extent(border: Array, size: tuple[int, int]) -> tuple[Array, Array]:
    """For every row, where the moving part begins and ends, a few pixels inside of its border."""
    width, height = size
    left, right = np.full(height, width, np.int32), np.zeros(height, np.int32)
    for (ax, ay), (bx, by) in zip(border, np.roll(border, -1, 0), strict=True):
        if ay > by:
            ax, ay, bx, by = bx, by, ax, ay
        rows = np.arange(max(0, int(np.ceil(ay))), min(height, int(np.floor(by)) + 1))
        if len(rows) and by > ay:
            x = ax + (rows - ay) * (bx - ax) / (by - ay)
            left[rows] = np.minimum(left[rows], np.clip(np.ceil(x) + 3, 0, width).astype(np.int32))
            right[rows] = np.maximum(right[rows], np.clip(np.floor(x) - 3, 0, width).astype(np.int32))
    return left, np.maximum(left, right)
