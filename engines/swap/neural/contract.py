"""Which input and which output of a swap generator is what, told by number of dimensions and by size.

Names differ by exporter. They are asked only where two inputs look the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from engines.catalogue.entry import Contract, Layout
from engines.catalogue.fits import describe
from engines.catalogue.graph import Graph, Value
from engines.errors import EngineError

_SIDES: Final = (16, 2048)
"""What a picture's side may be where the contract leaves it open, pixels."""
_LATENT: Final = 512
"""Numbers that say whose face to put on."""
_SOURCES: Final = ("source", "src", "id")


@dataclass(frozen=True, slots=True)
class Roles:
    """Places of inputs and outputs in the file's order.

    Attributes:
        picture: The input that takes the live face.
        source: The input that takes whose face to put on; None where the network knows.
        morph: The input that takes how far to morph; None where there is none.
        face: The output that is the new face.
        masks: Outputs that say how far each pixel of it is to be shown.
        layout: Of the picture and of the face.
        source_layout: Of a source that is a picture.
        side: Of the picture, pixels.
        batch: How many faces at once: 0 is any number.
        source_side: Of a source that is a picture, pixels.
        open_sizes: Whether the file leaves a size of its pictures open.
    """

    picture: int
    face: int
    side: int
    layout: Layout = "nchw"
    source: int | None = None
    source_layout: Layout = "nchw"
    morph: int | None = None
    masks: tuple[int, ...] = ()
    batch: int = 1
    source_side: int = 0
    open_sizes: bool = False

    def shapes(self, batch: int) -> dict[int, tuple[int, ...]]:
        """Whole shapes of the pictures that go in, by the input's number, for a file that leaves them open."""
        if not self.open_sizes:
            return {}
        shapes = {self.picture: _shape(self.layout, batch, self.side)}
        if self.source is not None and self.source_side:
            shapes[self.source] = _shape(self.source_layout, batch, self.source_side)
        return shapes


def _shape(layout: Layout, batch: int, side: int) -> tuple[int, ...]:
    return (batch, 3, side, side) if layout == "nchw" else (batch, side, side, 3)


def find_roles(name: str, graph: Graph, contract: Contract) -> Roles:
    """Tells inputs and outputs apart.

    Args:
        name: Of the model, for messages.
        graph: What the file takes and gives.
        contract: What it should.

    Raises:
        EngineError: It takes or gives something else; the sentence lists what was found and what was expected.
    """
    pictures = {place: layout for place, value in enumerate(graph.inputs) if (layout := _picture(value, 3))}
    source = _source(graph.inputs, pictures, contract)
    targets = [place for place in pictures if place != source and _fits(graph.inputs[place], contract.side)]
    others = [place for place in range(len(graph.inputs)) if place not in (source, *targets)]
    morph = others[0] if len(others) == 1 and _is_number(graph.inputs[others[0]]) else None
    faces = [
        place
        for place, value in enumerate(graph.outputs)
        if _picture(value, 3) and _fits(value, contract.side)
    ]
    masks = tuple(place for place, value in enumerate(graph.outputs) if _picture(value, 1))
    wanted = contract.source != "none"
    if (
        len(targets) != 1
        or len(faces) != 1
        or (source is None) == wanted
        or len(others) != (morph is not None)
    ):
        raise EngineError(
            f"{name} takes {describe(graph.inputs)} and gives {describe(graph.outputs)}, where {_expected(contract)} "
            "was expected.",
            "Give the right file, or say what it is: --engine NAME=FILE",
        )
    picture = graph.inputs[targets[0]]
    side = contract.side or _side(picture)
    if side is None or not _SIDES[0] <= side <= _SIDES[1]:
        raise EngineError(
            f"{name} takes {describe([picture])}: the size of its picture cannot be told.",
            f"Export it with a fixed size of {_SIDES[0]} to {_SIDES[1]} pixels.",
        )
    batch = picture.shape[0] if picture.shape else 1
    return Roles(
        picture=targets[0], face=faces[0], side=side, layout=pictures[targets[0]],
        source=source, source_layout=pictures.get(source, "nchw") if source is not None else "nchw",
        morph=morph, masks=masks, batch=batch or 0, source_side=contract.source_side,
        open_sizes=any(None in (graph.inputs[place].shape or ())[1:] for place in pictures),
    )  # fmt: skip


def _picture(value: Value, channels: int) -> Layout | None:
    """How a value lays out a picture of so many channels; None if it is none."""
    shape = value.shape
    if shape is None or len(shape) != 4:
        return None
    if shape[1] == channels and shape[2] == shape[3]:
        return "nchw"
    if shape[3] == channels and shape[1] == shape[2]:
        return "nhwc"
    return None


def _side(value: Value) -> int | None:
    """Of a picture, None where the file leaves it open."""
    layout = _picture(value, 3) or _picture(value, 1)
    return None if layout is None or value.shape is None else value.shape[2 if layout == "nchw" else 1]


def _fits(value: Value, side: int) -> bool:
    return not side or _side(value) in (side, None)


def _is_number(value: Value) -> bool:
    return value.shape is not None and all(size in (1, None) for size in value.shape)


def _source(inputs: Sequence[Value], pictures: dict[int, Layout], contract: Contract) -> int | None:
    """Which input takes whose face to put on."""
    if contract.source == "none":
        return None
    if contract.source != "image":
        latents = [
            place for place, value in enumerate(inputs) if value.shape and len(value.shape) == 2
            and value.shape[1] in (_LATENT, None)
        ]  # fmt: skip
        return latents[0] if len(latents) == 1 else None
    fitting = [place for place in pictures if _fits(inputs[place], contract.source_side)]
    if len(fitting) > 1:
        # Both pictures have the same size. Those who name them name them so; the rest publish the source first.
        named = [place for place in fitting if any(word in inputs[place].name.lower() for word in _SOURCES)]
        fitting = named if len(named) == 1 else fitting
    return fitting[0] if fitting else None


def _expected(contract: Contract) -> str:
    side = str(contract.side or "S")
    picture = f"1×3×{side}×{side}" if contract.layout == "nchw" else f"1×{side}×{side}×3"
    source = {"none": "", "image": f" and 1×3×{contract.source_side}×{contract.source_side}"}
    return f"{picture}{source.get(contract.source, f' and 1×{_LATENT}')} to {picture}"
