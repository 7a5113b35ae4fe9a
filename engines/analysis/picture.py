"""A network that reads one aligned picture of a face: fed from a crop, whatever its layout, order, size and type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import cv2
import numpy as np

from engines.analysis.feed import FloatBuffer, unfit
from engines.catalogue.entry import Channels, Contract
from engines.errors import EngineError
from engines.faces import Array, Floats
from engines.kernels.warp import rescale
from engines.runtime.device import Device
from engines.runtime.open import open_network
from engines.runtime.rate import warm_up

_SIDES: Final = (16, 2048)
"""What a picture's side may be, pixels."""


class PictureNetwork:
    """One network, opened and warmed up.

    Args:
        path: The file.
        contract: Normalisation, and the side where the file leaves it open. Layout and side are told by shape.
        device: What it runs on.
        what: What the network should be, with its article, for messages.
        progress: Told of steps down to another runtime.
        channels: Order of colours by layout, for models that differ by exporter; None for the contract's.
        weight: What to put into an input that is one number; None takes no such input.

    Attributes:
        side: Of the picture, pixels.
        network: The network.
        ms: What one run takes.

    Raises:
        EngineError: It cannot be opened, or takes something else; the sentence says what was found and expected.
    """

    def __init__(
        self,
        path: Path,
        contract: Contract,
        device: Device,
        what: str,
        progress: Callable[[str], None],
        channels: Callable[[bool], Channels] | None = None,
        weight: float | None = None,
    ) -> None:
        progress(f"network {path.name}")
        network = open_network(path, device, side=contract.side, progress=progress)
        try:
            self.network = network
            place, planar = self._found(what, weight)
            self._fed = FloatBuffer(network.inputs[place])
            fed = self._fed.array[0]
            picture = fed.transpose(1, 2, 0) if planar else fed
            order = channels(planar) if channels else contract.channels
            self.planar, self._flipped = planar, order == "rgb"
            self._picture = picture[..., ::-1] if self._flipped else picture
            self.side = self._picture.shape[0]
            mean, std = self.in_order(contract.mean), self.in_order(contract.std)
            self._scale, self._offset = 1 / (255 * std), -mean / std
            self._room = np.empty((self.side, self.side, 3), np.float32)
            self.ms = warm_up(network)
        except BaseException:
            network.close()
            raise

    def in_order(self, values: tuple[float, float, float]) -> Floats:
        """Values of the network's channels in the order B, G, R."""
        return np.asarray(values[::-1] if self._flipped else values, np.float32)

    def run(self, crop: Array) -> None:
        """Shows a crop to the network; what it gives lies in ``network.outputs``.

        Args:
            crop: (S, S, 3) float32 or uint8, B, G, R, 0…255, of any size.

        Raises:
            EngineError: The runtime failed.
        """
        if crop.shape[0] != self.side:
            smaller = crop.shape[0] > self.side
            cv2.resize(
                crop, (self.side, self.side), dst=self._room,
                interpolation=cv2.INTER_AREA if smaller else cv2.INTER_LINEAR,
            )  # fmt: skip
            crop = self._room
        rescale(crop, self._picture, self._scale, self._offset)
        self._fed.push()
        self.network.run()

    def pictures(self, channels: int) -> list[Array]:
        """(H, W, channels) views of those outputs that are pictures of so many channels, in the file's order."""
        found = []
        for array in self.network.outputs:
            if array.ndim == 4 and array.shape[0] == 1:
                if array.shape[1] == channels and array.shape[2] == array.shape[3]:
                    found.append(array[0].transpose(1, 2, 0))
                elif array.shape[3] == channels and array.shape[1] == array.shape[2]:
                    found.append(array[0])
        return found

    def wrong(self, what: str, expected: str) -> EngineError:
        """The sentence for a network that is not what it should be."""
        return unfit(self.network, what, expected)

    def close(self) -> None:
        """Frees the network; may be called twice."""
        self.network.close()

    def _found(self, what: str, weight: float | None) -> tuple[int, bool]:
        """Which input takes the picture, and whether its channels come before its rows."""
        pictures, others = [], []
        for place, array in enumerate(self.network.inputs):
            shape = array.shape
            if len(shape) == 4 and shape[0] == 1 and shape[1] == 3 and shape[2] == shape[3]:
                pictures.append((place, True))
            elif len(shape) == 4 and shape[0] == 1 and shape[3] == 3 and shape[1] == shape[2]:
                pictures.append((place, False))
            else:
                others.append(array)
        fits = len(pictures) == 1 and not (others and weight is None)
        fits = fits and len(others) <= 1 and all(other.size == 1 for other in others)
        if fits:
            place, planar = pictures[0]
            fits = _SIDES[0] <= self.network.inputs[place].shape[2] <= _SIDES[1]
        if not fits:
            extra = "" if weight is None else ", and perhaps one number"
            raise self.wrong(what, f"one square picture of three channels{extra}")
        for other in others:
            other[...] = weight
        return place, planar
