"""BGR frames as the planar picture a virtual camera takes, without new memory per frame."""

from __future__ import annotations

import math

import cv2
import numpy as np

from engines.errors import UsageError
from engines.faces import Image
from realtime.frame import Frame


def require_showable(name: str, size: tuple[int, int], fps: float) -> None:
    """Refuses what no sink can show.

    Args:
        name: The sink, for the message.
        size: Width and height, pixels.
        fps: Frames a second.

    Raises:
        UsageError: A side is odd or not positive, or the rate is not a positive number.
    """
    width, height = size
    if width <= 0 or height <= 0 or width % 2 or height % 2:
        raise UsageError(
            f"{name} cannot show {width}x{height} frames: both sides must be even and greater than zero.",
            f"Use --size {max(width - width % 2, 2)}x{max(height - height % 2, 2)}.",
        )
    if not (math.isfinite(fps) and fps > 0):
        raise UsageError(
            f"{name} cannot run at {fps} frames a second.", "Use a rate above zero, for example --fps 30."
        )


class I420:
    """Makes I420 pictures (BT.601, limited range) of BGR frames in one buffer that stays where it is.

    OpenCV lets go of the GIL while it converts; the conversion inside pyvirtualcam does not.

    Args:
        size: Width and height, pixels, both even.

    Attributes:
        picture: (height·3/2, width) uint8: the Y plane, then U, then V. Overwritten by the next conversion.
    """

    def __init__(self, size: tuple[int, int]) -> None:
        width, height = size
        if width % 2 or height % 2:
            raise UsageError(f"An I420 picture has even sides, not {width}x{height}.", "Use an even --size.")
        self._shape = (height, width, 3)
        self.picture = np.empty((height * 3 // 2, width), np.uint8)

    def of(self, frame: Frame) -> Image:
        """A frame as I420: as it came from a GPU, or converted.

        Returns:
            (height·3/2, width) uint8; read it only, and before the next call.

        Raises:
            ValueError: See :meth:`convert`.
        """
        ready = frame.i420
        if ready is None:
            return self.convert(frame.image)
        if ready.shape != self.picture.shape:
            raise ValueError(f"a picture of shape {ready.shape} for a sink of shape {self.picture.shape}")
        return ready

    def convert(self, image: Image) -> Image:
        """Converts one frame.

        Args:
            image: height×width×3 uint8 BGR of the size given at the start.

        Returns:
            :attr:`picture`.

        Raises:
            ValueError: The frame has another size: OpenCV would quietly use other memory.
        """
        if image.shape != self._shape:
            raise ValueError(f"a frame of shape {image.shape} for a sink of shape {self._shape}")
        cv2.cvtColor(image, cv2.COLOR_BGR2YUV_I420, dst=self.picture)
        return self.picture
