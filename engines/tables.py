"""Tables of our own in JSON files: read with suspicion, written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from engines.errors import UsageError
from engines.files import open_regular, quoted

_LARGEST: Final = 1 << 20


def read_table(path: Path) -> dict[str, Any]:
    """A table of a JSON file.

    Raises:
        ValueError: It is no table, or too large to be one of ours.
        UsageError: It cannot be read.
    """
    with open_regular(path, "a list") as file:
        try:
            data = file.read(_LARGEST + 1)
        except OSError as error:
            raise UsageError(
                f"{quoted(path)} cannot be read: {error.strerror or error}.", "Check the disk."
            ) from error
    if len(data) > _LARGEST:
        raise ValueError("it is too large")
    try:
        table = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(table, dict):
        raise ValueError("it is no table")
    return table


def write_table(path: Path, table: Mapping[str, Any], fix: str) -> None:
    """Writes JSON so that a reader sees the old file or the new one, never a part.

    Args:
        path: The file.
        table: What to write.
        fix: What to do where it cannot be written.

    Raises:
        UsageError: It cannot be written.
    """
    # A name that no other process and no other thread takes: a session opens networks in several at once.
    part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    try:
        with part.open("w", encoding="utf-8") as file:
            json.dump(table, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise UsageError(f"{quoted(path)} cannot be written: {error.strerror or error}.", fix) from error
