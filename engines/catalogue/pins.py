"""Which sums the files in the user's folder had when they were first trusted, and what they had when last read."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from engines.errors import UsageError
from engines.files import open_regular, quoted, sha256_of

LOCK_FILE: Final = "models.lock.json"
_SEEN_FILE: Final = ".seen.json"
_LARGEST: Final = 1 << 20
_SUM: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Pin:
    """What a file was when it was first trusted.

    Attributes:
        sha256: Its sum.
        size: Bytes.
        source: The address or the folder that it came from; empty for one that the user put there.
    """

    sha256: str
    size: int
    source: str = ""


class Pins:
    """The pins of a folder, in ``models.lock.json`` beside the files; a sum, once pinned, only changes when asked to.

    Args:
        folder: Where the models are; it may not exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, file: str) -> Pin | None:
        """The pin of a file, by its name.

        Raises:
            UsageError: The list of pins is damaged: then nothing can be trusted, so it is said.
        """
        return self.all().get(file)

    def all(self) -> Mapping[str, Pin]:
        """Every pin, by file name.

        Raises:
            UsageError: The list is damaged.
        """
        path = self._folder / LOCK_FILE
        if not path.exists():
            return {}
        try:
            table = _read(path)
            pins = {str(file): Pin(**pin) for file, pin in table["pins"].items()}
            if not all(
                isinstance(pin.sha256, str) and _SUM.fullmatch(pin.sha256) and isinstance(pin.size, int)
                for pin in pins.values()
            ):
                raise ValueError("a sum is no sha256")
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            fix = "Mend it, or move it away; files without a known sum then count as new."
            raise UsageError(f"The list of pinned sums {quoted(path)} is damaged: {error}.", fix) from error
        return pins

    def put(self, file: str, pin: Pin) -> None:
        """Pins a file. The caller holds the folder's lock.

        Raises:
            UsageError: The list is damaged, or cannot be written.
        """
        pins = {name: asdict(one) for name, one in {**self.all(), file: pin}.items()}
        write_whole(self._folder / LOCK_FILE, {"schema": 1, "pins": pins})


class Sums:
    """Sums of files, read again only when a file has another size or time than when it was last read.

    Args:
        folder: Where what was seen is kept, if that can be written.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / _SEEN_FILE

    def of(self, path: Path, again: bool = False) -> str:
        """The sha256 of a file.

        Args:
            path: In the folder, or elsewhere.
            again: Read it, whatever is remembered.

        Raises:
            UsageError: It cannot be read.
        """
        about = path.stat()
        key, now = str(path.resolve()), [about.st_size, about.st_mtime_ns]
        seen = self._seen()
        kept = seen.get(key)
        if not again and isinstance(kept, list) and kept[:2] == now and _SUM.fullmatch(str(kept[-1])):
            return str(kept[-1])
        digest = sha256_of(path)
        # Only a convenience: a folder that cannot be written is read every time.
        with contextlib.suppress(UsageError):
            write_whole(self._path, {**self._seen(), key: [*now, digest]})
        return digest

    def _seen(self) -> dict[str, Any]:
        try:
            return _read(self._path)
        except (ValueError, UsageError):
            return {}


def write_whole(path: Path, table: Mapping[str, Any]) -> None:
    """Writes JSON so that a reader sees the old file or the new one, never a part.

    Raises:
        UsageError: It cannot be written.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with part.open("w", encoding="utf-8") as file:
            json.dump(table, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        text = error.strerror or str(error)
        raise UsageError(
            f"{quoted(path)} cannot be written: {text}.", "Choose another folder with --models."
        ) from error


def _read(path: Path) -> dict[str, Any]:
    """A table of a JSON file. Raises ValueError or UsageError."""
    with open_regular(path, "a list") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise ValueError("it is too large")
    table = json.loads(data)
    if not isinstance(table, dict):
        raise ValueError("it is no table")
    return table
