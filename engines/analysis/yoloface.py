"""YOLOFace (YOLOv8n trained on faces): where faces are in a whole frame, with five points each."""

from __future__ import annotations

from typing import Final

import numpy as np

from engines.analysis.boxes import faces_of
from engines.analysis.feed import FrameFeed, shapes_text
from engines.analysis.five import keypoints_of
from engines.errors import EngineError
from engines.faces import Detection, Image
from engines.runtime.base import Network

_ROW: Final = 20
"""Centre, width and height of the box, score, and five times x, y and how sure."""
_STRIDES: Final = (8, 16, 32)


class YoloFace:
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
        self._feed = FrameFeed(network, "a YOLOFace detector", 0.0, 255.0)
        height, width = self._feed.height, self._feed.width
        cells = sum(-(-height // stride) * -(-width // stride) for stride in _STRIDES)
        shapes = [spec.shape for spec in network.output_specs]
        shape = tuple(size for size in shapes[0] if size != 1) if len(shapes) == 1 else ()
        if shape not in ((_ROW, cells), (cells, _ROW)):
            raise EngineError(
                f"{network.name} is not a YOLOFace detector: for a picture of {height}×{width} it gives "
                f"{shapes_text(shapes)}, where 1×{_ROW}×{cells} or 1×{cells}×{_ROW} was expected.",
                "Name the file of a YOLOv8 face detector with five points.",
            )
        out = network.outputs[0].reshape(shape)
        self._rows = out if shape[1] == _ROW else out.T

    @staticmethod
    def fits(network: Network) -> bool:
        """Whether a network looks like one of these, whatever size it takes."""
        shapes = [spec.shape for spec in network.output_specs]
        return len(shapes) == 1 and _ROW in shapes[0]

    def detect(self, image: Image) -> list[Detection]:
        """Finds every face.

        Args:
            image: The frame, BGR.

        Returns:
            The faces, the largest first; none overlaps another much.
        """
        scale = self._feed.fill(image)
        self.network.run()
        best = self._rows[np.flatnonzero(self._rows[:, 4] > self._threshold)].astype(np.float32)
        half = best[:, 2:4] / 2
        boxes = np.concatenate([best[:, :2] - half, best[:, :2] + half], 1)
        keypoints = keypoints_of(best[:, 5:].reshape(-1, 5, 3)[:, :, :2])
        return faces_of(boxes, keypoints, best[:, 4], scale)

    def close(self) -> None:
        """Frees the network."""
        self.network.close()
