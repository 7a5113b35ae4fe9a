"""What a tracker sees with: detectors and landmark networks, whichever they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol, TypeVar

from engines.analysis.detect import Detector
from engines.analysis.embed import Embedder
from engines.analysis.landmarker import Landmarker
from engines.analysis.landmarks import LandmarkNetwork
from engines.analysis.topology import POINTS
from engines.faces import Detection, Image, Landmarks, Region


class RunsSomewhere(Protocol):
    """What is told about a network, whatever runs it; see :class:`~engines.runtime.base.Network`."""

    @property
    def name(self) -> str:
        """What to call it in a message."""
        ...

    @property
    def nodes(self) -> Mapping[str, int]:
        """How many nodes of its graph run on which provider."""
        ...


class HasNetwork(Protocol):
    """A part that runs one network."""

    @property
    def network(self) -> RunsSomewhere:
        """The network."""
        ...

    def close(self) -> None:
        """Frees it."""
        ...


Part = TypeVar("Part", bound=HasNetwork)


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
        far: For those far away; asked when the first one finds nobody. The same one where it finds both.
        landmarks: One per face, since each keeps the crop it read.
        plain: The same with fewer landmarks, for when there is no time; empty for none.
        identity: Tells who a face is; None for nobody.
        landmarker: Finds the points that neural swappers are aligned by; None for those of the mesh.
        later: Whether a detector may look at a picture of the frame when that is gone.
        begin: Told of each frame and when it was captured, ns, before anything else is asked about it.
    """

    near: FindsFaces
    far: FindsFaces
    landmarks: Sequence[ReadsLandmarks]
    plain: Sequence[ReadsLandmarks] = ()
    identity: Embedder | None = None
    landmarker: Landmarker | None = None
    later: bool = False
    begin: Callable[[Image, int], None] = lambda image, now_ns: None

    @property
    def detectors(self) -> Sequence[FindsFaces]:
        """Each of them once, in the order in which they are asked."""
        return (self.near,) if self.far is self.near else (self.near, self.far)

    def nodes(self) -> dict[str, Mapping[str, int]]:
        """Nodes per provider of each network."""
        return {part.network.name: part.network.nodes for part in self._parts()}

    def close(self) -> None:
        """Frees all of them."""
        for part in self._parts():
            part.close()

    def _parts(self) -> Sequence[HasNetwork]:
        more = [part for part in (self.identity, self.landmarker) if part is not None]
        return (*self.detectors, *self.landmarks, *self.plain, *more)


def open_networks(
    points: int, count: int, plain: bool = False, *,
    detector: Callable[[], FindsFaces] | None = None,
    identity: Callable[[], Embedder] | None = None,
    landmarker: Callable[[], Landmarker] | None = None,
) -> Networks:  # fmt: skip
    """The networks that ship with the program, or others in their place.

    Args:
        points: 468 or 478 landmarks.
        count: How many faces are followed.
        plain: Open those for 468 landmarks beside those for 478, to turn to when there is no time.
        detector: Opens a detector in place of the two that ship with the program.
        identity: Opens an identity network.
        landmarker: Opens a network for the alignment of neural swappers.

    Raises:
        EngineError: A network cannot be opened.
    """
    with ExitStack() as undo:

        def opened(part: Part) -> Part:
            undo.callback(part.close)
            return part

        near: FindsFaces = opened(detector() if detector else Detector("near"))
        networks = Networks(
            near=near,
            far=near if detector else opened(Detector("far")),
            landmarks=[opened(LandmarkNetwork(points)) for _ in range(count)],
            plain=[opened(LandmarkNetwork(POINTS)) for _ in range(count)]
            if plain and points != POINTS
            else (),
            identity=opened(identity()) if identity else None,
            landmarker=opened(landmarker()) if landmarker else None,
            later=True,
        )
        undo.pop_all()
    return networks
