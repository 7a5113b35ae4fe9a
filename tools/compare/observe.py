"""Eyes of our own: landmarks of the live and of the output picture, apart from the tracker that is measured."""

from __future__ import annotations

from typing import Final

from engines.analysis.detect import Detector
from engines.analysis.landmarks import LandmarkNetwork, region_of_detection, region_of_points
from engines.analysis.topology import POINTS, REFINED_POINTS
from engines.faces import Floats, Image

_PRESENT: Final = 0.5
_PASSES: Final = 10
"""Some photos need this many until the landmarks stay where they are, and identity hangs on half a pixel."""


class Observer:
    """Follows the live face by one unfiltered pass a frame, and reads outputs where the live face is.

    Raises:
        EngineError: A network cannot be opened.
    """

    def __init__(self) -> None:
        self._mesh = LandmarkNetwork(POINTS)
        self._refined = LandmarkNetwork(REFINED_POINTS)
        self._detectors = (Detector("near"), Detector("far"))
        self._last: Floats | None = None

    def forget(self) -> None:
        """Begins a new clip."""
        self._last = None

    def find(self, image: Image) -> Floats | None:
        """(468, 3) landmarks of the largest face, None where there is none."""
        for detector in self._detectors:
            for face in detector.detect(image)[:1]:
                found = self._mesh.acquire(image, region_of_detection(face), _PASSES)
                if found.presence >= _PRESENT:
                    return found.points
        return None

    def follow(self, image: Image) -> Floats | None:
        """(468, 3) landmarks of the face of the frame before in the next live frame; None where it is gone."""
        if self._last is not None:
            found = self._mesh.read(image, region_of_points(self._last))
            self._last = found.points if found.presence >= _PRESENT else None
        if self._last is None:
            self._last = self.find(image)
        return self._last

    def mesh(self, image: Image, near: Floats) -> Floats:
        """(468, 3) landmarks, read in one pass where other landmarks are."""
        return self._mesh.read(image, region_of_points(near)).points

    def refined(self, image: Image, near: Floats) -> Floats:
        """(478, 3) landmarks with lids and irises, read in one pass where other landmarks are."""
        return self._refined.read(image, region_of_points(near)).points

    def close(self) -> None:
        """Frees the networks."""
        for network in (self._mesh, self._refined, *self._detectors):
            network.close()
