"""Cameras and virtual cameras of this machine, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from realtime.show import clean, table
from realtime.sinks.virtualcam import VirtualCamera
from realtime.sources.v4l2_names import COMPRESSED, CameraFormat, CameraInfo

_MOST_NAMES: Final = 4


def as_json(cameras: Sequence[CameraInfo], virtual: Sequence[VirtualCamera]) -> dict[str, Any]:
    """Everything that is known of every device."""
    return {
        "schema": 1,
        "cameras": [
            {
                "index": camera.index,
                "name": camera.name,
                "path": camera.path or None,
                "stable_id": camera.stable_id or None,
                "formats": [
                    {"fourcc": one.fourcc, "size": list(one.size), "fps": list(one.rates)}
                    for one in camera.formats
                ],
            }
            for camera in cameras
        ],
        "virtual_cameras": [
            {
                "name": one.name,
                "path": one.path,
                "driver": one.driver,
                "ready": one.ready,
                "why_not": one.why_not or None,
                "fix": one.fix or None,
            }
            for one in virtual
        ],
    }


def as_tables(
    cameras: Sequence[CameraInfo], virtual: Sequence[VirtualCamera], how_to_get_one: str
) -> RenderableType:
    """What a person wants to know: what to type behind ``--source`` and ``--sink``.

    Args:
        cameras: As listed.
        virtual: As listed.
        how_to_get_one: What to do where there is no virtual camera.
    """
    parts: list[RenderableType] = [Text("Cameras", "bold")]
    if cameras:
        parts += [_cameras(cameras), Text(f"\nUse one: --source 'camera:{clean(cameras[0].name)}'", "dim")]
    else:
        parts.append(Text("none found. Plug one in, or try without one: doppelcam demo"))
    parts.append(Text("\nVirtual cameras", "bold"))
    if virtual:
        parts.append(_virtual(virtual))
    else:
        parts.append(Text.assemble("none found. Get one: ", (how_to_get_one, "cyan")))
    return Group(*parts)


def _cameras(cameras: Iterable[CameraInfo]) -> Table:
    made = table(">", "name", "format", ">size", ">fps")
    for camera in cameras:
        made.add_section()
        rows = list(_formats(camera.formats)) or [("", "–", "–")]
        stable = camera.stable_id or camera.path
        names = [Text(clean(camera.name))] + ([Text(clean(stable), "dim")] if stable else [])
        for row in range(max(len(rows), len(names))):
            made.add_row(
                str(camera.index) if row == 0 else "",
                names[row] if row < len(names) else "",
                *(rows[row] if row < len(rows) else ("", "", "")),
            )
    return made


def _formats(formats: Sequence[CameraFormat]) -> Iterable[tuple[str, str, str]]:
    """One row for each size; formats that come in the same sizes and rates share theirs."""
    alike: dict[str, list[tuple[str, str]]] = {}
    for one in sorted(formats, key=lambda each: each.fourcc not in COMPRESSED):
        rates = ", ".join(f"{rate:g}" for rate in one.rates) or "–"
        alike.setdefault(clean(one.fourcc) or "?", []).append((f"{one.size[0]}×{one.size[1]}", rates))
    names: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name, listed in alike.items():
        names.setdefault(tuple(listed), []).append(name)
    for rows, same in names.items():
        shown = (
            same
            if len(same) <= _MOST_NAMES
            else [*same[: _MOST_NAMES - 1], f"{len(same) - _MOST_NAMES + 1} more"]
        )
        for row, (size, rates) in enumerate(rows):
            yield shown[row] if row < len(shown) else "", size, rates
        for name in shown[len(rows) :]:
            yield name, "", ""


def _virtual(virtual: Iterable[VirtualCamera]) -> Table:
    made = table("device", "name", "driver", "state")
    for one in virtual:
        state = (
            Text("ready", "green") if one.ready else Text(clean(f"{one.why_not} {one.fix}".strip()), "yellow")
        )
        made.add_row(Text(clean(one.path)), Text(clean(one.name)), Text(clean(one.driver)), state)
    return made
