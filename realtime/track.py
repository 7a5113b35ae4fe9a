"""Faces followed from frame to frame: each landmark run looks where the last one found the face.

The detector rests while every wanted face is followed. While one is missing it takes its turn, sooner or later as
there is motion (see :mod:`realtime.attention`), and it comes at once when somebody was lost or nobody is left. Crop
and hand-over between detector and landmarks are those of MediaPipe's face mesh.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from engines.analysis.landmarks import region_of_detection, region_of_points
from engines.analysis.networks import Networks, ReadsLandmarks, open_networks
from engines.analysis.topology import OVAL
from engines.errors import EngineError
from engines.faces import Detection, Face, Floats, Image, Landmarks, Region
from engines.swap.base import Progress
from realtime.attention import Attention
from realtime.select import Selector
from realtime.smooth import OneEuro

KEEP: Final = 0.5
"""Presence below which a followed face is lost."""
ACQUIRE: Final = 0.7
"""Presence a newly found face must have."""
_STILL: Final = 0.012
"""Moves below this part of the crop's side, and turns below twice as many radians, leave the crop where it is."""
_LEFT_NS: Final = 1_500_000_000
_HIDDEN_NS: Final = 30_000_000_000
"""How long a face that is not seen any more counts as there, if it was at the border of the picture when it went, and
if it was not: who leaves, leaves over the border; who is hidden or turned away is still there."""


@dataclass(slots=True, eq=False)
class _Track:
    number: int
    region: Region
    smooth: OneEuro = field(default_factory=OneEuro)


@dataclass(frozen=True, slots=True)
class _Gone:
    """A face that was followed and is not seen any more."""

    region: Region
    until_ns: int


class Tracker:
    """Follows up to ``max_faces`` faces and says which of them are to be swapped. Used by one thread.

    Args:
        points: 468 or 478 landmarks.
        selector: Who is swapped; it says how many faces it wants to choose from.
        detect_every: The detector's turn, frames: the base that motion shortens and stillness lengthens.
        networks: What opens the networks; those that ship with the program by default.
    """

    def __init__(
        self, points: int, selector: Selector, detect_every: int = 10,
        networks: Callable[[int, int], Networks] = lambda points, count: open_networks(points, count),
    ) -> None:  # fmt: skip
        self._points, self._wanted = points, selector.candidates
        self._selector = selector
        self.attention = Attention(detect_every)
        self._open_networks = networks
        self._networks: Networks | None = None
        self._tracks: list[_Track] = []
        self._numbers = 0
        self._turn = 0
        self._chosen: set[int] = set()
        self._gone: list[_Gone] = []
        self.detections = 0
        """How often a detector ran."""
        self.skipped_detections = 0
        """Frames in which none did."""
        self.others: Sequence[Face] = ()
        """Faces of the last frame that are followed and were not chosen."""
        self.plain = False
        """Whether to read fewer landmarks, where the networks for that were opened. Tracks go on."""

    @property
    def lost(self) -> bool:
        """Whether a face that was followed a moment ago is not seen: it may still be there, and bare."""
        return bool(self._gone)

    @property
    def nodes(self) -> dict[str, Mapping[str, int]]:
        """Where every network really runs: nodes per provider. Known once opened."""
        return self._networks.nodes() if self._networks else {}

    def open(self, progress: Progress) -> None:
        """Opens the networks.

        Args:
            progress: Told what is being opened.

        Raises:
            EngineError: A network cannot be opened.
        """
        progress("face detectors and landmarks")
        self._networks = self._open_networks(self._points, self._wanted)

    def track(self, image: Image, now_ns: int) -> list[Face]:
        """Finds the faces to be swapped in one frame.

        Args:
            image: The frame, BGR.
            now_ns: When it was captured.

        Returns:
            The chosen faces; their patches are valid until the next call. Empty if nobody can be trusted.
        """
        networks = self._networks
        if networks is None:
            raise EngineError("The tracker is used before it was opened.")
        faces = self._follow(networks, image, now_ns)
        self._turn += 1
        if len(faces) < self._wanted:
            self.attention.notice(image, faces)
        missed = not faces or self.lost
        if len(faces) < self._wanted and (missed or self._turn >= self.attention.interval):
            self._turn = 0
            faces += self._find(networks, image, now_ns, faces)
        else:
            self.skipped_detections += 1
        chosen = self._selector.choose(faces, (image.shape[1], image.shape[0]), now_ns)
        self._chosen = {face.track for face in chosen}
        self.others = [face for face in faces if face.track not in self._chosen]
        return chosen

    def close(self) -> None:
        """Frees the networks; may be called twice."""
        if self._networks is not None:
            self._networks.close()
        self._networks = None
        self._tracks.clear()

    def _follow(self, networks: Networks, image: Image, now_ns: int) -> list[Face]:
        faces: list[Face] = []
        kept: list[_Track] = []
        for track in self._tracks:
            found = self._readers(networks)[len(kept)].read(image, track.region)
            if found.presence < KEEP or not _plausible(found.points, image) or _known(found.points, faces):
                continue
            kept.append(track)
            faces.append(self._face(track, found, now_ns))
        self._gone = [gone for gone in self._gone if now_ns < gone.until_ns]
        self._gone += [
            _Gone(track.region, now_ns + (_LEFT_NS if _at_border(track.region, image) else _HIDDEN_NS))
            for track in self._tracks
            if track.number in self._chosen and track not in kept
        ]
        self._tracks = kept
        return faces

    def _find(self, networks: Networks, image: Image, now_ns: int, known: Sequence[Face]) -> list[Face]:
        self.detections += 1
        if known and not self.lost:
            # Nobody is waited for: one detector at a turn, so that no frame pays for both.
            detector = networks.far if self.detections % 2 else networks.near
            return self._acquired(detector.detect(image), networks, image, now_ns, known)
        found = self._acquired(networks.near.detect(image), networks, image, now_ns, known)
        # What the near detector takes for a face may be none, and somebody may be further away.
        return found or self._acquired(networks.far.detect(image), networks, image, now_ns, known)

    def _acquired(
        self,
        detections: Sequence[Detection],
        networks: Networks,
        image: Image,
        now_ns: int,
        known: Sequence[Face],
    ) -> list[Face]:
        faces: list[Face] = []
        for detection in detections:
            if len(self._tracks) == self._wanted:
                break
            if any(_covers(track.region, detection) for track in self._tracks):
                continue
            reader = self._readers(networks)[len(self._tracks)]
            found = reader.acquire(image, region_of_detection(detection))
            if found.presence < ACQUIRE or not _plausible(found.points, image):
                continue
            if _known(found.points, [*known, *faces]):
                continue
            self._numbers += 1
            track = _Track(self._numbers, region_of_points(found.points))
            self._gone = [gone for gone in self._gone if not _same_place(gone.region, track.region)]
            self._tracks.append(track)
            faces.append(self._face(track, found, now_ns))
        return faces

    def _readers(self, networks: Networks) -> Sequence[ReadsLandmarks]:
        return networks.plain if self.plain and networks.plain else networks.landmarks

    @staticmethod
    def _face(track: _Track, found: Landmarks, now_ns: int) -> Face:
        # The crop follows what was seen, not what was smoothed, or it would trail behind.
        track.region = steady(track.region, region_of_points(found.points))
        points = track.smooth(found.points, track.region.size, now_ns)
        return Face(track.number, points, found.presence, found.patch)


