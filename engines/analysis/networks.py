"""What a tracker sees with: detectors and landmark networks, whichever they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from engines.analysis.detect import Detector
from engines.analysis.landmarks import LandmarkNetwork
from engines.analysis.topology import POINTS
from engines.faces import Detection, Image, Landmarks, Region
from engines.runtime.base import Network


class HasNetwork(Protocol):
    """A part that runs one network."""

    @property
    def network(self) -> Network:
        """The network."""
        ...

    def close(self) -> None:
        """Frees it."""
        ...


class FindsFaces(HasNetwork, Protocol):
    """What the tracker needs of a detector."""

    def detect(self, image: Image) -> list[Detection]:
        """See :class:`~engines.analysis.detect.Detector`."""
        ...


class ReadsLandmarks(HasNetwork, Protocol):
    """What the tracker needs of a landmark network."""

    def read(self, image: Image, region: Region) -> Landmarks:
        """See :class:`~engines.analysis.landmarks.LandmarkNetwork`."""
        ...

    def acquire(self, image: Image, region: Region, passes: int = 3) -> Landmarks:
        """See :class:`~engines.analysis.landmarks.LandmarkNetwork`."""
        ...


@dataclass(frozen=True, slots=True)
class Networks:
    """What a tracker sees with.

    Attributes:
        near: For faces near the camera.
        far: For those far away; asked when the first one finds nobody.
        landmarks: One per face, since each keeps the crop it read.
        plain: The same with fewer landmarks, for when there is no time; empty for none.
    """

    near: FindsFaces
    far: FindsFaces
    landmarks: Sequence[ReadsLandmarks]
    plain: Sequence[ReadsLandmarks] = ()

    def nodes(self) -> dict[str, Mapping[str, int]]:
        """Nodes per provider of each network."""
        parts: tuple[HasNetwork, ...] = (self.near, self.far, *self.landmarks, *self.plain)
        return {part.network.name: part.network.nodes for part in parts}

    def close(self) -> None:
        """Frees all of them."""
        for part in (self.near, self.far, *self.landmarks, *self.plain):
            part.close()


def open_networks(points: int, count: int, plain: bool = False) -> Networks:
    """The networks that ship with the program.

    Args:
        points: 468 or 478 landmarks.
        count: How many faces are followed.
        plain: Open those for 468 landmarks beside those for 478, to turn to when there is no time.

    Raises:
        EngineError: A network cannot be opened.
    """
    spare = [LandmarkNetwork(POINTS) for _ in range(count)] if plain and points != POINTS else []
    return Networks(Detector("near"), Detector("far"), [LandmarkNetwork(points) for _ in range(count)], spare)
