"""BlazeFace: where faces are in a whole frame, one detector for near faces and one for far ones.

Anchors and decoding as MediaPipe documents them for ``face_detection_short_range`` and
``face_detection_full_range``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np

from engines.analysis.boxes import faces_of
from engines.analysis.feed import FrameFeed
from engines.analysis.topology import WEIGHTS
from engines.errors import EngineError
from engines.faces import Detection, Floats, Image
from engines.runtime.base import Network
from engines.runtime.model.file import SHIPPED
from engines.runtime.open import open_network

Range = Literal["near", "far"]

_FILES: Final = {"near": "face_detection_short.onnx", "far": "face_detection_full.onnx"}
_GRIDS: Final = {"near": ((16, 2), (8, 6)), "far": ((48, 1),)}
"""Per detector: cells along a side, and how many anchors lie on each cell's centre."""

_SAME_FACE_IOU: Final = 0.3
"""Overlap from which two boxes are one face, as published."""


def _anchors(grids: Sequence[tuple[int, int]]) -> Floats:
    """(N, 2) float32: centres of the anchors, 0…1."""
    rows = []
    for cells, count in grids:
        centres = (np.arange(cells, dtype=np.float32) + 0.5) / cells
        y, x = np.meshgrid(centres, centres, indexing="ij")
        rows.append(np.repeat(np.stack([x.ravel(), y.ravel()], 1), count, axis=0))
    return np.concatenate(rows).astype(np.float32)


class Detector:
    """Finds faces in a frame.

    Args:
        reach: ``near`` (faces from about a fifth of the frame on) or ``far`` (down to about a sixteenth).
        threshold: Scores below it are no faces, 0…1.

    Raises:
        EngineError: The network cannot be opened or is not this detector.
    """

    def __init__(self, reach: Range, threshold: float = 0.5) -> None:
        self.network: Network = open_network(WEIGHTS / _FILES[reach], hint=SHIPPED)
        self._anchors = _anchors(_GRIDS[reach])
        self._threshold = threshold
        self._side = self.network.input_specs[0].shape[1]
        n = len(self._anchors)
        by_width = {out.shape[-1]: out.reshape(n, -1) for out in self.network.outputs if out.size % n == 0}
        if by_width.keys() != {1, 16}:
            raise EngineError(
                f"{self.network.name} is not the face detector it should be.", "Install doppelcam again."
            )
        self._boxes, self._logits = by_width[16], by_width[1][:, 0]
        self._feed = FrameFeed(self.network, "a face detector", 127.5, 127.5)

    def detect(self, image: Image) -> list[Detection]:
        """Finds every face.

        Args:
            image: The frame, BGR.

        Returns:
            The faces, the largest first; none overlaps another much.
        """
        scale = self._feed.fill(image)
        self.network.run()
        best = np.flatnonzero(self._logits > np.log(self._threshold / (1 - self._threshold)))
        if not len(best):
            return []
        scores = np.asarray(1 / (1 + np.exp(-self._logits[best])), np.float32)
        centres = self._anchors[best] * self._side
        raw = self._boxes[best]
        boxes = np.concatenate(
            [centres + raw[:, :2] - raw[:, 2:4] / 2, centres + raw[:, :2] + raw[:, 2:4] / 2], 1
        )
        points = centres[:, None] + raw[:, 4:16].reshape(-1, 6, 2)
        return faces_of(boxes, points, scores, scale, _SAME_FACE_IOU)

    def close(self) -> None:
        """Frees the network."""
        self.network.close()
