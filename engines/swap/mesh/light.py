"""The light of the room on the skin of the photo."""

from __future__ import annotations

from functools import cache
from typing import Final

import cv2
import numpy as np

from engines.analysis.topology import (
    LEFT_BROW,
    LEFT_EYE_RINGS,
    LIPS_BETWEEN,
    LIPS_INNER,
    LIPS_OUTER,
    NOSTRILS,
    OVAL,
    POINTS,
    RIGHT_BROW,
    RIGHT_EYE_RINGS,
    canonical,
)
from engines.faces import Floats, Patch
from engines.kernels import cpu
from engines.swap.mesh.ramp import away, smoothstep

_LIGHT_REACH: Final = 5.0
"""How far brightness is averaged over the face, in centimetres of the canonical face (15.5 wide). It is the room's
light from one side or from above that has to come over; what varies faster is the relief of a face, and that is the
photo's (identity 0.61 with 5 cm against 0.58 with 1.6)."""
_TINT_REACH: Final = 3.0
"""How far colour is averaged: nearer, or a photo's own cast stays in patches."""
_LUMA: Final = np.array([[0.114], [0.587], [0.299]], np.float32)
_GRID: Final = 64
_DARKEST: Final = 0.02
_LIMIT: Final = 4.0
_COMPLEXION: Final = 0.5
"""Part of the difference in brightness between both faces that is taken for a fairer or darker skin, and stays the
photo's; the rest is the room's light."""
_MOST_COMPLEXION: Final = 0.05
"""The most of it (logarithm): a dark room is darker by far more, and the new face must not shine in it."""
_COMPLEXION_FALL: Final = 2.5
"""From how far inside the rim on it stays, cm, so that face and neck meet without a seam."""
_LIGHT_SPREAD: Final = 0.9
"""How far plain skin may be from the usual brightness of the face (logarithm): one-sided light is not hair."""
_TINT_SPREAD: Final = 0.35


def plain_skin() -> Floats:
    """(468,) float32: 1 for vertices on plain skin."""
    skin = np.ones(POINTS, np.float32)
    for group in (
        OVAL, LEFT_BROW, RIGHT_BROW, *LEFT_EYE_RINGS, *RIGHT_EYE_RINGS,
        LIPS_OUTER, LIPS_INNER, *LIPS_BETWEEN, NOSTRILS,
    ):  # fmt: skip
        skin[list(group)] = 0
    return skin


class Light:
    """Compares the skin of a face with that of another, broadly, vertex by vertex."""

    def __init__(self) -> None:
        # Nothing but plain skin has a weight, and it is less than half of the face.
        self._skin = np.flatnonzero(plain_skin())
        self._light, self._tint = _weights(_LIGHT_REACH), _weights(_TINT_REACH)
        self._grid = np.empty((_GRID, _GRID, 3), np.float32)
        self._inside = smoothstep(away(OVAL) / _COMPLEXION_FALL)
        # Three colours of the live face, three of the photo, and the weight itself.
        self._near = np.empty((7, len(self._skin)), np.float32)
        self._broad = np.empty((7, POINTS), np.float32)

    def of_patch(self, patch: Patch, points: Floats) -> Floats:
        """The colours of a live face at each vertex.

        Args:
            patch: The crop of the frame around the face.
            points: (N, 3) landmarks, pixels of the frame.

        Returns:
            (468, 3) float32 B, G, R, 0…1.
        """
        cv2.resize(patch.image, (_GRID, _GRID), dst=self._grid, interpolation=cv2.INTER_AREA)
        scale = _GRID / patch.image.shape[0]
        places = points[:POINTS, :2] @ patch.affine[:, :2].T + patch.affine[:, 2]
        return sample(self._grid, (places + 0.5) * scale)[:, ::-1]

    def gain(self, live: Floats, photo: Floats, known: Floats) -> Floats:
        """What the photo's colours are multiplied by to be lit like the live face.

        Both are averaged broadly and over the same vertices: plain skin that the photo shows and that is not
        covered on the live face.

        Args:
            live: (468, 3) float32 B, G, R, 0…1: colours of the live face at each vertex.
            photo: Likewise of the photo.
            known: (468,) float32, 0…1: how far each vertex of the photo shows the face's skin.

        Returns:
            (468, 3) float32, ¼…4.
        """
        live, photo = live[self._skin], photo[self._skin]
        weight = known[self._skin] * _bare(live)
        np.multiply(live.T, weight, out=self._near[:3])
        np.multiply(photo.T, weight, out=self._near[3:6])
        self._near[6] = weight
        tint = self._ratio(self._tint)
        gain = tint * ((_LUMA * self._ratio(self._light)).sum(0) / (_LUMA * tint).sum(0))
        return np.asarray(np.clip(gain.T, 1 / _LIMIT, _LIMIT), np.float32)

    def fairer(self, gain: Floats) -> float:
        """How much fairer the photo's skin is thought to be than the live one, in a light that asks for some gain.

        Args:
            gain: (468, 3) float32, as :meth:`gain` gives it.

        Returns:
            A logarithm, below nought for darker: what :meth:`of_own` wants.
        """
        level = float(np.log(gain[self._skin].mean(0) @ _LUMA)[0])
        return min(max(-_COMPLEXION * level, -_MOST_COMPLEXION), _MOST_COMPLEXION)

    def of_own(self, gain: Floats, fairer: float) -> Floats:
        """The gain that leaves the skin its own complexion, but for the rim."""
        return np.asarray(gain * np.exp(np.float32(fairer) * self._inside), np.float32)

    def _ratio(self, weights: Floats) -> Floats:
        """(3, 468) float32: the live face's colours over those of the photo."""
        cpu.weigh(weights, self._near, self._broad)
        ground = _DARKEST * self._broad[6] + 1e-9
        return np.asarray((self._broad[:3] + ground) / (self._broad[3:6] + ground), np.float32)


@cache
def _weights(reach: float) -> Floats:
    """(468, N) float32: how much each of the vertices on plain skin counts for each vertex. The same for every face."""
    points, skin = canonical(), plain_skin()
    near = np.linalg.norm(points[:, None] - points[None], axis=2)
    # Far from any skin (the chin's very border) the nearest skin still counts.
    weights = (np.exp(-0.5 * (near / reach) ** 2) + 1e-4) * skin[None]
    whole = np.asarray(weights / weights.sum(1, keepdims=True), np.float32)
    return np.ascontiguousarray(whole[:, np.flatnonzero(skin)])


def sample(image: Floats, places: Floats) -> Floats:
    """The pixels nearest to some places.

    Args:
        image: (H, W, C).
        places: (N, 2) float32, pixels, corners at whole numbers.

    Returns:
        (N, C).
    """
    height, width = image.shape[:2]
    x = np.clip(places[:, 0].astype(np.int32), 0, width - 1)
    y = np.clip(places[:, 1].astype(np.int32), 0, height - 1)
    return image[y, x]


def _bare(live: Floats) -> Floats:
    """(N,) float32: how likely each vertex (N, 3) of plain skin is bare and not hair, a hand or a frame."""
    usual = np.partition(live, len(live) // 2, axis=0)[len(live) // 2]
    off = np.log((live + _DARKEST) / (usual + _DARKEST))
    light = off.mean(1)
    tint = off - light[:, None]
    distance = (light / _LIGHT_SPREAD) ** 2 + np.einsum("nc,nc->n", tint, tint) / _TINT_SPREAD**2
    return np.asarray(1 / (1 + distance * distance), np.float32)
