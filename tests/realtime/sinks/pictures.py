"""Frames that tell one colour, one place and one number from another."""

from __future__ import annotations

import numpy as np

from realtime.frame import Frame, Kind

COLOURS = [
    (0, 0, 0),
    (255, 255, 255),
    (255, 0, 0),
    (0, 255, 0),
    (0, 0, 255),
    (255, 255, 0),
    (0, 255, 255),
    (255, 0, 255),
    (128, 128, 128),
    (30, 60, 200),
    (190, 120, 70),
    (0, 128, 255),
]
"""BGR, from left to right."""


def bars(size=(192, 64)):
    width, height = size
    image = np.empty((height, width, 3), np.uint8)
    for i, colour in enumerate(COLOURS):
        image[:, i * width // len(COLOURS) : (i + 1) * width // len(COLOURS)] = colour
    return image


def bar_colours(image):
    """The colour in the middle of every bar, (12, 3) int."""
    width = image.shape[1]
    x = [(2 * i + 1) * width // (2 * len(COLOURS)) for i in range(len(COLOURS))]
    return image[image.shape[0] // 2, x].astype(int)


def noise(seed, size=(192, 64)):
    return np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8)


def frame(image, seq=0, kind=Kind.SWAPPED):
    """A frame as the process thread publishes it: nobody may write into it."""
    image.setflags(write=False)
    return Frame(image, seq, seq * 33_000_000, kind)
