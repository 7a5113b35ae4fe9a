"""What the catalogue knows of a model. Nothing here reads a file or the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["swap", "embed", "convert", "detect", "landmarks", "occlude", "parse", "restore"]
KINDS: Final[tuple[Kind, ...]] = (
    "swap", "embed", "convert", "detect", "landmarks", "occlude", "parse", "restore",
)  # fmt: skip
"""What a model is for: put on a face; turn a face into an embedding; turn that into another network's embedding; find
faces; find landmarks; find what hides a face; name the parts of a face; restore a face."""

Source = Literal[
    "none", "emap", "embedding", "embedding_normed", "converted", "converted_normed", "image"
]  # fmt: skip
SOURCES: Final[tuple[Source, ...]] = (
    "none", "emap", "embedding", "embedding_normed", "converted", "converted_normed", "image",
)  # fmt: skip

Channels = Literal["rgb", "bgr"]
Layout = Literal["nchw", "nhwc"]
Commercial = Literal["yes", "no", "unknown"]

Triple = tuple[float, float, float]
ZEROS: Final[Triple] = (0.0, 0.0, 0.0)
ONES: Final[Triple] = (1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Contract:
    """How a model wants its picture, and what it gives back. Inputs and outputs are found by shape, never by name.

    Attributes:
        template: Where eyes, nose and mouth lie in its crop, of :data:`engines.analysis.align.TEMPLATES`; empty
            where it takes no aligned face.
        side: Of its square picture, pixels; 0 where it takes none.
        channels: Colour order of the picture that goes in and of the one that comes out.
        layout: Of both pictures.
        mean: Per channel in its own order, of values 0…1: what goes in is ``(value - mean) / std``.
        std: The same.
        out_mean: What comes out is read as ``value * out_std + out_mean``, 0…1.
        out_std: The same.
        source: How a swap generator is told whose face to put on. ``none``: the person is in the weights, or it is
            no swap generator. ``emap``: the embedding of length 1, times the matrix in the file, of length 1
            again. ``embedding``, ``embedding_normed``: the embedder's, as it is or of length 1. ``converted``,
            ``converted_normed``: the converter's, as it is or of length 1. ``image``: an aligned picture of
            the face, 0…1, in ``channels`` and ``layout``.
        source_template: Of that picture.
        source_side: Of that picture, pixels.
        masks: What its outputs of one channel may be, in the file's order: ``target`` (where the live head is),
            ``face`` (where the new face is good). Exporters leave them out, so look before you count on one.
    """

    template: str = ""
    side: int = 0
    channels: Channels = "rgb"
    layout: Layout = "nchw"
    mean: Triple = ZEROS
    std: Triple = ONES
    out_mean: Triple = ZEROS
    out_std: Triple = ONES
    source: Source = "none"
    source_template: str = ""
    source_side: int = 0
    masks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shapes:
    """What a graph takes and gives: each a shape as text, ``* 3 256 256``, where ``*`` is any size.

    A leading ``...`` stands for any number of sizes; a type may come last, ``1 float64``. The order of inputs and
    outputs is left open, as exporters differ.

    Attributes:
        inputs: All of them.
        outputs: Those that have to be there.
        may: Outputs that may be there besides.
        weights: Shapes of weights that have to be in the file.
    """

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """One model.

    Attributes:
        name: As it is typed.
        kind: What it is for.
        file: Its name in the folder, one plain name.
        urls: Where it can be had, https, best first.
        contract: How it wants its picture.
        publisher: Who made it, not who stores the file.
        licence: As the publisher states it.
        commercial: Whether that licence allows commercial use.
        terms: Where the licence can be read.
        needs: Names of the entries it does not work without.
        size: Bytes, None where not known.
        sha256: 64 hexadecimal digits, None where not known; then the first download is recorded and pinned.
        also: Sums of other files that are known to be the same model, as other people export it.
        shapes: What its graph takes and gives, to know a file again that has another name.
        note: What else a user should know, one sentence.
    """

    name: str
    kind: Kind
    file: str
    urls: tuple[str, ...]
    contract: Contract
    publisher: str
    licence: str
    commercial: Commercial
    terms: str = ""
    needs: tuple[str, ...] = ()
    size: int | None = None
    sha256: str | None = None
    also: tuple[str, ...] = ()
    shapes: Shapes = Shapes()
    note: str = ""

    @property
    def asks(self) -> bool:
        """Whether its licence has to be accepted before it is downloaded."""
        return self.commercial != "yes"
