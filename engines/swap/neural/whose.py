"""Whose face a swap generator puts on: one network for everybody, told anew where somebody else is next."""

from __future__ import annotations

from collections.abc import Sequence

from engines.analysis.source import SourceFace
from engines.errors import EngineError
from engines.faces import Array
from engines.runtime.device import Device
from engines.swap.base import Progress
from engines.swap.neural.boost import Tiles
from engines.swap.neural.generator import Generator
from engines.swap.neural.latent import latents_of, put_picture


class Whose:
    """The people whose faces one network puts on. What it is told of each is worked out once.

    Args:
        generator: How the network is told.
        people: Photos of each, in the order of :attr:`~engines.faces.Face.person`; without any where the network knows.
        device: What embedders run on.
    """

    def __init__(self, generator: Generator, people: Sequence[Sequence[SourceFace]], device: Device) -> None:
        self._generator, self._people, self._device = generator, people, device
        self._told: list[Array] = []
        self._now = -1

    def open(self, tiles: Tiles, progress: Progress) -> None:
        """Works out what the network is told of everybody, and tells it of the first.

        Args:
            tiles: The network, opened.
            progress: Told what is being prepared.

        Raises:
            EngineError: Something that is needed for it is not there.
        """
        generator, contract = self._generator, self._generator.contract
        self._told, self._now = [], -1
        if contract.source == "none":
            return
        for sources in self._people:
            progress(f"face of {', '.join(source.name for source in sources)}")
            if contract.source == "image":
                picture = tiles.source_picture(contract)
                taken = put_picture(sources, contract.source_template, picture)
                if len(sources) > 1:
                    progress(f"{generator.name} takes one photo: {taken.name}")
                self._told.append(picture.copy())
        if contract.source != "image":
            self._told = [*latents_of(self._people, generator, self._device)]
        self.tell(tiles, 0)

    def tell(self, tiles: Tiles, person: int) -> None:
        """Tells the network whose face is next; takes no time where it was the same one before.

        Raises:
            EngineError: There is no such person.
        """
        if not 0 <= person < len(self._people):
            raise EngineError(f"Nobody knows whose face person {person} is to get.")
        if person == self._now or not self._told:
            return
        if self._generator.contract.source == "image":
            tiles.source_picture(self._generator.contract)[:] = self._told[person]
            tiles.push_source()
        else:
            tiles.put_latent(self._told[person])
        self._now = person
