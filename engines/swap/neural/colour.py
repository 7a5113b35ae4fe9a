"""The colours of the live face on the new one: mean and spread of each channel, followed in time."""

from __future__ import annotations

from typing import Final

import numpy as np

from engines.faces import Array, Floats
from engines.kernels.mask import MOMENTS, moments

_FOLLOW: Final = 0.4
"""Part of the way that gains go towards the light of a frame, as the mesh's do."""
_LIMIT: Final = 1.5
"""How much contrast may be added or taken."""
_REMEMBERED: Final = 16
_LOOKED_AT: Final = 64
"""About how many pixels of a crop are looked at, across and down."""


def step_of(side: int) -> int:
    """Every how many pixels of a crop of this side one is looked at."""
    return max(1, side // _LOOKED_AT)


class ColourMatch:
    """Factors and offsets that give the new face the live one's colours, one pair for each track."""

    def __init__(self) -> None:
        self._tracks: dict[int, Floats] = {}
        self._sums = np.zeros(MOMENTS)

    def match(self, track: int, live: Floats, face: Floats, mask: Floats) -> tuple[Floats, Floats]:
        """What the new face is multiplied by, and what is added then.

        Args:
            track: Whose face it is.
            live: (S, S, 3) float32, 0…255: the crop of the frame.
            face: (S, S, 3) float32: the new face.
            mask: (S, S) float32: where it is shown.

        Returns:
            Two of (3,) float32. Not finite where a picture is not.
        """
        moments(live, face, mask, step_of(live.shape[0]), self._sums)
        return self.of_sums(track, self._sums)

    def of_sums(self, track: int, all_sums: Array) -> tuple[Floats, Floats]:
        """:meth:`match` for whoever summed up elsewhere.

        Args:
            track: Whose face it is.
            all_sums: (13,) float64 of :func:`engines.kernels.mask.moments`.
        """
        weight, sums = all_sums[0], all_sums[1:].reshape(4, 3)
        if not np.isfinite(all_sums).all():
            return np.full(3, np.nan, np.float32), np.full(3, np.nan, np.float32)
        if not weight > 0:
            return np.ones(3, np.float32), np.zeros(3, np.float32)
        live_mean, live_square, face_mean, face_square = sums / weight
        live_spread = np.sqrt(np.maximum(live_square - live_mean**2, 1.0))
        face_spread = np.sqrt(np.maximum(face_square - face_mean**2, 1.0))
        gain = np.clip(live_spread / face_spread, 1 / _LIMIT, _LIMIT)
        # The offset is that of the means, so that gain and offset stay in step while they are followed slowly.
        both = np.stack([gain, live_mean - face_mean]).astype(np.float32)
        usual = self._tracks.pop(track, None)
        if usual is not None:
            both = usual + np.float32(_FOLLOW) * (both - usual)
        elif len(self._tracks) >= _REMEMBERED:
            del self._tracks[next(iter(self._tracks))]
        self._tracks[track] = both
        middle = face_mean.astype(np.float32)
        return both[0], both[1] + middle - both[0] * middle
