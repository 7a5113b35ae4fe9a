"""Swap generators for pictures on a card.

Where network, outlines and colours are all there is to do, nothing of a face comes to the host
(:mod:`engines.swap.neural.making_gpu`). Masks that look at the crop and restorers work on the host: then the face is
made there, of the live picture, which never left, and pasted on the card. Which of the two it is, is said when it is
opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from engines.analysis.source import SourceFace
from engines.analysis.topology import POINTS
from engines.errors import EngineError
from engines.faces import Face
from engines.kernels.gpu.canvas import GpuCanvas, GpuEasel
from engines.kernels.gpu.faces import regions_of
from engines.runtime.device import CPU, Device
from engines.runtime.ort.bindings import CPU_PROVIDER
from engines.swap.base import Progress
from engines.swap.masks.masks import Outline
from engines.swap.neural.colour import step_of
from engines.swap.neural.generator import Generator
from engines.swap.neural.making_gpu import GpuLayer, GpuMaking
from engines.swap.neural.neural import NeuralOptions, NeuralSwapper
from engines.swap.neural.paste import NeuralLayer

_ONES = np.ones(3, np.float32)
_NOUGHTS = np.zeros(3, np.float32)


class GpuNeuralSwapper(NeuralSwapper):
    """A :class:`~engines.swap.neural.neural.NeuralSwapper` that paints on a card.

    Args:
        easel: What pictures are painted on.
        generator: See there, as everything else.
        sources: The same.
        device: The same.
        options: The same.
        landmarks: The same.
        others: The same.
    """

    def __init__(
        self,
        easel: GpuEasel,
        generator: Generator,
        sources: Sequence[SourceFace],
        device: Device = CPU,
        options: NeuralOptions | None = None,
        landmarks: int = POINTS,
        others: Sequence[Sequence[SourceFace]] = (),
    ) -> None:
        super().__init__(generator, sources, device, options, landmarks, others)
        self._easel = easel
        self._making: GpuMaking | None = None

    def open(self, progress: Progress) -> None:
        """See :class:`~engines.swap.base.Swapper`."""
        if self._options.colour == "poisson":
            raise EngineError(
                "Poisson blending runs on the CPU only.", "Use --colour match, or --device cpu."
            )
        card = self._easel.work.card
        self._stream = int(card.stream.ptr)
        super().open(progress)
        why = self._why_not()
        if not why and self._tiles is not None:
            contract, outlines = self._generator.contract, [
                source for source in self._mask_sources if isinstance(source, Outline)
            ]  # fmt: skip
            self._making = GpuMaking(card, self._tiles, contract, outlines, self._generator.soften)
            with card.current():
                self._tiles.network.run()  # once more, on the memory that it was bound to
            card.synchronize()
        progress(f"faces are made on the {'processor and pasted on the GPU: ' + why if why else 'GPU'}")

    def swap(self, image: Any, face: Face) -> Any:
        """See :class:`~engines.swap.base.Swapper`; ``image`` is a :class:`~engines.kernels.gpu.canvas.GpuCanvas`."""
        picture: GpuCanvas = image
        tiles, making = self._tiles, self._making
        if making is None or tiles is None:
            return super().swap(picture.live, face)
        affine = self._placed(face, tiles.side)
        if affine is None:
            return None
        self._whose.tell(tiles, face.person)
        sums = making.make(picture, face, affine)
        if sums is None or not np.isfinite(sums).all():
            return None
        if not self._enough(float(sums[0]) * step_of(tiles.side) ** 2, face, affine):
            return None
        gain, offset = _ONES, _NOUGHTS
        if self._options.colour == "match":
            gain, offset = self._colours.of_sums(face.track, sums)
        return making.bake(picture, affine, gain, offset)

    def blend(self, image: Any, layer: NeuralLayer | GpuLayer) -> None:
        """See :class:`~engines.swap.base.Swapper`."""
        picture: GpuCanvas = image
        if isinstance(layer, NeuralLayer):
            height, width, _ = layer.texture.shape
            region = regions_of(layer.affine[None], (width, height), picture.size)
            sent = picture.work.parcels.send(layer.texture[None], layer.affine[None], region)
            layer = GpuLayer(*sent)
        picture.work.faces.paste(picture.image, layer.texture, layer.affine, layer.region)

    def close(self) -> None:
        """See :class:`~engines.swap.base.Swapper`."""
        super().close()
        self._making = None

    def _why_not(self) -> str:
        """Why faces are not made on the card; empty if they are."""
        if self._options.restorer is not None:
            return "a restorer works there"
        host = [source.name for source in self._mask_sources if not isinstance(source, Outline)]
        if host:
            return f"the mask {host[0]} works there"
        if self._tiles is None or not set(self._tiles.network.nodes) - {CPU_PROVIDER}:
            return "the network runs there"
        return ""
