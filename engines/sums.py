"""Sums of files, which are read once: a network has up to a gigabyte, and a program starts often."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Any, Final

from engines.errors import UsageError
from engines.files import open_regular, sha256_of
from engines.tables import read_table, write_table

_SEEN_FILE: Final = ".seen.json"
_SUM: Final = re.compile(r"[0-9a-f]{64}")


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
        key, now = _about(path)
        kept = self._seen().get(key)
        if not again and isinstance(kept, list) and kept[:2] == now and _SUM.fullmatch(str(kept[-1])):
            return str(kept[-1])
        digest = sha256_of(path)
        self._keep(key, now, digest)
        return digest

    def remember(self, path: Path, digest: str) -> None:
        """Takes in what a file's sum is from who has just read it.

        Raises:
            UsageError: There is no such file any more.
        """
        self._keep(*_about(path), digest)

    def _keep(self, key: str, now: list[int], digest: str) -> None:
        # Only a convenience: where the folder cannot be written every file is read every time.
        with contextlib.suppress(UsageError):
            write_table(self._path, {**self._seen(), key: [*now, digest]}, "")

    def _seen(self) -> dict[str, Any]:
        try:
            return read_table(self._path)
        except (ValueError, UsageError):
            return {}


def _about(path: Path) -> tuple[str, list[int]]:
    """What a file is remembered by, and its size and time."""
    with open_regular(path, "a model") as file:
        about = os.fstat(file.fileno())
    return str(path.resolve()), [about.st_size, about.st_mtime_ns]
