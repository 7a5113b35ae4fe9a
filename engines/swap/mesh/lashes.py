"""Where the lashes of the photo's upper lids end: a part of the likeness that lies where the eye's opening begins."""

from __future__ import annotations

from typing import Final

import cv2
import numpy as np

from engines.analysis.topology import LEFT_EYE_RINGS, RIGHT_EYE_RINGS
from engines.faces import Array, Floats, Image

_UPPER: Final = (0, *range(9, 16), 8)
"""The upper border of an eye in its ring, from one corner to the other."""
_LINES: Final = 25
_BETWEEN: Final = (0.12, 0.88)
"""Part of the lid that is looked at: in the corners there are lashes of both lids."""
_ABOVE: Final = 0.020
_BELOW: Final = 0.020
_STEP: Final = 0.001
_LID: Final = 0.012
"""What is further above the landmarks is lid and no lashes. All of these are in sides of the texture."""
_LASHES: Final = (0.006, 0.008)
"""How far above and below the landmarks of the lid lashes may lie."""
_DARKER: Final = 0.15
"""Lashes are darker than lid and eyeball by this part of the lid's brightness."""
_FEWEST: Final = 0.4
"""Part of the lines, of both eyes, on which there must be lashes. An iris that touches the lid hides them, and in dark
eyes or shade none are to be seen."""


def lashes_end(skin: Image, uv: Floats) -> float | None:
    """How far below the landmarks of the upper lids the lashes end.

    Across each lid the brightness is followed from lid to eyeball. Where it is darkest are the lashes, if it is
    brighter on both sides; they end where half of that is made up for.

    Args:
        skin: (S, S, 3) uint8 BGR: the photo laid over the texture.
        uv: (468, 2) float32: where each vertex lies in it, texels.

    Returns:
        Sides of the texture, negative for above; None where no lashes are to be seen.
    """
    side = len(skin)
    grey = np.asarray(
        cv2.GaussianBlur(cv2.cvtColor(skin, cv2.COLOR_BGR2GRAY), (0, 0), max(side / 500, 0.6)), np.uint8
    )
    depth = np.arange(-_ABOVE, _BELOW + _STEP / 2, _STEP)
    ends: list[float] = []
    for ring in (RIGHT_EYE_RINGS[0], LEFT_EYE_RINGS[0]):
        ends += _ends(_across(grey, uv[[ring[i] for i in _UPPER]], depth * side), depth)
    return float(np.median(ends)) if len(ends) >= _FEWEST * 2 * _LINES else None


def _across(grey: Image, lid: Floats, depth: Array) -> Floats:
    """(25, D) float32: brightness on lines across a lid (9, 2), from above to below it."""
    along = np.linspace(*_BETWEEN, _LINES) * (len(lid) - 1)
    points = np.stack([np.interp(along, np.arange(len(lid)), lid[:, axis]) for axis in (0, 1)], axis=1)
    right = lid[-1] - lid[0]
    down = np.array([-right[1], right[0]]) / max(float(np.linalg.norm(right)), 1e-6)
    if down[1] < 0:
        down = -down
    places = (points[:, None] + down * depth[:, None]).astype(np.float32)
    return np.asarray(cv2.remap(grey, places[:, :, 0], places[:, :, 1], cv2.INTER_LINEAR), np.float32)


def _ends(bright: Floats, depth: Array) -> list[float]:
    """Depth at which the lashes end on each line that shows any."""
    lid = bright[:, depth < -_LID].mean(1)
    above, below = _LASHES
    likely = (depth >= -above) & (depth <= below)
    darkest = np.where(likely, bright, np.inf).argmin(1)
    ends = []
    for line, at, usual in zip(bright, darkest, lid, strict=True):
        inwards = line[at:]
        rise = float(inwards.max() - line[at])
        if min(rise, float(usual - line[at])) > _DARKER * usual:
            ends.append(float(depth[at + int(np.argmax(inwards >= line[at] + rise / 2))]))
    return ends
