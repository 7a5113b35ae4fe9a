"""A face that is not to be seen: it is painted into what the camera gives, and looked for in what viewers get."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

import realtime
from realtime.frame import Frame
from realtime.sources.base import Source

ASSETS = Path(realtime.__file__).parent / "assets"
PHOTO = ASSETS / "hopper.jpg"
"""Whose face is put on."""

SIZE = (640, 360)
_LEFT, _SIDE = 140, 360
_INNER = (slice(100, 188), slice(278, 362))
"""Rows and columns from the eyebrows to the chin."""


def portrait() -> np.ndarray:
    """A square picture of the person before the camera, BGR; the face is about a third of its height."""
    whole = cv2.imread(str(ASSETS / "astronaut.png"))
    return cv2.resize(whole[0:300, 75:375], (_SIDE, _SIDE), interpolation=cv2.INTER_LINEAR)


def scene(background: np.ndarray | None = None) -> np.ndarray:
    """The portrait in the middle of a picture of :data:`SIZE`."""
    picture = np.full((SIZE[1], SIZE[0], 3), 96, np.uint8) if background is None else background
    picture[:, _LEFT : _LEFT + _SIDE] = portrait()
    return picture


class FaceIn:
    """A camera before which somebody sits.

    Args:
        source: The camera; it gives pictures of :data:`SIZE`.
    """

    device = True

    def __init__(self, source: Source) -> None:
        self._source = source
        self._portrait = portrait()

    def __getattr__(self, name: str) -> object:
        return getattr(self._source, name)

    def open(self) -> None:
        self._source.open()

    def read(self) -> Frame | None:
        frame = self._source.read()
        if frame is not None:
            frame.image[:, _LEFT : _LEFT + _SIDE] = self._portrait
        return frame

    def close(self) -> None:
        self._source.close()


class Lookout:
    """Says how much of the bare face a picture shows.

    What makes a face a person is in its details: those of the picture are compared with those of the face, which
    stays in its place. The bare face itself, even after lossy compression, is above 0.8.
    """

    def __init__(self) -> None:
        self._bare = _details(cv2.cvtColor(scene(), cv2.COLOR_BGR2GRAY)[_INNER])

    def likeness(self, grey: np.ndarray) -> float:
        """From about 0, a stranger, to 1, the bare face; ``grey`` is height×width uint8 of :data:`SIZE`."""
        details = _details(grey[_INNER])
        scale = float(np.linalg.norm(details) * np.linalg.norm(self._bare))
        # A plain area has no details at all.
        return float((details * self._bare).sum()) / scale if np.abs(details).mean() > 0.3 else 0.0


def _details(grey: np.ndarray) -> np.ndarray:
    picture = grey.astype(np.float32)
    return picture - cv2.GaussianBlur(picture, (0, 0), 3)
