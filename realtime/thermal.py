"""How warm the processor and the GPU are, where Linux tells: a machine that is throttled misses its budgets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/sys/class")
_ZONES: Final = ("x86_pkg_temp", "cpu", "soc", "cpu-thermal", "cpu_thermal", "soc-thermal", "soc_thermal")
"""Types of thermal zones that are the processor's."""
_CHIPS: Final = {
    "coretemp": "CPU", "k10temp": "CPU", "zenpower": "CPU", "cpu_thermal": "CPU", "amdgpu": "GPU", "nouveau": "GPU",
    "xe": "GPU", "i915": "GPU", "radeon": "GPU",
}  # fmt: skip
"""Names of sensors' chips, and what they are in. NVIDIA's own driver has none there."""
_POSSIBLE: Final = (1, 150)
"""°C; what is outside of it is a sensor that is asleep or broken."""


class Thermometer:
    """Reads the sensors that there were when it was made.

    Args:
        root: Where Linux has them.
    """

    def __init__(self, root: Path = _ROOT) -> None:
        self._sensors = list(_found(root))

    def read(self) -> dict[str, int]:
        """The warmest sensor of ``CPU`` and of ``GPU``, °C; what is not known is left out."""
        warmest: dict[str, int] = {}
        for where, path in self._sensors:
            celsius = _celsius(path)
            if celsius is not None:
                warmest[where] = max(celsius, warmest.get(where, celsius))
        return warmest


def _found(root: Path) -> Iterator[tuple[str, Path]]:
    for zone in _entries(root / "thermal", "thermal_zone*"):
        if _word(zone / "type") in _ZONES:
            yield "CPU", zone / "temp"
    for chip in _entries(root / "hwmon", "hwmon*"):
        where = _CHIPS.get(_word(chip / "name"))
        if where is not None:
            yield from ((where, path) for path in _entries(chip, "temp*_input"))


def _entries(folder: Path, pattern: str) -> Iterable[Path]:
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return ()


def _word(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace").strip()
    except OSError:
        return ""


def _celsius(path: Path) -> int | None:
    try:
        celsius = round(int(_word(path)[:12]) / 1000)
    except ValueError:
        return None
    return celsius if _POSSIBLE[0] <= celsius <= _POSSIBLE[1] else None
