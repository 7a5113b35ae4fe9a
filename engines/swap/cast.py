"""Several people in one picture, each with a photo of their own: a swapper of swappers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from engines.errors import EngineError
from engines.faces import Face, Image
from engines.swap.base import AnySwapper, Progress


@dataclass(frozen=True, slots=True)
class CastLayer:
    """What one of the swappers worked out.

    Attributes:
        person: Which one.
        layer: What it said.
    """

    person: int
    layer: Any


class Cast:
    """Gives every face to the swapper of the person it was recognised as. See :class:`~engines.swap.base.Swapper`.

    Args:
        swappers: One for each person, in the order of :attr:`~engines.faces.Face.person`; not yet opened.

    Raises:
        ValueError: There is none.
    """

    def __init__(self, swappers: Sequence[AnySwapper]) -> None:
        if not swappers:
            raise ValueError("a cast without anybody")
        self._swappers = tuple(swappers)
        self.name = swappers[0].name
        self.landmarks = max(swapper.landmarks for swapper in swappers)

    @property
    def nodes(self) -> Mapping[str, Mapping[str, int]]:
        """Of all of them; networks of one name run in one way."""
        return {name: nodes for swapper in self._swappers for name, nodes in swapper.nodes.items()}

    @nodes.setter
    def nodes(self, nodes: Mapping[str, Mapping[str, int]]) -> None:
        raise AttributeError("where the networks of a cast run is theirs to say")

    @property
    def advice(self) -> str:
        """What any of them says of its speed, each sentence once; empty if all keep the rate."""
        said = (getattr(swapper, "advice", "") for swapper in self._swappers)
        return " ".join(dict.fromkeys(one for one in said if one))

    @property
    def gives_way(self) -> Sequence[Any]:
        """What all of them can do without, in turn."""
        return [way for swapper in self._swappers for way in getattr(swapper, "gives_way", ())]

    def open(self, progress: Progress) -> None:
        """See :class:`~engines.swap.base.Swapper`. Where one of them fails, none stays open."""
        with ExitStack() as undo:
            for swapper in self._swappers:
                undo.callback(swapper.close)
                swapper.open(progress)
            undo.pop_all()

    def swap(self, image: Image, face: Face) -> CastLayer | None:
        """See :class:`~engines.swap.base.Swapper`."""
        layer = self._of(face.person).swap(image, face)
        return None if layer is None else CastLayer(face.person, layer)

    def blend(self, image: Image, layer: CastLayer) -> None:
        """See :class:`~engines.swap.base.Swapper`."""
        self._of(layer.person).blend(image, layer.layer)

    def close(self) -> None:
        """See :class:`~engines.swap.base.Swapper`."""
        with ExitStack() as closing:
            for swapper in self._swappers:
                closing.callback(swapper.close)

    def _of(self, person: int) -> AnySwapper:
        if not 0 <= person < len(self._swappers):
            raise EngineError(f"Nobody knows whose face person {person} is to get.")
        return self._swappers[person]
