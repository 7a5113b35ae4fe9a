"""FaceMesh: 468 landmarks of one face, or 478 with refined lips, lids and irises."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from engines.analysis.crop import Cropper, inverse_of
from engines.analysis.topology import (
    LEFT_IRIS,
    POINTS,
    REFINED_LEFT_EYE,
    REFINED_LIPS,
    REFINED_POINTS,
    REFINED_RIGHT_EYE,
    RIGHT_IRIS,
    WEIGHTS,
)
from engines.errors import EngineError
from engines.faces import Array, Detection, Floats, Image, Landmarks, Patch, Region
from engines.runtime.base import Network
from engines.runtime.model.file import SHIPPED
from engines.runtime.open import open_network

_FILES: Final = {POINTS: "face_mesh_468.onnx", REFINED_POINTS: "face_mesh_478.onnx"}
_MARGIN: Final = 1.5
"""Side of the crop, in sizes of the face: what the network was trained with."""

SURE: Final = 1 / (1 + math.exp(-15.0))
"""Presence that is only reached the right way up. People at a webcam have more from the second look on; a face that is
read upside down or sideways has up to 0.9999996 and looks as present as any to a lower bar."""
_BETTER: Final = 7.4
"""How many times as likely it has to be than the way the detector said: two, as a logit."""

_EYES: Final = (33, 263)
_RIGHT_LIDS, _LEFT_LIDS = REFINED_RIGHT_EYE[:16], REFINED_LEFT_EYE[:16]


def region_of_detection(face: Detection) -> Region:
    """Where to look for the landmarks of a face that a detector found."""
    dx, dy = (face.keypoints[1] - face.keypoints[0]).tolist()
    x, y = face.centre.tolist()
    return Region(x, y, face.size * _MARGIN, math.atan2(dy, dx))


def region_of_points(points: Floats) -> Region:
    """Where to look for a face that was seen in the frame before.

    Args:
        points: (N, 2 or 3) landmarks, pixels of the frame.
    """
    flat = points[:POINTS, :2]
    low, high = flat.min(0), flat.max(0)
    x, y = ((low + high) / 2).tolist()
    dx, dy = (flat[_EYES[1]] - flat[_EYES[0]]).tolist()
    return Region(x, y, float((high - low).max()) * _MARGIN, math.atan2(dy, dx))


def same_face(points: Floats, others: Floats) -> bool:
    """Whether two meshes, (N, 2 or 3) pixels of one frame, are of one face."""
    apart = float(np.linalg.norm(points[:, :2].mean(0) - others[:, :2].mean(0)))
    return apart < float(np.ptp(others[:, 0])) / 3


class LandmarkNetwork:
    """Reads the landmarks of one face out of a region of the frame.

    Args:
        points: 468, or 478 for refined lips, lids and irises at twice the cost.

    Raises:
        EngineError: The network cannot be opened or is not this one.
    """

    def __init__(self, points: int = POINTS) -> None:
        self.points = points
        self.network: Network = open_network(WEIGHTS / _FILES[points], hint=SHIPPED)
        self._side = self.network.input_specs[0].shape[1]
        self._cropper = Cropper(self._side)
        # Exporters name outputs as they like; sizes and order tell them apart.
        by_size: dict[int, list[Array]] = {}
        for out in self.network.outputs:
            by_size.setdefault(out.size, []).append(out.reshape(-1))
        refined = {142: 2, 160: 1, 10: 2} if points == REFINED_POINTS else {}
        if {size: len(outs) for size, outs in by_size.items()} != {1: 1, POINTS * 3: 1, **refined}:
            raise EngineError(
                f"{self.network.name} is not the landmark network it should be.", "Install doppelcam again."
            )
        self._presence = by_size[1][0]
        # The refined network ends in a sigmoid, the plain one in a logit.
        self._is_logit = not refined
        self._mesh = by_size[POINTS * 3][0].reshape(POINTS, 3)
        self._refined = [
            (list(where), by_size[len(where) * 2][order].reshape(-1, 2))
            for where, order in (
                (REFINED_LIPS, 0), (REFINED_RIGHT_EYE, 0), (REFINED_LEFT_EYE, 1), (RIGHT_IRIS, 0), (LEFT_IRIS, 1),
            )
            if refined
        ]  # fmt: skip

    def read(self, image: Image, region: Region) -> Landmarks:
        """Reads one face.

        Args:
            image: The frame, BGR.
            region: Where the face is.

        Returns:
            The landmarks, in pixels of the frame. Their patch is overwritten by the next call.
        """
        patch = self.network.inputs[0][0]
        affine = self._cropper.read(image, region, patch, 0.0, 255.0)
        self.network.run()
        crop = np.empty((self.points, 3), np.float32)
        crop[:POINTS] = self._mesh
        for where, values in self._refined:
            crop[where, :2] = values
        if self._refined:
            crop[list(RIGHT_IRIS), 2] = self._mesh[list(_RIGHT_LIDS), 2].mean()
            crop[list(LEFT_IRIS), 2] = self._mesh[list(_LEFT_LIDS), 2].mean()
        back = inverse_of(affine)
        crop[:, :2] = crop[:, :2] @ back[:, :2].T + back[:, 2]
        crop[:, 2] *= region.size / self._side
        presence = float(self._presence[0])
        if self._is_logit:
            presence = 1 / (1 + math.exp(-min(max(presence, -60.0), 60.0)))
        return Landmarks(crop, presence, Patch(patch, affine))

    def acquire(self, image: Image, region: Region, passes: int = 3) -> Landmarks:
        """Reads a face whose region is only roughly known: each pass looks where the last one found it.

        Detectors find heads that lie or hang, and are wrong about which way up they are. Where the network is less
        than :data:`SURE` the other three ways are tried, and the likeliest is taken.

        Args:
            image: The frame, BGR.
            region: About where the face is.
            passes: How often to look, one way up.

        Returns:
            The landmarks, as :meth:`read` gives them; of presence 0 if it is up another way and cannot be read so.
        """
        found = self.read(image, region)
        if found.presence > 0.5:
            found = self._again(image, found, passes - 1)
            if found.presence >= SURE:
                return found
        turned = [
            self.read(image, Region(region.x, region.y, region.size, region.angle + turns * math.pi / 2))
            for turns in (1, 2, 3)
        ]
        other = max(turned, key=lambda landmarks: landmarks.presence)
        if other.presence > 0.5 and _odds(other.presence) > _BETTER * _odds(found.presence):
            other = self._again(image, other, passes - 1)
            return other if other.presence >= SURE else replace(other, presence=0.0)
        # Once more, for the patch, too.
        return self._again(image, found, 1 if found.presence > 0.5 else passes - 1)

    def _again(self, image: Image, found: Landmarks, passes: int) -> Landmarks:
        for _ in range(passes):
            found = self.read(image, region_of_points(found.points))
        return found

    def close(self) -> None:
        """Frees the network."""
        self.network.close()


def _odds(presence: float) -> float:
    return presence / max(1 - presence, 1e-9)
