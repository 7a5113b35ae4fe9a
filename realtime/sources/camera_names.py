"""Which cameras Windows and macOS have, and what they are called, through cv2-enumerate-cameras."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Final, Protocol

import cv2

from realtime.sources.v4l2_names import CameraInfo, v4l2_cameras

_BACKENDS: Final = {"win32": cv2.CAP_DSHOW, "darwin": cv2.CAP_AVFOUNDATION}
_VIRTUAL: Final = (
    "obs virtual camera",
    "obs-camera",
    "unity video capture",
    "snap camera",
    "manycam",
    "virtual",
)
"""Parts of the names of cameras that a program and not a sensor is behind: neither system tells otherwise."""


class Listed(Protocol):
    """What is used of a camera of the library."""

    index: int
    name: str
    path: str | None


def enumerate_cameras(backend: int) -> Iterable[Listed]:
    """The only place that knows the library.

    Args:
        backend: OpenCV's number of the way cameras are opened; each way has its own order.

    Raises:
        ImportError: The library is not installed.
    """
    from cv2_enumerate_cameras import enumerate_cameras as ask

    cameras: Iterable[Listed] = ask(backend)
    return cameras


def named_cameras(
    platform: str = sys.platform, ask: Callable[[int], Iterable[Listed]] = enumerate_cameras
) -> tuple[CameraInfo, ...]:
    """The cameras of this system with their names, virtual ones too; none where it cannot be asked.

    Args:
        platform: As ``sys.platform``.
        ask: Lists the cameras of one of OpenCV's backends.
    """
    if platform.startswith("linux"):
        return v4l2_cameras()
    if platform not in _BACKENDS:
        return ()
    try:
        listed = list(ask(_BACKENDS[platform]))
    except (
        ImportError,
        OSError,
        RuntimeError,
    ):  # Not installed, or the system's own service does not answer.
        return ()
    return tuple(
        CameraInfo(
            one.index,
            "",
            _clean(one.name) or f"camera {one.index}",
            one.path or "",
            (),
            _is_virtual(one.name),
        )
        for one in sorted(listed, key=lambda each: each.index)
    )


def _clean(name: str | None) -> str:
    return "".join(c if c.isprintable() else " " for c in name or "").strip()


def _is_virtual(name: str | None) -> bool:
    return any(part in (name or "").casefold() for part in _VIRTUAL)
