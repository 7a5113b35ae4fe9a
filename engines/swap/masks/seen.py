"""Masks that networks find: what is before the face (XSeg), and which part of it each pixel is (BiSeNet)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import cv2
import numpy as np

from engines.analysis.picture import PictureNetwork
from engines.catalogue.entry import Channels, Contract
from engines.errors import EngineError
from engines.faces import Face, Floats
from engines.runtime.device import CPU, Device
from engines.swap.base import Progress
from engines.swap.masks.choice import REGIONS

OCCLUDER: Final = Contract(side=256, channels="bgr", layout="nhwc")
PARSER: Final = Contract(side=512, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
CLASSES: Final = 19

_BLUR: Final = 3.0
"""σ of the blur of a network's mask, for a mask of 256 pixels."""


class _Seen:
    """A mask that a network finds. See :class:`~engines.swap.masks.masks.MaskSource`."""

    name = ""

    def __init__(self, path: Path, device: Device) -> None:
        self.nodes: Mapping[str, Mapping[str, int]] = {}
        self.ms = 0.0
        self._path, self._device = path, device
        self._reader: PictureNetwork | None = None

    def _begin(self, reader: PictureNetwork) -> None:
        self._reader, self.ms = reader, reader.ms
        self.nodes = {reader.network.name: reader.network.nodes}

    def _opened(self) -> PictureNetwork:
        if self._reader is None:
            raise EngineError(f"The mask {self.name} is used before it was opened.")
        return self._reader

    def close(self) -> None:
        """See :class:`~engines.swap.masks.masks.MaskSource`."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()


class Occluder(_Seen):
    """Hands, microphones, hair: what an XSeg network does not take for the face stays live.

    Args:
        path: The file: 256 pixels, 0…1, 1 is visible. Found as NHWC with blue first, and as NCHW with red first.
        device: What it runs on.
    """

    name = "occlusion"

    def __init__(self, path: Path, device: Device = CPU) -> None:
        super().__init__(path, device)

    def open(self, progress: Progress) -> None:
        """See :class:`~engines.swap.masks.masks.MaskSource`."""
        what = "an XSeg occluder"
        reader = PictureNetwork(self._path, OCCLUDER, self._device, what, progress, _by_layout)
        self._begin(reader)
        masks = reader.pictures(1)
        if len(reader.network.outputs) != 1 or len(masks) != 1:
            error = reader.wrong(what, "one picture of three channels to one of one channel")
            self.close()
            raise error
        self._mask = masks[0][..., 0]
        self._kept = np.empty(self._mask.shape, np.float32)

    def write(self, crop: Floats, face: Face, affine: Floats, out: Floats) -> None:
        """See :class:`~engines.swap.masks.masks.MaskSource`."""
        self._opened().run(crop)
        self._kept[:] = self._mask
        soft(self._kept, out)


class Regions(_Seen):
    """Only some parts of the face are shown.

    Args:
        path: The file of a BiSeNet parser: 512 pixels, RGB, ImageNet's mean and deviation, to 19 classes.
        regions: Which parts, of :data:`~engines.swap.masks.choice.REGIONS`.
        device: What it runs on.
    """

    name = "regions"

    def __init__(self, path: Path, regions: Sequence[str], device: Device = CPU) -> None:
        super().__init__(path, device)
        shown = {number for region in regions for number in REGIONS[region]}
        self._shown = tuple(sorted(shown))
        self._hidden = tuple(number for number in range(CLASSES) if number not in shown)

    def open(self, progress: Progress) -> None:
        """See :class:`~engines.swap.masks.masks.MaskSource`."""
        what = "a BiSeNet parser"
        reader = PictureNetwork(self._path, PARSER, self._device, what, progress)
        self._begin(reader)
        scores = reader.pictures(CLASSES)
        if not scores:
            error = reader.wrong(what, f"one picture of three channels to one of {CLASSES}")
            self.close()
            raise error
        # What comes behind the first are the coarser answers that it was trained with.
        self._scores = scores[0]
        side = self._scores.shape[0]
        self._best, self._other, self._kept = np.empty((3, side, side), np.float32)

    def write(self, crop: Floats, face: Face, affine: Floats, out: Floats) -> None:
        """See :class:`~engines.swap.masks.masks.MaskSource`."""
        self._opened().run(crop)
        self._best_of(self._shown, self._best)
        self._best_of(self._hidden, self._other)
        np.subtract(self._best, self._other, out=self._best)
        np.greater(self._best, 0, out=self._kept)
        if not np.isfinite(self._best.sum(dtype=np.float64)):
            self._kept[:] = np.nan
        soft(self._kept, out)

    def _best_of(self, classes: Sequence[int], out: Floats) -> None:
        out[:] = self._scores[..., classes[0]]
        for number in classes[1:]:
            np.maximum(out, self._scores[..., number], out=out)


def soft(mask: Floats, out: Floats) -> None:
    """A network's mask in the crop's size, its edge drawn inwards and soft.

    Args:
        mask: (h, w) float32, 0…1; changed. What is not finite stays so.
        out: (S, S) float32, filled.
    """
    np.clip(mask, 0, 1, out=mask)
    side = mask.shape[0]
    cv2.GaussianBlur(mask, (0, 0), _BLUR * side / 256, dst=mask, borderType=cv2.BORDER_REPLICATE)
    # From where it is even to where it is sure: the new face does not reach over the edge of what is before it.
    mask -= 0.5
    mask *= 2
    np.maximum(mask, 0, out=mask)
    shrinks = side > out.shape[0]
    cv2.resize(mask, out.shape[::-1], dst=out, interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)


def _by_layout(planar: bool) -> Channels:
    return "rgb" if planar else "bgr"
