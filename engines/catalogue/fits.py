"""Which models of the catalogue a file can be, by what its graph takes and gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engines.catalogue.entry import Entry, Shapes
from engines.catalogue.graph import Graph, Value
from engines.runtime.model.format import DTYPES


def fitting(graph: Graph, entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Those entries that a graph can be, in their order."""
    return tuple(entry for entry in entries if entry.shapes.inputs and fits(graph, entry.shapes))


def fits(graph: Graph, shapes: Shapes) -> bool:
    """Whether a graph takes and gives these shapes, in whatever order, and nothing else."""
    return (
        _pairs_off(graph.inputs, shapes.inputs, ())
        and _pairs_off(graph.outputs, shapes.outputs, shapes.may)
        and all(any(_matches(weight, shape) for weight in graph.weights) for shape in shapes.weights)
    )


def describe(values: Iterable[Value]) -> str:
    """Shapes as a person reads them: ``1×3×128×128 float32``."""
    words = []
    for value in values:
        dims = "×".join("?" if dim is None else str(dim) for dim in value.shape or ()) or "no shape"
        words.append(f"{dims} {value.dtype}".strip())
    return ", ".join(words) or "nothing"


def _pairs_off(values: Sequence[Value], needed: Sequence[str], may: Sequence[str]) -> bool:
    """Whether each value has a shape of its own, and none that is needed is left over."""
    if not len(needed) <= len(values) <= len(needed) + len(may):
        return False
    if not needed:
        return all(any(_matches(value, shape) for shape in may) for value in values)
    first, *others = needed
    return any(
        _matches(value, first) and _pairs_off([*values[:place], *values[place + 1 :]], others, may)
        for place, value in enumerate(values)
    )


def _matches(value: Value, shape: str) -> bool:
    wanted = shape.split()
    if wanted[-1] in DTYPES and value.dtype != wanted.pop():
        return False
    if value.shape is None:
        return False
    found = value.shape
    if wanted[0] == "...":
        wanted = wanted[1:]
        if len(found) < len(wanted):
            return False
        found = found[len(found) - len(wanted) :]
    if len(found) != len(wanted):
        return False
    return all(size is None or want in ("*", str(size)) for size, want in zip(found, wanted, strict=True))
