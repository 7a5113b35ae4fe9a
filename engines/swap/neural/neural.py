"""Swap generators: a network makes the new face of an aligned crop of the live one, and it is pasted back.

The same way for every model, see ``docs/neural-swap.md``; what differs is in its :class:`~engines.catalogue.entry.
Contract` and in its file.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import cv2
import numpy as np

from engines.analysis.align import crop_affine
from engines.analysis.source import SourceFace
from engines.analysis.topology import POINTS
from engines.errors import EngineError
from engines.faces import Face, Floats, Image
from engines.kernels import mask as mask_kernels
from engines.kernels import paste as paste_kernels
from engines.kernels import warp as warp_kernels
from engines.kernels.ready import make_ready
from engines.restore.restorer import Restorer
from engines.restore.ways import Never, Rarely
from engines.runtime.base import Network
from engines.runtime.device import CPU, Device
from engines.runtime.open import open_network
from engines.runtime.rate import slow_advice, warm_up
from engines.swap.base import Progress
from engines.swap.masks.masks import Masks, MaskSource, outline_mask, outline_of, soften
from engines.swap.neural.boost import Tiles
from engines.swap.neural.colour import ColourMatch
from engines.swap.neural.dfm import MORPH
from engines.swap.neural.generator import Generator
from engines.swap.neural.paste import Baker, NeuralLayer, paint, paint_poisson
from engines.swap.neural.whose import Whose

log = logging.getLogger(__name__)

Colour = Literal["match", "poisson", "none"]

_COVERS: Final = 0.3
"""Part of the face's outline that must be covered, or the real one would be seen."""
_SMALLEST: Final = 8.0
"""Pixels of the frame that a crop must be wide."""
_ONES: Final = np.ones(3, np.float32)
_NOUGHTS: Final = np.zeros(3, np.float32)


@dataclass(frozen=True, slots=True)
class NeuralOptions:
    """What can be chosen for a swap generator.

    Attributes:
        boost: How many times finer than the network's own picture the crop is: 1, 2 or 4.
        morph: How far a DFM morphs, 0…1, where it leaves a choice.
        shape: Which outline the new face has, one of :data:`~engines.swap.masks.choice.OUTLINES`.
        colour: ``match`` gives it the live face's colours, ``poisson`` blends gradients, which is slow, ``none``
            leaves it as the network made it.
        fps: Frames a second that are wanted, to say in advance what cannot be kept.
        masks: More that take from what is shown.
        restorer: What the new face is restored by; None for nothing.
    """

    boost: int = 1
    morph: float = MORPH
    shape: str = "oval"
    colour: Colour = "match"
    fps: float = 30.0
    masks: Sequence[MaskSource] = field(default=())
    restorer: Restorer | None = None


