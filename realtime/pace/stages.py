"""The stages that a frame goes through, and what each may take. Words and numbers only: the command line needs them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

STAGES = ("capture", "track", "swap", "blend", "output")

DEFAULT_BUDGET_MS: Mapping[str, float] = MappingProxyType(
    {"capture": 4.0, "track": 4.0, "swap": 12.0, "blend": 3.0, "output": 4.0}
)
"""At 30 fps; scaled with the frame's period for other rates."""


def budget_for(fps: float) -> dict[str, float]:
    """The default budget of every stage, ms, for frames at this rate."""
    return {stage: ms * 30.0 / max(fps, 1e-3) for stage, ms in DEFAULT_BUDGET_MS.items()}
