"""The field's vocabulary: what one network says and the next one reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Image: TypeAlias = NDArray[np.uint8]
"""H×W×3, BGR, C-contiguous."""

Floats: TypeAlias = NDArray[np.float32]

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Detection:
    """A face found by a detector.

    Attributes:
        centre: (2,) float32, pixels of the frame.
        size: Longer side of the face's box, pixels.
        keypoints: (6, 2) float32: right eye, left eye, nose tip, mouth, right ear, left ear (the person's
            right, so the eye on the left of the picture comes first).
        score: 0…1.
    """

    centre: Floats
    size: float
    keypoints: Floats
    score: float


@dataclass(frozen=True, slots=True)
class Region:
    """A rotated square of the frame that holds one face.

    Attributes:
        x: Centre, pixels of the frame.
        y: Centre, pixels of the frame.
        size: Side, pixels.
        angle: Radians, clockwise in the picture: how far the line from the right to the left eye is turned.
    """

    x: float
    y: float
    size: float
    angle: float


@dataclass(frozen=True, slots=True)
class Patch:
    """The aligned crop that a landmark network read.

    Attributes:
        image: (S, S, 3) float32 RGB, 0…1. Belongs to the network: valid until its next run.
        affine: (2, 3) float32, frame pixels to patch pixels.
    """

    image: Floats
    affine: Floats


@dataclass(frozen=True, slots=True)
class Landmarks:
    """A dense face mesh.

    Attributes:
        points: (468, 3) or (478, 3) float32: x and y in pixels of the frame, z in the same unit, smaller
            is nearer to the camera.
        presence: 0…1, the network's belief that there is a face at all.
        patch: The crop the points were read from.
    """

    points: Floats
    presence: float
    patch: Patch


@dataclass(frozen=True, slots=True)
class Face:
    """One tracked face in one frame.

    Attributes:
        track: Number of the track, the same for the same person as long as the track lasts.
        points: Landmarks as in :class:`Landmarks`, filtered in time.
        presence: 0…1.
        patch: The crop of this very frame around the face.
        person: Which of the people who are looked for it was recognised as; 0 where nobody is.
        five: (5, 2) float32 pixels: eyes, nose and corners of the mouth as a network of its own found them, for
            the alignment of a neural swapper; None for those of the mesh.
    """

    track: int
    points: Floats
    presence: float
    patch: Patch
    person: int = 0
    five: Floats | None = None

    @property
    def alignment(self) -> Floats:
        """What to align a crop by, pixels: five points of its own where it has them, else the mesh."""
        return self.points if self.five is None else self.five

    @property
    def width(self) -> float:
        """Width of the face's landmarks, pixels."""
        return float(np.ptp(self.points[:, 0]))