class NeuralSwapper:
    """Runs one swap generator. See :class:`~engines.swap.base.Swapper`.

    Args:
        generator: Which, and how it wants to be fed.
        sources: One or several photos of one person; none where the network knows whose face it puts on.
        device: What it runs on.
        options: What can be chosen.
        landmarks: How many landmarks the tracker is asked for, 468 or 478.
        others: Photos of more people, each of whom gets a number of :attr:`~engines.faces.Face.person` from 1 on.

    Attributes:
        advice: What a user should know in advance about its speed; empty if it keeps the rate. Known once open.
    """

    def __init__(
        self,
        generator: Generator,
        sources: Sequence[SourceFace],
        device: Device = CPU,
        options: NeuralOptions | None = None,
        landmarks: int = POINTS,
        others: Sequence[Sequence[SourceFace]] = (),
    ) -> None:
        self.name = generator.name
        self.landmarks = landmarks
        self.nodes: Mapping[str, Mapping[str, int]] = {}
        self.advice = ""
        self._generator, self._device = generator, device
        self._whose = Whose(generator, (sources, *others), device)
        self._options = options or NeuralOptions()
        # The box always, so that the edge of a crop is never seen.
        outlines = dict.fromkeys(("box", self._options.shape))
        self._mask_sources = (
            *(outline_mask(name, generator.contract.template) for name in outlines),
            *self._options.masks,
        )
        self._tiles: Tiles | None = None
        self._stream = 0  # of its own

    def open(self, progress: Progress) -> None:
        """See :class:`~engines.swap.base.Swapper`."""
        generator, options = self._generator, self._options
        make_ready(progress, warp_kernels, paste_kernels, mask_kernels)
        progress(f"network {generator.path.name}")
        tiles = self._tiles = self._opened_network(progress)
        self.nodes = {tiles.network.name: tiles.network.nodes}
        for source in options.masks:
            source.open(progress)
            self.nodes = {**self.nodes, **source.nodes}
        side, restorer = tiles.side, options.restorer
        # Before all that takes long: it may be the wrong file.
        if restorer is not None:
            restorer.open(progress, generator.contract.template, side)
            self.nodes = {**self.nodes, **restorer.nodes}
        self._whose.open(tiles, progress)
        tiles.put_morph(options.morph)
        self._crop = np.zeros((side, side, 3), np.float32)
        self._face = np.zeros((side, side, 3), np.float32)
        self._mask = np.ones((side, side), np.float32)
        self._warp = warp_kernels.Warp()
        self._masks, self._colours, self._baker = Masks(self._mask_sources, side), ColourMatch(), Baker(side)
        progress(f"warming up {generator.path.name}")
        ms = warm_up(tiles.network) * tiles.runs
        progress(f"{generator.name} takes {ms:.0f} ms a face")
        ms += sum(source.ms for source in self._mask_sources) + (restorer.ms if restorer else 0)
        self.advice = slow_advice(generator.name, ms, options.fps, self._device.kind)

    def swap(self, image: Image, face: Face) -> NeuralLayer | None:
        """See :class:`~engines.swap.base.Swapper`."""
        tiles = self._tiles
        if tiles is None:
            raise EngineError(f"The engine {self.name} is used before it was opened.")
        crop, new, mask = self._crop, self._face, self._mask
        affine = self._placed(face, tiles.side)
        if affine is None:
            return None
        self._warp.crop(image, affine, crop, _ONES, _NOUGHTS)
        mask[:] = 1
        self._whose.tell(tiles, face.person)
        tiles.run(crop, new, mask)
        if tiles.has_mask and self._generator.soften:
            soften(mask, self._generator.soften)
        self._masks.narrow(crop, face, affine, mask)
        if not self._covers(mask, face, affine):
            return None
        gain, offset = _ONES, _NOUGHTS
        if self._options.colour == "match":
            gain, offset = self._colours.match(face.track, crop, new, mask)
        restorer = self._options.restorer
        if restorer is not None and restorer.works:
            return restorer.bake(image, face, new, mask, gain, offset, affine)
        return self._baker.bake(new, mask, gain, offset, affine)

    def blend(self, image: Image, layer: NeuralLayer) -> None:
        """See :class:`~engines.swap.base.Swapper`."""
        if self._options.colour == "poisson":
            paint_poisson(image, layer)
        else:
            paint(image, layer)

    def close(self) -> None:
        """See :class:`~engines.swap.base.Swapper`."""
        tiles, self._tiles = self._tiles, None
        if tiles is not None:
            tiles.close()
        for source in self._options.masks:
            source.close()
        if self._options.restorer is not None:
            self._options.restorer.close()

    @property
    def gives_way(self) -> Sequence[Rarely | Never]:
        """What it can do without when frames take too long, what is missed least first."""
        restorer = self._options.restorer
        return () if restorer is None else restorer.gives_way

    def _placed(self, face: Face, side: int) -> Floats | None:
        """Frame pixels to crop pixels; None where no crop of the face can be made."""
        if not np.isfinite(face.points).all():
            raise EngineError("The landmarks of the live face are not numbers.")
        try:
            affine = crop_affine(self._generator.contract.template, side, face.alignment)
        except ValueError:
            return None
        # The similarity of a face that is seen edge on may be no map at all, or one of half a pixel.
        scale = float(np.hypot(affine[0, 0], affine[1, 0]))
        return affine if np.isfinite(affine).all() and 0 < scale < side / _SMALLEST else None

    def _opened_network(self, progress: Progress) -> Tiles:
        """The network with as many tiles at once as it takes."""
        generator, boost = self._generator, self._options.boost
        roles = generator.roles
        network = None
        if roles.batch == 0 and boost > 1:
            try:
                network = self._network(boost * boost, progress)
                network.run()
            except EngineError as error:
                # Exporters leave the batch open in the file and fix it in the graph.
                log.info("%s takes one picture at a time: %s", generator.name, error)
                if network is not None:
                    network.close()
                network = None
        network = network or self._network(roles.batch or 1, progress)
        try:
            return Tiles(network, roles, generator.contract, boost)
        except BaseException:
            network.close()
            raise

    def _network(self, batch: int, progress: Progress) -> Network:
        generator = self._generator
        return open_network(
            generator.path, self._device, batch=batch,
            shapes=generator.roles.shapes(batch), stream=self._stream, progress=progress,
        )  # fmt: skip

    def _covers(self, mask: Floats, face: Face, affine: Floats) -> bool:
        """Whether a mask hides enough of the real face."""
        return self._enough(float(mask.sum(dtype=np.float64)), face, affine)

    @staticmethod
    def _enough(total: float, face: Face, affine: Floats) -> bool:
        """Whether a mask with this sum hides enough of the real face."""
        area = float(cv2.contourArea(cv2.convexHull(outline_of(face, affine))))
        return math.isfinite(total) and area > 1 and total >= _COVERS * area
