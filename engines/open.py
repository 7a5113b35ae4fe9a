"""A name and photos in, a swapper out: the only file that knows them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from engines.analysis.source import SourceFace, SourceReader
from engines.catalogue.store import Store, default_folder
from engines.errors import EngineError, UsageError
from engines.restore.choice import RestoreChoice
from engines.restore.kinds import make_restorer
from engines.runtime.device import CPU, Device
from engines.swap.base import AnySwapper
from engines.swap.cast import Cast
from engines.swap.generator import Generator, find_generator, is_file_name
from engines.swap.mask_choice import MaskChoice
from engines.swap.mask_open import make_masks
from engines.swap.mesh import Looks, MeshSwapper
from engines.swap.neural import NeuralOptions, NeuralSwapper

__all__ = ["SWAPPERS", "Looks", "NeuralOptions", "Wanted", "open_cast", "open_swapper", "read_faces", "runs_on"]

SWAPPERS: Final = ("mesh",)
"""Engines that ship with the program. Beside them goes whatever swap generator the user has."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a swapper is asked to be.

    Attributes:
        engine: ``mesh``, the name of a swap generator in the catalogue, the path of a file, or ``NAME=FILE``.
        device: What it runs on.
        landmarks: 468 or 478, on the photo and on the live face.
        looks: Of ``mesh``: what of the live face stays.
        neural: Of swap generators: what can be chosen.
        masks: Of swap generators: what the new face is masked by; None for the outline in ``neural`` alone.
        restore: Of swap generators: what the new face is restored by; None for nothing.
        models: Folder of networks that the user has; None for the usual one of this system.
    """

    engine: str = "mesh"
    device: Device = CPU
    landmarks: int = 468
    looks: Looks = field(default_factory=Looks)
    neural: NeuralOptions = field(default_factory=NeuralOptions)
    masks: MaskChoice | None = None
    restore: RestoreChoice | None = None
    models: Path | None = None


def runs_on(engine: str) -> tuple[str, ...]:
    """Kinds of device that an engine can use."""
    return ("cpu",) if engine in SWAPPERS else ("cpu", "cuda")


def open_swapper(
    wanted: Wanted,
    photos: Sequence[Path],
    read: Callable[[Sequence[Path], int], Sequence[SourceFace]] | None = None,
) -> AnySwapper:
    """Makes a swapper for some photos of one person; it still has to be opened.

    Args:
        wanted: Which, and how.
        photos: Photos of one person.
        read: Reads them with so many landmarks, 468 or 478; None reads the files. Who changes faces while the camera
            runs has them in memory.

    Raises:
        PhotoError: A photo cannot be used.
        UsageError: There is none, or no file of that name.
        EngineError: There is no such swapper, or not on this device, or its file is missing or broken.
    """
    return open_cast(wanted, [photos], read)


def open_cast(
    wanted: Wanted,
    people: Sequence[Sequence[Path]],
    read: Callable[[Sequence[Path], int], Sequence[SourceFace]] | None = None,
) -> AnySwapper:
    """Makes a swapper that gives each of several people a face of their own; it still has to be opened.

    Args:
        wanted: Which, and how.
        people: Photos for each, in the order of :attr:`~engines.faces.Face.person`; at least one.
        read: See :func:`open_swapper`.

    Raises:
        DoppelcamError: See :func:`open_swapper`.
    """
    read = read or read_faces
    if wanted.engine in SWAPPERS:
        if wanted.device.kind != "cpu":
            raise EngineError(
                f"The engine {wanted.engine} does not run on {wanted.device.name} in this version.",
                "Use --device cpu.",
            )
        meshes = [
            MeshSwapper(*read(photos, wanted.landmarks), looks=wanted.looks, landmarks=wanted.landmarks)
            for photos in people
        ]
        return meshes[0] if len(meshes) == 1 else Cast(meshes)
    store = Store(wanted.models or default_folder())
    if not is_file_name(wanted.engine) and wanted.engine not in store.catalogue.entries:
        raise EngineError(
            f"There is no engine '{wanted.engine}'.",
            f"Use --engine {SWAPPERS[0]}, the path of a model, or a name of: doppelcam models list --kind swap",
        )
    generator = find_generator(wanted.engine, store)
    options = _completed(wanted, generator, store)
    # A network that one person was trained into needs no photo.
    sources, *others = [
        read(photos, wanted.landmarks) if generator.contract.source != "none" else [] for photos in people
    ]
    return NeuralSwapper(generator, sources, wanted.device, options, wanted.landmarks, others)


def _completed(wanted: Wanted, generator: Generator, store: Store) -> NeuralOptions:
    """What was chosen, with the masks and the restorer that were named."""
    options = wanted.neural
    if wanted.masks is not None:
        outline, more = make_masks(wanted.masks, generator.contract.template, store, wanted.device)
        options = replace(options, shape=outline, masks=(*options.masks, *more))
    if wanted.restore is not None:
        options = replace(options, restorer=make_restorer(wanted.restore, store, wanted.device))
    return options


def read_faces(photos: Sequence[Path], landmarks: int) -> list[SourceFace]:
    """Reads photos of one person.

    Args:
        photos: Their paths.
        landmarks: 468 or 478.

    Raises:
        PhotoError: One of them cannot be used.
        UsageError: There is none.
    """
    if not photos:
        raise UsageError(
            "No face to put on was given.",
            "Name a photo of one person's face from the front: doppelcam run --face person.jpg",
        )
    reader = SourceReader(landmarks)
    try:
        return [reader.read(photo) for photo in photos]
    finally:
        reader.close()
