"""The small numbers of a frame on their way to a card, landmarks, matrices, tables: few uploads and no new memory."""

from __future__ import annotations

from typing import Final

import numpy as np

from engines.faces import Array
from engines.kernels.gpu.card import Card, GpuArray

_APART: Final = 256
"""Bytes: where an array may begin."""
_ROOM: Final = 1 << 18


class Parcels:
    """Page-locked memory and memory of the card, used from its beginning to its end in every frame. One thread.

    Args:
        card: Where they go.
    """

    def __init__(self, card: Card) -> None:
        self._card = card
        self._at = 0
        self._make(_ROOM)

    @property
    def empty(self) -> bool:
        """Whether nothing was sent since :meth:`restart`."""
        return self._at == 0

    def send(self, *arrays: Array) -> tuple[GpuArray, ...]:
        """Sends some arrays with one upload.

        Args:
            arrays: Of any shape and type, none of them empty; copied at once.

        Returns:
            The same on the card, true for what is put on its stream before the next call that finds no room.

        Raises:
            EngineError: The card failed.
        """
        starts, size = [], 0
        for array in arrays:
            starts.append(size)
            size += -(-array.nbytes // _APART) * _APART
        if self._at + size > self._here.nbytes:
            # What is on its way is read from the memory that is about to be used again.
            self._card.synchronize()
            self._at = 0
            if size > self._here.nbytes:
                self._make(2 * size)
        begin = self._at
        self._at = begin + size
        views = []
        for array, start in zip(arrays, starts, strict=True):
            place = slice(begin + start, begin + start + array.nbytes)
            np.copyto(self._here[place].view(array.dtype).reshape(array.shape), array)
            views.append(self._there[place].view(array.dtype).reshape(array.shape))
        self._card.upload(self._here[begin : self._at], self._there[begin : self._at])
        return tuple(views)

    def restart(self) -> None:
        """Begins anew; everything that was sent has been used."""
        self._at = 0

    def _make(self, size: int) -> None:
        self._here = self._card.pinned((size,), np.uint8)
        self._there = self._card.empty((size,), np.uint8)
