"""The embedded swapper: the photo is a texture, the tracked mesh says where each triangle of it goes.

Expression, pose and speech follow by construction, and the skin keeps the photo's own resolution. No weights of its
own, no GPU. See ``docs/mesh-swap.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from engines.analysis.source import SourceFace
from engines.analysis.topology import OVAL, POINTS, triangles
from engines.errors import EngineError, PhotoError
from engines.faces import Array, Face, Floats, Image
from engines.kernels import blobs, cpu, edges, relight, rims, strokes
from engines.kernels import cover as cover_kernels
from engines.kernels import lids as lids_kernels
from engines.kernels.ready import make_ready
from engines.swap.base import Progress
from engines.swap.mesh.cover import Acquaintance, Cover, Covers
from engines.swap.mesh.eyes import EyeColours
from engines.swap.mesh.kept import Keeper, drawn
from engines.swap.mesh.lids import Lids
from engines.swap.mesh.light import Light, plain_skin, sample
from engines.swap.mesh.openings import EYES, MOUTH, Opening, Openings
from engines.swap.mesh.shape import USUAL, Proportions, mean_shape
from engines.swap.mesh.spectacles import worn
from engines.swap.mesh.texture import EYE_HOLES, LASHED_EYE_HOLES, MOUTH_HOLE, Texture, unwrap

_EDGE_ON: Final = (0.02, 0.30)
"""Skin that looks at the camera less than this (cosine) fades out towards the first number."""
_FOLLOW: Final = 0.4
"""How fast gains follow the light: part of the way per frame."""
_LEARN_COMPLEXION: Final = 15
"""Frames over which it is learnt how fair the photo's skin is beside the live one."""
_COVERS: Final = 0.3
"""Part of the face that must be painted, of what is painted on one that looks straight at the camera. A profile has
about a half."""
_KNOWN: Final = 0.35
"""Part of a face's plain skin that its photos must show."""
_REMEMBERED: Final = 16
"""People whose shape and light are kept, the latest ones."""


@dataclass(frozen=True, slots=True)
class Looks:
    """What of the live face stays, and what is the photo's.

    Attributes:
        shape: How far the live face takes on the photo's proportions, 0…1.
        eyes: ``live`` eyes in live openings; ``mixed``: the photo's lids and colours, the live gaze and blinks; or
            ``photo``, which looks straight ahead for ever.
        mouth: ``live`` teeth and tongue between the photo's lips, or all of it from the ``photo``.
        occluders: What is before the face, a hand, a microphone, a mask, stays ``live``, or the new face is painted
            over it: ``cover``.
    """

    shape: float = USUAL
    eyes: Literal["live", "mixed", "photo"] = "mixed"
    mouth: Literal["live", "photo"] = "live"
    occluders: Literal["live", "cover"] = "live"


@dataclass(frozen=True, slots=True)
class MeshLayer:
    """What :meth:`MeshSwapper.swap` works out for one face.

    Attributes:
        xy: (468, 2) float32, pixels of the frame.
        gain: (468, 4) float32: factors of B, G, R and of the opacity divided by 255.
        order: (T, 3) int32: the triangles in the order in which they are painted.
        level: Which level of the texture to paint from.
        openings: The live eyes and mouth, to be painted first.
        cover: What is before the face, to be put back last; None if nothing is.
    """

    xy: Floats
    gain: Floats
    order: Array
    level: int
    openings: Sequence[Opening]
    cover: Cover | None = None


@dataclass(slots=True)
class _Person:
    """What was learnt about one tracked person."""

    proportions: Proportions
    lids: Lids = field(default_factory=Lids)
    gain: Floats | None = None
    fairer: float = 0.0
    lit: int = 0
    """In how many frames its complexion was looked at."""
    eyes: list[Floats | None] = field(default_factory=lambda: [None, None])
    face: Acquaintance = field(default_factory=Acquaintance)


