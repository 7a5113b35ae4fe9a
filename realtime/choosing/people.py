"""Who is to be swapped, from photos: read and looked at once, before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from engines.analysis.embed import Embedder
from engines.analysis.open import file_of, open_embedder
from engines.analysis.source import SourceReader
from engines.catalogue.store import Store
from engines.errors import UsageError
from engines.faces import Floats
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
    known = [entry for entry in store.catalogue if entry.kind == "embed"]
    for entry in known:
        path = store.path_of(entry.name)
        if path is not None:
            return path
    raise UsageError(
        "To recognise a person an identity network is needed, and there is none.",
        f"Type: doppelcam models pull {known[0].name}, or name one of your own: --embedder FILE.onnx",
    )


def make_selector(
    config: Config, device: Device, store: Store, seen: Callable[[], None]
) -> tuple[Selector, Callable[[], Embedder] | None]:
    """Makes what chooses, and what opens the identity network for it.

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
        EngineError: That network is not there, or is none.
    """
    path = embedder_of(config, store)
    choice = _choice(config)
    if path is None or choice not in RECOGNISES:
        return Selector(choice, config.max_faces), None
    people: Sequence[Floats] = ()
    if config.person:
        people = _look_at(path, device, [[pair.live] for pair in config.person])
    elif config.reference:
        people = _look_at(path, device, [config.reference])
    known = Known(Recogniser(seen), people, config.reference_distance)
    return Selector(choice, config.max_faces, known), lambda: open_embedder(path, device)


def _choice(config: Config) -> Choice:
    return "reference" if config.reference or config.person else cast("Choice", config.select)


def _look_at(path: Path, device: Device, people: Sequence[Sequence[Path]]) -> list[Floats]:
    """One identity for each person, from all of their photos."""
    embedder = open_embedder(path, device)
    try:
        reader = SourceReader()
        try:
            return [embedder.person(reader.read(photo) for photo in photos) for photos in people]
        finally:
            reader.close()
    finally:
        embedder.close()
