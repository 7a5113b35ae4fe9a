"""SCRFD: where faces are in a whole frame, with five points each.

J. Guo and others, "Sample and Computation Redistribution for Efficient Face Detection", 2021. Input and outputs as
in the published files of 2.5 and 10 GFLOPs with keypoints.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engines.analysis.boxes import faces_of
from engines.analysis.feed import FrameFeed, shapes_text
from engines.analysis.five import keypoints_of
from engines.errors import EngineError
from engines.faces import Array, Detection, Floats, Image
from engines.runtime.base import Network

SIDE: Final = 640
"""Of the picture, where the file leaves it free."""

_STRIDES: Final = (8, 16, 32)
_ANCHORS: Final = 2
_WIDTHS: Final = (1, 4, 10)
"""Numbers in a row of scores, of distances to the sides of the box, of distances to the five points."""
_MEAN, _STD = 127.5, 128.0


class Scrfd:
    """Finds faces in a frame. See :class:`~engines.analysis.networks.FindsFaces`.

    Args:
        network: Opened; closed with this.
        threshold: Scores below it are no faces, 0…1.

    Raises:
        EngineError: The network is no such detector; the sentence says what was found and what was expected.
    """

    def __init__(self, network: Network, threshold: float = 0.5) -> None:
        self.network = network
        self._threshold = threshold
        self._feed = FrameFeed(network, "an SCRFD detector", _MEAN, _STD)
        self._heads = [_Head(network, self._feed.height, self._feed.width, stride) for stride in _STRIDES]

    @staticmethod
    def fits(network: Network) -> bool:
        """Whether a network looks like one of these, whatever size it takes."""
        shapes = [spec.shape for spec in network.output_specs]
        return len(shapes) == 9 and sum(bool(shape) and shape[-1] == 10 for shape in shapes) == 3

    def detect(self, image: Image) -> list[Detection]:
        """Finds every face.

        Args:
            image: The frame, BGR.

        Returns:
            The faces, the largest first; none overlaps another much.
        """
        scale = self._feed.fill(image)
        self.network.run()
        boxes, points, scores = zip(*(head.read(self._threshold) for head in self._heads), strict=True)
        keypoints = keypoints_of(np.concatenate(points))
        return faces_of(np.concatenate(boxes), keypoints, np.concatenate(scores), scale)

    def close(self) -> None:
        """Frees the network."""
        self.network.close()


class _Head:
    """The rows of one stride: two for each cell, one after the other, row by row."""

    def __init__(self, network: Network, height: int, width: int, stride: int) -> None:
        down, across = -(-height // stride), -(-width // stride)
        count = down * across * _ANCHORS
        self._stride = np.float32(stride)
        y, x = np.meshgrid(np.arange(down), np.arange(across), indexing="ij")
        cells = np.stack([x.ravel(), y.ravel()], 1).astype(np.float32)
        self._centres = np.repeat(cells, _ANCHORS, axis=0) * self._stride
        found = [[rows for out in network.outputs if (rows := _rows(out, count, width_)) is not None]
                 for width_ in _WIDTHS]  # fmt: skip
        if len(network.outputs) != 9 or any(len(one) != 1 for one in found):
            raise EngineError(
                f"{network.name} is not an SCRFD detector: for a picture of {height}×{width} it gives "
                f"{shapes_text([spec.shape for spec in network.output_specs])}, where nine outputs were expected, "
                f"of which {count}×1, {count}×4 and {count}×10 for stride {stride}.",
                "Name the file of an SCRFD with five points (its name often ends in kps or bnkps).",
            )
        self._scores, self._sides, self._points = (one[0] for one in found)

    def read(self, threshold: float) -> tuple[Floats, Floats, Floats]:
        """Boxes (N, 4), points (N, 5, 2) and scores (N,) above the threshold, pixels of the network's picture."""
        scores = self._scores[:, 0]
        best = np.flatnonzero(scores > threshold)
        centres = self._centres[best]
        sides = self._sides[best].astype(np.float32) * self._stride
        points = self._points[best].astype(np.float32).reshape(-1, 5, 2) * self._stride
        boxes = np.concatenate([centres - sides[:, :2], centres + sides[:, 2:]], 1)
        return boxes, centres[:, None] + points, scores[best].astype(np.float32)


def _rows(out: Array, count: int, width: int) -> Array | None:
    """An output as (count, width) if that is what it holds, with or without a batch and a last dimension of one."""
    shape = [size for size in out.shape if size != 1]
    expected = [size for size in (count, width) if size != 1]
    return out.reshape(count, width) if shape == expected else None
