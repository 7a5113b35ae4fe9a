"""Which network puts on the face, and how it wants to be fed: a name or a file in, its contract out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engines.catalogue.entry import Contract, Entry
from engines.catalogue.fits import describe, fits, fitting
from engines.catalogue.graph import Graph, read_graph
from engines.catalogue.store import SUFFIXES, Store
from engines.errors import EngineError, UsageError
from engines.files import quoted
from engines.swap.neural.contract import Roles, find_roles
from engines.swap.neural.dfm import DFM, DFM_SHAPES, MASK_BLUR


@dataclass(frozen=True, slots=True)
class Generator:
    """A network that puts on a face, and those that it needs for that.

    Attributes:
        name: As on the command line, for messages.
        path: The file.
        contract: How it wants its pictures.
        roles: Which input and output of the file is what.
        embedder: The file that turns a photo into an embedding; None where none is needed.
        converter: The file that turns that into this network's own embedding; None where none is needed.
        soften: How far its masks, which are hard, are blurred: the σ of a mask of 256 pixels; 0 leaves them.
    """

    name: str
    path: Path
    contract: Contract
    roles: Roles
    embedder: Path | None = None
    converter: Path | None = None
    soften: float = 0.0


def is_file_name(engine: str) -> bool:
    """Whether an engine is given as a file and not by its name."""
    return Path(engine.rpartition("=")[2]).suffix.lower() in SUFFIXES


def find_generator(engine: str, store: Store) -> Generator:
    """Finds the network and everything it does not work without.

    Args:
        engine: A name of the catalogue; or a file whose contract can be told from its graph; or ``NAME=FILE``, where
            it cannot: the name of the entry whose contract the file keeps.
        store: Where models lie.

    Raises:
        UsageError: There is no such name or file.
        EngineError: The file is no model, or its contract cannot be told or is not kept; or something that it needs
            is not there.
    """
    if not is_file_name(engine):
        entry = _swaps(store.catalogue.entry(engine))
        path = store.require(entry.name)
        return _made(entry.name, path, read_graph(path), entry, store)
    name, _, file = engine.rpartition("=")
    path = Path(file).expanduser()
    graph = read_graph(path)
    if name:
        return _made(path.name, path, graph, _swaps(store.catalogue.entry(name)), store)
    if any(fits(graph, shapes) for shapes in DFM_SHAPES):
        return Generator(path.name, path, DFM, find_roles(path.name, graph, DFM), soften=MASK_BLUR)
    return _made(path.name, path, graph, _told(graph, path, store), store)


def _swaps(entry: Entry) -> Entry:
    if entry.kind != "swap":
        raise UsageError(
            f"The model {entry.name} does not put on a face.",
            "See those of the kind swap: doppelcam models list",
        )
    return entry


def _made(name: str, path: Path, graph: Graph, entry: Entry, store: Store) -> Generator:
    needed = {store.catalogue.entry(need).kind: store.require(need) for need in entry.needs}
    roles = find_roles(name, graph, entry.contract)
    return Generator(name, path, entry.contract, roles, needed.get("embed"), needed.get("convert"))


def _told(graph: Graph, path: Path, store: Store) -> Entry:
    """The entry whose contract a graph keeps."""
    known = store.recognise(path)
    if known is not None and known.kind == "swap":
        return known
    generators = store.catalogue.of_kind("swap")
    # Two exports of one model keep one contract; it does not matter which of them this is.
    one_each = {entry.contract: entry for entry in reversed(fitting(graph, generators))}
    if len(one_each) == 1:
        return next(iter(one_each.values()))
    found = f"takes {describe(graph.inputs)} and gives {describe(graph.outputs)}"
    if one_each:
        names = sorted(entry.name for entry in one_each.values())
        raise EngineError(
            f"{quoted(path)} {found}, as {', '.join(names[:-1])} and {names[-1]} do, which want their pictures "
            "differently.",
            f"Say which of them it is: --engine {names[0]}={path}",
        )
    raise EngineError(
        f"{quoted(path)} is no swap generator that is known: it {found}. What was expected is one of: "
        f"{_expected(generators)}; DFM: 1×S×S×3 to 1×S×S×1 and 1×S×S×3 and 1×S×S×1.",
        "See: doppelcam models list",
    )


def _expected(entries: Sequence[Entry]) -> str:
    """What entries take and give, each kind once, under the first of its names."""
    seen: dict[object, Entry] = {}
    for entry in entries:
        seen.setdefault(entry.shapes, entry)
    return "; ".join(
        f"{entry.name}: {_shapes(entry.shapes.inputs)} to {_shapes(entry.shapes.outputs)}"
        + (f", with a weight of {_shapes(entry.shapes.weights)}" if entry.shapes.weights else "")
        for entry in seen.values()
    )


def _shapes(shapes: Sequence[str]) -> str:
    return " and ".join("×".join(shape.split()).replace("*", "1", 1) for shape in shapes)
