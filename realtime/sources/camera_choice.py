"""Which of the cameras is meant."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from engines.errors import DeviceError
from realtime.sources.v4l2_names import CameraInfo


def choose_camera(which: int | str | None, cameras: Sequence[CameraInfo]) -> CameraInfo | None:
    """The camera that a user means.

    Args:
        which: A number, the path of a device, or a name: the whole one in any case, or a part of it that only
            one camera has. None takes the first camera that is not virtual.
        cameras: What there is, virtual ones too: those are taken only when they are asked for.

    Returns:
        The camera; None for a path that exists and is not listed.

    Raises:
        DeviceError: None or several fit; the sentence lists those there are.
    """
    real = [camera for camera in cameras if not camera.virtual]
    if which is None:
        if not real:
            fix = "Plug one in, or use another --source, such as portrait or file:PATH."
            raise DeviceError("No camera was found.", fix)
        return real[0]
    if isinstance(which, int):
        found = [camera for camera in cameras if camera.index == which]
    elif _is_path(which):
        there = os.path.realpath(which)
        found = [c for c in cameras if which in (c.path, c.stable_id)]
        found = found or [c for c in cameras if there == os.path.realpath(c.path)]
        if not found and Path(which).exists():
            return None
    else:
        found = _named(which, real) or _named(which, cameras)
    if len(found) > 1:
        entries = "; ".join(_entry(camera) for camera in found)
        raise DeviceError(
            f"{len(found)} cameras are called {which!r}: {entries}.",
            "Name one of them by its whole name, its number or its path.",
        )
    if not found:
        raise DeviceError(f"There is no camera {which!r}. {listing(cameras)}", "See doppelcam devices.")
    return found[0]


def same_camera(known: CameraInfo, cameras: Sequence[CameraInfo]) -> CameraInfo | None:
    """The camera that was seen before, wherever it is now; None if it is gone."""
    for key in ("stable_id", "name"):
        value = getattr(known, key)
        alike = [c for c in cameras if value and getattr(c, key) == value]
        if len(alike) > 1:  # Twins without a serial number: only the place tells them apart.
            alike = [c for c in alike if (c.path or c.index) == (known.path or known.index)]
        if alike:
            return alike[0]
    return None


def listing(cameras: Sequence[CameraInfo]) -> str:
    """A sentence that says which cameras there are, without virtual ones."""
    entries = [_entry(camera) for camera in cameras if not camera.virtual]
    if not entries:
        return "No camera was found at all."
    return f"There {'is' if len(entries) == 1 else 'are'}: {'; '.join(entries)}."


def _is_path(which: str) -> bool:
    return which.startswith(("/", "./", "../", "\\\\")) or re.match(r"[A-Za-z]:[\\/]", which) is not None


def _named(which: str, cameras: Sequence[CameraInfo]) -> list[CameraInfo]:
    wanted = which.strip().casefold()
    exact = [camera for camera in cameras if camera.name.casefold() == wanted]
    return exact or [camera for camera in cameras if wanted and wanted in camera.name.casefold()]


def _entry(camera: CameraInfo) -> str:
    place = camera.stable_id or camera.path
    return f"{camera.index} {camera.name}" + (f" ({place})" if place else "")
