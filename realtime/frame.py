"""The frame that walks from a source to a sink, and the buffers it walks in."""

from __future__ import annotations

import weakref
from collections import deque
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from engines.faces import Image


class Kind(Enum):
    """What a frame shows; a sink is never handed a ``LIVE`` one."""

    LIVE = "live"
    """As captured: the real face."""
    SWAPPED = "swapped"
    """Every chosen face is covered by a trusted swap."""
    HELD = "held"
    """The last trusted swap, shown again because the newest picture cannot be trusted."""
    VEILED = "veiled"
    """The live picture, pixelated beyond recognition."""
    SLATE = "slate"
    """A card: there is no live picture."""
    BARE = "bare"
    """The live picture, shown because the user asked for it with ``--on-lost passthrough``."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Frame:
    """One picture and when it was taken.

    A frame has one owner: whoever takes it from a mailbox may paint into it until it is published again.
    What the process thread publishes is shared by the sinks and read-only from then on.

    Attributes:
        image: H×W×3 uint8 BGR, C-contiguous.
        seq: Number of the frame at its source, from 0.
        captured_ns: Monotonic time of capture. It stays with the frame to the sink, so that frame age is
            measured and not guessed.
        kind: What the picture shows.
        lease: The pooled buffer behind ``image``; whoever holds a frame that shares it keeps it from being reused.
    """

    image: Image
    seq: int
    captured_ns: int
    kind: Kind = Kind.LIVE
    lease: Lease | None = None

    def shown_as(self, kind: Kind) -> Frame:
        """The same picture under another name."""
        return replace(self, kind=kind)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height, pixels."""
        return self.image.shape[1], self.image.shape[0]


class Lease:
    """Keeps one buffer of a pool in use for as long as anything refers to it."""

    __slots__ = ("__weakref__", "buffer")

    def __init__(self, buffer: Image) -> None:
        self.buffer = buffer


class FramePool:
    """Buffers of one size that come back by themselves when the last frame on them is dropped.

    Fresh memory for every frame would cost a page fault per 4 KiB; 1080p has 1,500 of them.

    Args:
        size: Width and height, pixels.
    """

    def __init__(self, size: tuple[int, int]) -> None:
        self._shape = (size[1], size[0], 3)
        self._free: deque[Image] = deque()
        self.allocated = 0

    def lease(self) -> Lease:
        """A buffer to fill; its content is undefined."""
        try:
            buffer = self._free.pop()
        except IndexError:
            buffer = np.empty(self._shape, np.uint8)
            self.allocated += 1
        lease = Lease(buffer)
        # The deque and not the pool, so that a pool can die before its frames.
        weakref.finalize(lease, self._free.append, buffer).atexit = False
        return lease
