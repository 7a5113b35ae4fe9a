"""Who is to be swapped, from photos: read and looked at once, before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

from engines.analysis.embed import Embedder
from engines.analysis.open import file_of, open_embedder
from engines.analysis.source import SourceFace, SourceReader
from engines.catalogue.store import Store
from engines.errors import UsageError
from engines.runtime.device import Device
from realtime.choosing.recognise import Recogniser
from realtime.choosing.select import RECOGNISES, Choice, Known, Selector
from realtime.settings.config import Config


def embedder_of(config: Config, store: Store) -> Path | None:
    """The identity network that a configuration names or cannot do without; None for none.

    Raises:
        UsageError: People are to be recognised and there is no network for it, or there is no such one.
        EngineError: It is not there.
    """
    if config.embedder:
        return file_of(config.embedder, "embed", store)
    if not (config.reference or config.person):
        return None
    path = store.first("embed")
    if path is None:
        first = store.catalogue.of_kind("embed")[0].name
        raise UsageError(
            "To recognise a person an identity network is needed, and there is none.",
            f"Type: doppelcam models pull {first}, or name one of your own: --embedder FILE.onnx",
        )
    return path


def make_selector(
    config: Config, device: Device, store: Store, seen: Callable[[], None]
) -> tuple[Selector, Callable[[], Embedder] | None]:
    """Makes what chooses, and what opens the identity network for it.

    Photos are read here, so that one of no use is said at once; the network sees them when it is opened.

    Args:
        config: What is wanted.
        device: What networks run on.
        store: Where the user's networks lie.
        seen: Called whenever somebody is looked at, to count it.

    Returns:
        The selector, and the opener of its identity network; None where nobody is recognised.

    Raises:
        PhotoError: A photo of somebody who is to be recognised cannot be used.
        UsageError: There is no identity network for it.
        EngineError: That network is not there.
    """
    path = embedder_of(config, store)
    choice = _choice(config)
    if path is None or choice not in RECOGNISES:
        return Selector(choice, config.max_faces), None
    people = _photos_of(config)
    known = Known(Recogniser(seen), len(people), config.reference_distance)
    selector = Selector(choice, config.max_faces, known)

    def opened() -> Embedder:
        embedder = open_embedder(path, device)
        try:
            if people:
                selector.know([embedder.person(photos) for photos in people])
        except BaseException:
            embedder.close()
            raise
        return embedder

    return selector, opened


def _choice(config: Config) -> Choice:
    return "reference" if config.reference or config.person else cast("Choice", config.select)


def _photos_of(config: Config) -> list[list[SourceFace]]:
    """The photos of each person who is to be chosen; empty for whoever comes first."""
    if not (config.person or config.reference):
        return []
    reader = SourceReader()
    try:
        if config.person:
            return [[reader.read(pair.live)] for pair in config.person]
        return [[reader.read(photo) for photo in config.reference]]
    finally:
        reader.close()
