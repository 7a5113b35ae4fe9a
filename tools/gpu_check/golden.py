"""The kernels on the card against the same work on the processor: Numba's kernels, OpenCV, and plain NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import cv2
import numpy as np

from engines.analysis.topology import canonical, canonical_uv, triangles
from engines.faces import Array
from engines.kernels import cpu, mask, paste
from engines.kernels.gpu.card import Card, GpuArray
from engines.kernels.gpu.faces import FaceKernels, regions_of
from engines.kernels.gpu.mesh import MeshKernels
from engines.kernels.gpu.pictures import PictureKernels
from engines.kernels.warp import Warp, inverse
from engines.swap.masks.masks import sides_of
from tools.gpu_check.rows import Row
from tools.gpu_check.scene import scattered

_ONE, _NOUGHT = (1.0,) * 3, (0.0,) * 3


class Golden:
    """Checks for one size of frame. Each returns the largest difference, and how large it may be.

    Args:
        card: Where.
        size: Width and height, pixels, both even.
    """

    def __init__(self, card: Card, size: tuple[int, int]) -> None:
        self.card, self.size = card, size
        self._rng = np.random.default_rng(size[0])
        self._faces, self._mesh, self._pictures = (
            FaceKernels(card, 4),
            MeshKernels(card, size),
            PictureKernels(card),
        )
        self._image = self._noise(size[1], size[0], 3)

    def checks(self) -> dict[str, Callable[[], tuple[float, float]]]:
        """All of them by name."""
        return {
            "BGR to I420": self.i420, "mosaic": self.mosaic, "mark": self.mark, "mesh": self.mesh,
            "crops": self.crops, "crops with boost": self.boosted, "baked textures": self.baked,
            "paste-back": self.pasted, "outlines": self.outlines, "erosion and blur": self.softened,
            "moments": self.moments, "matrices that are none": self.hostile,
        }  # fmt: skip

    def _noise(self, *shape: int) -> Array:
        return self._rng.integers(0, 256, shape, np.uint8)

    def _back(self, array: GpuArray) -> Array:
        host: Array = np.empty(array.shape, array.dtype)
        self.card.download(array, host)
        self.card.synchronize()
        return host

    def i420(self) -> tuple[float, float]:
        width, height = self.size
        picture = self.card.empty((height * 3 // 2, width), np.uint8)
        self._pictures.to_i420(self.card.array(self._image), picture)
        return apart(self._back(picture), cv2.cvtColor(self._image, cv2.COLOR_BGR2YUV_I420)), 0

    def mosaic(self) -> tuple[float, float]:
        width, height = self.size
        window = (width // 3, height // 4, width // 3 + 107, height // 4 + 131)
        there, cells = self.card.array(self._image), self.card.empty((6, 5, 3), np.float32)
        self._pictures.cover(there, window, cells)
        expected = self._image.copy()
        region = expected[window[1] : window[3], window[0] : window[2]]
        small = cv2.resize(region, (5, 6), interpolation=cv2.INTER_AREA)
        region[:] = cv2.resize(small, (107, 131), interpolation=cv2.INTER_LINEAR)
        return apart(self._back(there), expected), 1

    def mark(self) -> tuple[float, float]:
        colour, keep = self._noise(40, 150, 3) // 2, self._noise(40, 150, 3)
        there = self.card.array(self._image)
        self._pictures.sprite(there, self.card.array(colour), self.card.array(keep), -9, self.size[1] - 30)
        expected = self._image.copy()
        part = expected[-30:, :141]
        part[:] = np.minimum(np.rint(part.astype(float) * keep[:30, 9:] / 255) + colour[:30, 9:], 255)
        return apart(self._back(there), expected), 0

    def mesh(self) -> tuple[float, float]:
        turn = np.float32([[0.8, 0, 0.6], [0, 1, 0], [-0.6, 0, 0.8]])
        points = canonical() @ turn.T * np.float32(self.size[1] / 40)
        order = np.ascontiguousarray(triangles()[np.argsort(-points[:, 2][triangles()].sum(1))])
        # Half of it over the right border.
        xy = np.ascontiguousarray(points[:, :2] + np.float32([self.size[0] - 20, self.size[1] / 2]))
        texture = cv2.GaussianBlur(self._noise(128, 128, 4), (0, 0), 3)
        uv = np.ascontiguousarray(canonical_uv() * np.float32(126))
        gain = self._rng.uniform(0.5, 1.5, (468, 4)).astype(np.float32)
        gain[:, 3] = self._rng.uniform(0.5, 1, 468) / 255
        there, expected = self.card.array(self._image), self._image.copy()
        self._mesh.composite(there, *(self.card.array(each) for each in (texture, xy, uv, gain, order)))
        cpu.composite(expected, texture, xy, uv, gain, order)
        return apart(self._back(there), expected), 2

    def _cropped(self, boost: int) -> tuple[float, float]:
        affines = scattered(4, self.size, 64 * boost)
        affines[3, :, 2] += 64 * boost  # Half over the border.
        out = self.card.empty((4 * boost**2, 64, 64, 3), np.float32)
        backs = self.card.array(np.stack([inverse(affine) for affine in affines]))
        self._faces.crop(self.card.array(self._image), backs, out, _ONE, _NOUGHT, boost)
        made, worst = self._back(out), 0.0
        for face, affine in enumerate(affines):
            expected: Array = np.empty((64 * boost, 64 * boost, 3), np.float32)
            Warp().crop(self._image, affine, expected, np.float32(_ONE), np.float32(_NOUGHT))
            for tile in range(boost**2):
                part = expected[tile // boost :: boost, tile % boost :: boost]
                worst = max(worst, apart(made[face * boost**2 + tile], part))
        return worst, 0.05

    def crops(self) -> tuple[float, float]:
        return self._cropped(1)

    def boosted(self) -> tuple[float, float]:
        return self._cropped(2)

    def _made(self) -> tuple[Array, Array, Array]:
        pictures = [cv2.GaussianBlur(self._noise(64, 64, 3), (0, 0), 3) for _ in range(4)]
        faces = (np.stack(pictures) / 255.0).astype(np.float32)
        masks = np.zeros((4, 64, 64), np.float32)
        masks[:, 8:-8, 8:-8] = self._rng.uniform(0.3, 1, (4, 48, 48))
        match = np.tile(np.float32([[230, 240, 250], [3, -4, 5]]), (4, 1, 1))
        return faces, masks, match

    def _baked(self, faces: Array, masks: Array, match: Array) -> GpuArray:
        textures = self.card.empty((4, 64, 64, 4), np.uint8)
        faults = self.card.array(np.zeros(4, np.int32))
        given = (self.card.array(each) for each in (faces, masks))
        self._faces.bake(*given, 1, self.card.array(match), faults, textures)
        return textures

    def baked(self) -> tuple[float, float]:
        faces, masks, match = self._made()
        made, worst = self._back(self._baked(faces, masks, match)), 0.0
        for face, mask_, (scale, offset), texture in zip(faces, masks, match, made, strict=True):
            expected = np.empty((64, 64, 4), np.uint8)
            paste.bake(face, mask_, scale, offset, expected, np.empty(paste.LIMITS))
            # The processor leaves out the colours of what cannot be seen.
            seen = expected[:, :, 3] > 0
            worst = max(
                worst, apart(texture[seen], expected[seen]), apart(texture[:, :, 3], expected[:, :, 3])
            )
        return worst, 1

    def _where(self) -> tuple[Array, GpuArray, GpuArray]:
        affines = scattered(4, self.size, 64)
        affines[0, :, 2] += 40
        regions = regions_of(affines, (64, 64), self.size)
        return affines, self.card.array(affines), self.card.array(regions)

    def pasted(self) -> tuple[float, float]:
        faces, masks, match = self._made()
        textures, there, expected = (
            self._baked(faces, masks, match),
            self.card.array(self._image),
            self._image.copy(),
        )
        affines, *where = self._where()
        self._faces.paste(there, textures, *where)
        for texture, affine in zip(self._back(textures), affines, strict=True):
            paste.paste(expected, texture, affine, np.array([0, 63, 0, 63, -1, 127, -64, 64], np.float64))
        # The processor's steps are of whole 65,536ths of a texel, and over a large face they add up.
        return apart(self._back(there), expected), 2

    def outlines(self) -> tuple[float, float]:
        turn = np.linspace(0, 2 * np.pi, 36, endpoint=False)
        round_ = np.stack([np.cos(turn), np.sin(turn)], 1)
        sides = [
            sides_of(self._rng.uniform(40, 90, 2) + round_ * self._rng.uniform(30, 70, 2)) for _ in range(2)
        ]
        lines = np.stack([each[:, :3] for each in sides])
        masks = self.card.empty((2, 128, 128), np.float32)
        self._faces.feather_convex(masks, self.card.array(lines), self.card.array(np.float32([4, 15])))
        expected = np.empty((2, 128, 128), np.float32)
        for each, of_it, feather in zip(expected, sides, (4.0, 15.0), strict=True):
            mask.feather_convex(each, of_it, feather)
        return apart(self._back(masks), expected), 1e-4

    def softened(self) -> tuple[float, float]:
        masks = self._rng.uniform(0, 1, (1, 128, 130)).astype(np.float32)
        weights = cv2.getGaussianKernel(25, 4.0, cv2.CV_32F).ravel()
        there, room = self.card.array(masks), self.card.array(masks)
        self._faces.erode(there, 2, room)
        self._faces.blur(there, self.card.array(weights), room)
        small = cv2.erode(masks[0], np.ones((5, 5), np.uint8))
        expected = cv2.GaussianBlur(small, (25, 25), 4.0, borderType=cv2.BORDER_REPLICATE)
        return apart(self._back(there)[0], expected), 1e-4

    def moments(self) -> tuple[float, float]:
        faces, masks, _ = self._made()
        live = self._rng.uniform(0, 255, faces.shape).astype(np.float32)
        sums = self.card.empty((4, mask.MOMENTS), np.float64)
        self._faces.moments(*(self.card.array(each) for each in (live, faces, masks)), 1, sums)
        made, worst = self._back(sums), 0.0
        for i in range(4):
            expected = np.empty(mask.MOMENTS)
            mask.moments(live[i], faces[i], masks[i], 1, expected)
            worst = max(worst, apart(made[i] / expected, np.ones(mask.MOMENTS)))
        return worst, 1e-4

    def hostile(self) -> tuple[float, float]:
        """What is no map paints nothing, and the card is still there afterwards."""
        there = self.card.array(self._image)
        textures = self.card.array(np.full((4, 8, 8, 4), 255, np.uint8))
        regions = self.card.array(np.tile(np.int32([0, 0, *self.size]), (4, 1)))
        out = self.card.empty((4, 8, 8, 3), np.float32)
        for bad in (np.nan, np.inf, -np.inf, 1e300, -1e12):
            matrices = self.card.array(np.full((4, 2, 3), bad))
            self._faces.crop(there, matrices, out, _ONE, _NOUGHT)
            self._faces.paste(there, textures, matrices, regions)
        return apart(self._back(there), self._image), 0


def apart(one: Array, other: Array) -> float:
    """The largest difference; infinite where one is no number."""
    worst = float(np.abs(one.astype(np.float64) - other).max())
    return worst if np.isfinite(worst) else float("inf")


def compare(card: Card, sizes: tuple[tuple[int, int], ...] = ((1920, 1080), (642, 362))) -> Iterator[Row]:
    """Every kernel on every size."""
    for size in sizes:
        for name, check in Golden(card, size).checks().items():
            label = f"{name}, {size[0]}x{size[1]}"
            try:
                worst, most = check()
            except Exception as error:  # whatever one check meets, the next one may not
                yield Row("kernels", label, note=f"{type(error).__name__}: {error}", ran=False)
                continue
            yield Row("kernels", label, good=worst <= most, value=worst, unit=f"off, at most {most:g}")
