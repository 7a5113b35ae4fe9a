"""Stillness and lag, on pictures whose true motion is known."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import cv2
import numpy as np

from engines.analysis.landmarks import LandmarkNetwork, region_of_points
from engines.errors import UsageError
from engines.faces import Array, Face, Floats, Image
from realtime.clock import SystemClock
from realtime.sources.portrait import PortraitSource
from tools.compare.clips import FPS, Clip
from tools.compare.measures import Shift, shift, tremble
from tools.compare.observe import Observer
from tools.compare.rig import Rig, vertices

NOISE: Final = 4.0
"""Standard deviation of the sensor noise on the frozen frame, levels of 0…255."""
STILL_FRAMES: Final = 60
SPEED, HZ = 0.5, 1.5
"""The known motion: to and fro, this many face widths a second at its fastest."""

_SETTLE: Final = 45
"""Frames before anything is measured: the light and the proportions of a person are learnt in about a second."""
_MOVE_FRAMES: Final = 90
_ROOM: Final = 2.4
"""Side of the picture that is kept around the face, in sizes of the face: enough for the detector."""
_JAW_FRAMES: Final = 180
_JAW_SIZE: Final = (960, 720)
_LIPS: Final = (13, 14)
_HEIGHT: Final = (10, 152)

# Tracks of the trials' own: what the engine learns of them is not mixed with what it knows of a clip.
_FILTERED, _RAW, _MOVING, _MOVING_RAW, _JAW = range(-5, 0)


@dataclass(frozen=True, slots=True)
class Stillness:
    """How much the output trembles on a frozen frame with fresh noise, pixels of a face 430 px wide.

    Attributes:
        filtered: As the program shows it.
        raw: With the landmarks as the network gives them.
    """

    filtered: float
    raw: float


@dataclass(frozen=True, slots=True)
class Lag:
    """How late the output's mesh follows a known motion, ms; None where it does not follow.

    Attributes:
        filtered: As the program shows it.
        raw: With the landmarks as the network gives them.
    """

    filtered: float | None
    raw: float | None


class Trials:
    """What is asked of an engine beside the clips.

    Args:
        rig: The engine.
        observer: Reads the output of engines that have no mesh.
    """

    def __init__(self, rig: Rig, observer: Observer) -> None:
        self._rig = rig
        self._observer = observer
        self._raw = LandmarkNetwork(rig.landmarks)

    def stillness(self, image: Image, points: Floats, frames: int = STILL_FRAMES) -> Stillness:
        """One frozen frame with fresh noise.

        Args:
            image: The frame, BGR.
            points: Landmarks of its face.
            frames: How many are measured.
        """
        picture, points = _surroundings(image, points)
        rng = np.random.default_rng(7)

        def noisy() -> Iterator[Image]:
            while True:
                grain = rng.standard_normal(picture.shape, np.float32)
                yield np.clip(np.rint(picture + np.float32(NOISE) * grain), 0, 255).astype(np.uint8)

        width = float(np.ptp(points[:, 0]))
        kept = [
            tremble(meshes, width) if len(meshes) > 1 else math.nan
            for meshes in self._both(islice(noisy(), _SETTLE + frames), points, (_FILTERED, _RAW))
        ]
        return Stillness(*kept)

    def lag(self, image: Image, points: Floats, frames: int = _MOVE_FRAMES) -> Lag:
        """One frozen frame, moved to and fro.

        Args:
            image: The frame, BGR.
            points: Landmarks of its face.
            frames: How many are measured.
        """
        picture, points = _surroundings(image, points)
        width = float(np.ptp(points[:, 0]))
        reach = SPEED * width / (2 * math.pi * HZ)
        moves = reach * np.sin(2 * math.pi * HZ / FPS * np.arange(_SETTLE + frames))

        def moved() -> Iterator[Image]:
            for x in moves:
                affine = np.array([[1, 0, x], [0, 1, 0]], np.float64)
                size = (picture.shape[1], picture.shape[0])
                flags = cv2.INTER_CUBIC
                yield np.asarray(
                    cv2.warpAffine(picture, affine, size, flags=flags, borderMode=cv2.BORDER_REPLICATE),
                    np.uint8,
                )

        late: list[float | None] = []
        for meshes in self._both(moved(), points, (_MOVING, _MOVING_RAW)):
            if len(meshes) < frames:
                late.append(None)
                continue
            found = shift([mesh[:, 0].mean() for mesh in meshes], moves[-len(meshes) :])
            late.append(None if found.lag is None else 1e3 * found.lag / FPS)
        return Lag(*late)

    def jaw(self, clip: Clip, frames: int = _JAW_FRAMES) -> Shift:
        """The animated portrait speaks: how far the output's lips are apart against the jaw that was commanded.

        Args:
            clip: An animated portrait.
            frames: How many are measured.

        Raises:
            UsageError: The clip is none.
        """
        if not clip.animated:
            raise UsageError(f"Nobody commanded the jaw of {clip.name}.", "Take an animated portrait.")
        source = PortraitSource(clip.path, _JAW_SIZE, FPS, SystemClock())
        source.open()
        opened: list[float] = []
        try:
            with self._rig.tracking() as tracker:
                for number in range(frames):
                    frame = source.read()
                    assert frame is not None
                    faces = tracker.track(frame.image, round(number / FPS * 1e9))
                    mesh = self._shown(frame.image, replace(faces[0], track=_JAW)) if faces else None
                    opened.append(math.nan if mesh is None else _apart(mesh, _LIPS) / _apart(mesh, _HEIGHT))
            return shift(opened, [source.state(number).jaw for number in range(frames)])
        finally:
            source.close()

    def close(self) -> None:
        """Frees the network."""
        self._raw.close()

    def _both(
        self, pictures: Iterator[Image], points: Floats, tracks: tuple[int, int]
    ) -> tuple[list[Array], list[Array]]:
        """The output's meshes with filtered and with raw landmarks, once both have settled."""
        filtered: list[Array] = []
        raw: list[Array] = []
        last = points
        with self._rig.tracking() as tracker:
            for number, picture in enumerate(pictures):
                seen = self._raw.read(picture, region_of_points(last))
                last = seen.points
                found = tracker.track(picture, round(number / FPS * 1e9))
                faces = [(replace(face, track=tracks[0]), filtered) for face in found[:1]]
                faces.append((Face(tracks[1], seen.points, seen.presence, seen.patch), raw))
                for face, meshes in faces:
                    mesh = self._shown(picture, face)
                    if number >= _SETTLE:
                        meshes.append(mesh)
        return filtered, raw

    def _shown(self, image: Image, face: Face) -> Array:
        """(N, 2): the mesh of the output, the engine's own or read out of its picture."""
        output, layer = self._rig.paint(image, face)
        mesh = vertices(layer)
        if mesh is not None:
            return mesh
        found: Any = self._observer.mesh(output, face.points)
        return np.asarray(found[:, :2], np.float64)


def _surroundings(image: Image, points: Floats) -> tuple[Image, Floats]:
    """The part of the picture around a face, and its landmarks there."""
    low, high = points[:, :2].min(0), points[:, :2].max(0)
    middle, reach = (low + high) / 2, _ROOM / 2 * float((high - low).max())
    height, width = image.shape[:2]
    x0, y0 = (int(v) for v in np.maximum(middle - reach, 0))
    x1, y1 = (int(v) for v in np.minimum(middle + reach, (width, height)))
    part = np.ascontiguousarray(image[y0:y1, x0:x1])
    return part, points - np.array([x0, y0, 0], np.float32)


def _apart(mesh: Array, pair: tuple[int, int]) -> float:
    return float(np.linalg.norm(mesh[pair[0]] - mesh[pair[1]]))
