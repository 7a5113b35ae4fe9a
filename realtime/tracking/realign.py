"""Five points of a network's own for the alignment of neural swappers, held still like all landmarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from engines.analysis.five import five_of
from engines.analysis.landmarker import Landmarker
from engines.analysis.landmarks import region_of_points
from engines.errors import EngineError
from engines.faces import Face, Image
from realtime.tracking.smooth import OneEuro


class Realigner:
    """Reads the faces that are to be swapped once more. Used by one thread."""

    def __init__(self) -> None:
        self._smooth: dict[int, OneEuro] = {}

    def align(
        self, network: Landmarker | None, image: Image, faces: Sequence[Face], now_ns: int
    ) -> list[Face]:
        """The same faces with :attr:`~engines.faces.Face.five`.

        Args:
            network: Reads five, 68 or 106 points; without it the faces stay as they are.
            image: The frame, BGR.
            faces: Those that are swapped.
            now_ns: When it was captured.
        """
        if network is None:
            return list(faces)
        self._smooth = {face.track: self._smooth.get(face.track) or OneEuro() for face in faces}
        aligned = []
        for face in faces:
            region = region_of_points(face.points)
            five = five_of(network.read(image, region))
            if not np.isfinite(five).all():
                raise EngineError(f"{network.network.name} gave landmarks that are not numbers.")
            aligned.append(replace(face, five=self._smooth[face.track](five, region.size, now_ns)))
        return aligned
