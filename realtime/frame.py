"""The frame that walks from a source to a sink, and the buffers it walks in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import cv2
import numpy as np

from engines.faces import Image
from engines.kernels.canvas import Sent
from engines.kernels.planar import Planar
from engines.kernels.pool import Lease, Pool

__all__ = ["Frame", "FramePool", "Kind", "Lease"]


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

    What a picture is made of depends on where it was painted: BGR on the CPU; I420 where a GPU painted it, for that is
    what came down. Nobody has to know: :attr:`image` and :attr:`i420` say what there is, and :attr:`image` makes BGR
    of I420 for whoever asks.

    Attributes:
        picture: H×W×3 uint8 BGR, C-contiguous; or an I420 picture.
        seq: Number of the frame at its source, from 0.
        captured_ns: Monotonic time of capture. It stays with the frame to the sink, so that frame age is
            measured and not guessed.
        kind: What the picture shows.
        lease: The pooled buffer behind ``picture``; whoever holds a frame that shares it keeps it from being reused.
        sent: The same picture on its way to where it is going to be painted; None if that is here.
    """

    picture: Image | Planar
    seq: int
    captured_ns: int
    kind: Kind = Kind.LIVE
    lease: Lease[Image] | None = None
    sent: Sent | None = None

    @property
    def image(self) -> Image:
        """H×W×3 uint8 BGR. Of a frame that came from a GPU it is made when first asked for, in that thread."""
        return self.picture.bgr() if isinstance(self.picture, Planar) else self.picture

    @property
    def i420(self) -> Image | None:
        """(H·3/2, W) uint8: Y, U and V as a sink takes them; None if nobody made that yet."""
        return self.picture.i420 if isinstance(self.picture, Planar) else None

    @property
    def size(self) -> tuple[int, int]:
        """Width and height, pixels."""
        if isinstance(self.picture, Planar):
            return self.picture.size
        return self.picture.shape[1], self.picture.shape[0]

    def sample(self, columns: int, rows: int) -> Image:
        """(rows, columns, 3) uint8 BGR: some pixels, evenly, whatever the picture is made of."""
        if isinstance(self.picture, Planar):
            return self.picture.sample(columns, rows)
        few = cv2.resize(self.picture, (columns, rows), interpolation=cv2.INTER_NEAREST)
        return np.asarray(few, np.uint8)

    def shown_as(self, kind: Kind) -> Frame:
        """The same picture under another name."""
        return replace(self, kind=kind)

    def painted(self, picture: Image | Planar) -> Frame:
        """The frame with what was painted; of what it was captured as nothing is left in it."""
        if picture is self.picture:
            return self
        return replace(self, picture=picture, lease=None, sent=None)

    def sealed(self, kind: Kind) -> Frame:
        """The frame as it is published: under its name, and read-only, for the sinks share it."""
        picture = self.picture
        if not isinstance(picture, Planar):
            picture = picture.view()
            picture.flags.writeable = False
        return replace(self, picture=picture, kind=kind, sent=None)


class FramePool(Pool[Image]):
    """Buffers of one size that come back by themselves when the last frame on them is dropped.

    Fresh memory for every frame would cost a page fault per 4 KiB; 1080p has 1,500 of them.

    Args:
        size: Width and height, pixels.
    """

    def __init__(self, size: tuple[int, int]) -> None:
        super().__init__(lambda: np.empty((size[1], size[0], 3), np.uint8))
