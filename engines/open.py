"""A name and photos in, a swapper out: the only file that knows them all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from engines.analysis.source import SourceReader
from engines.errors import EngineError, UsageError
from engines.swap.base import AnySwapper
from engines.swap.mesh import Looks, MeshSwapper

__all__ = ["SWAPPERS", "Looks", "open_swapper"]

SWAPPERS: Final = ("mesh",)


def open_swapper(
    name: str, device: str, photos: Sequence[Path], *, looks: Looks | None = None, landmarks: int = 468
) -> AnySwapper:
    """Makes a swapper for some photos of one person; it still has to be opened.

    Args:
        name: As on the command line.
        device: ``cpu``.
        photos: Photos of one person.
        looks: What of the live face stays.
        landmarks: 468 or 478, on the photo and on the live face.

    Raises:
        PhotoError: A photo cannot be used.
        UsageError: There is none.
        EngineError: There is no such swapper, or not on this device.
    """
    if name not in SWAPPERS:
        raise EngineError(
            f"There is no engine '{name}' in this version.", f"Use --engine {', '.join(SWAPPERS)}."
        )
    if device != "cpu":
        raise EngineError(f"The engine {name} does not run on {device} in this version.", "Use --device cpu.")
    if not photos:
        raise UsageError(
            "No face to put on was given.", "Name a photo of one person's face: --face person.jpg"
        )
    reader = SourceReader(landmarks)
    try:
        return MeshSwapper(*(reader.read(photo) for photo in photos), looks=looks, landmarks=landmarks)
    finally:
        reader.close()
