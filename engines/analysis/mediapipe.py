"""MediaPipe's own ``FaceLandmarker``, which follows faces over whole frames, behind what a tracker asks for.

The only file that imports ``mediapipe``. How to install it beside this program's OpenCV: ``docs/faces.md``.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import cv2
import numpy as np

from engines.analysis.crop import Cropper
from engines.analysis.embed import Embedder
from engines.analysis.five import five_of, keypoints_of
from engines.analysis.landmarks import region_of_points
from engines.analysis.networks import Networks
from engines.analysis.topology import REFINED_POINTS
from engines.errors import EngineError, UsageError
from engines.faces import Detection, Floats, Image, Landmarks, Patch, Region
from engines.files import open_regular, quoted

_MEMBERS: Final = ("face_detector.tflite", "face_landmarks_detector.tflite")
_PATCH: Final = 192
_PRESENT: Final = 0.5
_INSTALL: Final = "Type: pip install 'doppelcam[mediapipe]' && pip install --no-deps mediapipe"


class WholeFrame:
    """Runs MediaPipe once a frame, in its VIDEO mode, whoever asks first; used by one thread.

    Args:
        bundle: A ``.task`` file, as published or zipped (stored) from its two networks.
        faces: How many are followed.

    Raises:
        UsageError: There is no such file, or it is no such bundle.
        EngineError: MediaPipe is not installed, or refuses it.

    Attributes:
        name: What to call it in a message.
        nodes: That MediaPipe runs it, on the CPU; it does not tell of how many nodes.
    """

    nodes: Mapping[str, int] = {"MediaPipe": 1}

    def __init__(self, bundle: Path, faces: int) -> None:
        self.name = bundle.stem
        check_bundle(bundle)
        self._mediapipe, vision, base = _package()
        options = vision.FaceLandmarkerOptions(
            base_options=base(model_asset_path=str(bundle)),
            running_mode=vision.RunningMode.VIDEO,
            num_faces=faces,
            min_face_detection_confidence=_PRESENT,
            min_face_presence_confidence=_PRESENT,
            min_tracking_confidence=_PRESENT,
        )
        try:
            self._landmarker: Any = vision.FaceLandmarker.create_from_options(options)
        except Exception as error:  # it raises whatever its C library says
            raise EngineError(f"MediaPipe cannot use {quoted(bundle)}: {error}") from error
        self._rgb: Image = np.empty((0, 0, 3), np.uint8)
        self._frame: Image | None = None
        self._last_ms = -1
        self._at_ms = 0
        self._found: list[Floats] | None = None

    def begin(self, image: Image, now_ns: int) -> None:
        """Takes in the next frame; nothing is computed yet.

        Args:
            image: BGR.
            now_ns: When it was captured: MediaPipe holds landmarks still by it.
        """
        self._frame, self._found = image, None
        self._at_ms = max(self._last_ms + 1, now_ns // 1_000_000)

    def faces(self, image: Image) -> list[Floats]:
        """The faces of the frame that was begun.

        Args:
            image: That frame; in parts of it, or any other picture, nobody is seen.

        Returns:
            For each (478, 3) float32: x and y in pixels, z in the same unit.

        Raises:
            EngineError: MediaPipe failed.
        """
        if image is not self._frame or self._landmarker is None:
            return []
        if self._found is None:
            self._found = self._run(image)
        return self._found

    def close(self) -> None:
        """Frees it; may be called twice."""
        landmarker, self._landmarker = self._landmarker, None
        self._frame = None
        if landmarker is not None:
            landmarker.close()

    def _run(self, image: Image) -> list[Floats]:
        height, width = image.shape[:2]
        if self._rgb.shape != image.shape:
            self._rgb = np.empty_like(image)
        cv2.cvtColor(image, cv2.COLOR_BGR2RGB, dst=self._rgb)
        self._last_ms = self._at_ms
        try:
            picture = self._mediapipe.Image(image_format=self._mediapipe.ImageFormat.SRGB, data=self._rgb)
            result = self._landmarker.detect_for_video(picture, self._at_ms)
        except Exception as error:
            raise EngineError(f"MediaPipe failed: {error}") from error
        scale = np.array([width, height, width], np.float32)
        meshes = [
            np.array([(point.x, point.y, point.z) for point in points], np.float32).reshape(-1, 3) * scale
            for points in result.face_landmarks
        ]
        return [mesh for mesh in meshes if len(mesh) == REFINED_POINTS and np.isfinite(mesh).all()]


class MediapipeDetector:
    """See :class:`~engines.analysis.networks.FindsFaces`.

    Args:
        whole: What runs; closed with this.
    """

    def __init__(self, whole: WholeFrame) -> None:
        self.network = whole

    def detect(self, image: Image) -> list[Detection]:
        """Those whom MediaPipe follows, the largest first."""
        found = []
        for mesh in self.network.faces(image):
            low, high = mesh[:, :2].min(0), mesh[:, :2].max(0)
            six = keypoints_of(five_of(mesh)[None])[0]
            found.append(Detection((low + high) / 2, float((high - low).max()), six, 1.0))
        return sorted(found, key=lambda face: -face.size)

    def close(self) -> None:
        """Frees what runs."""
        self.network.close()


class MediapipeLandmarks:
    """See :class:`~engines.analysis.networks.ReadsLandmarks`.

    Args:
        whole: What runs; closed by its detector.
    """

    points = REFINED_POINTS

    def __init__(self, whole: WholeFrame) -> None:
        self.network = whole
        self._cropper = Cropper(_PATCH)
        self._patch = np.zeros((_PATCH, _PATCH, 3), np.float32)

    def read(self, image: Image, region: Region) -> Landmarks:
        """The face that MediaPipe follows in a region; its presence is 0 where there is none."""
        mesh = min(self.network.faces(image), key=lambda one: _apart(one, region), default=None)
        if mesh is None or _apart(mesh, region) > region.size / 2:
            nowhere = np.tile(np.array([region.x, region.y, 0], np.float32), (self.points, 1))
            return Landmarks(nowhere, 0.0, Patch(self._patch, np.zeros((2, 3), np.float32)))
        affine = self._cropper.read(image, region_of_points(mesh), self._patch, 0.0, 255.0)
        return Landmarks(mesh.copy(), 1.0, Patch(self._patch, affine))

    def acquire(self, image: Image, region: Region, passes: int = 3) -> Landmarks:
        """The same: there is nothing to settle."""
        return self.read(image, region)

    def close(self) -> None:
        """Nothing: the detector frees what runs."""


def open_mediapipe(bundle: Path, faces: int, identity: Callable[[], Embedder] | None = None) -> Networks:
    """MediaPipe in place of the networks that ship with the program.

    Args:
        bundle: A ``.task`` file.
        faces: How many are followed.
        identity: Opens an identity network.

    Raises:
        UsageError: There is no such file, or it is no such bundle.
        EngineError: MediaPipe is not installed or refuses it, or the identity network cannot be opened.
    """
    whole = WholeFrame(bundle, faces)
    try:
        detector = MediapipeDetector(whole)
        landmarks = [MediapipeLandmarks(whole) for _ in range(faces)]
        return Networks(
            detector, detector, landmarks, identity=identity() if identity else None, begin=whole.begin
        )
    except BaseException:
        whole.close()
        raise


def check_bundle(path: Path) -> None:
    """Looks into a bundle before MediaPipe does, which says little.

    Raises:
        UsageError: There is no such file, or it is no such bundle; the sentence says what is wrong with it.
    """
    need = f"It must hold {' and '.join(_MEMBERS)}, stored and not compressed: zip -0 face.task {' '.join(_MEMBERS)}"
    with open_regular(path, "a .task bundle") as file:
        try:
            with zipfile.ZipFile(file) as bundle:
                inside = {info.filename: info for info in bundle.infolist()}
        # NotImplementedError: that is how zipfile refuses an archive of a later version of the format than its own.
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise UsageError(f"{quoted(path)} is no bundle of MediaPipe: {error}.", need) from error
    for member in _MEMBERS:
        if member not in inside:
            listed = ", ".join(sorted(inside)[:8]) or "nothing"
            raise UsageError(f"{quoted(path)} has no {member}; it holds {listed}.", need)
        if inside[member].compress_type != zipfile.ZIP_STORED:
            raise UsageError(
                f"{member} in {quoted(path)} is compressed, and MediaPipe reads it where it lies.", need
            )


def _package() -> tuple[Any, Any, Any]:
    """The package, its ``vision`` and its ``BaseOptions``."""
    try:
        import mediapipe
        from mediapipe.tasks.python import BaseOptions, vision
    except ImportError as error:
        raise EngineError(f"MediaPipe is not installed, or not all of it: {error}.", _INSTALL) from error
    return mediapipe, vision, BaseOptions


def _apart(mesh: Floats, region: Region) -> float:
    x, y = mesh[:, :2].mean(0).tolist()
    return math.hypot(x - region.x, y - region.y)
