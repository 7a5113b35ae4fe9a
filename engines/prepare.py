"""A model and photos in, all that is needed to build its plan out: shapes, recipe, and what it gives for real faces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Final

import cv2
import numpy as np

from engines.analysis.align import TEMPLATES, crop_affine
from engines.analysis.open import open_embedder
from engines.analysis.source import SourceFace, SourceReader
from engines.catalogue.entry import Contract
from engines.catalogue.store import Store
from engines.errors import EngineError
from engines.faces import Array, Floats
from engines.files import sha256_of
from engines.runtime.base import Network
from engines.runtime.device import CPU
from engines.runtime.driver import Driver, find_driver
from engines.runtime.ort.network import OnnxNetwork
from engines.runtime.shapes import Sizes
from engines.runtime.trt.bindings import Package, find_package
from engines.runtime.trt.build import Job
from engines.runtime.trt.fp16 import Precision, recipe_for
from engines.runtime.trt.key import driver_version, target_of
from engines.runtime.trt.parity import Embed, Sample, sample
from engines.swap.neural.boost import BOOSTS, Tiles
from engines.swap.neural.generator import Generator, find_generator, is_file_name
from engines.swap.neural.latent import latents_of, put_picture

_PLAIN_TEMPLATE: Final = "arcface_112_v2"
_LIGHTS: Final = ((1.0, False), (1.0, True), (0.45, False))
"""Each face as it is, mirrored, and in the dark, where a network's numbers are smallest."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a plan is asked to be.

    Attributes:
        model: A name of the catalogue, the path of a file, or ``NAME=FILE``.
        precision: ``fp16`` or ``fp32``.
        keep: Operators that stay in float32 besides those that always do.
        boost: Of a swap generator, how many times finer its crop is: its plan takes all tiles at once.
        batch: For a first dimension that is free; of a swap generator ``boost`` says it.
        side: For height and width of a picture that are free.
        gpu: Number of the GPU.
    """

    model: str
    precision: Precision = "fp16"
    keep: tuple[str, ...] = ()
    boost: int = 1
    batch: int = 1
    side: int | None = None
    gpu: int = 0


@dataclass(frozen=True, slots=True)
class Maker:
    """What makes jobs; tests put in a machine of their own.

    Attributes:
        store: Where models lie.
        photos: Of two or more people.
        driver: The NVIDIA driver.
        version: Gives the driver's version.
        package: TensorRT, as installed.
    """

    store: Store
    photos: Sequence[Path]
    driver: Driver = field(default_factory=find_driver)
    version: str = field(default_factory=driver_version)
    package: Package | None = field(default_factory=find_package)

    def job(self, wish: Wish) -> Job:
        """Everything that is needed to build a plan. Runs the model on the CPU, which may take a while.

        Raises:
            UsageError: There is no such model.
            EngineError: There is no GPU or no TensorRT, or the model is broken or not there.
        """
        if self.package is None:
            raise EngineError(
                "TensorRT is not installed, so no plan can be built.", "Type: pip install 'doppelcam[gpu]'"
            )
        target = target_of(self.driver, wish.gpu, self.package, lambda: self.version)
        generator, path, contract = self._found(wish)
        if wish.boost not in BOOSTS:
            raise EngineError(f"A crop cannot be {wish.boost} times finer.", "Use --boost 1, 2 or 4.")
        sizes = _sizes(wish, generator)
        network = OnnxNetwork(path, sizes=sizes)
        try:
            sources = self._sources()
            samples = (
                _generated(network, generator, sources) if generator else _shown(network, contract, sources)
            )
            shapes = {spec.name: spec.shape for spec in network.input_specs}
            outputs = tuple(spec.name for spec in network.output_specs)
        finally:
            network.close()
        return Job(
            path.stem, path.absolute(), sha256_of(path), recipe_for(path.stem, wish.precision, wish.keep), shapes,
            outputs, self.package, target, wish.gpu, samples, _identity(generator),
        )  # fmt: skip

    def _found(self, wish: Wish) -> tuple[Generator | None, Path, Contract | None]:
        """What a model is: a swap generator, another model of the catalogue, or just a network."""
        if not is_file_name(wish.model):
            entry = self.store.catalogue.entry(wish.model)
            path = self.store.require(entry.name)
            return (
                (find_generator(wish.model, self.store) if entry.kind == "swap" else None),
                path,
                entry.contract,
            )
        path = Path(wish.model.rpartition("=")[2]).expanduser()
        try:
            return find_generator(wish.model, self.store), path, None
        except EngineError:
            if "=" in wish.model:
                raise
        known = self.store.recognise(path)
        return None, path, known.contract if known else None

    def _sources(self) -> list[SourceFace]:
        reader = SourceReader()
        try:
            return [reader.read(photo) for photo in self.photos]
        finally:
            reader.close()


def _sizes(wish: Wish, generator: Generator | None) -> Sizes:
    if generator is None:
        return Sizes(wish.batch, wish.side)
    # As the swapper opens it: all tiles at once where the file leaves that open.
    batch = generator.roles.batch or wish.boost * wish.boost
    return Sizes(batch, None, generator.roles.shapes(batch))


def _generated(network: Network, generator: Generator, sources: Sequence[SourceFace]) -> list[Sample]:
    """What a swap generator makes of each face, with the next one put on."""
    contract, roles = generator.contract, generator.roles
    tiles = Tiles(network, roles, contract)
    tiles.put_morph(1.0)
    side = tiles.side
    face, mask = np.zeros((side, side, 3), np.float32), np.ones((side, side), np.float32)
    others = [[whose] for whose in (*sources[1:], *sources[:1])]
    latents = latents_of(others, generator, CPU) if contract.source not in ("image", "none") else []
    samples = []
    for number, source in enumerate(sources):
        if contract.source == "image":
            put_picture(others[number], contract.source_template, tiles.source_picture(contract))
            tiles.push_source()
        elif latents:
            tiles.put_latent(latents[number])
        for crop in _crops(source, contract.template, side):
            tiles.run(crop.astype(np.float32), face, mask)
            picture = network.inputs[roles.picture]
            if len(picture) > 1:  # every tile, not only the first
                picture[:] = picture[:1]
                network.run()
            samples.append(Sample(_copied(network.inputs), _copied(network.outputs)))
    return samples


def _copied(arrays: Sequence[Array]) -> tuple[Array, ...]:
    return tuple(np.array(one) for one in arrays)


def _shown(network: Network, contract: Contract | None, sources: Sequence[SourceFace]) -> list[Sample]:
    """What any other network makes of each face; inputs that are no pictures get numbers of length one."""
    contract = contract or Contract()
    rng = np.random.default_rng(0)
    others = {number: _vector(array, rng) for number, array in enumerate(network.inputs)}
    samples = []
    for source in sources:
        for crop in _crops(source, contract.template or _PLAIN_TEMPLATE, 256):
            inputs = [
                _as_input(crop, array, contract) if _layout(array) else others[number]
                for number, array in enumerate(network.inputs)
            ]
            samples.append(sample(network, inputs))
    return samples


def _crops(source: SourceFace, template: str, side: int) -> list[Array]:
    affine = crop_affine(template, side, source.points)
    crop = cv2.warpAffine(
        source.image, affine, (side, side), flags=cv2.INTER_AREA, borderMode=cv2.BORDER_REPLICATE
    )
    return [(crop[:, ::-1] if mirrored else crop) * light for light, mirrored in _LIGHTS]


def _layout(array: Array) -> str:
    if array.ndim != 4:
        return ""
    return "nchw" if array.shape[1] == 3 else "nhwc" if array.shape[3] == 3 else ""


def _as_input(crop: Array, array: Array, contract: Contract) -> Array:
    """A crop, (S, S, 3) BGR 0…255, as an input takes it."""
    nchw = _layout(array) == "nchw"
    height, width = array.shape[2:] if nchw else array.shape[1:3]
    picture = cv2.resize(crop, (width, height), interpolation=cv2.INTER_LINEAR) / 255
    if contract.channels == "rgb":
        picture = picture[..., ::-1]
    picture = (picture - np.asarray(contract.mean)) / np.asarray(contract.std)
    return np.broadcast_to(picture.transpose(2, 0, 1) if nchw else picture, array.shape)


def _vector(array: Array, rng: np.random.Generator) -> Array:
    values = rng.standard_normal(array.shape)
    if values.size == 1:
        return np.full(array.shape, 0.5)
    return np.asarray(values / np.linalg.norm(values))


def _identity(generator: Generator | None) -> Embed | None:
    """How to tell whose face a swap generator made, where it has an embedder: opened at its first face, and kept."""
    if generator is None or generator.embedder is None:
        return None
    contract, roles = generator.contract, generator.roles
    embedder = cache(partial(open_embedder, generator.embedder, CPU))

    def embed(face: Array) -> Floats:
        picture = face[0].transpose(1, 2, 0) if roles.layout == "nchw" else face[0]
        picture = picture.astype(np.float32) * np.asarray(contract.out_std) + np.asarray(contract.out_mean)
        if contract.channels == "rgb":
            picture = picture[..., ::-1]
        image = np.ascontiguousarray(np.clip(picture * 255, 0, 255).round().astype(np.uint8))
        return embedder().embed(image, TEMPLATES[contract.template] * roles.side)

    return embed


def described(job: Job) -> Mapping[str, object]:
    """What a job is, for a document."""
    return {
        "name": job.name, "model": str(job.model), "sha256": job.sha256, "recipe": job.recipe.text,
        "shapes": [list(shape) for shape in job.shapes.values()], "gpu": job.target.gpu,
        "tensorrt": f"{job.target.runtime} {job.target.version}", "samples": len(job.samples),
    }  # fmt: skip
