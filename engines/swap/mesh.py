"""The embedded swapper: the photo is a texture, the tracked mesh says where each triangle of it goes.

Expression, pose and speech follow by construction, and the skin keeps the photo's own resolution. No weights of its
own, no GPU. See ``docs/mesh-swap.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from engines.analysis.source import SourceFace
from engines.analysis.topology import OVAL, POINTS, canonical_uv, triangles
from engines.errors import EngineError
from engines.faces import Array, Face, Floats, Image
from engines.kernels import cpu
from engines.swap.base import Progress
from engines.swap.light import Light, sample
from engines.swap.shape import Proportions
from engines.swap.texture import Texture, unwrap

_EDGE_ON: Final = (0.02, 0.30)
"""Skin that looks at the camera less than this (cosine) fades out towards the first number."""
_FOLLOW: Final = 0.4
"""How fast gains follow the light: part of the way per frame."""
_BANDS: Final = 24
"""Rows of triangles, from the forehead to the chin, in which a face is painted."""
_REMEMBERED: Final = 16
"""People whose shape and light are kept, the latest ones."""


@dataclass(frozen=True, slots=True)
class MeshLayer:
    """What :meth:`MeshSwapper.swap` works out for one face.

    Attributes:
        xy: (468, 2) float32, pixels of the frame.
        gain: (468, 4) float32: factors of B, G, R and of the opacity divided by 255.
        order: (T, 3) int32: the triangles, the farthest first.
        level: Which level of the texture to paint from.
    """

    xy: Floats
    gain: Floats
    order: Array
    level: int


@dataclass(slots=True)
class _Person:
    """What was learnt about one tracked person."""

    proportions: Proportions
    gain: Floats | None = None


class MeshSwapper:
    """Paints one photo's face over live faces. See :class:`~engines.swap.base.Swapper`.

    Args:
        source: The photo.
        shape: How far the live face takes on the photo's proportions, 0…1.
        landmarks: How many landmarks the tracker is asked for: 468, or 478 for exact lids and lips at twice the
            cost.
    """

    name = "mesh"

    def __init__(self, source: SourceFace, shape: float = 0.8, landmarks: int = 468) -> None:
        self.landmarks = landmarks
        self.nodes: Mapping[str, Mapping[str, int]] = {}
        self._source = source
        self._shape = shape
        self._texture: Texture | None = None
        self._people: dict[int, _Person] = {}

    def open(self, progress: Progress) -> None:
        """See :class:`~engines.swap.base.Swapper`."""
        cpu.warm_up(progress)
        progress(f"face of {self._source.name}")
        self._light = Light()
        texture = unwrap(self._source)
        self._photo_light, self._known = _photo_light(texture)
        painted = texture.levels[-1][:, :, 3] > 0
        shown = _visible(painted, texture.uv[-1])
        rows = np.rint(canonical_uv()[shown].mean(1)[:, 1] * _BANDS)
        self._triangles = np.ascontiguousarray(shown[np.lexsort((canonical_uv()[shown].mean(1)[:, 0], rows))])
        self._inner = np.setdiff1d(np.arange(POINTS), OVAL)
        self._looks = np.empty(POINTS, np.float32)
        self._normals = np.empty((POINTS, 3), np.float32)
        self._texture = texture

    def swap(self, image: Image, face: Face) -> MeshLayer:
        """See :class:`~engines.swap.base.Swapper`."""
        texture = self._opened()
        points = np.ascontiguousarray(face.points[:POINTS])
        if not np.isfinite(points).all():
            raise EngineError("The landmarks of the live face are not numbers.")
        person = self._person(face.track)
        gain = np.empty((POINTS, 4), np.float32)
        gain[:, :3] = self._lit(face, person)
        points += person.proportions.offset(points)
        cpu.facing(points, triangles(), self._normals, self._looks)
        low, high = _EDGE_ON
        gain[:, 3] = np.clip((self._looks - low) / (high - low), 0, 1) / 255
        xy = np.ascontiguousarray(points[:, :2])
        return MeshLayer(xy, gain, self._painting_order(points), texture.level_for(face.width))

    def blend(self, image: Image, layer: MeshLayer) -> None:
        """See :class:`~engines.swap.base.Swapper`."""
        texture = self._opened()
        cpu.composite(
            image, texture.levels[layer.level], layer.xy, texture.uv[layer.level], layer.gain, layer.order
        )  # fmt: skip

    def close(self) -> None:
        """See :class:`~engines.swap.base.Swapper`."""
        self._texture = None
        self._people.clear()

    def _opened(self) -> Texture:
        if self._texture is None:
            raise EngineError("The mesh swapper is used before it was opened.")
        return self._texture

    def _painting_order(self, points: Floats) -> Array:
        """The triangles in the order in which they are to be painted.

        On a face that is turned away so far that part of it hides another part, the farther one comes first. On
        any other, neighbours follow each other, so that the frame's memory is walked through and not jumped about
        in: that halves the time of the composite on a frame that another core has just written.
        """
        if float(self._looks[self._inner].min()) > 0:
            return self._triangles
        depth = points[:, 2][self._triangles].sum(1)
        return np.asarray(self._triangles[np.argsort(-depth)])

    def _person(self, track: int) -> _Person:
        person = self._people.pop(track, None)
        if person is None:
            person = _Person(Proportions(self._source.points, self._shape))
            if len(self._people) >= _REMEMBERED:
                del self._people[next(iter(self._people))]
        self._people[track] = person
        return person

    def _lit(self, face: Face, person: _Person) -> Floats:
        """Gains of this frame, following those of the frame before, so that sensor noise does not flicker."""
        live = self._light.of_patch(face.patch, face.points)
        gain = self._light.gain(live, self._photo_light, self._known)
        if person.gain is not None:
            gain = person.gain + np.float32(_FOLLOW) * (gain - person.gain)
        person.gain = gain
        return gain


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
    seen = np.zeros((*painted.shape, 1), np.float32)
    keep = np.zeros(len(corners), bool)
    for i, corner in enumerate(corners):
        seen[:] = 0
        cpu.interpolate(seen, uv, np.ones((POINTS, 1), np.float32), corner[None])
        keep[i] = bool(painted[seen[:, :, 0] > 0].any()) or not (seen > 0).any()
    return corners[keep]
