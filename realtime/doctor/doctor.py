"""Every check that explains why it does not work, each failure with the line that mends it."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

from engines.analysis.topology import WEIGHTS
from engines.errors import DoppelcamError
from realtime.bench.machine import usable_cores
from realtime.doctor.check import Check
from realtime.doctor.engines import ENGINE_CHECKS
from realtime.doctor.machine import MACHINE_CHECKS, nearest
from realtime.doctor.models import check_models

_NEEDED: Final = {
    "av": "av",
    "numba": "numba",
    "numpy": "numpy",
    "opencv-python-headless": "cv2",
    "pillow": "PIL",
    "pyvirtualcam": "pyvirtualcam",
    "rich": "rich",
}
"""Distribution and the module it brings."""

_OLDEST_PYTHON: Final = (3, 11)
_CODECS: Final = {"libx264": "recording to .mp4", "ffv1": "recording to .mkv"}
_REINSTALL: Final = "pip install --force-reinstall doppelcam"


def examine(attempt: bool = False) -> Iterator[Check]:
    """Makes every check, one after the other; none of them stops the others.

    Args:
        attempt: Whether devices may be used for a moment: cameras are measured, and the virtual camera shows
            colour bars.
    """
    from realtime.doctor.devices import device_checks

    for name, check in (*_CHECKS, *device_checks(attempt)):
        try:
            yield from check()
        except DoppelcamError as error:
            yield Check(name, "failed", error.what, error.fix)
        except Exception as error:  # a check that trips over a broken installation is its own finding
            yield Check(name, "failed", f"{type(error).__name__}: {error}", _REINSTALL)


def _python() -> Iterable[Check]:
    found = f"{platform.python_version()} ({platform.machine()}, {platform.system()})"
    if sys.version_info < _OLDEST_PYTHON:
        yield Check("Python", "failed", found, "Install Python 3.11 or newer.")
    else:
        yield Check("Python", "ok", found)


def _packages() -> Iterable[Check]:
    versions = []
    for distribution, module in _NEEDED.items():
        try:
            importlib.import_module(module)
            versions.append(f"{distribution} {_version(distribution)}")
        except ImportError as error:
            yield Check(distribution, "failed", f"cannot be imported: {error}", f"pip install {distribution}")
    yield Check("packages", "ok", ", ".join(versions))


def _version(distribution: str) -> str:
    # OpenCV comes under four names; whichever is there brings the module.
    names = (
        [distribution, "opencv-python", "opencv-contrib-python"]
        if "opencv" in distribution
        else [distribution]
    )
    for name in names:
        with contextlib.suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return "(version unknown)"


def check_weights(folder: Path = WEIGHTS) -> Iterable[Check]:
    """Whether the networks that ship with the package are whole.

    Args:
        folder: Where they lie, with a ``SHA256SUMS`` beside them.
    """
    sums = folder / "SHA256SUMS"
    if not sums.is_file():
        yield Check("weights", "missing", "the list of checksums is not there to compare with", _REINSTALL)
        return
    broken = False
    lines = [line.split() for line in sums.read_text("ascii").splitlines() if line.strip()]
    for expected, name in lines:
        path = folder / name.lstrip("*")
        if not path.is_file():
            broken = True
            yield Check("weights", "failed", f"{path.name} is missing", _REINSTALL)
            continue
        actual = hashlib.sha256(path.read_bytes()).hexdigest()
        if actual != expected:
            broken = True
            found = f"{path.name} is damaged: sha256 {actual[:12]}… and not {expected[:12]}…"
            yield Check("weights", "failed", found, _REINSTALL)
    if not broken:
        yield Check("weights", "ok", f"{len(lines)} files, sha256 as published")


def check_kernels(cache: Callable[[], Path | None] | None = None) -> Iterable[Check]:
    """Whether numba compiles here and can keep what it compiled.

    Args:
        cache: Where it keeps machine code; None where it found no place.
    """
    import numba

    from engines.kernels import cpu

    cpu.warm_up()
    folder = (cache or _kernel_cache)()
    if folder is None or not os.access(nearest(folder), os.W_OK):
        place = folder or "a cache folder"
        fix = "export NUMBA_CACHE_DIR=~/.cache/numba"
        yield Check("kernels", "missing", f"compile, but {place} cannot be written: every start is slow", fix)
    else:
        yield Check("kernels", "ok", f"numba {numba.__version__} compiles, cache in {folder}")


def _kernel_cache() -> Path | None:
    from engines.kernels import cpu

    kept: str | None = cpu.composite.stats.cache_path
    return Path(kept) if kept else None


def _codecs() -> Iterable[Check]:
    import av

    missing = [codec for codec in _CODECS if codec not in av.codecs_available]
    for codec in missing:
        yield Check("codecs", "missing", f"no {codec}: {_CODECS[codec]} is not possible", "pip install -U av")
    if not missing:
        yield Check("codecs", "ok", ", ".join(_CODECS))


def _cores() -> Iterable[Check]:
    cores = usable_cores()
    if cores < 2:
        found = "1: capture, swap and output have to share it"
        yield Check("cores", "missing", found, "Use a smaller --size or a lower --fps.")
    else:
        yield Check("cores", "ok", str(cores))


_CHECKS: Final[tuple[tuple[str, Callable[[], Iterable[Check]]], ...]] = (
    ("Python", _python),
    ("packages", _packages),
    ("cores", _cores),
    *MACHINE_CHECKS,
    ("weights", check_weights),
    *ENGINE_CHECKS,
    ("kernels", check_kernels),
    ("codecs", _codecs),
    ("models", check_models),
)
