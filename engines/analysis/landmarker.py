"""Landmarks that only align: 5, 68 or 106 points of one face, in place of those of the mesh."""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np

from engines.analysis.crop import Cropper, inverse_of
from engines.analysis.feed import picture_input
from engines.errors import EngineError
from engines.faces import Floats, Image, Region
from engines.runtime.base import Network

_REGION: Final = 1.5
"""Side of the region that a tracker reads, in longer sides of the face."""


class Landmarker(Protocol):
    """Finds the landmarks of one face, for the alignment of a neural swapper.

    Attributes:
        network: What it runs.
        points: How many it gives: 5, 68 or 106; :func:`~engines.analysis.five.five_of` knows which is which.
    """

    network: Network
    points: int

    def read(self, image: Image, region: Region) -> Floats:
        """Reads one face.

        Args:
            image: The frame, BGR.
            region: Where the face is, as for the mesh: one and a half times as large as the face, turned with it.

        Returns:
            (N, 2) float32, pixels of the frame.
        """
        ...

    def close(self) -> None:
        """Frees the network."""
        ...


class FaceCrop:
    """The upright square around a face that such a network reads.

    Args:
        network: Opened.
        what: What it should be, with its article, for a sentence.
        margin: Side of the square, in longer sides of the face.
        std: What levels, 0…255, are divided by.

    Raises:
        EngineError: The network takes something else.
    """

    def __init__(self, network: Network, what: str, margin: float, std: float) -> None:
        self._picture = picture_input(network, what)
        self.side, width = self._picture.shape[:2]
        if width != self.side:
            raise EngineError(
                f"{network.name} is not {what}: it takes {self.side}×{width}, where a square was expected."
            )
        self._cropper = Cropper(self.side)
        self._share, self._std = margin / _REGION, std

    def fill(self, image: Image, region: Region) -> Floats:
        """Puts the face into the network's input.

        Returns:
            (2, 3) float32: pixels of the square to pixels of the frame.
        """
        square = Region(region.x, region.y, region.size * self._share, region.angle)
        return inverse_of(self._cropper.read(image, square, self._picture, 0.0, self._std))

    @staticmethod
    def onto_frame(points: Floats, back: Floats) -> Floats:
        """Points of the square, (N, 2), on the frame."""
        return np.asarray(points @ back[:, :2].T + back[:, 2], np.float32)
