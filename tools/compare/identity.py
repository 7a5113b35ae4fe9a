"""Whose face it is, as an identity network sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import cv2
import numpy as np

from engines.analysis.align import TEMPLATES
from engines.errors import EngineError, UsageError
from engines.faces import Floats, Image
from engines.runtime.ort.network import OnnxNetwork

DEFAULT: Final = Path(__file__).parents[2] / "tests" / "data" / "mobileface.onnx"

_SIDE: Final = 112
_TEMPLATE: Final = TEMPLATES["arcface_112_v2"] * _SIDE
"""Where ArcFace wants eyes, nose and corners of the mouth in a crop of 112×112."""
_ANCHORS: Final = ((33, 133), (362, 263), (1,), (61,), (291,))
"""Of which landmarks each of them is the mean: an eye of its corners, which a blink does not move. The program's own
networks use more points of an eye; what is measured must not change with the program."""


class IdentityNetwork:
    """Turns a face into a vector; two of one person point the same way.

    Args:
        path: A network that takes (1, 112, 112, 3) RGB of 0…255, aligned as for ArcFace.

    Raises:
        UsageError: There is no such file, or it takes something else.
        EngineError: It cannot be opened.
    """

    def __init__(self, path: Path = DEFAULT) -> None:
        if not path.is_file():
            raise UsageError(f"There is no identity network at {path}.", "Name one: --identity FILE.onnx")
        self._network = OnnxNetwork(path)
        shapes = [spec.shape for spec in self._network.input_specs]
        if shapes != [(1, _SIDE, _SIDE, 3)]:
            self._network.close()
            raise UsageError(
                f"{path.name} takes {shapes} and not one picture of 1x112x112x3.",
                "Name an identity network that does: --identity FILE.onnx",
            )

    def embed(self, image: Image, points: Floats) -> Floats:
        """Looks at one face.

        Args:
            image: BGR.
            points: (468 or more, 2 or 3) its landmarks, pixels.

        Returns:
            (D,) float32 of length one; the product of two is the cosine between them.

        Raises:
            EngineError: The landmarks are no face's.
        """
        anchors = np.stack([points[list(which), :2].mean(0) for which in _ANCHORS]).astype(np.float32)
        affine, _ = cv2.estimateAffinePartial2D(anchors, _TEMPLATE, method=cv2.LMEDS)
        if affine is None:
            raise EngineError("The landmarks of a face cannot be aligned for the identity network.")
        crop = cv2.warpAffine(image, affine, (_SIDE, _SIDE))
        self._network.inputs[0][0] = crop[:, :, ::-1]
        self._network.run()
        vector = self._network.outputs[0].reshape(-1)
        return (vector / max(float(np.linalg.norm(vector)), 1e-9)).astype(np.float32)

    def close(self) -> None:
        """Frees the network."""
        self._network.close()
