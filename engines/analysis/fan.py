"""2DFAN4: 68 landmarks of one face.

A. Bulat, G. Tzimiropoulos, "How far are we from solving the 2D & 3D Face Alignment problem?", ICCV 2017.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engines.analysis.feed import shapes_text
from engines.analysis.five import IBUG
from engines.analysis.landmarker import FaceCrop
from engines.errors import EngineError
from engines.faces import Array, Floats, Image, Region
from engines.runtime.base import Network

_WHAT: Final = "a network for 68 landmarks"
SIDE: Final = 256
_GRID: Final = 64
_FACE: Final = 195.0
"""Pixels of the network's 256 that the longer side of the face takes."""


class Fan:
    """Finds 68 landmarks. See :class:`~engines.analysis.landmarker.Landmarker`.

    Args:
        network: Opened; closed with this.

    Raises:
        EngineError: The network is no such one; the sentence says what was found and what was expected.
    """

    points = IBUG

    def __init__(self, network: Network) -> None:
        self.network = network
        self._crop = FaceCrop(network, _WHAT, SIDE / _FACE, 255.0)
        if self._crop.side != SIDE or not self.fits(network):
            raise EngineError(
                f"{network.name} is not {_WHAT}: for {self._crop.side}×{self._crop.side} it gives "
                f"{shapes_text([spec.shape for spec in network.output_specs])}, where 1×68×3 points or 1×68×64×64 "
                "heatmaps for 256×256 were expected.",
                "Name the file of a 2DFAN4.",
            )
        outs = [out[0] for out in network.outputs]
        self._points = next((out for out in outs if out.shape[1:] in ((2,), (3,))), None)
        self._maps = next((out for out in outs if out.ndim == 3), None)

    @staticmethod
    def fits(network: Network) -> bool:
        """Whether a network gives what this one gives."""
        tails = [spec.shape[1:] for spec in network.output_specs if spec.shape[:1] == (1,)]
        return any(tail in ((IBUG, 2), (IBUG, 3), (IBUG, _GRID, _GRID)) for tail in tails)

    def read(self, image: Image, region: Region) -> Floats:
        """See :class:`~engines.analysis.landmarker.Landmarker`."""
        back = self._crop.fill(image, region)
        self.network.run()
        grid = self._points[:, :2].astype(np.float32) if self._points is not None else _peaks(self._maps)
        return self._crop.onto_frame(grid * np.float32(SIDE / _GRID), back)

    def close(self) -> None:
        """Frees the network."""
        self.network.close()


def _peaks(maps: Array | None) -> Floats:
    """The middle of each heatmap's highest cell, a quarter towards its higher neighbours, as the authors decode."""
    if maps is None:
        raise EngineError("A network for landmarks gave none.")
    rows, columns = np.divmod(maps.reshape(IBUG, -1).argmax(1), _GRID)
    each = np.arange(IBUG)

    def lean(at: Array, before: Array, after: Array) -> Array:
        inner = (at > 0) & (at < _GRID - 1)
        return np.where(inner, 0.25 * np.sign(after.astype(np.float32) - before), 0)

    left, right = np.maximum(columns - 1, 0), np.minimum(columns + 1, _GRID - 1)
    above, below = np.maximum(rows - 1, 0), np.minimum(rows + 1, _GRID - 1)
    x = columns + 0.5 + lean(columns, maps[each, rows, left], maps[each, rows, right])
    y = rows + 0.5 + lean(rows, maps[each, above, columns], maps[each, below, columns])
    return np.stack([x, y], 1).astype(np.float32)
