"""Pictures into a network's own input buffer, whichever way its exporter laid it out; what to say of a wrong one."""

from __future__ import annotations

from typing import Final

import cv2
import numpy as np

from engines.errors import EngineError
from engines.faces import Array, Image
from engines.runtime.base import Network

_OVERSAMPLE: Final = 3


def picture_input(network: Network, what: str) -> Array:
    """The one picture that a network takes, as rows, columns and channels.

    Args:
        network: Opened, with every dimension of its input fixed.
        what: What the network should be, with its article, for the sentence.

    Returns:
        (H, W, 3) view of the input buffer; what is written to it is what the network reads.

    Raises:
        EngineError: It takes something else; the sentence says what was found and what was expected.
    """
    shapes = [spec.shape for spec in network.input_specs]
    if len(shapes) == 1 and len(shapes[0]) == 4 and shapes[0][0] == 1:
        picture = network.inputs[0][0]
        if shapes[0][1] == 3:
            return np.moveaxis(picture, 0, 2)
        if shapes[0][3] == 3:
            return np.asarray(picture)
    raise EngineError(
        f"{network.name} is not {what}: it takes {shapes_text(shapes)}, "
        "where one picture of 1×3×H×W or 1×H×W×3 was expected.",
        "Name the right file.",
    )


def unfit(network: Network, what: str, expected: str) -> EngineError:
    """The sentence for a network that is not what it should be.

    Args:
        network: Opened.
        what: What it should be, with its article.
        expected: Which inputs and outputs it should have.
    """
    takes = shapes_text([spec.shape for spec in network.input_specs])
    gives = shapes_text([spec.shape for spec in network.output_specs])
    return EngineError(
        f"{network.name} is not {what}: it takes {takes} and gives {gives}, where {expected} was expected.",
        "Name the right file.",
    )


def put_rgb(picture: Array, image: Image, mean: float, std: float) -> None:
    """Writes ``(value - mean) / std`` of each pixel: how every crop and every frame gets into a network that sees.

    Args:
        picture: (H, W, 3) of any float type and layout, filled in place with RGB.
        image: (H, W, 3) BGR of the same size, contiguous; its channels are swapped in place.
        mean: Of values 0…255.
        std: The same.
    """
    cv2.cvtColor(image, cv2.COLOR_BGR2RGB, dst=image)
    # At once where the channels lie side by side, else plane by plane: each is three times slower on the other's.
    packed = picture.strides[2] == picture.itemsize
    parts = [(picture, image)] if packed else [(picture[:, :, c], image[:, :, c]) for c in range(3)]
    for part, values in parts:
        np.multiply(values, np.float32(1 / std), out=part, casting="unsafe")
        if mean:
            part -= part.dtype.type(mean / std)


class FloatBuffer:
    """A network's own buffer as float32, whatever its type is.

    Args:
        own: The buffer.

    Attributes:
        array: float32 of the same shape; the buffer itself where that is of this type.
    """

    def __init__(self, own: Array) -> None:
        self._own = own
        self.array: Array = own if own.dtype == np.float32 else np.zeros(own.shape, np.float32)

    def push(self) -> None:
        """Hands what was written to the network; before it runs."""
        if self.array is not self._own:
            np.copyto(self._own, self.array, casting="unsafe")

    def pull(self) -> None:
        """Takes what the network gave; after it ran."""
        if self.array is not self._own:
            np.copyto(self.array, self._own, casting="unsafe")


def shapes_text(shapes: object) -> str:
    """Shapes for a sentence: ``1×3×640×640, 1×512``."""
    listed = list(shapes) if isinstance(shapes, list | tuple) else []
    return ", ".join("×".join(map(str, shape)) or "a single number" for shape in listed) or "nothing"


class Letterbox:
    """Lays whole frames into the top left of a smaller picture, black beside them.

    Args:
        height: Of that picture.
        width: The same.
    """

    def __init__(self, height: int, width: int) -> None:
        self.picture: Image = np.zeros((height, width, 3), np.uint8)
        self._large = np.empty((height * _OVERSAMPLE, width * _OVERSAMPLE, 3), np.uint8)

    def fill(self, image: Image) -> float:
        """Shrinks (or enlarges) a frame into :attr:`picture`.

        Args:
            image: The frame, BGR, of any size.

        Returns:
            Pixels of the picture for one of the frame.
        """
        full_height, full_width = self.picture.shape[:2]
        height, width = image.shape[:2]
        scale = min(full_height / height, full_width / width)
        w = min(full_width, max(1, round(width * scale)))
        h = min(full_height, max(1, round(height * scale)))
        self.picture[:] = 0
        small = self.picture[:h, :w]
        if scale >= 1:
            cv2.resize(image, (w, h), dst=small, interpolation=cv2.INTER_LINEAR)
        elif scale * _OVERSAMPLE >= 1:
            cv2.resize(image, (w, h), dst=small, interpolation=cv2.INTER_AREA)
        else:
            # Averaging every pixel of a 4K frame costs 8 ms; nine taps a pixel are enough against aliasing.
            large = self._large[: h * _OVERSAMPLE, : w * _OVERSAMPLE]
            cv2.resize(image, (w * _OVERSAMPLE, h * _OVERSAMPLE), dst=large, interpolation=cv2.INTER_LINEAR)
            cv2.resize(large, (w, h), dst=small, interpolation=cv2.INTER_AREA)
        return float(scale)


class FrameFeed:
    """Whole frames into a detector's own input.

    Args:
        network: Opened.
        what: What it should be, with its article, for a sentence.
        mean: Of values 0…255; see :func:`put_rgb`.
        std: The same.

    Raises:
        EngineError: The network takes something else than one picture.

    Attributes:
        height: Of the network's picture.
        width: The same.
    """

    def __init__(self, network: Network, what: str, mean: float, std: float) -> None:
        self._picture = picture_input(network, what)
        self.height, self.width = self._picture.shape[:2]
        self._box = Letterbox(self.height, self.width)
        self._mean, self._std = mean, std

    def fill(self, image: Image) -> float:
        """Puts a frame, BGR, into the network's input; returns pixels of the input for one of the frame."""
        scale = self._box.fill(image)
        put_rgb(self._picture, self._box.picture, self._mean, self._std)
        return scale
