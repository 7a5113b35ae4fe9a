"""What a check of the doctor finds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

State = Literal["ok", "missing", "failed"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: What.
        state: ``failed`` stops the program; ``missing`` only takes away what it would be used for.
        found: What was found.
        fix: The line that mends it; empty when all is well.
    """

    name: str
    state: State
    found: str
    fix: str = ""

    def as_json(self) -> dict[str, str]:
        """For ``--json``."""
        return asdict(self)
