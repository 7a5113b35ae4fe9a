"""A new face made on a card: cropped, run through the network, masked, matched and baked, without a pixel of the host.

Only matrices go there, and thirteen sums of colours come back for each face, as in :mod:`engines.kernels.mask`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from engines.catalogue.entry import Contract
from engines.errors import EngineError
from engines.faces import Array, Face, Floats
from engines.kernels.gpu.canvas import GpuCanvas
from engines.kernels.gpu.card import Card, GpuArray
from engines.kernels.gpu.faces import regions_of
from engines.kernels.mask import MOMENTS
from engines.kernels.warp import inverse
from engines.swap.masks.masks import EROSIONS, Outline
from engines.swap.neural.boost import Tiles, pictures_of
from engines.swap.neural.colour import step_of
from engines.swap.neural.paste import blocks_of

_LIVE = (1.0,) * 3, (0.0,) * 3


@dataclass(frozen=True, slots=True)
class GpuLayer:
    """What is painted over one face; valid until the next one is made.

    Attributes:
        texture: (1, h, w, 4) uint8 on the card: B, G, R and opacity.
        affine: (1, 2, 3) float64 on the card, frame pixels to texels.
        region: (1, 4) int32 on the card: where it is painted.
    """

    texture: GpuArray
    affine: GpuArray
    region: GpuArray


class GpuMaking:
    """Runs a swap generator on pictures of a card; one thread.

    Args:
        card: The card.
        tiles: The network, opened on that card and on its stream.
        contract: How it wants its pictures.
        outlines: What is shown of the face, besides the network's own masks.
        soften: σ of the blur of those, for a mask of 256 pixels; 0 leaves them.

    Raises:
        EngineError: The network does not take memory of the card.
    """

    def __init__(
        self, card: Card, tiles: Tiles, contract: Contract, outlines: Sequence[Outline], soften: float
    ) -> None:
        self._card, self._tiles, self._outlines = card, tiles, tuple(outlines)
        self._feed = tiles.in_scale.tolist(), tiles.in_offset.tolist()
        network, roles, side, boost = tiles.network, tiles.roles, tiles.side, tiles.boost
        shown = [
            network.inputs[roles.picture],
            *(network.outputs[place] for place in (roles.face, *roles.masks)),
        ]
        if any(array.dtype not in (np.float32, np.float16) for array in shown):
            raise EngineError(f"{network.name} takes or gives no floats.")
        self._in = card.empty(shown[0].shape, shown[0].dtype)
        self._outs = [card.empty(array.shape, array.dtype) for array in network.outputs]
        network.bind(
            {roles.picture: self._in.data.ptr},
            {number: array.data.ptr for number, array in enumerate(self._outs)},
        )
        # Where not all tiles fit at once they are gathered here.
        self._batch = shown[0].shape[0]
        used = (roles.face, *roles.masks)
        self._whole_in, self._whole = self._in, {place: self._outs[place] for place in used}
        if tiles.runs > 1:
            self._whole_in = card.empty(_many(shown[0], tiles.runs), shown[0].dtype)
            self._whole = {
                place: card.empty(_many(network.outputs[place], tiles.runs), network.outputs[place].dtype)
                for place in used
            }
        pictures = boost * boost
        self._pictures = pictures_of(self._whole_in, roles.layout, contract)[:pictures]
        self._faces = pictures_of(self._whole[roles.face], roles.layout, contract)[:pictures]
        shape = (pictures, roles.side, roles.side)
        self._masks = [self._whole[place][:pictures].reshape(*shape) for place in roles.masks]
        self._ones = card.array(np.ones((1, side, side), np.float32))
        self._mask, self._one, self._room = (card.empty((1, side, side), np.float32) for _ in range(3))
        self._live = card.empty((1, side, side, 3), np.float32)
        self._sums, self._sums_here = (
            card.empty((1, MOMENTS), np.float64),
            card.pinned((1, MOMENTS), np.float64),
        )
        self._summed = card.event()
        self._texels = card.empty((side * side * 4,), np.uint8)
        self._weights: GpuArray | None = None
        if roles.masks and soften:
            sigma = soften * side / 256
            self._weights = card.array(
                cv2.getGaussianKernel(round(sigma * 8 + 1) | 1, sigma, cv2.CV_32F).ravel()
            )

    def make(self, picture: GpuCanvas, face: Face, affine: Floats) -> Array | None:
        """Makes the new face and its mask.

        Args:
            picture: The frame, as far as it is painted; it stays as it is.
            face: The live face.
            affine: (2, 3) float32, frame pixels to crop pixels.

        Returns:
            (13,) float64: sums of colours as in :func:`engines.kernels.mask.moments`, in levels; None where an outline
            is none.
        """
        tiles, side, kernels = self._tiles, self._tiles.side, picture.work.faces
        outlines = [one.outline(face, affine, side) for one in self._outlines]
        if any(len(sides) == 0 for sides, _ in outlines):
            return None
        backs, *lines = picture.work.parcels.send(
            inverse(affine)[None],
            *(
                array
                for sides, slope in outlines
                for array in (sides[None, :, :3], np.array([slope], np.float32))
            ),
        )
        kernels.crop(picture.image, backs, self._live, *_LIVE)
        kernels.crop(picture.image, backs, self._pictures, *self._feed, tiles.boost)
        self._run()
        self._card.copy(self._ones, self._mask)
        for mask in self._masks:
            kernels.narrow(self._mask, mask, tiles.boost)
        if self._weights is not None:
            kernels.erode(self._mask, EROSIONS, self._room)
            kernels.blur(self._mask, self._weights, self._room)
        for sides, slope in zip(lines[::2], lines[1::2], strict=True):
            kernels.feather_convex(self._one, sides, slope)
            kernels.narrow(self._mask, self._one)
        kernels.moments(self._live, self._faces, self._mask, step_of(side), self._sums, tiles.boost)
        self._card.download(self._sums, self._sums_here)
        self._card.mark(self._summed)
        self._card.wait(self._summed)
        return self._levels(self._sums_here[0])

    def bake(self, picture: GpuCanvas, affine: Floats, gain: Floats, offset: Floats) -> GpuLayer:
        """What was made, ready to be pasted.

        Args:
            picture: The frame.
            affine: As for :meth:`make`.
            gain: (3,) float32, B, G, R: what levels are multiplied by …
            offset: (3,) float32: … and what is added then.
        """
        tiles, side = self._tiles, self._tiles.side
        block, texels = blocks_of(affine, side)
        across = side // block
        match = np.stack([gain * tiles.out_scale, gain * tiles.out_offset + offset])
        region = regions_of(texels[None], (across, across), picture.size)
        values, there, where = picture.work.parcels.send(match[None].astype(np.float32), texels[None], region)
        texture = self._texels[: across * across * 4].reshape(1, across, across, 4)
        picture.work.faces.bake(
            self._faces, self._mask, block, values, picture.flags[:1], texture, tiles.boost
        )
        return GpuLayer(texture, there, where)

    def _run(self) -> None:
        network, copy = self._tiles.network, self._card.copy
        if self._tiles.runs == 1:
            network.run()
            return
        for number in range(self._tiles.runs):
            part = slice(number * self._batch, (number + 1) * self._batch)
            copy(self._whole_in[part], self._in)
            network.run()
            for place, whole in self._whole.items():
                copy(self._outs[place], whole[part])

    def _levels(self, sums: Array) -> Array:
        """Sums of what the network gave as sums of levels."""
        scale, offset = self._tiles.out_scale.astype(np.float64), self._tiles.out_offset.astype(np.float64)
        weight, first, second = sums[0], sums[7:10], sums[10:13]
        levels = sums.copy()
        levels[7:10] = scale * first + offset * weight
        levels[10:13] = scale * scale * second + 2 * scale * offset * first + offset * offset * weight
        return levels


def _many(array: Any, runs: int) -> tuple[int, ...]:
    return (array.shape[0] * runs, *array.shape[1:])
