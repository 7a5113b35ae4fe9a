"""Whose face to put on, as a swap generator wants to be told: an embedding, converted or mapped, or a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from engines.analysis.align import crop_affine
from engines.analysis.embed import unit
from engines.analysis.open import open_embedder
from engines.analysis.source import SourceFace
from engines.errors import EngineError
from engines.faces import Array, Floats
from engines.kernels.warp import Warp
from engines.runtime.device import Device
from engines.runtime.model.initializer import read_matrix
from engines.runtime.open import open_network
from engines.swap.neural.generator import Generator

LENGTH: Final = 512
"""Numbers in an embedding."""

_EMAP: Final = "emap"


def latents_of(people: Sequence[Sequence[SourceFace]], generator: Generator, device: Device) -> list[Floats]:
    """The vectors that say whose face to put on; every network for that is opened once.

    Photos of one person are averaged as the embedder gives them, so that a clear one counts for more: the length of
    its vector grows with what it saw.

    Args:
        people: One or several photos of each person.
        generator: Whose contract says what is done to the embedding.
        device: What embedder and converter run on; they are closed again.

    Returns:
        (512,) float32 for each person.

    Raises:
        EngineError: Something that is needed is not there, or gives something else than an embedding.
    """
    kind = generator.contract.source
    embeddings = _embedded(people, _needed(generator, generator.embedder, "an embedder"), device)
    if kind == "embedding":
        return embeddings
    if kind == "embedding_normed":
        return [unit(embedding) for embedding in embeddings]
    if kind == "emap":
        matrix = read_matrix(generator.path, _EMAP, (LENGTH, LENGTH))
        return [unit(np.asarray(unit(embedding) @ matrix, np.float32)) for embedding in embeddings]
    converted = _converted(embeddings, _needed(generator, generator.converter, "a converter"), device)
    return [unit(one) for one in converted] if kind == "converted_normed" else converted


def put_picture(sources: Sequence[SourceFace], template: str, out: Array) -> SourceFace:
    """Lays an aligned picture of a face into a network's input, 0…1.

    Args:
        sources: Photos of one person; the one with the largest face is taken.
        template: How it is aligned.
        out: (S, S, 3) float32 view of the input, its channels in the order B, G, R.

    Returns:
        The photo that was taken.
    """
    source = max(sources, key=lambda one: float(np.ptp(one.points[:, 0])))
    affine = crop_affine(template, out.shape[0], source.points)
    Warp().crop(source.image, affine, out, np.full(3, 1 / 255, np.float32), np.zeros(3, np.float32))
    return source


def _needed(generator: Generator, path: Path | None, what: str) -> Path:
    if path is None:
        raise EngineError(
            f"{generator.name} needs {what}, and the catalogue names none.", "Install doppelcam again."
        )
    return path


def _embedded(people: Sequence[Sequence[SourceFace]], path: Path, device: Device) -> list[Floats]:
    embedder = open_embedder(path, device)
    try:
        if embedder.length != LENGTH:
            raise EngineError(
                f"{path.name} gives {embedder.length} numbers for a face, where {LENGTH} were expected.",
                "Use arcface_w600k_r50.",
            )
        looks = [[embedder.embed(one.image, one.points) for one in sources] for sources in people]
        return [np.asarray(np.mean(each, axis=0), np.float32) for each in looks]
    finally:
        embedder.close()


def _converted(embeddings: Sequence[Floats], path: Path, device: Device) -> list[Floats]:
    network = open_network(path, device)
    try:
        if [array.size for array in (*network.inputs, *network.outputs)] != [LENGTH, LENGTH]:
            raise EngineError(
                f"{network.name} is no converter of embeddings: 1×{LENGTH} to 1×{LENGTH} was expected.",
                "Give the right file.",
            )
        found = []
        for embedding in embeddings:
            network.inputs[0].reshape(-1)[:] = embedding
            network.run()
            converted = network.outputs[0].reshape(-1).astype(np.float32)
            if not np.isfinite(converted).all():
                raise EngineError(f"{network.name} gave an embedding that is not made of numbers.")
            found.append(converted)
        return found
    finally:
        network.close()
