"""A source photo made ready: the face in it, found whichever way it is turned."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import cv2
import numpy as np

from engines.analysis.detect import Detector
from engines.analysis.kept import Kept
from engines.analysis.landmarks import LandmarkNetwork, region_of_detection, region_of_points, same_face
from engines.analysis.marks import SUFFIX, marks_of, read_marks
from engines.analysis.photo import over_mean, read_layers
from engines.analysis.topology import OVAL, POINTS
from engines.errors import PhotoError
from engines.faces import Array, Detection, Floats, Image

log = logging.getLogger(__name__)

_TURNS: Final = (None, cv2.ROTATE_90_CLOCKWISE, cv2.ROTATE_90_COUNTERCLOCKWISE, cv2.ROTATE_180)
_SMALLEST_FACE: Final = 48
_LOOKS: Final = 8
_PRESENT: Final = 0.6
_CUT: Final = 0.04
"""How much of the face's width may lie outside of the photo."""


@dataclass(frozen=True, slots=True)
class SourceFace:
    """One face of one photo.

    Attributes:
        image: The photo, BGR, turned so that the face is upright.
        points: (468, 3) or (478, 3) float32 landmarks, pixels of ``image``.
        name: What to call the photo in a message.
        note: What a person should know about how it was read; empty if nothing.
        alpha: (H, W) uint8, how opaque the photo is, 0…255; ``image`` has the mean colour where it is transparent.
            None for a photo that is opaque.
        marked: Whether its points were marked by hand, because no network finds a face in it: it is drawn.
        kept: What an engine worked out of all this, for the next time; never taken over by another photo.
    """

    image: Image
    points: Floats
    name: str
    note: str = ""
    alpha: Array | None = None
    marked: bool = False
    kept: Kept = field(default_factory=Kept, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A face of a photo that may be turned: where it was detected, its landmarks, and how sure both networks are."""

    centre: Floats
    points: Floats
    sure: float


class SourceReader:
    """Reads source photos. Opens its networks once; used by one thread.

    Args:
        landmarks: 468 or 478, the same as on the live face: what one network sees too high or too wide it sees so
            on both, and that cancels out (identity 0.50 against 0.47 with the two networks mixed).

    Raises:
        EngineError: A network cannot be opened.
    """

    def __init__(self, landmarks: int = POINTS) -> None:
        self._detectors = (Detector("near"), Detector("far"))
        self._landmarks = LandmarkNetwork(landmarks)

    def read(self, path: Path) -> SourceFace:
        """Reads the largest face of a photo; or the one whose points are marked in a file beside it.

        Args:
            path: The photo; see :mod:`engines.analysis.marks` for the file beside it.

        Raises:
            PhotoError: It cannot be read, or there is no usable face in it; the sentence says which.
        """
        image, alpha = read_layers(path)
        flat = image if alpha is None else over_mean(image, alpha)
        marks = marks_of(path)
        if marks is not None:
            points = read_marks(marks, (image.shape[1], image.shape[0]))[: self._landmarks.points]
            return SourceFace(flat, points, path.name, alpha=alpha, marked=True)
        return self.find(flat, path.name, alpha)

    def find(self, image: Image, name: str, alpha: Array | None = None) -> SourceFace:
        """The largest face of a picture that was read already; see :meth:`read`.

        Args:
            image: The picture.
            name: What to call it in a message.
            alpha: How opaque it is; see :class:`SourceFace`.
        """
        face, turn = self._found(image, name)
        if alpha is None:
            return face
        return replace(face, alpha=alpha if turn is None else np.ascontiguousarray(cv2.rotate(alpha, turn)))

    def _found(self, image: Image, name: str) -> tuple[SourceFace, int | None]:
        """The largest face, and how the picture was turned for it."""
        turned = [
            image if turn is None else np.ascontiguousarray(cv2.rotate(image, turn), np.uint8)
            for turn in _TURNS
        ]
        # An upside-down face is taken for an upright one now and then, and a flag for a face: the surest view counts.
        for detectors in ((self._detectors[0].detect, self._detectors[1].detect), (self._from_further_away,)):
            views = [
                (faces, upright, turn)
                for turn, upright in zip(_TURNS, turned, strict=True)
                for detect in detectors
                if (faces := self._upright(upright, detect(upright)))
            ]
            if views:
                faces, upright, turn = max(views, key=lambda view: view[0][0].sure)
                settled = replace(faces[0], points=self._settled(upright, faces[0]))
                return _chosen([settled, *faces[1:]], upright, name), turn
        raise PhotoError(
            f"There is no face in {name}.",
            "Choose a photo of one person's face from the front; drawings and masks are often not seen as faces. "
            f"Of a drawing, mark points in a file beside it: {Path(name).stem}{SUFFIX}, as in docs/portrait.md.",
        )

    def close(self) -> None:
        """Frees the networks."""
        for network in (*self._detectors, self._landmarks):
            network.close()

    def _upright(self, image: Image, detections: Sequence[Detection]) -> list[_Seen]:
        """The faces that are no mistake and stand upright, the largest first."""
        faces: list[_Seen] = []
        for detection in detections:
            found = self._landmarks.acquire(image, region_of_detection(detection))
            seen_twice = any(same_face(found.points, face.points) for face in faces)
            if found.presence >= _PRESENT and not _upside_down(found.points) and not seen_twice:
                faces.append(_Seen(detection.centre, found.points, detection.score * found.presence))
        return faces

    def _settled(self, image: Image, face: _Seen) -> Floats:
        """The landmarks of a face, averaged over a few looks: each crop comes from the last one, and they flutter."""
        looks = [face.points]
        for _ in range(_LOOKS):
            looks.append(self._landmarks.read(image, region_of_points(looks[-1])).points)
        return np.asarray(np.mean(looks[1:], axis=0), np.float32)

    def _from_further_away(self, image: Image) -> Sequence[Detection]:
        """A face that fills the picture is larger than what the detectors know."""
        margin = max(image.shape[:2]) // 2
        padded = cv2.copyMakeBorder(
            image, margin, margin, margin, margin, cv2.BORDER_CONSTANT, value=(127, 127, 127)
        )
        return [
            Detection(face.centre - margin, face.size, face.keypoints - margin, face.score)
            for face in self._detectors[0].detect(np.asarray(padded, np.uint8))
        ]


def _chosen(faces: Sequence[_Seen], image: Image, name: str) -> SourceFace:
    face = faces[0]
    _check(face.points, image, name)
    note = ""
    if len(faces) > 1:
        note = f"{name} shows {len(faces)} faces; the largest one was taken, {_place(face.centre, image)}."
        log.info(note)
    return SourceFace(image, face.points, name, note)


def _upside_down(points: Floats) -> bool:
    """Whether the eyes are below the mouth, or the face lies on its side: the photo has to be turned first."""
    eyes, mouth = points[[33, 263], :2].mean(0), points[[61, 291], :2].mean(0)
    across, down = mouth - eyes
    return bool(down <= abs(across))


def _place(centre: Floats, image: Image) -> str:
    x, y = centre / (image.shape[1], image.shape[0])
    column = "left" if x < 1 / 3 else "right" if x > 2 / 3 else "middle"
    row = "top" if y < 1 / 3 else "bottom" if y > 2 / 3 else "middle"
    return "in the middle" if column == row == "middle" else f"at the {row} {column}".replace("middle ", "")


def _check(points: Floats, image: Image, name: str) -> None:
    height, width = image.shape[:2]
    oval = points[list(OVAL), :2]
    face = float(np.ptp(oval[:, 0]))
    if face < _SMALLEST_FACE:
        raise PhotoError(
            f"The face in {name} is only {face:.0f} pixels wide.",
            f"Choose a photo in which it is at least {_SMALLEST_FACE} pixels wide; 300 and more look good.",
        )
    outside = {
        "left": -oval[:, 0].min(), "top": -oval[:, 1].min(),
        "right": oval[:, 0].max() - width + 1, "bottom": oval[:, 1].max() - height + 1,
    }  # fmt: skip
    edge, by = max(outside.items(), key=lambda item: item[1])
    if by > _CUT * face:
        raise PhotoError(
            f"The face in {name} is cut off at the {edge} edge.", "Choose a photo that shows the whole face."
        )
