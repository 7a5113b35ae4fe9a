"""TensorRT as it is installed, in either of its flavours. The only file that imports it.

Nothing here may be called before CuPy has seen a GPU, except by who builds with TensorRT-RTX: without a driver the
runtime ends the process, and full TensorRT's ``Builder`` raises an error that says nothing.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from engines.errors import EngineError
from engines.runtime import wheels

log = logging.getLogger(__name__)

_TITLES: Final[Mapping[str, str]] = {"tensorrt": "TensorRT", "tensorrt_rtx": "TensorRT-RTX"}
_OLDEST: Final = {"tensorrt": 11, "tensorrt_rtx": 1}
"""Major versions. TensorRT 10 would take the same networks for weakly typed ones and ignore FP16."""
_REMEMBERED: Final = 100
_LONGEST: Final = 300
_ERROR, _WARNING = 1, 2


@dataclass(frozen=True, slots=True)
class Package:
    """TensorRT as the installed packages tell, without touching it.

    Attributes:
        name: Of the module: ``tensorrt`` or ``tensorrt_rtx``.
        version: As ``11.4.0.106``.
        cuda: The major version of CUDA that it is for; 0 where its name does not say.
    """

    name: str
    version: str
    cuda: int

    @property
    def title(self) -> str:
        """Its name and version for a person."""
        return f"{_TITLES[self.name]} {'.'.join(self.version.split('.')[:2])}"


def find_package(found: Mapping[str, str] | None = None) -> Package | None:
    """Which TensorRT is installed; the full one where both are.

    Args:
        found: Versions by package, as :func:`~engines.runtime.wheels.installed`.
    """
    found = wheels.installed() if found is None else found
    for module, prefix in (
        ("tensorrt", r"tensorrt(?:-cu(\d+))?"),
        ("tensorrt_rtx", r"tensorrt-rtx(?:-cu(\d+))?"),
    ):
        for name, version in found.items():
            match = re.fullmatch(prefix, name)
            if match:
                return Package(module, version, int(match[1] or 0))
    return None


@dataclass(frozen=True, slots=True)
class TensorRt:
    """TensorRT, imported.

    Attributes:
        name: Of the module.
        module: The module itself.
        logger: What it tells its messages to: one for the whole process, since it keeps the first that it is given.
    """

    name: str
    module: Any
    logger: Any

    @property
    def is_rtx(self) -> bool:
        """Whether it is the flavour for GeForce RTX, which compiles its kernels on the user's machine."""
        return self.name == "tensorrt_rtx"

    def said(self) -> list[tuple[int, str]]:
        """Warnings and errors since the last call, each with its severity: 0 and 1 are errors, 2 a warning."""
        messages = list(self.logger.messages)
        self.logger.messages.clear()
        return messages

    def why(self, otherwise: str) -> str:
        """The last error that it told, on one line, without a full stop.

        Args:
            otherwise: What to say where it told none.
        """
        errors = [text for severity, text in self.said() if severity <= _ERROR]
        return brief(errors[-1]) if errors else otherwise


def load(package: Package) -> TensorRt:
    """Imports TensorRT.

    Raises:
        EngineError: It cannot be imported, or is too old.
    """
    title = _TITLES[package.name]
    try:
        if package.name == "tensorrt":
            import tensorrt

            return wrap(package.name, tensorrt)
        import tensorrt_rtx

        return wrap(package.name, tensorrt_rtx)
    except EngineError:
        raise
    except Exception as error:  # a library of its own that is missing shows as any kind of error
        raise EngineError(
            f"{title} is installed and cannot be loaded: {type(error).__name__}: {brief(error)}.",
            "Install it again: pip install --force-reinstall 'doppelcam[gpu]'",
        ) from error


def wrap(name: str, module: Any) -> TensorRt:
    """A module that was imported, once it is known to be new enough.

    Raises:
        EngineError: It is too old.
    """
    version = str(module.__version__)
    major = version.partition(".")[0]
    if not major.isdecimal() or int(major) < _OLDEST[name]:
        raise EngineError(
            f"{_TITLES[name]} {version} is too old: {_OLDEST[name]} or newer is needed.",
            "Type: pip install --upgrade 'doppelcam[gpu]'",
        )
    return TensorRt(name, module, _logger_of(module))


@cache
def _logger_of(module: Any) -> Any:
    """The process's one logger. It must never be freed: TensorRT keeps its address, not a reference."""

    class Logger(module.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            module.ILogger.__init__(self)
            self.messages: deque[tuple[int, str]] = deque(maxlen=_REMEMBERED)

        def log(self, severity: Any, msg: str) -> None:
            level = int(severity)
            if level <= _WARNING:
                self.messages.append((level, msg))
                log.debug("%s", msg)

    return Logger()


def brief(reason: object) -> str:
    """The readable part of a message, on one line, without a full stop."""
    text = re.sub(r"[\x00-\x1f\x7f-\x9f\s]+", " ", str(reason)).strip().rstrip(".")
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
