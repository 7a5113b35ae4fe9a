"""Another process of this very Python, that imports what this one does and nothing from where the user stands."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

PYTHON: Final = (sys.executable, "-P", "-m")
"""Begins a command whose next word is a module. -P: whatever lies in the folder where somebody is, is not ours."""


def environment() -> dict[str, str]:
    """Ours, and everything importable that is importable here."""
    paths = os.pathsep.join(str(Path(path).absolute()) for path in sys.path)
    return {**os.environ, "PYTHONPATH": paths}
