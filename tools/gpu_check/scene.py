"""A frame with faces on a card, and every stage it goes through between camera and virtual camera."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from engines.faces import Array
from engines.kernels.gpu.card import Card
from engines.kernels.gpu.faces import FaceKernels, regions_of
from engines.kernels.gpu.pictures import PictureKernels
from engines.kernels.warp import inverse

SIZES = {"1080p": (1920, 1080), "4K": (3840, 2160)}


@dataclass(frozen=True)
class Stage:
    """One step of a frame.

    Attributes:
        name: What it is.
        job: Puts it on the card's stream.
        work: See :class:`tools.gpu_check.rows.Row`.
    """

    name: str
    job: Callable[[], None]
    work: dict[str, float]


def square(x: float, y: float, size: float, turn: float, side: int) -> Array:
    """(2, 3) float64: frame pixels to crop pixels, for a turned square of the frame."""
    scale = side / size
    a, b, half = np.cos(turn) * scale, np.sin(turn) * scale, (side - 1) / 2
    return np.array([[a, b, half - a * x - b * y], [-b, a, half + b * x - a * y]])


def scattered(count: int, size: tuple[int, int], side: int) -> Array:
    """(N, 2, 3): so many faces beside one another, each as wide as two fifths of the frame's height."""
    width, height = size
    return np.stack([
        square(width * (i + 1) / (count + 1), height * 0.45, height * 0.4, 0.15 * (i + 1), side) for i in range(count)
    ])  # fmt: skip


class Scene:
    """Buffers that stay, and the stages that use them.

    Args:
        card: Where.
        size: Width and height of the frame, pixels, both even.
        faces: How many.
        side: Of the network's picture, pixels.

    Attributes:
        camera: (H, W, 3) uint8 BGR, page-locked: what came from the camera.
        sink: (H·3/2, W) uint8, page-locked: what goes to the virtual camera.
        net_in: (N, 3, side, side) float16, on the card: what the network reads, RGB, 0…1.
        net_out: The same, what it makes.
        network: What stands in for the network; a copy on the card unless it is replaced before :meth:`stages`.
    """

    def __init__(self, card: Card, size: tuple[int, int], faces: int, side: int = 128) -> None:
        width, height = size
        self.card, self.size, self.faces, self.side = card, size, faces, side
        self.camera = card.pinned((height, width, 3), np.uint8)
        self.sink = card.pinned((height * 3 // 2, width), np.uint8)
        self.net_in, self.net_out = (card.empty((faces, 3, side, side), np.float16) for _ in range(2))
        self._image, self._picture = (
            card.empty(self.camera.shape, np.uint8),
            card.empty(self.sink.shape, np.uint8),
        )
        self._places = card.pinned((2, faces, 2, 3), np.float64)
        self._regions = card.pinned((faces, 4), np.int32)
        self._on_card = card.empty(self._places.shape, np.float64), card.empty((faces, 4), np.int32)
        ramp = np.clip(np.minimum(*np.mgrid[0:side, 0:side]) / (side * 0.1), 0, 1).astype(np.float32)
        mask = np.minimum(ramp, ramp[::-1, ::-1])
        self._masks = card.array(np.repeat(mask[None], faces, 0))
        self._match = card.array(np.tile(np.float32([[255] * 3, [0] * 3]), (faces, 1, 1)))
        self._faults = card.array(np.zeros(faces, np.int32))
        self._textures = card.empty((faces, side, side, 4), np.uint8)
        self._face_kernels, self._pictures = FaceKernels(card, faces), PictureKernels(card)
        self.network: Callable[[], None] = lambda: card.copy(self.net_in, self.net_out)
        self.camera[:] = np.random.default_rng(0).integers(0, 256, (1, width, 3), np.uint8)
        self.place(scattered(faces, size, side))

    def place(self, affines: Array) -> None:
        """Says where the faces are: (N, 2, 3), frame pixels to crop pixels."""
        self._affines = affines
        self._places[0] = [inverse(affine) for affine in affines]
        self._places[1] = affines
        self._regions[:] = regions_of(affines, (self.side, self.side), self.size)

    def stages(self) -> list[Stage]:
        """In the order in which a frame goes through them."""
        card, image, faces = self.card, self._image, self._face_kernels
        pixels, crop = self.size[0] * self.size[1], self.side * self.side * self.faces
        seen = float(sum(1 / abs(np.linalg.det(affine[:, :2])) for affine in self._affines)) * self.side**2
        backs, affines = self._on_card[0][0], self._on_card[0][1]
        pictures = self.net_in.transpose(0, 2, 3, 1)[:, :, :, ::-1]
        made = self.net_out.transpose(0, 2, 3, 1)[:, :, :, ::-1]

        def upload() -> None:
            card.upload(self.camera, image)
            card.upload(self._places, self._on_card[0])
            card.upload(self._regions, self._on_card[1])

        return [
            Stage("upload", upload, {"up": 3.0 * pixels}),
            Stage(
                "crop", lambda: faces.crop(image, backs, pictures, (1 / 255,) * 3, (0.0,) * 3),
                {"memory": 3 * seen + 6 * crop, "fp32": 12 * seen},
            ),
            Stage("network", self.network, {"memory": 12.0 * crop}),
            Stage(
                "bake", lambda: faces.bake(made, self._masks, 1, self._match, self._faults, self._textures),
                {"memory": 14.0 * crop, "fp32": 16.0 * crop},
            ),
            Stage(
                "paste", lambda: faces.paste(image, self._textures, affines, self._on_card[1]),
                {"memory": 6 * seen + 4 * crop, "fp32": 50 * seen},
            ),
            Stage("I420", lambda: self._pictures.to_i420(image, self._picture), {"memory": 4.5 * pixels}),
            Stage("download", lambda: card.download(self._picture, self.sink), {"down": 1.5 * pixels}),
        ]  # fmt: skip
