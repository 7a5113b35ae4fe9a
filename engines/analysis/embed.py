"""Whose face it is: an ArcFace network turns an aligned face into a vector, and photos of one person into one.

J. Deng and others, "ArcFace: Additive Angular Margin Loss for Deep Face Recognition", CVPR 2019; fed as in the
published ``w600k_r50``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import cv2
import numpy as np

from engines.analysis.align import crop_affine
from engines.analysis.feed import picture_input, put_rgb, shapes_text
from engines.analysis.five import five_of
from engines.analysis.source import SourceFace
from engines.errors import EngineError
from engines.faces import Array, Floats, Image
from engines.runtime.base import Network

SIDE: Final = 112
"""Of the picture, where the file leaves it free."""

_TEMPLATE: Final = "arcface_112_v2"
_SHORTEST: Final = 32
"""Fewer numbers than this are no embedding."""
_MEAN = _STD = 127.5


class Embedder:
    """Turns faces into vectors; two of one person point the same way.

    Args:
        network: Opened; closed with this.

    Raises:
        EngineError: The network is no such one; the sentence says what was found and what was expected.

    Attributes:
        network: What it runs.
        length: Numbers in a vector, as the graph has it.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self._picture = picture_input(network, "an ArcFace network")
        height, width = self._picture.shape[:2]
        sizes = [out.size for out in network.outputs]
        if (
            height != width
            or len(sizes) != 1
            or max(network.output_specs[0].shape) != sizes[0]
            or sizes[0] < _SHORTEST
        ):
            raise EngineError(
                f"{network.name} is not an ArcFace network: for {height}×{width} it gives "
                f"{shapes_text([spec.shape for spec in network.output_specs])}, where one vector, 1×512 as a rule, "
                "for 112×112 was expected.",
                "Name the file of an identity network, such as w600k_r50.",
            )
        self.length = sizes[0]
        self._crop = np.empty((height, width, 3), np.uint8)

    def embed(self, image: Image, points: Floats) -> Floats:
        """Looks at one face.

        Args:
            image: BGR.
            points: (5, 68, 106, 468 or 478; 2 or 3) its landmarks, pixels.

        Returns:
            (D,) float32 as the network gives it, of any length; some swappers want it so.

        Raises:
            EngineError: The landmarks are no face's, or the network gave no numbers.
        """
        five = five_of(points)
        try:
            if not np.isfinite(five).all():
                raise ValueError("they are not numbers")
            affine = crop_affine(_TEMPLATE, self._crop.shape[0], five)
        except ValueError as error:
            raise EngineError(f"A face cannot be aligned for {self.network.name}: {error}.") from error
        side = self._crop.shape[0]
        cv2.warpAffine(
            image,
            affine,
            (side, side),
            dst=self._crop,
            flags=cv2.INTER_LINEAR,
            borderMode=cv2.BORDER_REPLICATE,
        )
        put_rgb(self._picture, self._crop, _MEAN, _STD)
        self.network.run()
        vector = self.network.outputs[0].reshape(-1).astype(np.float32)
        if not (np.isfinite(vector).all() and vector.any()):
            raise EngineError(f"{self.network.name} gave a face that is not made of numbers.")
        return vector

    def identity(self, image: Image, points: Floats) -> Floats:
        """The same of length one: the product of two is the cosine between them."""
        return unit(self.embed(image, points))

    def person(self, photos: Iterable[SourceFace]) -> Floats:
        """One person, from one or several photos: the mean of their unit vectors, of length one again.

        Raises:
            EngineError: Its photos cancel out, as no photos of one person do.
        """
        return unit(np.mean([self.identity(photo.image, photo.points) for photo in photos], axis=0))

    def close(self) -> None:
        """Frees the network."""
        self.network.close()


def unit(vector: Array) -> Floats:
    """The vector of length one.

    Raises:
        EngineError: It has no direction.
    """
    length = float(np.linalg.norm(vector))
    if not length > 1e-6:
        raise EngineError("An identity without a direction cannot be compared.")
    return np.asarray(vector / length, np.float32)


def distance(one: Floats, other: Floats) -> float:
    """How far two identities are apart: 0 is the same, 1 is unrelated, 2 is opposite.

    Args:
        one: (D,) of length one.
        other: The same.
    """
    return 1.0 - float(one @ other)
