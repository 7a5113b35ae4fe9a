"""A live mouth or live eyes in the new face: what the landmarks say they are, with a soft edge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from engines.analysis.topology import LEFT_EYE_RINGS, LIPS_OUTER, RIGHT_EYE_RINGS
from engines.faces import Face, Floats
from engines.kernels.mask import feather_convex
from engines.swap.base import Progress
from engines.swap.masks.masks import sides_of

PARTS: Final[Mapping[str, Sequence[tuple[int, ...]]]] = MappingProxyType({
    "live-mouth": (LIPS_OUTER,),
    "live-eyes": (RIGHT_EYE_RINGS[1], LEFT_EYE_RINGS[1]),
})  # fmt: skip
"""Landmarks around what stays."""

_GROWN: Final = 1.2
"""How much larger the outline is, so that what it is about lies inside of the slope."""
_SLOPE: Final = 0.11
"""Width of the slope, in parts of the mean of the outline's width and height: a closed mouth is long and flat."""


class LivePart:
    """Leaves a part of the live face. See :class:`~engines.swap.masks.masks.MaskSource`.

    Args:
        name: Which, of :data:`PARTS`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: Mapping[str, Mapping[str, int]] = {}
        self.ms = 0.0
        self._groups = [list(group) for group in PARTS[name]]
        self._one: Floats = np.empty((0, 0), np.float32)

    def open(self, progress: Progress) -> None:
        """Nothing to do."""

    def write(self, crop: Floats, face: Face, affine: Floats, out: Floats) -> None:
        """See :class:`~engines.swap.masks.masks.MaskSource`."""
        if self._one.shape != out.shape:
            self._one = np.empty_like(out)
        out[:] = 1
        for group in self._groups:
            outline = face.points[group, :2] @ affine[:, :2].T + affine[:, 2]
            middle = outline.mean(0)
            outline = middle + (outline - middle) * np.float32(_GROWN)
            feather_convex(self._one, sides_of(outline), _SLOPE * float(np.ptp(outline, axis=0).mean()))
            np.subtract(1, self._one, out=self._one)
            np.minimum(out, self._one, out=out)

    def close(self) -> None:
        """Nothing to free."""
