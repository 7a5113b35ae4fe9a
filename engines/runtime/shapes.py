"""What is put for dimensions that a model leaves free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engines.errors import EngineError
from engines.runtime.model.format import Declared, Dim


def shown_shape(shape: Sequence[Dim]) -> str:
    """A shape for a message: ``1×3×128×128``, with a name or ``?`` for what is free."""
    return "×".join(str(dim) if dim is not None else "?" for dim in shape) or "scalar"


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is put for dimensions that a model leaves free.

    Attributes:
        batch: For the first dimension of every input.
        side: For height and width of a picture; None to refuse a model that leaves them free.
        shapes: Whole shapes for some inputs, by number.
    """

    batch: int = 1
    side: int | None = None
    shapes: Mapping[int, Sequence[int]] = field(default_factory=dict)


def fixed_shapes(declared: Sequence[Declared], sizes: Sizes, name: str) -> dict[str, tuple[int, ...]]:
    """Shapes of all inputs, with every free dimension filled in.

    Args:
        declared: The inputs as the file declares them.
        sizes: What to put where they are free.
        name: What to call the network.

    Returns:
        For each input by name its shape.

    Raises:
        EngineError: A given shape contradicts the file, or a dimension behind the first is free and none was given.
    """
    strangers = [number for number in sizes.shapes if not 0 <= number < len(declared)]
    if strangers:
        raise EngineError(
            f"{name} has {len(declared)} inputs, and a shape was given for input {strangers[0]}."
        )
    return {
        one.name: _given(one, sizes.shapes[number], name)
        if number in sizes.shapes
        else _filled(one, sizes, name)
        for number, one in enumerate(declared)
        if one.shape is not None
    }


def _given(one: Declared, given: Sequence[int], name: str) -> tuple[int, ...]:
    declared = one.shape or ()
    if len(given) != len(declared) or any(
        size < 1 or (isinstance(dim, int) and dim != size) for dim, size in zip(declared, given, strict=False)
    ):
        raise EngineError(
            f"The input {one.name} of {name} is {shown_shape(declared)}, so it cannot be {shown_shape(given)}.",
            "Give a shape that the model allows.",
        )
    return tuple(given)


def _filled(one: Declared, sizes: Sizes, name: str) -> tuple[int, ...]:
    declared = one.shape or ()
    free = [number for number, dim in enumerate(declared) if not isinstance(dim, int)]
    picture = len(declared) == 4 and len(set(free) - {0}) == 2
    filled = []
    for number, dim in enumerate(declared):
        size = (
            dim if isinstance(dim, int) else sizes.batch if number == 0 else sizes.side if picture else None
        )
        if size is None:
            raise EngineError(
                f"The input {one.name} of {name} is {shown_shape(declared)}: its size is left free, and none was "
                "given.",
                "Export the model with fixed sizes.",
            )
        filled.append(size)
    return tuple(filled)


def overrides(declared: Sequence[Declared], fixed: Mapping[str, Sequence[int]], name: str) -> dict[str, int]:
    """What each named free dimension is set to.

    Raises:
        EngineError: Two inputs want different sizes of the same name.
    """
    chosen: dict[str, int] = {}
    for one in declared:
        for dim, size in zip(one.shape or (), fixed.get(one.name, ()), strict=False):
            if isinstance(dim, str) and chosen.setdefault(dim, size) != size:
                raise EngineError(
                    f"{name} calls two dimensions '{dim}', so they cannot be {chosen[dim]} and {size}.",
                    "Give them the same size.",
                )
    return chosen
