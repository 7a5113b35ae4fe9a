"""What a swapper is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, runtime_checkable

from engines.faces import Face

Progress = Callable[[str], None]
"""Told what is being prepared, one short line at a time."""

Layer = TypeVar("Layer")
Picture_contra = TypeVar("Picture_contra", contravariant=True)
"""What pictures are painted on: the host's memory, or a canvas on a GPU."""


class Swapper(Protocol[Picture_contra, Layer]):
    """Puts another face on a face, in two steps that are timed apart.

    One thread opens, uses and closes it. A new source face is made ready elsewhere and handed over whole.

    Attributes:
        name: As on the command line.
        landmarks: How many landmarks it wants of a face: 468 or 478.
        nodes: Where its networks really run: for each network the number of nodes per provider.
    """

    name: str
    landmarks: int
    nodes: Mapping[str, Mapping[str, int]]

    def open(self, progress: Progress) -> None:
        """Compiles, loads and warms up everything, so that the first live frame is as fast as the next.

        Raises:
            EngineError: Something it needs is missing or does not work.
        """
        ...

    def swap(self, image: Picture_contra, face: Face) -> Layer | None:
        """Works out the new face for one face of the frame; the frame stays as it is.

        Args:
            image: The frame, (H, W, 3) uint8 BGR; for a swapper of a GPU its canvas there.
            face: The face.

        Returns:
            What :meth:`blend` paints; None when it would not cover the real face.

        Raises:
            EngineError: It failed; the frame must not be trusted.
        """
        ...

    def blend(self, image: Picture_contra, layer: Layer) -> None:
        """Paints what :meth:`swap` worked out into the frame, in the face's region only."""
        ...

    def close(self) -> None:
        """Frees everything; may be called twice."""
        ...


AnySwapper = Swapper[Any, Any]


@runtime_checkable
class PaintsAll(Protocol):
    """A swapper whose :meth:`Swapper.blend` paints every pixel of the frame, whatever was there.

    Nothing of the camera's picture is left, so a frame can be trusted without a face, too, and with one that is
    missed. One face is followed, the first that is given.
    """

    def rest(self, image: Picture_contra) -> Any:
        """What :meth:`Swapper.blend` paints into a frame in which there is no face to follow.

        Raises:
            EngineError: It failed; the frame must not be trusted.
        """
        ...
