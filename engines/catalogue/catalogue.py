"""Reads ``models.toml`` and checks all of it, so that nothing behind it has to."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, get_args

from engines.analysis.align import TEMPLATES
from engines.catalogue.entry import (
    KINDS,
    SOURCES,
    Channels,
    Commercial,
    Contract,
    Entry,
    Kind,
    Layout,
    Shapes,
)
from engines.catalogue.urls import checked_https
from engines.errors import EngineError, UsageError
from engines.runtime.model.format import DTYPES

BUILT_IN: Final = Path(__file__).parent / "models.toml"

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.]*")
_FILE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\.(onnx|dfm)")
_SUM: Final = re.compile(r"[0-9a-f]{64}")
_DIM: Final = re.compile(r"\.\.\.|\*|[1-9][0-9]*")
_MASKS: Final = ("target", "face")


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All models that are known by name.

    Attributes:
        entries: By name, in the file's order.
    """

    entries: Mapping[str, Entry]

    @classmethod
    def load(cls, path: Path = BUILT_IN) -> Catalogue:
        """Reads a catalogue.

        Args:
            path: A TOML file of families and models; the one that ships with the program by default.

        Raises:
            EngineError: It is not there, is no TOML, or something in it is wrong; the sentence names the entry.
        """
        try:
            table = tomllib.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise EngineError(
                f"The catalogue {path.name} cannot be read: {error}.", "Install doppelcam again."
            ) from error
        return cls(MappingProxyType(_entries(table)))

    def entry(self, name: str) -> Entry:
        """The entry of that name.

        Raises:
            UsageError: There is none; the fix names the nearest.
        """
        if name in self.entries:
            return self.entries[name]
        near = difflib.get_close_matches(name.lower(), self.entries, 1, 0.5)
        hint = f"Did you mean {near[0]}?" if near else "See: doppelcam models list"
        raise UsageError(f"There is no model {name!r} in the catalogue.", hint)

    def of_kind(self, kind: Kind) -> tuple[Entry, ...]:
        """Every entry of a kind, the one to offer first."""
        return tuple(entry for entry in self if entry.kind == kind)

    def with_needs(self, name: str) -> tuple[Entry, ...]:
        """An entry and everything it does not work without, each once, what is needed first.

        Raises:
            UsageError: There is no such entry.
        """
        found: dict[str, Entry] = {}

        def visit(entry: Entry) -> None:
            if entry.name not in found:
                for needed in entry.needs:
                    visit(self.entries[needed])
                found[entry.name] = entry

        visit(self.entry(name))
        return tuple(found.values())

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries.values())


def _entries(table: Mapping[str, Any]) -> dict[str, Entry]:
    families, models = table.get("family", {}), table.get("model", {})
    entries = {}
    for name, own in models.items():
        try:
            family = own.get("family", "")
            if family not in families:
                raise ValueError(f"there is no family {family!r}")
            rest = {key: value for key, value in own.items() if key != "family"}
            entries[name] = _entry(name, {**families[family], **rest})
        except (ValueError, TypeError, KeyError) as error:
            raise EngineError(
                f"The catalogue's entry {name!r} is wrong: {error}.", "Install doppelcam again."
            ) from error
    for entry in entries.values():
        _check_needs(entry, entries, ())
    files = [entry.file.lower() for entry in entries.values()]
    if len(set(files)) < len(files):
        raise EngineError("Two entries of the catalogue have the same file.", "Install doppelcam again.")
    return entries


def _check_needs(entry: Entry, entries: Mapping[str, Entry], above: tuple[str, ...]) -> None:
    for needed in entry.needs:
        if needed not in entries or needed in (*above, entry.name):
            raise EngineError(
                f"The catalogue's entry {entry.name!r} is wrong: it needs {needed!r}, which is not there or needs "
                "it in turn.",
                "Install doppelcam again.",
            )
        _check_needs(entries[needed], entries, (*above, entry.name))


_TUPLES: Final = {
    "mean", "std", "out_mean", "out_std", "masks", "inputs", "outputs", "may", "weights", "urls", "needs", "also",
}  # fmt: skip


def _entry(name: str, given: dict[str, Any]) -> Entry:
    """One entry, checked. Raises ValueError or TypeError."""
    values: dict[str, Any] = {key: tuple(value) if key in _TUPLES else value for key, value in given.items()}
    parts: dict[str, Any] = {}
    for kind in (Contract, Shapes):
        names = {field.name for field in fields(kind)}
        own: dict[str, Any] = {key: values.pop(key) for key in names & values.keys()}
        parts[kind.__name__.lower()] = kind(**own)
    entry = Entry(name=name, **{**parts, **values})
    _check_entry(entry)
    _check_contract(entry.contract)
    _check_shapes(entry.shapes)
    return entry


def _check_entry(entry: Entry) -> None:
    _one_of("kind", entry.kind, KINDS)
    _one_of("commercial", entry.commercial, get_args(Commercial))
    if not _NAME.fullmatch(entry.name):
        raise ValueError("the name is no plain name")
    # A name from a table becomes a path: nothing that leads out of the folder, or that Windows reads differently.
    if not _FILE.fullmatch(entry.file):
        raise ValueError(f"the file {entry.file!r} is no plain name of a model file")
    for url in entry.urls:
        checked_https(url)
    for text in ("publisher", "licence"):
        if not isinstance(getattr(entry, text), str) or not getattr(entry, text).strip():
            raise ValueError(f"{text} is missing")
    if entry.terms:
        checked_https(entry.terms)
    for digest in (*([entry.sha256] if entry.sha256 is not None else []), *entry.also):
        if not _SUM.fullmatch(digest):
            raise ValueError(f"{digest!r} is no sha256")
    if entry.size is not None and (not isinstance(entry.size, int) or entry.size <= 0):
        raise ValueError(f"size is {entry.size!r}")


def _check_contract(contract: Contract) -> None:
    for template in (contract.template, contract.source_template):
        if template and template not in TEMPLATES:
            raise ValueError(f"there is no template {template!r}")
    _one_of("source", contract.source, SOURCES)
    _one_of("channels", contract.channels, get_args(Channels))
    _one_of("layout", contract.layout, get_args(Layout))
    for three in ("mean", "std", "out_mean", "out_std"):
        value = getattr(contract, three)
        if len(value) != 3 or not all(isinstance(one, int | float) for one in value):
            raise ValueError(f"{three} is not three numbers")
        if three.endswith("std") and not all(one > 0 for one in value):
            raise ValueError(f"{three} is not above 0")
    if not (0 <= contract.side <= 4096 and 0 <= contract.source_side <= 4096):
        raise ValueError("a side is out of range")
    wanted = contract.source == "image"
    if (bool(contract.source_side), bool(contract.source_template)) != (wanted, wanted):
        raise ValueError("a source picture needs its template and its side, and nothing else has them")
    for mask in contract.masks:
        _one_of("masks", mask, _MASKS)


def _check_shapes(shapes: Shapes) -> None:
    for shape in (*shapes.inputs, *shapes.outputs, *shapes.may, *shapes.weights):
        dims = shape.split()
        if dims and dims[-1] in DTYPES:
            dims.pop()
        if not dims or not all(_DIM.fullmatch(dim) for dim in dims) or "..." in dims[1:]:
            raise ValueError(f"{shape!r} is no shape")


def _one_of(what: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{what} is {value!r}, not one of {', '.join(known)}")
