"""A name and photos in, a swapper out: the only file that knows them all."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from engines.analysis.source import SourceFace, SourceReader
from engines.analysis.topology import POINTS
from engines.catalogue.store import Store, default_folder
from engines.errors import EngineError, UsageError
from engines.kernels.canvas import Easel, HostEasel
from engines.kernels.gpu.canvas import GpuEasel
from engines.kernels.gpu.card import Card, load_cupy
from engines.restore.choice import RestoreChoice
from engines.restore.kinds import make_restorer
from engines.runtime.device import CPU, Device
from engines.shipped import SHIPPED, SWAPPERS
from engines.swap.base import AnySwapper
from engines.swap.cast import Cast
from engines.swap.masks.choice import MaskChoice
from engines.swap.masks.open import make_masks
from engines.swap.mesh.gpu import GpuMeshSwapper
from engines.swap.mesh.mesh import Looks, MeshSwapper
from engines.swap.mesh.texture import laid_out
from engines.swap.neural.generator import Generator, find_generator, is_file_name
from engines.swap.neural.gpu import GpuNeuralSwapper
from engines.swap.neural.neural import NeuralOptions, NeuralSwapper
from engines.swap.portrait import PortraitOptions, PortraitSwapper

__all__ = [
    "Looks",
    "NeuralOptions",
    "PortraitOptions",
    "Wanted",
    "landmarks_of",
    "open_cast",
    "open_swapper",
    "prepare_faces",
    "read_faces",
]

log = logging.getLogger(__name__)

ReadFaces = Callable[[Sequence[Path], int], Sequence[SourceFace]]
"""Photos of one person, and how many landmarks are wanted, to the faces in them."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a swapper is asked to be.

    Attributes:
        engine: ``mesh``, ``portrait``, the name of a swap generator in the catalogue, the path of a file, or
            ``NAME=FILE``.
        device: What it runs on.
        landmarks: 468 or 478, on the photo and on the live face.
        looks: Of ``mesh``: what of the live face stays.
        neural: Of swap generators: what can be chosen.
        masks: Of swap generators: what the new face is masked by; None for the outline in ``neural`` alone.
        restore: Of swap generators: what the new face is restored by; None for nothing.
        portrait: Of ``portrait``: what can be chosen.
        models: Folder of networks that the user has; None for the usual one of this system.
    """

    engine: str = "mesh"
    device: Device = CPU
    landmarks: int = 468
    looks: Looks = field(default_factory=Looks)
    neural: NeuralOptions = field(default_factory=NeuralOptions)
    masks: MaskChoice | None = None
    restore: RestoreChoice | None = None
    portrait: PortraitOptions = field(default_factory=PortraitOptions)
    models: Path | None = None


@dataclass(frozen=True, slots=True)
class _Parts:
    """What an engine that ships with the program is made by; what is known of it before is in :mod:`engines.shipped`.

    Attributes:
        make: Makes it for the photos of each person; on a GPU where that is given.
        landmarks: How many it needs at least to do well.
        prepare: Works out of photos of one person what it will need of them, and keeps it with them.
    """

    make: Callable[[Wanted, Sequence[Sequence[Path]], ReadFaces, GpuEasel | None], AnySwapper]
    landmarks: int = POINTS
    prepare: Callable[..., object] = lambda *faces: None


def _meshes(
    wanted: Wanted, people: Sequence[Sequence[Path]], read: ReadFaces, gpu: GpuEasel | None
) -> AnySwapper:
    meshes = [
        MeshSwapper(*read(photos, wanted.landmarks), looks=wanted.looks, landmarks=wanted.landmarks)
        for photos in people
    ]
    swappers: list[AnySwapper] = [GpuMeshSwapper(mesh, gpu) for mesh in meshes] if gpu else [*meshes]
    return swappers[0] if len(swappers) == 1 else Cast(swappers)


def _portrait(
    wanted: Wanted, people: Sequence[Sequence[Path]], read: ReadFaces, gpu: GpuEasel | None
) -> AnySwapper:
    if len(people) != 1 or len(people[0]) > 1:
        raise UsageError(
            "The engine portrait moves one picture, and several were given.",
            "Name one: doppelcam run --engine portrait --face picture.jpg",
        )
    return PortraitSwapper(read(people[0], wanted.landmarks)[0], wanted.portrait)


_PARTS: Final[Mapping[str, _Parts]] = MappingProxyType({
    MeshSwapper.name: _Parts(_meshes, prepare=laid_out),
    PortraitSwapper.name: _Parts(_portrait, PortraitSwapper.landmarks),
})  # fmt: skip
"""Of every engine that ships with the program."""


def easel_for(
    device: Device, now_ns: Callable[[], int], cupy: Callable[[], Any] = load_cupy,
    say: Callable[[str], None] = log.warning,
) -> Easel:  # fmt: skip
    """What pictures are painted on, where networks run on a device.

    Args:
        device: What was chosen.
        now_ns: Time.
        cupy: Finds CuPy.
        say: Told if pictures stay on the CPU although networks do not.

    Raises:
        EngineError: The user asked for a GPU, and its pictures cannot be reached.
    """
    if device.kind == "cpu":
        return HostEasel(now_ns)
    try:
        found = cupy()
    except EngineError as error:
        if not device.may_fall_back:
            raise
        say(f"Pictures are painted on the CPU, networks run on the GPU. {error}")
        return HostEasel(now_ns)
    return GpuEasel(lambda: Card(device.index, found), f"pictures are painted on {device.name}")


def landmarks_of(engine: str) -> int:
    """How many landmarks an engine needs at least to do well."""
    return _PARTS[engine].landmarks if engine in _PARTS else POINTS


def open_swapper(
    wanted: Wanted,
    photos: Sequence[Path],
    read: ReadFaces | None = None,
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
    read: ReadFaces | None = None,
    easel: Easel | None = None,
) -> AnySwapper:
    """Makes a swapper that gives each of several people a face of their own; it still has to be opened.

    Args:
        wanted: Which, and how.
        people: Photos for each, in the order of :attr:`~engines.faces.Face.person`; at least one.
        read: See :func:`open_swapper`.
        easel: What pictures are painted on, and so what the swapper has to paint on; None for the CPU.

    Raises:
        DoppelcamError: See :func:`open_swapper`.
    """
    read = read or read_faces
    gpu = easel if isinstance(easel, GpuEasel) else None
    parts = _PARTS.get(wanted.engine)
    if parts is not None:
        if gpu and not SHIPPED[wanted.engine].on_gpu:
            raise EngineError(f"The engine {wanted.engine} runs on the CPU only.", "Use --device cpu.")
        if wanted.device.kind != "cpu" and not gpu:
            raise EngineError(
                f"The engine {wanted.engine} was to run on {wanted.device.name}, and pictures are painted on the CPU.",
                "Use --device cpu.",
            )
        return parts.make(wanted, people, read, gpu)
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
    given = generator, sources, wanted.device, options, wanted.landmarks, others
    return GpuNeuralSwapper(gpu, *given) if gpu else NeuralSwapper(*given)


def prepare_faces(engine: str, faces: Sequence[SourceFace]) -> None:
    """Works out of some photos what an engine will need of them when they are put on, and keeps it with them.

    Args:
        engine: Its name; those that keep nothing do nothing.
        faces: Photos of one person; at least one.
    """
    if engine in _PARTS:
        _PARTS[engine].prepare(*faces)


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
