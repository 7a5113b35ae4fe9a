"""Faces followed from frame to frame: each landmark run looks where the last one found the face.

The detector rests while every wanted face is followed. While one is missing it takes its turn, sooner or later as
there is motion (see :mod:`realtime.tracking.attention`), and it comes at once when somebody was lost or nobody is
left; where it looks then, :mod:`realtime.tracking.finder` says. Crop and hand-over between detector and landmarks are
those of MediaPipe's face mesh.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from engines.analysis.landmarks import region_of_detection, region_of_points, same_face
from engines.analysis.networks import Networks, ReadsLandmarks, open_networks
from engines.analysis.topology import OVAL
from engines.errors import EngineError
from engines.faces import Detection, Face, Floats, Image, Landmarks, Region
from engines.swap.base import Progress
from realtime.choosing.select import Selector
from realtime.tracking.attention import BRISK, STILL, Attention
from realtime.tracking.continuity import Continuity, likeness, look_of
from realtime.tracking.finder import Finder
from realtime.tracking.missing import Missing
from realtime.tracking.predict import Lookahead, Predictor
from realtime.tracking.realign import Realigner
from realtime.tracking.smooth import OneEuro, OneEuroSettings

KEEP: Final = 0.5
"""Presence below which a followed face is lost."""
ACQUIRE: Final = 0.7
"""Presence a newly found face must have."""
_SMALL: Final = 48.0
_ACQUIRE_SMALL: Final = 0.9999
"""Width, pixels, below which a newly found face must have more: of few pixels a wrong one is easily made."""
_STILL: Final = 0.012
"""Moves below this part of the crop's side, and turns below twice as many radians, leave the crop where it is."""
_MOST_VAIN: Final = 1
"""What may turn out to be no face in one look: it costs as much as eight followed ones do."""
_SETTLED: Final = 0.012
"""Crop sides by which a newly found face may be off the middle of the crop it was read from, and half of what it may
be larger or smaller: what wanders from read to read is not where it seems to be."""
_WANDERS: Final = 20
"""Frames after which a face that never settled is none."""
_SURER: Final = 0.1
"""Likeness by which one of two tracks on one face must be ahead to be believed for its look alone."""
_NEARER: Final = 0.05
"""Crop sides by which it must be nearer to where it should be, if both look alike; else the chosen one stays."""


@dataclass(slots=True, eq=False)
class _Track:
    number: int
    region: Region
    slot: int
    """Which landmark network is its own, since that keeps the crop it read."""
    smooth: OneEuro = field(default_factory=OneEuro)
    continuity: Continuity = field(default_factory=Continuity)
    ahead: Predictor | None = None
    wandered: int = 0
    """Frames since it was found in which it had not settled; −1 once it has."""
    held_until_ns: int = 0
    """Until when it is not to be chosen: it is where somebody else is missing."""


@dataclass(slots=True, eq=False)
class _Reading:
    """What was read for one track in this frame."""

    track: _Track
    found: Landmarks
    region: Region
    look: Floats
    place: Floats

    @classmethod
    def of(cls, track: _Track, found: Landmarks) -> _Reading:
        """What can be told from landmarks that may be a face's."""
        region = region_of_points(found.points)
        place = np.array([region.x, region.y, region.size], np.float32)
        return cls(track, found, region, look_of(found.patch), place)

    def against(self, other: _Reading, now_ns: int) -> bool:
        """Whether this track has a better claim than another one to the face that both ended on."""
        mine, theirs = (likeness(one.track.continuity.look, one.look) for one in (self, other))
        if abs(mine - theirs) > _SURER:
            return mine > theirs
        off, their_off = (one.track.continuity.apart(one.place, now_ns) for one in (self, other))
        return off < their_off - _NEARER


