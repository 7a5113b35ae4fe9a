"""A swap generator fed and read, with as many tiles of a finer crop as are asked for.

Pixel boost: a crop of N times the side is split by stride into N² pictures, each of which shows the whole face, a
fraction of a pixel apart; what the network makes of each is put back between the others. As published with FaceFusion.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engines.analysis.feed import FloatBuffer
from engines.catalogue.entry import Contract, Layout, Triple
from engines.errors import EngineError
from engines.faces import Array, Floats
from engines.kernels.warp import rescale
from engines.runtime.base import Network
from engines.swap.neural.contract import Roles

BOOSTS: Final = (1, 2, 4)
"""How many times finer the crop may be."""


class Tiles:
    """Runs a swap generator on a crop.

    Args:
        network: Opened.
        roles: What its inputs and outputs are.
        contract: How it wants its pictures.
        boost: How many times finer than the network's own picture the crop is, N.

    Attributes:
        side: Of crop, face and mask: N times the network's, pixels.
        has_mask: Whether the network says how far each pixel is to be shown.
        runs: How often the network runs for one face.
        roles: What its inputs and outputs are.
        boost: N.
        in_scale: (3,) float32: a level of the crop, 0…255, times this …
        in_offset: … plus this is what the network is fed; B, G, R.
        out_scale: (3,) float32: what it gives times this …
        out_offset: … plus this is a level.

    Raises:
        EngineError: The network is not the one that the file promised.
    """

    def __init__(self, network: Network, roles: Roles, contract: Contract, boost: int = 1) -> None:
        self.network, self.side = network, roles.side * boost
        self.has_mask = bool(roles.masks)
        self.roles, self.boost = roles, boost
        self._ins = [FloatBuffer(array) for array in network.inputs]
        self._outs = [FloatBuffer(array) for array in network.outputs]
        batch = network.inputs[roles.picture].shape[0]
        self.runs = -(-boost * boost // batch)
        shape = (batch, roles.side, roles.side)
        face = pictures_of(self._outs[roles.face].array, roles.layout, contract)
        if face.shape != (*shape, 3):
            raise EngineError(
                f"{network.name} gives {'×'.join(map(str, network.outputs[roles.face].shape))}, where {batch} faces of "
                f"{roles.side}×{roles.side} pixels were expected.",
                "Give the right file.",
            )
        self._pictures = pictures_of(self._ins[roles.picture].array, roles.layout, contract)
        self._faces = face
        self._masks = [self._outs[place].array.reshape(shape) for place in roles.masks]
        # Of channels in the order B, G, R.
        mean, std = _bgr(contract.mean, contract), _bgr(contract.std, contract)
        self.in_scale, self.in_offset = 1 / (255 * std), -mean / std
        self.out_scale = 255 * _bgr(contract.out_std, contract)
        self.out_offset = 255 * _bgr(contract.out_mean, contract)

    def put_latent(self, latent: Floats) -> None:
        """Says whose face to put on, for every tile."""
        if self.roles.source is not None:
            buffer = self._ins[self.roles.source]
            buffer.array.reshape(-1, latent.size)[:] = latent
            buffer.push()

    def source_picture(self, contract: Contract) -> Array:
        """(S, S, 3) float32, B, G, R: a picture of whose face to put on, to be written and then told by
        :meth:`push_source`."""
        place = self.roles.source
        if place is None:
            raise EngineError(f"{self.network.name} takes no picture of a face to put on.")
        picture: Array = pictures_of(self._ins[place].array, self.roles.source_layout, contract)[0]
        return picture

    def push_source(self) -> None:
        """Hands the picture of the source to the network, for every tile."""
        if self.roles.source is not None:
            buffer = self._ins[self.roles.source]
            buffer.array[:] = buffer.array[:1]
            buffer.push()

    def put_morph(self, morph: float) -> None:
        """Says how far to morph, where the network asks for it."""
        if self.roles.morph is not None:
            self.network.inputs[self.roles.morph][...] = morph

    def run(self, crop: Floats, face: Floats, mask: Floats) -> None:
        """Makes a new face of a crop.

        Args:
            crop: (side, side, 3) float32, B, G, R, 0…255.
            face: Likewise, filled with the new face; beyond 0…255 and not finite if the network is.
            mask: (side, side) float32, filled with the least of the network's masks; left as it is without any.

        Raises:
            EngineError: The runtime failed.
        """
        batch, n = len(self._pictures), self.boost
        places = [(i, j) for i in range(n) for j in range(n)]
        for start in range(0, len(places), batch):
            group = places[start : start + batch]
            for (i, j), picture in zip(group, self._pictures, strict=False):
                rescale(crop[i::n, j::n], picture, self.in_scale, self.in_offset)
            self._ins[self.roles.picture].push()
            self.network.run()
            for place in (self.roles.face, *self.roles.masks):
                self._outs[place].pull()
            for tile, (i, j) in enumerate(group):
                rescale(self._faces[tile], face[i::n, j::n], self.out_scale, self.out_offset)
                for number, masks in enumerate(self._masks):
                    part = mask[i::n, j::n]
                    np.minimum(masks[tile], part if number else 1, out=part)

    def close(self) -> None:
        """Frees the network."""
        self.network.close()


def pictures_of(array: Array, layout: Layout, contract: Contract) -> Array:
    """(batch, H, W, 3) view with the channels in the order B, G, R."""
    packed = array.transpose(0, 2, 3, 1) if layout == "nchw" else array
    return packed[..., ::-1] if contract.channels == "rgb" else packed


def _bgr(values: Triple, contract: Contract) -> Floats:
    """Values of channels in the order B, G, R."""
    ordered = values[::-1] if contract.channels == "rgb" else values
    return np.asarray(ordered, np.float32)