def _plausible(points: Floats, image: Image) -> bool:
    """Whether the mesh can be a face of this frame: finite, of some size, and not mostly outside."""
    if not np.isfinite(points).all():
        return False
    oval = points[list(OVAL), :2]
    low, high = oval.min(0), oval.max(0)
    height, width = image.shape[:2]
    inside = np.minimum(high, (width, height)) - np.maximum(low, 0)
    large_enough = float((high - low).min()) >= 8
    return large_enough and bool((inside > 0.3 * (high - low)).all())


def steady(before: Region, now: Region) -> Region:
    """The region to read next: where it was, if the face has hardly moved.

    A crop that follows every flutter of the landmarks changes what the network sees, and so the landmarks: on a still
    head the two chase each other without end.
    """
    near = max(abs(now.x - before.x), abs(now.y - before.y)) < _STILL * before.size
    like = abs(now.size / before.size - 1) < 2 * _STILL and abs(now.angle - before.angle) < 2 * _STILL
    return before if near and like else now


def _at_border(region: Region, image: Image) -> bool:
    """Whether a face was about to leave the picture."""
    height, width = image.shape[:2]
    reach = region.size / 2
    return not (reach < region.x < width - reach and reach < region.y < height - reach)


def _same_place(before: Region, now: Region) -> bool:
    apart = max(abs(before.x - now.x), abs(before.y - now.y))
    return apart < before.size and 0.5 * before.size < now.size < 2 * before.size


def _covers(region: Region, detection: Detection) -> bool:
    x, y = map(float, detection.centre)
    return max(abs(x - region.x), abs(y - region.y)) < region.size / 3


def _known(points: Floats, faces: Sequence[Face]) -> bool:
    """Whether two tracks ended on one face."""
    centre = points[:, :2].mean(0)
    return any(float(np.linalg.norm(centre - face.points[:, :2].mean(0))) < face.width / 3 for face in faces)
