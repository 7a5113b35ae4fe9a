"""InsightFace's ``2d106det``: 106 landmarks of one face by regression."""

from __future__ import annotations

from typing import Final

import numpy as np

from engines.analysis.feed import shapes_text
from engines.analysis.five import INSIGHT
from engines.analysis.landmarker import FaceCrop
from engines.errors import EngineError
from engines.faces import Floats, Image, Region
from engines.runtime.base import Network

_WHAT: Final = "a network for 106 landmarks"
_MARGIN: Final = 1.5


class Insight106:
    """Finds 106 landmarks. See :class:`~engines.analysis.landmarker.Landmarker`.

    Args:
        network: Opened; closed with this. It normalises its picture of 0…255 itself.

    Raises:
        EngineError: The network is no such one; the sentence says what was found and what was expected.
    """

    points = INSIGHT

    def __init__(self, network: Network) -> None:
        self.network = network
        self._crop = FaceCrop(network, _WHAT, _MARGIN, 1.0)
        if not self.fits(network):
            raise EngineError(
                f"{network.name} is not {_WHAT}: it gives "
                f"{shapes_text([spec.shape for spec in network.output_specs])}, where 1×212 was expected.",
                "Name the file of a 2d106det.",
            )
        self._points = network.outputs[0].reshape(INSIGHT, 2)

    @staticmethod
    def fits(network: Network) -> bool:
        """Whether a network gives what this one gives."""
        shapes = [spec.shape for spec in network.output_specs]
        return len(shapes) == 1 and tuple(size for size in shapes[0] if size != 1) in ((212,), (INSIGHT, 2))

    def read(self, image: Image, region: Region) -> Floats:
        """See :class:`~engines.analysis.landmarker.Landmarker`."""
        back = self._crop.fill(image, region)
        self.network.run()
        points = (self._points.astype(np.float32) + 1) * np.float32(self._crop.side / 2)
        return self._crop.onto_frame(points, back)

    def close(self) -> None:
        """Frees the network."""
        self.network.close()