class MeshSwapper:
    """Paints one person's face over live faces. See :class:`~engines.swap.base.Swapper`.

    Args:
        sources: One or several photos of one person.
        looks: What stays live.
        landmarks: How many landmarks the tracker is asked for: 468, or 478 for exact lids and lips at twice the
            cost.
    """

    name = "mesh"

    def __init__(self, *sources: SourceFace, looks: Looks | None = None, landmarks: int = POINTS) -> None:
        self.landmarks = landmarks
        self.nodes: Mapping[str, Mapping[str, int]] = {}
        self._sources = sources
        self._shape = mean_shape([source.points for source in sources])
        self._looks = looks or Looks()
        self._texture: Texture | None = None
        self._people: dict[int, _Person] = {}
        self._keeper = Keeper()

    def open(self, progress: Progress) -> None:
        """See :class:`~engines.swap.base.Swapper`."""
        make_ready(progress, cpu, cover_kernels, relight, blobs, edges, rims, strokes, lids_kernels)
        self._covers = None
        if self._looks.occluders == "live":
            wears = any(worn(source.image, source.points) for source in self._sources)
            self._covers = Covers(spectacles=not wears)
        names = ", ".join(source.name for source in self._sources)
        progress(f"face of {names}")
        eyes, mouth = self._looks.eyes, self._looks.mouth
        eye_holes = {"live": EYE_HOLES, "mixed": LASHED_EYE_HOLES, "photo": ()}[eyes]
        holes = eye_holes + (MOUTH_HOLE if mouth == "live" else ())
        texture = unwrap(*self._sources, holes=holes)
        self._light = Light()
        self._photo_light, self._known = _photo_light(texture)
        if float(self._known @ plain_skin()) < _KNOWN * float(plain_skin().sum()):
            raise PhotoError(
                f"{names} shows too little of the face's skin to cover yours with it.",
                "Choose a photo from the front, in even light, with nothing before the face.",
            )
        self._eye_colours = EyeColours(texture) if eyes == "mixed" else None
        self._openings = Openings((EYES if eyes == "mixed" else ()) + (MOUTH if mouth == "live" else ()))
        fixed = sorted({vertex for group in EYES for vertex in group} if eyes == "live" else ())
        self._proportions = Proportions(self._shape, self._looks.shape, fixed)
        self._triangles = np.ascontiguousarray(_visible(texture.levels[-1][:, :, 3] > 0, texture.uv[-1]))
        self._covering = self._known.copy()
        self._covering[list(OVAL)] = 0
        self._covering /= max(float(self._covering.sum()), 1e-6)
        self._facing = np.empty(POINTS, np.float32)
        self._normals = np.empty((POINTS, 3), np.float32)
        self._texture = texture

    def swap(self, image: Image, face: Face) -> MeshLayer | None:
        """See :class:`~engines.swap.base.Swapper`."""
        texture = self._opened()
        live = np.ascontiguousarray(face.points[:POINTS])
        if not np.isfinite(live).all():
            raise EngineError("The landmarks of the live face are not numbers.")
        cpu.facing(live, triangles(), self._normals, self._facing)
        low, high = _EDGE_ON
        opacity = np.clip((self._facing - low) / (high - low), 0, 1)
        if not float(opacity @ self._covering) >= _COVERS:
            # Before anything is learnt from it: such a mesh may be a mistake. One that is huge has no directions at
            # all, and no number is not enough either.
            return None
        person = self._person(face.track)
        gain = np.empty((POINTS, 4), np.float32)
        cover, known = None, self._known
        if self._covers is not None:
            cover = self._covers.look(face.patch, live, person.face)
            known = known * self._covers.bare(person.face)
        if cover is not None and not float((opacity * (1 - cover.vertices)) @ self._covering) >= _COVERS:
            # Hardly anything of the face is seen; and what is before it may be a mistake.
            return None
        cover = None if cover is None else drawn(image, cover)
        gain[:, :3] = self._lit(face, person, known)
        gain[:, 3] = opacity / 255
        lids = (1.0, 1.0) if self._looks.eyes == "live" else person.lids.open(face.patch, live)
        points = live + person.proportions.offset(live, lids)
        openings = self._openings.take(image, live)
        if self._eye_colours is not None:
            for opening in openings:
                if opening.eye is not None:
                    usual = person.eyes[opening.eye]
                    person.eyes[opening.eye] = self._eye_colours.paint(opening, gain[:, :3], usual)
        order, level = self._painting_order(points), texture.level_for(face.width)
        return MeshLayer(np.ascontiguousarray(points[:, :2]), gain, order, level, openings, cover)

    def blend(self, image: Image, layer: MeshLayer) -> None:
        """See :class:`~engines.swap.base.Swapper`."""
        texture = self._opened()
        kept = self._keeper.keep(image, layer.cover) if layer.cover is not None else None
        self._openings.put(image, layer.openings, layer.xy)
        cpu.composite(
            image, texture.levels[layer.level], layer.xy, texture.uv[layer.level], layer.gain, layer.order
        )
        if kept is not None:
            rows, columns, live, amount = kept
            edges.put_back(image[rows, columns], live, amount)

    def close(self) -> None:
        """See :class:`~engines.swap.base.Swapper`."""
        self._texture = None
        self._people.clear()

    @property
    def texture(self) -> Texture:
        """What is painted, for whoever paints it elsewhere.

        Raises:
            EngineError: It is not open.
        """
        return self._opened()

    def _opened(self) -> Texture:
        if self._texture is None:
            raise EngineError("The mesh swapper is used before it was opened.")
        return self._texture

    def _painting_order(self, points: Floats) -> Array:
        """The triangles, the farthest first: on a turned head the nose is painted over the cheek behind it."""
        depth = points[:, 2][self._triangles].sum(1)
        return np.asarray(self._triangles[np.argsort(-depth)])

    def _person(self, track: int) -> _Person:
        person = self._people.pop(track, None)
        if person is None:
            person = _Person(self._proportions.of_another())
            if len(self._people) >= _REMEMBERED:
                del self._people[next(iter(self._people))]
        self._people[track] = person
        return person

    def _lit(self, face: Face, person: _Person, known: Floats) -> Floats:
        """Gains of this frame, following those of the frame before, so that sensor noise does not flicker."""
        live = self._light.of_patch(face.patch, face.points)
        gain = self._light.gain(live, self._photo_light, known)
        if person.lit < _LEARN_COMPLEXION:
            # Then it stays: light changes, skin does not.
            person.lit += 1
            person.fairer += (self._light.fairer(gain) - person.fairer) / person.lit
        if person.gain is not None:
            gain = person.gain + np.float32(_FOLLOW) * (gain - person.gain)
        person.gain = gain
        return self._light.of_own(gain, person.fairer)


def _photo_light(texture: Texture) -> tuple[Floats, Floats]:
    """Colours (468, 3) B, G, R, 0…1 of the photo at each vertex, and (468,) how far each shows the face's skin."""
    level = next(
        (i for i, image in enumerate(texture.levels) if image.shape[0] <= 128), len(texture.levels) - 1
    )
    picture = texture.levels[level].astype(np.float32) / np.float32(255)
    values = sample(picture, texture.uv[level] + 0.5)
    return np.ascontiguousarray(values[:, :3]), np.ascontiguousarray(values[:, 3])


def _visible(painted: Array, uv: Floats) -> Array:
    """The triangles that are not wholly transparent: those of open eyes and mouth need not be painted."""
    corners = triangles()
    seen = np.empty(len(corners), np.bool_)
    cpu.touched(painted, uv, corners, seen)
    return corners[seen]