class Tracker:
    """Follows up to ``max_faces`` faces and says which of them are to be swapped. Used by one thread.

    Args:
        points: 468 or 478 landmarks.
        selector: Who is swapped; it says how many faces it wants to choose from.
        detect_every: The detector's turn, frames: the base that motion shortens and stillness lengthens.
        networks: What opens the networks; those that ship with the program by default.
        longest: The most frames from one turn to the next, however still it is.
        ahead: By how much landmarks are carried ahead; None for not at all.
    """

    def __init__(
        self, points: int, selector: Selector, detect_every: int = 10,
        networks: Callable[[int, int], Networks] = open_networks,
        longest: int = STILL,
        ahead: Lookahead | None = None,
    ) -> None:  # fmt: skip
        self._points, self._wanted = points, selector.candidates
        self._selector = selector
        self.attention = Attention(detect_every, longest)
        self._finder = Finder(self.attention)
        self._open_networks = networks
        self._ahead = ahead
        self._networks: Networks | None = None
        self._tracks: list[_Track] = []
        self._numbers = 0
        self._turn = 0
        self._chosen: set[int] = set()
        self._missing = Missing()
        self._realigner = Realigner()
        self._smoothing = OneEuroSettings()
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
        return bool(self._missing) or self._selector.missing

    @property
    def nodes(self) -> dict[str, Mapping[str, int]]:
        """Where every network really runs: nodes per provider. Known once opened."""
        return self._networks.nodes() if self._networks else {}

    @property
    def smoothing(self) -> OneEuroSettings:
        """How still landmarks are held. Set it between frames only; tracks go on."""
        return self._smoothing

    @smoothing.setter
    def smoothing(self, settings: OneEuroSettings) -> None:
        self._smoothing = settings
        for track in self._tracks:
            track.smooth.settings = settings

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
        networks.begin(image, now_ns)
        faces = self._follow(networks, image, now_ns)
        self._turn += 1
        if len(faces) < self._wanted:
            self.attention.notice(image, faces)
            faces += self._find(networks, image, now_ns, faces)
        else:
            self._finder.forget()
            self.skipped_detections += 1
        self._selector.recognise(networks.identity, image, faces, now_ns)
        held = {track.number for track in self._tracks if self._is_held(track, now_ns)}
        free = [face for face in faces if face.track not in held]
        chosen = self._selector.choose(free, (image.shape[1], image.shape[0]), now_ns)
        if self._selector.complete:
            self._missing.found()
        self._chosen = {face.track for face in chosen}
        self.others = [face for face in faces if face.track not in self._chosen]
        return self._realigner.align(networks.landmarker, image, chosen, now_ns)

    def look_on(self) -> None:
        """Takes the look that waits, if one does; between two frames it makes none late. Else the next frame does."""
        if self._networks is not None:
            self._finder.look_on()

    def close(self) -> None:
        """Frees the networks; may be called twice."""
        self._finder.forget()
        if self._networks is not None:
            self._networks.close()
        self._networks = None
        self._tracks.clear()

    def _is_held(self, track: _Track, now_ns: int) -> bool:
        """Whether it is followed and cannot be chosen yet."""
        if track.wandered >= 0:
            return True
        return self.lost and now_ns < track.held_until_ns and not self._selector.recognises(track.number)

    def _follow(self, networks: Networks, image: Image, now_ns: int) -> list[Face]:
        readers, readings = self._readers(networks), []
        # The chosen first: of two tracks that end on one face, theirs has the prior claim.
        for track in sorted(self._tracks, key=lambda track: track.number not in self._chosen):
            found = readers[track.slot].read(image, track.region)
            if found.presence < KEEP or not _plausible(found.points, image) or track.wandered > _WANDERS:
                continue
            reading = _Reading.of(track, found)
            if not track.continuity.broken(reading.place, reading.look, now_ns):
                readings.append(reading)
        kept: list[_Reading] = []
        for reading in readings:
            rival = next((one for one in kept if same_face(one.found.points, reading.found.points)), None)
            if rival is None:
                kept.append(reading)
            elif reading.against(rival, now_ns):
                kept[kept.index(rival)] = reading
        followed = [reading.track for reading in kept]
        self._missing.expire(now_ns)
        for track in self._tracks:
            if track.number in self._chosen and track not in followed:
                self._missing.went(track.region, track.continuity.look, image, now_ns)
        self._tracks = followed
        return [self._face(reading, now_ns) for reading in kept]

    def _find(self, networks: Networks, image: Image, now_ns: int, known: Sequence[Face]) -> list[Face]:
        """Newcomers, as far as this frame is one to look for them in, or one before was."""
        looked = self.detections
        for detections in self._looks(networks, image, now_ns, known):
            found, vain = self._acquired(detections, networks, image, now_ns, known)
            # What one look takes for a face may be none, and another may see somebody; in the next frame, then.
            if found or vain:
                break
        else:
            found = []
        self.skipped_detections += self.detections == looked
        return found

    def _looks(
        self, networks: Networks, image: Image, now_ns: int, known: Sequence[Face]
    ) -> Iterator[Sequence[Detection]]:
        """What the looks find that count in this frame, one after the other, as far as they are asked for."""
        waited = self._finder.waited(image, now_ns)
        if not known or self.lost:
            self._looked()
            yield from self._finder.urgent(networks, image)
            # Last, because it knows of a frame in which whoever is missed may still have been seen.
            yield waited
            return
        if waited:
            yield waited
        news = self.attention.news is not None and self._turn >= BRISK[0] * self.attention.rest
        interval = self.attention.interval
        # What is found later counts one frame later, so it is looked for one frame sooner.
        sooner = networks.later and interval > 1
        if news or (self._turn >= interval and not sooner):
            self._looked()
            yield self._finder.now(networks, image, now_ns)
        elif sooner and self._turn >= interval - 1:
            self._looked()
            self._finder.later(networks, image)

    def _looked(self) -> None:
        self._turn = 0
        self.detections += 1

    def _acquired(
        self, detections: Sequence[Detection], networks: Networks, image: Image, now_ns: int,
        known: Sequence[Face],
    ) -> tuple[list[Face], int]:  # fmt: skip
        """The faces among what a detector saw, and how much of it was read in vain."""
        faces: list[Face] = []
        vain = 0
        for detection in self._finder.in_turn(detections):
            if len(self._tracks) == self._wanted or vain == _MOST_VAIN:
                break
            if any(_covers(track.region, detection) for track in self._tracks):
                continue
            slot = min(set(range(self._wanted)) - {track.slot for track in self._tracks})
            found = self._readers(networks)[slot].acquire(image, region_of_detection(detection))
            if (
                found.presence < (ACQUIRE if np.ptp(found.points[:, 0]) >= _SMALL else _ACQUIRE_SMALL)
                or not _plausible(found.points, image)
                or any(same_face(found.points, face.points) for face in (*known, *faces))
            ):
                vain += 1
                self._finder.refuse(detection, now_ns)
                continue
            faces.append(self._begun(slot, found, now_ns))
        return faces, vain

    def _begun(self, slot: int, found: Landmarks, now_ns: int) -> Face:
        """A new track."""
        self._numbers += 1
        track = _Track(self._numbers, region_of_points(found.points), slot, OneEuro(self._smoothing))
        if self._ahead is not None:
            track.ahead = Predictor(self._ahead)
        reading = _Reading.of(track, found)
        track.held_until_ns = self._missing.came(track.region, reading.look, now_ns)
        self._tracks.append(track)
        return self._face(reading, now_ns)

    def _readers(self, networks: Networks) -> Sequence[ReadsLandmarks]:
        return networks.plain if self.plain and networks.plain else networks.landmarks

    @staticmethod
    def _face(reading: _Reading, now_ns: int) -> Face:
        track, found = reading.track, reading.found
        # The crop follows what was seen, not what was smoothed, or it would trail behind.
        if track.wandered >= 0:
            track.wandered = -1 if _settled(found, reading.region) else track.wandered + 1
        track.region = steady(track.region, reading.region)
        track.continuity.goes_on(reading.place, reading.look, now_ns)
        points = track.smooth(found.points, track.region.size, now_ns)
        if track.ahead is not None:
            points = track.ahead(points, now_ns)
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


def _covers(region: Region, detection: Detection) -> bool:
    x, y = map(float, detection.centre)
    return max(abs(x - region.x), abs(y - region.y)) < region.size / 3


def _settled(found: Landmarks, region: Region) -> bool:
    """Whether a face is in the middle of the crop it was read from, and as large as it should be there."""
    affine, side = found.patch.affine, found.patch.image.shape[0]
    scale = float(np.hypot(affine[0, 0], affine[0, 1]))
    if not scale:
        return True
    middle = affine[:, :2] @ np.array([region.x, region.y], np.float32) + affine[:, 2]
    off = float(np.abs(middle - side / 2).max()) / side
    return off < _SETTLED and bool(abs(region.size * scale / side - 1) < 2 * _SETTLED)
