"""Kernels made ready before the first frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Kernels(Protocol):
    """A module of kernels."""

    __name__: str

    def warm_up(self) -> None:
        """Compiles every kernel of the module, or loads it from the disk, so that no live frame has to wait for it."""
        ...


def make_ready(progress: Callable[[str], None], *modules: Kernels) -> None:
    """Makes kernels ready, one module after the other.

    Args:
        progress: Told how far it is: ``kernel 2/5: cover``.
        modules: Those that are going to be used.
    """
    for number, module in enumerate(modules, 1):
        progress(f"kernel {number}/{len(modules)}: {module.__name__.rpartition('.')[2]}")
        module.warm_up()
