"""A source by its name on the command line: the only file that knows them all."""

from __future__ import annotations

import re
from pathlib import Path

from engines.errors import UsageError
from engines.files import quoted
from realtime.clock import Clock
from realtime.sources.base import Source

KINDS = "camera[:INDEX|NAME|PATH], file:PATH, portrait[:PATH], pattern"

DEFAULT_SIZE = (1280, 720)
DEFAULT_FPS = 30.0


def make_source(
    spec: str,
    *,
    size: tuple[int, int] | None,
    fps: float | None,
    clock: Clock,
    seed: int = 0,
) -> Source:
    """Makes a source and does not open it.

    Args:
        spec: ``camera[:INDEX|NAME|PATH]``, ``file:PATH``, ``portrait[:PATH]`` or ``pattern``. A path may hold
            colons and spaces and may begin with a drive letter.
        size: Width and height wanted, pixels. A file is fitted into it with black bars; with None it keeps
            its own, and everything else gets 1280x720.
        fps: Frames a second wanted; a video keeps its own. 30 where None.
        clock: Stamps the frames.
        seed: Of everything random in the portrait's motion.

    Raises:
        UsageError: There is no such source. The sentence lists those there are.
    """
    kind, _, rest = spec.partition(":")
    if "\0" in spec:
        raise UsageError(f"{spec!r} is no source: it holds a zero byte.", f"Sources: {KINDS}.")
    rate = fps or DEFAULT_FPS
    if kind == "camera":
        from realtime.sources.camera import CameraSource

        return CameraSource(rest.strip() or None, size or DEFAULT_SIZE, rate, clock)
    if kind == "file":
        from realtime.sources.file import VideoFileSource

        if not rest:
            raise UsageError("file: needs the path of a video or a picture.", "For instance file:clip.mp4.")
        return VideoFileSource(_path(rest), clock, size=size, still_fps=rate)
    if kind == "portrait":
        from realtime.sources.portrait import PortraitSource

        return PortraitSource(
            _path(rest) if rest else None, size or DEFAULT_SIZE, rate, seed=seed, clock=clock
        )
    if kind == "pattern" and not rest:
        from realtime.sources.pattern import PatternSource

        return PatternSource(size or DEFAULT_SIZE, rate, clock)
    raise _unknown(spec)


def _path(text: str) -> Path:
    """A path; ``~/`` is the user's folder, because a shell does not expand it behind a colon."""
    path = Path(text)
    return path.expanduser() if text.startswith(("~/", "~\\")) else path


def _unknown(spec: str) -> UsageError:
    if spec.startswith("/dev/video") or spec.isdecimal():
        return UsageError(f"{spec!r} is no source by itself.", f"For a camera, say camera:{spec}.")
    if _is_there(spec) or re.match(r"^([A-Za-z]:)?[^:]*[\\/.][^:]*$", spec):
        return UsageError(f"{quoted(Path(spec))} is no source by itself.", f"For a video, say file:{spec}.")
    return UsageError(f"There is no source {spec!r}.", f"Sources: {KINDS}.")


def _is_there(spec: str) -> bool:
    try:
        return bool(spec) and Path(spec).exists()
    except (OSError, ValueError):
        return False
