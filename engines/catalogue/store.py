"""The folder that the user's models lie in: what is there, whether it is what it should be, what a file is."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

from engines.catalogue.catalogue import Catalogue
from engines.catalogue.claim import claimed
from engines.catalogue.entry import Entry, Kind
from engines.catalogue.fits import fitting
from engines.catalogue.graph import graph_or_none
from engines.catalogue.pins import LOCK_FILE, Pin, Pins
from engines.errors import EngineError
from engines.files import quoted
from engines.sums import Sums

State = Literal["missing", "ready", "unpinned", "wrong"]
"""``missing``: there is no such file. ``ready``: its sum is the known or pinned one. ``unpinned``: nobody knows what
its sum should be. ``wrong``: its sum is another one."""

SUFFIXES: Final = (".onnx", ".dfm")


@dataclass(frozen=True, slots=True)
class Held:
    """What the folder has of a model.

    Attributes:
        entry: The model.
        state: See :data:`State`.
        path: The file, None where there is none.
        expected: The sha256 that it should have, where that is known.
        actual: The sha256 that it has.
        by: How the file was told to be this model: its ``name``, its ``hash``, or its ``contract`` alone.
    """

    entry: Entry
    state: State
    path: Path | None = None
    expected: str | None = None
    actual: str | None = None
    by: Literal["name", "hash", "contract"] = "name"

    @property
    def usable(self) -> bool:
        """Whether it may be run."""
        return self.state in ("ready", "unpinned")


def default_folder(environ: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """Where models lie if nobody says otherwise."""
    if platform == "win32":
        base = Path(environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return base / "doppelcam" / "models"


class Store:
    """A folder of models; it need not exist.

    Args:
        folder: Where they lie.
        catalogue: What is known of models; that which ships with the program by default.
    """

    def __init__(self, folder: Path, catalogue: Catalogue | None = None) -> None:
        self.folder = folder
        self.catalogue = catalogue or Catalogue.load()
        self.pins = Pins(folder)
        self._sums = Sums(folder)

    def path_of(self, name: str) -> Path | None:
        """The file of a model, None if it is not there or has another sum than it should have.

        Raises:
            UsageError: There is no such entry.
        """
        held = self.held(name)
        return held.path if held.usable else None

    def require(self, name: str) -> Path:
        """The file of a model, ready to be opened.

        Raises:
            UsageError: There is no such entry.
            EngineError: It is not there, or has another sum than it should have. The fix is what to type.
        """
        held = self.held(name)
        if held.path is None:
            raise EngineError(
                f"The model {name} is not in {quoted(self.folder)}.", f"Type: doppelcam models pull {name}"
            )
        if held.state == "wrong":
            raise EngineError(what_is_wrong(held), how_to_mend(held))
        return held.path

    def held(self, name: str, again: bool = False) -> Held:
        """What there is of one model.

        Args:
            name: Of the entry.
            again: Read the file, even if its sum is remembered.

        Raises:
            UsageError: There is no such entry, or a file cannot be read.
        """
        return self._found(self.catalogue.entry(name), self._renamed, again)

    def all(self, again: bool = False) -> tuple[Held, ...]:
        """What there is of every model, in the catalogue's order.

        Raises:
            UsageError: A file, or the list of pins, cannot be read.
        """
        renamed = cache(self._renamed)
        return tuple(self._found(entry, renamed, again) for entry in self.catalogue)

    def usable(self, kind: Kind) -> Iterator[tuple[str, Path]]:
        """Models of a kind that are there and may be run, in the catalogue's order: name and file.

        The first is what is taken where nobody says which. Each is looked at when it is asked for.

        Raises:
            UsageError: A file, or the list of pins, cannot be read.
        """
        renamed = cache(self._renamed)
        for entry in self.catalogue.of_kind(kind):
            held = self._found(entry, renamed, again=False)
            if held.path is not None and held.usable:
                yield entry.name, held.path

    def first(self, kind: Kind) -> Path | None:
        """The file of the first of :meth:`usable`; None where there is none."""
        return next((path for _, path in self.usable(kind)), None)

    def remember(self, path: Path, digest: str) -> None:
        """Takes in the sum of a file of the folder from who has just read it, so that it is not read again."""
        self._sums.remember(path, digest)

    def _found(self, entry: Entry, renamed: Callable[[], Mapping[str, Held]], again: bool) -> Held:
        path = self.folder / entry.file
        if path.is_file():
            return self._judged(entry, path, again)
        return renamed().get(entry.name) or Held(entry, "missing", expected=self.expected(entry))

    def strangers(self) -> Iterator[Path]:
        """Model files in the folder that do not have the name of an entry, sorted."""
        known = {entry.file for entry in self.catalogue}
        if self.folder.is_dir():
            for path in sorted(self.folder.iterdir()):
                if path.suffix.lower() in SUFFIXES and path.name not in known and path.is_file():
                    yield path

    def recognise(self, path: Path) -> Entry | None:
        """Which model a file is, whatever its name; None if that cannot be told.

        Raises:
            UsageError: It cannot be read.
        """
        found = self.recognised(path)
        return found.entry if found else None

    def recognised(self, path: Path) -> Held | None:
        """The same, with how it was told.

        By its sum first; else by what its graph takes and gives, if that leaves one entry, or entries that want and
        give the same and so can stand for each other. Among several, the name of the file may decide.

        Raises:
            UsageError: It cannot be read.
        """
        actual, pins = self._sums.of(path), self.pins.all()
        for entry in self.catalogue:
            known = pins.get(entry.file)
            if actual in (entry.sha256 or (known.sha256 if known else None), *entry.also):
                return Held(entry, "ready", path, actual, actual, "hash")
        graph = graph_or_none(path)
        candidates = fitting(graph, self.catalogue) if graph else ()
        if not candidates:
            return None
        stem = path.stem.lower()
        named = max(
            (entry for entry in candidates if entry.name in stem), key=lambda one: len(one.name), default=None
        )
        first = candidates[0]
        if named is None and any(
            (one.kind, one.contract) != (first.kind, first.contract) for one in candidates
        ):
            return None
        pin = pins.get(path.name) if path.parent == self.folder else None
        state: State = "unpinned" if pin is None else "ready" if pin.sha256 == actual else "wrong"
        return Held(named or first, state, path, pin.sha256 if pin else None, actual, "contract")

    def pin(self, held: Held, source: str = "") -> Held:
        """Pins what a file is now, and returns it as it then is.

        Raises:
            UsageError: The list of pins cannot be written.
            DoppelcamError: Another process writes it.
        """
        if held.path is None or held.actual is None:
            raise ValueError("there is nothing to pin")
        with claimed(self.folder / LOCK_FILE, tries=100):
            self.pins.put(held.path.name, Pin(held.actual, held.path.stat().st_size, source))
        return Held(held.entry, "ready", held.path, held.actual, held.actual, held.by)

    def _renamed(self) -> dict[str, Held]:
        """Models whose file has a name of its own; the first by that name, where there are several."""
        found: dict[str, Held] = {}
        for path in self.strangers():
            held = self.recognised(path)
            if held:
                found.setdefault(held.entry.name, held)
        return found

    def expected(self, entry: Entry) -> str | None:
        """The sha256 that a model should have: the known one, else the pinned one, else None.

        Raises:
            UsageError: The list of pins is damaged.
        """
        if entry.sha256:
            return entry.sha256
        pin = self.pins.get(entry.file)
        return pin.sha256 if pin else None

    def _judged(self, entry: Entry, path: Path, again: bool) -> Held:
        expected, actual = self.expected(entry), self._sums.of(path, again)
        if expected is None:
            return Held(entry, "unpinned", path, None, actual)
        right = actual == expected or actual in entry.also
        return Held(entry, "ready" if right else "wrong", path, expected, actual)


def what_is_wrong(held: Held) -> str:
    """A sentence about a file that is not what it should be: its name, and both sums in full."""
    place = quoted(held.path) if held.path else held.entry.file
    return f"The model file {place} is not what it should be: expected sha256 {held.expected}, actual {held.actual}."


def how_to_mend(held: Held) -> str:
    """What to type to mend it."""
    name = held.entry.name
    if held.by == "contract":
        return f"If you changed it yourself, type: doppelcam models verify {name} --pin"
    return (
        f"Type: doppelcam models pull {name} --again (or, if it is your own export, give the file another name: it is "
        "then told by what it takes and gives)"
    )
