"""What is put before the engine: videos, and the animated portrait that needs no file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from engines.analysis.photo import is_still
from engines.errors import UsageError
from realtime.clock import SystemClock
from realtime.frame import Frame
from realtime.sources.base import Source
from realtime.sources.file import VideoFileSource
from realtime.sources.portrait import PortraitSource

_ASSETS: Final = Path(__file__).parents[2] / "realtime" / "assets"
PHOTOS: Final = (_ASSETS / "hopper.jpg", _ASSETS / "astronaut.png")
"""The packaged photos: what is used when none is named."""

PORTRAIT_FRAMES: Final = 300
"""A portrait has no end; this many of its frames are used unless told otherwise."""
PORTRAIT_SIZE: Final = (1920, 1080)
FPS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Clip:
    """One moving picture.

    Attributes:
        name: What to call it in a table.
        path: The video, or the photo that is animated.
        animated: Whether it is the animated portrait.
        size: Width and height asked for; None leaves a video its own.
        frames: How many frames are used; None for all.
    """

    name: str
    path: Path
    animated: bool
    size: tuple[int, int] | None = None
    frames: int | None = None

    def source(self) -> Source:
        """A source that gives its frames, not yet opened."""
        if self.animated:
            return PortraitSource(self.path, self.size or PORTRAIT_SIZE, FPS, SystemClock())
        return VideoFileSource(self.path, SystemClock(), size=self.size)

    def read(self) -> Iterator[tuple[Frame, float]]:
        """Every frame, and when it was taken, in seconds of the clip.

        Raises:
            UsageError: The file cannot be read.
        """
        limit = self.frames or (PORTRAIT_FRAMES if self.animated else None)
        with closing(self.source()) as source:
            source.open()
            for number, frame in enumerate(islice(iter(source.read, None), limit)):
                yield frame, number / source.fps

    def shows(self, photo: Path) -> bool:
        """Whether the clip is an animation of this very photo: the same person on both sides tells nothing."""
        if not self.animated:
            return False
        return self.path.resolve() == photo.resolve() or self.path.read_bytes() == photo.read_bytes()


def clip_of(spec: str, size: tuple[int, int] | None = None, frames: int | None = None) -> Clip:
    """A clip by its name on the command line.

    Args:
        spec: Path of a video; or ``portrait`` or ``portrait:PHOTO``.
        size: Width and height wanted, pixels.
        frames: How many frames to use at most.

    Raises:
        UsageError: There is no such file, or it does not move.
    """
    kind, _, rest = spec.partition(":")
    animated = kind == "portrait"
    path = (Path(rest).expanduser() if rest else PHOTOS[1]) if animated else Path(spec).expanduser()
    if not path.is_file():
        raise UsageError(f"There is no clip {spec}.", "Name a video, portrait or portrait:PHOTO.")
    if not animated and is_still(path):
        raise UsageError(f"{path.name} is a picture that does not move.", f"To animate it: portrait:{spec}")
    return Clip(f"portrait of {path.stem}" if animated else path.stem, path, animated, size, frames)


def default_clips(size: tuple[int, int] | None, frames: int | None) -> list[Clip]:
    """The animated portraits of both packaged photos."""
    return [clip_of(f"portrait:{photo}", size, frames) for photo in reversed(PHOTOS)]
