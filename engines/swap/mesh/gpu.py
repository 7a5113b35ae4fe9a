"""The mesh swapper for pictures on a card: worked out on the processor, painted on the card.

What is worked out, light, eyes, shape and what is before the face, looks at a few thousand pixels of the live picture,
which never left the processor. What is painted with, openings and what is before the face, is taken on the card out of
the picture that is painted there, so that nothing comes back that was covered already.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from engines.faces import Array, Face, Floats
from engines.kernels.canvas import Window
from engines.kernels.gpu.canvas import GpuCanvas, GpuEasel
from engines.kernels.gpu.card import GpuArray
from engines.swap.base import Progress
from engines.swap.mesh.kept import place_of
from engines.swap.mesh.mesh import MeshLayer, MeshSwapper

_MARGIN: Final = 2
"""Pixels around a mesh that it may still touch."""
_BLANK: Final = np.zeros((256, 3), np.uint8)


class GpuMeshSwapper:
    """Paints another swapper's work on a card. See :class:`~engines.swap.base.Swapper`.

    Args:
        mesh: What works it out; opened and closed here.
        easel: What pictures are painted on.
    """

    def __init__(self, mesh: MeshSwapper, easel: GpuEasel) -> None:
        self.name, self.landmarks = mesh.name, mesh.landmarks
        self.nodes: Mapping[str, Mapping[str, int]] = {}
        self._mesh, self._easel = mesh, easel
        self._levels: list[tuple[GpuArray, GpuArray]] = []
        self._plain: GpuArray = None
        self._room: dict[object, GpuArray] = {}

    def open(self, progress: Progress) -> None:
        """See :class:`~engines.swap.base.Swapper`."""
        self._mesh.open(progress)
        card, texture = self._easel.work.card, self._mesh.texture
        self._levels = [
            (card.array(level), card.array(uv)) for level, uv in zip(texture.levels, texture.uv, strict=True)
        ]
        plain = np.ones((len(texture.uv[0]), 4), np.float32)
        plain[:, 3] = 1 / 255
        self._plain = card.array(plain)

    def swap(self, image: GpuCanvas, face: Face) -> MeshLayer | None:
        """See :class:`~engines.swap.base.Swapper`."""
        return self._mesh.swap(image.live, face)

    def blend(self, image: GpuCanvas, layer: MeshLayer) -> None:
        """See :class:`~engines.swap.base.Swapper`."""
        work, painted = image.work, image.image
        texture, uv = self._levels[layer.level]
        place = place_of(layer.cover, image.size) if layer.cover is not None else None
        shown = [opening for opening in layer.openings if len(opening.triangles)]
        arrays = [layer.xy, layer.gain, layer.order]
        for opening in shown:
            arrays += opening.uv, opening.triangles, _BLANK if opening.colours is None else opening.colours
        if layer.cover is not None and place is not None:
            arrays += layer.cover.mask, place[1], _BLANK
        # All at once: what is sent later may need the room of what was sent before and is not used yet.
        sent = work.parcels.send(*arrays)
        xy, gain, order = sent[:3]
        kept = None if place is None else self._lifted(image, place[0], *sent[-3:])
        for number, opening in enumerate(shown):
            places, corners, colours = sent[3 + 3 * number : 6 + 3 * number]
            live = self._scratch(number, opening.texture.shape[:2])
            work.pictures.lift(painted, opening.corner, live, colours, opening.strength)
            window = _window(layer.xy, opening.triangles)
            work.mesh.composite(painted, live, xy, places, self._plain, corners, window)
        work.mesh.composite(painted, texture, xy, uv, gain, order, _window(layer.xy, layer.order))
        if kept is not None:
            work.pictures.put_back(painted, *kept)

    def close(self) -> None:
        """See :class:`~engines.swap.base.Swapper`."""
        self._mesh.close()
        self._levels, self._plain, self._room = [], None, {}

    def _lifted(
        self, picture: GpuCanvas, window: Window, mask: GpuArray, affine: GpuArray, blank: GpuArray
    ) -> tuple[tuple[int, int], GpuArray, GpuArray, GpuArray]:
        """What is before the face, lifted before anything is painted: its corner, its pixels, the mask and its map."""
        left, top, right, bottom = window
        live = self._scratch("kept", (bottom - top, right - left))
        picture.work.pictures.lift(picture.image, (left, top), live, blank, 0.0)
        return (left, top), live, mask, affine

    def _scratch(self, name: object, size: tuple[int, ...]) -> GpuArray:
        """(h, w, 4) uint8 on the card: memory that grows to the largest that was needed, and stays."""
        height, width = size
        count = height * width * 4
        room = self._room.get(name)
        if room is None or room.nbytes < count:
            room = self._room[name] = self._easel.work.card.empty((count * 3 // 2,), np.uint8)
        return room[:count].reshape(height, width, 4)


def _window(xy: Floats, corners: Array) -> Window:
    """Left, top, right and bottom of some triangles, pixels."""
    points = xy[corners.reshape(-1)] if len(corners) else xy[:1]
    # Bounded while still a float: an integer too large to hold is no number at all.
    low = np.clip(np.floor(points.min(0)) - _MARGIN, -1e6, 1e6).astype(int)
    high = np.clip(np.ceil(points.max(0)) + _MARGIN, -1e6, 1e6).astype(int)
    return int(low[0]), int(low[1]), int(high[0]), int(high[1])
