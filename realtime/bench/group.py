"""Several portraits side by side, each with a motion of its own: as many faces in a frame as are to be measured."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from engines.errors import UsageError
from realtime.clock import Clock
from realtime.frame import Frame, FramePool
from realtime.sources.portrait import PACKAGED, PortraitSource

MOST: Final = 8
"""Faces in a frame, at most."""
_PEOPLE: Final = (PACKAGED, PACKAGED.with_name("hopper.jpg"))
"""Who takes turns; photos of one person alone would all look alike."""


class Group:
    """A source of frames in which several people move; there is no end.

    Args:
        faces: How many.
        path: A photo of all of them; the packaged ones in turn if None.
        size: Width and height of the frames, pixels; both even.
        fps: Frames a second.
        clock: Tells the time of capture.
        seed: Another seed is other motion.
        face_width: Width of each face, pixels; None for as wide as suits the height of the frame.

    Raises:
        UsageError: There are too many of them, or they have no room.
    """

    device = False

    def __init__(
        self, faces: int, path: Path | None, size: tuple[int, int], fps: float, clock: Clock, seed: int = 0,
        face_width: float | None = None,
    ) -> None:  # fmt: skip
        if not 1 <= faces <= MOST:
            raise UsageError(f"{faces} faces are not 1 to {MOST}.", f"Take 1 to {MOST}.")
        self.name = f"{faces} portraits"
        self.size, self.fps, self._clock = size, fps, clock
        width, height = size
        share = width // faces // 2 * 2
        self._edges = [share * n for n in range(faces)] + [width]
        self._people = [
            PortraitSource(
                path or _PEOPLE[n % len(_PEOPLE)], (self._edges[n + 1] - self._edges[n], height), fps, clock,
                seed=seed + n, face_width=face_width,
            )
            for n in range(faces)
        ]  # fmt: skip
        self._pool: FramePool | None = None

    def open(self) -> None:
        """See :class:`~realtime.sources.base.Source`; the next frame is number 0."""
        for one in self._people:
            one.open()
        self._pool = FramePool(self.size)

    def read(self) -> Frame | None:
        """See :class:`~realtime.sources.base.Source`; the time of capture is when the picture is complete."""
        if self._pool is None:
            raise UsageError(f"The source {self.name} is not open.")
        lease, number = self._pool.lease(), 0
        for n, one in enumerate(self._people):
            part = one.read()
            if part is None:
                return None
            lease.buffer[:, self._edges[n] : self._edges[n + 1]] = part.image
            number = part.seq
        return Frame(lease.buffer, number, self._clock.now_ns(), lease=lease)

    def close(self) -> None:
        """See :class:`~realtime.sources.base.Source`."""
        for one in self._people:
            one.close()
        self._pool = None
