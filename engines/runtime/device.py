"""What networks and kernels run on, and why."""

from __future__ import annotations

from dataclasses import dataclass

from engines.errors import EngineError


@dataclass(frozen=True, slots=True)
class Device:
    """What networks and kernels run on.

    Attributes:
        name: ``cpu`` or ``cuda:N``.
        why: Why this one was taken, where the user left the choice.
    """

    name: str
    why: str = ""

    @property
    def kind(self) -> str:
        """``cpu`` or ``cuda``."""
        return self.name.partition(":")[0]

    @property
    def index(self) -> int:
        """Which one of its kind."""
        return int(self.name.partition(":")[2] or 0)


CPU = Device("cpu")


def choose_device(asked: str) -> Device:
    """What to run on; never something else than was asked for.

    Raises:
        EngineError: It is not there.
    """
    if asked.startswith("cuda"):
        raise EngineError(
            f"The device {asked} was asked for, but this version has no GPU path: it runs on the CPU.",
            "Use --device cpu, or --device auto.",
        )
    return Device("cpu", "no GPU path in this version" if asked == "auto" else "")
