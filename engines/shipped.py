"""What has to be known of the engines that ship with the program before anything of them is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Shipped:
    """One of them.

    Attributes:
        on_gpu: Whether it can paint on a GPU.
        paints_all: Whether it paints the whole frame.
    """

    on_gpu: bool = False
    paints_all: bool = False


SHIPPED: Final = MappingProxyType({"mesh": Shipped(on_gpu=True), "portrait": Shipped(paints_all=True)})
"""By name."""

SWAPPERS: Final = tuple(SHIPPED)
"""Their names. Beside them goes whatever swap generator the user has."""


def runs_on(engine: str, asked: str = "", colour: str = "") -> tuple[str, ...]:
    """Kinds of device that an engine can use.

    Args:
        engine: Its name.
        asked: The device as the user named it. Where that is left open, what ships with the program stays on the CPU:
            it is fast enough there, and a GPU has better things to do.
        colour: How colours are blended; ``poisson`` is a matter of the CPU.
    """
    shipped = SHIPPED.get(engine)
    stays = shipped is not None and (asked in ("", "auto") or not shipped.on_gpu)
    return ("cpu",) if stays or colour == "poisson" else ("cpu", "cuda")


def paints_all(engine: str) -> bool:
    """Whether an engine paints the whole frame, and nothing of the camera's picture is left."""
    return engine in SHIPPED and SHIPPED[engine].paints_all
