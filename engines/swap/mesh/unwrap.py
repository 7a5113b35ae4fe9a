"""One photo laid over the canonical mesh, and several of them made one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import cv2
import numpy as np

from engines.analysis.source import SourceFace
from engines.analysis.topology import POINTS, triangles
from engines.faces import Floats, Image
from engines.kernels import cpu
from engines.swap.mesh.broad import broad_blur
from engines.swap.mesh.light import plain_skin, sample
from engines.swap.mesh.ramp import smoothstep
from engines.swap.mesh.skin import foreign, near_features, plain, without
from engines.swap.mesh.tone import calm, neutral

_EDGE_ON: Final = (0.10, 0.30)
"""A photo that saw the skin at less than this (cosine) knows nothing, or not everything, about it."""
_CHOICE: Final = 4
"""How sharply the best view is preferred: its merit to this power."""


@dataclass(frozen=True, slots=True)
class View:
    """What one photo knows of a face.

    Attributes:
        skin: (S, S, 3) uint8 BGR, in neutral light.
        known: (S, S) float32: how far it shows the face's skin, 0…1.
        merit: (S, S) float32: how squarely and how finely it does.
    """

    skin: Image
    known: Floats
    merit: Floats


def face_width(source: SourceFace) -> float:
    """Width of the face on the photo, pixels."""
    return float(np.ptp(source.points[:POINTS, 0]))


def view_of(source: SourceFace, uv: Floats, side: int) -> View:
    """Lays one photo over the texture.

    Args:
        source: The photo and its landmarks.
        uv: (468, 2) float32: where each vertex lies in the texture, texels.
        side: Side of the texture, texels.
    """
    points = np.ascontiguousarray(source.points[:POINTS])
    width = face_width(source)
    seen = _seen(points, uv, side)
    skin, known = _fill_hidden_half(_flatten(source.image, points, uv, side, width), seen)
    other = foreign(skin, uv)
    bare = known * (1 - other)
    skin = without(neutral(skin, _mean_skin(skin, uv, bare)), other, bare)
    skin = calm(skin, plain(uv, side) * bare)
    known = known * (1 - other * (1 - near_features(uv, side)))
    fineness = min(1.0, width / side * 1.2)
    return View(skin, known, np.asarray(known * np.clip(seen, 0, 1) * fineness, np.float32))


def merged(views: Sequence[View]) -> View:
    """One view out of several of the same person: each part from the photo that saw it best, evenly lit.

    Args:
        views: Of equal size; at least one.
    """
    if len(views) == 1:
        return views[0]
    side = views[0].skin.shape[0]
    main = max(views, key=lambda view: float(view.merit.mean()))
    merits = np.stack([broad_blur(view.merit, side / 48) for view in views]) + np.float32(1e-3)
    shares = merits**_CHOICE
    shares /= shares.sum(0)
    broad = side / 10
    level = broad_blur(main.skin, broad) + 4
    skin = np.zeros_like(level)
    for view, share in zip(views, shares, strict=True):
        own = view.skin.astype(np.float32)
        # Where both photos know the skin, the brightness around it is that of the main one.
        both = broad_blur(view.known * main.known, broad)[:, :, None]
        ratio = 1 + both * (np.clip(level / (broad_blur(own, broad) + 4), 0.5, 2.0) - 1)
        skin += share[:, :, None] * own * ratio
    known = np.max([view.known for view in views], axis=0)
    return View(np.clip(np.rint(skin), 0, 255).astype(np.uint8), known, np.asarray(merits.max(0), np.float32))


def _flatten(image: Image, points: Floats, uv: Floats, side: int, face: float) -> Image:
    """The photo laid over the texture, triangle by triangle."""
    scale = min(1.0, side / (1.2 * face))
    if scale < 1:
        # A photo far larger than the texture would alias.
        image = np.asarray(
            cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA), np.uint8
        )
    places = np.full((side, side, 2), -1, np.float32)
    values = np.ascontiguousarray((points[:, :2] + 0.5) * scale - 0.5, np.float32)
    cpu.interpolate(places, uv, values, triangles())
    return np.asarray(
        cv2.remap(image, places[:, :, 0], places[:, :, 1], cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE),
        np.uint8,
    )


def _mean_skin(skin: Image, uv: Floats, known: Floats) -> Floats:
    """(3,) float32 B, G, R, 0…1: the mean of the plain skin that the photo shows."""
    broad = broad_blur(skin, skin.shape[0] / 64) / np.float32(255)
    weight = plain_skin() * sample(known, uv + 0.5)
    if weight.sum() < 1:
        weight = np.ones(POINTS, np.float32)
    return np.asarray(np.average(sample(broad, uv + 0.5), axis=0, weights=weight), np.float32)


def _seen(points: Floats, uv: Floats, side: int) -> Floats:
    """(side, side) float32: how squarely the photo saw each part of the face, 0 edge on, 1 straight."""
    looks = np.empty(POINTS, np.float32)
    cpu.facing(points, triangles(), np.empty((POINTS, 3), np.float32), looks)
    seen = np.zeros((side, side, 1), np.float32)
    cpu.interpolate(seen, uv, looks[:, None].copy(), triangles())
    return broad_blur(seen[:, :, 0], side / 48)


def _fill_hidden_half(skin: Image, seen: Floats) -> tuple[Image, Floats]:
    """Takes what a turned photo shows badly from the other half of the face.

    Returns:
        The skin, and (side, side) float32: how far it is known at all, 0…1.
    """
    other = np.ascontiguousarray(seen[:, ::-1])
    # Only where this half is nearly edge on and the other one is plainly better.
    take = np.clip((0.4 - seen) / 0.2, 0, 1) * np.clip((other - seen - 0.2) / 0.2, 0, 1)
    known = smoothstep((seen + take * (other - seen) - _EDGE_ON[0]) / (_EDGE_ON[1] - _EDGE_ON[0]))
    if take.max() <= 0:
        return skin, known
    mirror = np.ascontiguousarray(skin[:, ::-1]).astype(np.float32)
    own = skin.astype(np.float32)
    # The light on the two halves differs: bring the borrowed one to the brightness around it.
    broad = skin.shape[0] / 10
    ratio = (broad_blur(own, broad) + 4) / (broad_blur(mirror, broad) + 4)
    mixed = own + take[:, :, None] * (mirror * np.clip(ratio, 0.5, 2.0) - own)
    return np.clip(np.rint(mixed), 0, 255).astype(np.uint8), known
