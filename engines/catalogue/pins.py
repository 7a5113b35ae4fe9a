"""Which sums the files in the user's folder had when they were first trusted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from engines.errors import UsageError
from engines.files import quoted
from engines.tables import read_table, write_table

LOCK_FILE: Final = "models.lock.json"
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
            table = read_table(path)
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
        write_table(
            self._folder / LOCK_FILE, {"schema": 1, "pins": pins}, "Choose another folder with --models."
        )
