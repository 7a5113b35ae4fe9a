"""A still picture in place of the camera's: it moves and speaks as the live face does, and nothing else is seen.

The frame is painted whole: what the camera saw decides where the picture's face goes, and no pixel of it is left. See
``docs/portrait.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from engines.analysis.source import SourceFace
from engines.analysis.topology import POINTS, REFINED_POINTS
from engines.errors import EngineError
from engines.faces import Face, Image
from engines.portrait.backdrop import filled, mean_colour, read_backdrop
from engines.portrait.follow import Drive, Follower
from engines.portrait.mesh import Posed
from engines.portrait.scene import fitted
from engines.portrait.stage import Stage
from engines.swap.base import Progress

_SIZE: Final = (1280, 720)


@dataclass(frozen=True, slots=True)
class PortraitOptions:
    """What can be chosen about a moving picture.

    Attributes:
        background: What is behind and around it: ``#rrggbb``, ``green`` or ``file:PATH`` of a picture; None for the
            mean colour behind a transparent one and blurred edges around an opaque one.
        size: Width and height of the frames that are expected, pixels: made ready before the first comes. Others are
            as well, when they do.
    """

    background: str | None = None
    size: tuple[int, int] = _SIZE


@dataclass(frozen=True, slots=True)
class PortraitLayer:
    """The picture in one pose.

    Attributes:
        posed: Where all of it goes.
    """

    posed: Posed


class PortraitSwapper:
    """Moves one picture. See :class:`~engines.swap.base.Swapper` and :class:`~engines.swap.base.PaintsAll`.

    Args:
        source: The picture and its face.
        options: What can be chosen.

    Raises:
        UsageError: The background is neither a colour nor a picture.
    """

    name = "portrait"
    landmarks = REFINED_POINTS
    """Lids and irises are seen with all of them only."""

    def __init__(self, source: SourceFace, options: PortraitOptions | None = None) -> None:
        options = options or PortraitOptions()
        self.nodes: Mapping[str, Mapping[str, int]] = {}
        self._source, self._first = source, options.size
        self._backdrop = None if options.background is None else read_backdrop(options.background)
        if self._backdrop is None and source.alpha is not None:
            self._backdrop = mean_colour(source.image, source.alpha)
        self._follower: Follower | None = None
        self._stage: tuple[tuple[int, int], Stage] | None = None

    def open(self, progress: Progress) -> None:
        """See :class:`~engines.swap.base.Swapper`."""
        progress(f"picture of {self._source.name}")
        self._follower = Follower(self._source.points)
        # Compiled code is loaded now and not in the first frame.
        out = np.empty((self._first[1], self._first[0], 3), np.uint8)
        stage = self._stage_of(out)
        drive = self._follower.follow(self._source.points, 0)
        stage.render(out, stage.pose(drive.state, drive.pull))
        self._follower = Follower(self._source.points)

    def swap(self, image: Image, face: Face) -> PortraitLayer:
        """See :class:`~engines.swap.base.Swapper`; it never says no, since it covers whatever is there."""
        points = face.points
        if points.shape not in ((POINTS, 3), (REFINED_POINTS, 3)) or not np.isfinite(points).all():
            raise EngineError("The landmarks of the live face are not numbers.")
        return self._layer(image, self._opened().follow(points, face.track))

    def rest(self, image: Image) -> PortraitLayer:
        """See :class:`~engines.swap.base.PaintsAll`: it eases back to the picture as it was painted."""
        return self._layer(image, self._opened().rest())

    def blend(self, image: Image, layer: PortraitLayer) -> None:
        """See :class:`~engines.swap.base.Swapper`; every pixel of the image is painted."""
        self._opened()
        self._stage_of(image).render(image, layer.posed)

    def close(self) -> None:
        """See :class:`~engines.swap.base.Swapper`."""
        self._follower = self._stage = None

    def _opened(self) -> Follower:
        if self._follower is None:
            raise EngineError("The portrait is used before it was opened.")
        return self._follower

    def _layer(self, image: Image, drive: Drive) -> PortraitLayer:
        return PortraitLayer(self._stage_of(image).pose(drive.state, drive.pull))

    def _stage_of(self, image: Image) -> Stage:
        """The picture in frames of this size; made anew when that changes, which is once where a source has its own."""
        size = (image.shape[1], image.shape[0])
        if self._stage is None or self._stage[0] != size:
            source = self._source
            where = fitted(source.points, (source.image.shape[1], source.image.shape[0]), size)
            behind = None if self._backdrop is None else filled(self._backdrop, size)
            stage = Stage(
                source.image, source.points, where, size,
                alpha=source.alpha, behind=behind, teeth=not source.marked,
            )  # fmt: skip
            self._stage = (size, stage)
        return self._stage[1]
