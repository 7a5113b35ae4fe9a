"""Reads the values of options: text from a flag or the environment, or TOML's own types.

Every reader returns the value typed, or raises ValueError; :class:`Wrong` where a sentence of its own helps.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from realtime.pace.stages import STAGES

POLICIES: Final = (("hold", "veil"), ("hold", "slate"), ("veil",), ("slate",), ("passthrough",))
"""What viewers may be shown when the swap cannot be trusted, each in this order."""

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True, slots=True)
class Pair:
    """A person who is recognised by one photo and is given the face on another one.

    Attributes:
        live: Photo of the person before the camera.
        photo: Photo of the person whose face is put on.
    """

    live: Path
    photo: Path

    def __str__(self) -> str:
        return f"{self.live}={self.photo}"


class Wrong(ValueError):
    """A value is wrong in a way that needs words of its own."""


def whole(low: int, high: int) -> Callable[[Any], int]:
    """A whole number from low to high."""

    def read(value: Any) -> int:
        if isinstance(value, bool | float):
            raise ValueError
        number = int(value)
        if not low <= number <= high:
            raise ValueError
        return number

    return read


def number(low: float, high: float) -> Callable[[Any], float]:
    """A finite number from low to high."""

    def read(value: Any) -> float:
        if isinstance(value, bool):
            raise ValueError
        number = float(value)
        if not (math.isfinite(number) and low <= number <= high):
            raise ValueError
        return number

    return read


def one_of(*choices: str) -> Callable[[Any], str]:
    """One of these words."""

    def read(value: Any) -> str:
        if value not in choices:
            raise ValueError
        return str(value)

    return read


def read_text(value: Any) -> str:
    """Text that is not blank."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError
    return value.strip()


def read_path(value: Any) -> Path:
    """A path; ``~`` is the home folder."""
    try:
        return Path(read_text(value)).expanduser()
    except RuntimeError as error:
        raise Wrong("there is no such home folder") from error


def read_pair(value: Any) -> Pair:
    """``LIVE=PHOTO``."""
    parts = read_text(value).split("=")
    if len(parts) != 2:
        raise Wrong("there must be one '=' in it, between the two paths") if len(parts) > 2 else ValueError
    return Pair(read_path(parts[0]), read_path(parts[1]))


def read_landmarker(value: Any) -> str:
    """``builtin``, ``mediapipe:FILE.task``, a name or a path."""
    text = read_text(value)
    kind, _, bundle = text.partition(":")
    if kind == "mediapipe" and not bundle.strip():
        raise Wrong("'mediapipe' needs a bundle: mediapipe:FILE.task")
    return text


def spec_of(
    kinds: tuple[str, ...], needs_target: tuple[str, ...], no_target: tuple[str, ...]
) -> Callable[[Any], str]:
    """Reads ``KIND`` or ``KIND:TARGET``; what a target may be is the business of the one who opens it."""

    def read(value: Any) -> str:
        text = read_text(value)
        kind, colon, target = text.partition(":")
        if kind == "file" and target:
            read_path(target)
        if kind not in kinds or (colon and not target):
            raise ValueError
        if kind in needs_target and not target:
            wanted = "an address: stream:URL" if kind == "stream" else f"a path: {kind}:PATH"
            raise Wrong(f"'{kind}' needs {wanted}")
        if kind in no_target and target:
            raise Wrong(f"'{kind}' takes nothing behind it")
        return text

    return read


def many_of(item: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """One or several different ones."""

    def read(value: Any) -> tuple[Any, ...]:
        values = value if isinstance(value, list | tuple) else [value]
        items = tuple(item(one) for one in values)
        if not items or len(set(items)) < len(items):
            raise Wrong("the same one is given twice") if items else ValueError
        return items

    return read


def read_size(value: Any) -> tuple[int, int]:
    """Reads ``1280x720`` or ``[1280, 720]``.

    Raises:
        ValueError: It is neither, or odd, or beyond 64…7680 × 64…4320.
    """
    parts = value.lower().replace("×", "x").split("x") if isinstance(value, str) else value
    if not isinstance(parts, list) or len(parts) != 2:
        raise ValueError
    width, height = whole(64, 7680)(parts[0]), whole(64, 4320)(parts[1])
    if width % 2 or height % 2:
        raise Wrong("virtual cameras and video files need even numbers")
    return width, height


def read_on_lost(value: Any) -> tuple[str, ...]:
    """One of :data:`POLICIES`."""
    parts = value.split(",") if isinstance(value, str) else value
    policy = tuple(read_text(part) for part in parts)
    if policy not in POLICIES:
        raise ValueError
    return policy


def read_switch(value: Any) -> bool:
    """True or false, in the words people use."""
    if isinstance(value, bool):
        return value
    text = read_text(value).lower()
    if text not in _TRUE + _FALSE:
        raise ValueError
    return text in _TRUE


def read_budget(value: Any) -> Mapping[str, float]:
    """``STAGE=MS,…`` or a table of the same."""
    if isinstance(value, str):
        value = dict(part.split("=", 1) for part in value.split(","))
    if not isinstance(value, Mapping):
        raise ValueError
    budget = {}
    for stage, ms in value.items():
        if stage.strip() not in STAGES:
            raise Wrong(f"there is no stage '{stage.strip()}'")
        budget[stage.strip()] = number(0.01, 10_000)(ms)
    return MappingProxyType(budget)


def read_landmarks(value: Any) -> int:
    """468 or 478."""
    return int(one_of("468", "478")(str(value)))


def read_predict(value: Any) -> str:
    """``off``, ``auto`` or milliseconds, as text."""
    return value if value in ("off", "auto") else f"{number(0, 100)(value):g}"


def read_control(value: Any) -> str:
    """``auto``, ``off`` or a port, as text."""
    return value if value in ("auto", "off") else str(whole(0, 65535)(value))


def read_address(value: Any) -> str:
    """An IP address, as text; names could come to mean another one."""
    return str(ipaddress.ip_address(read_text(value)))


def read_boost(value: Any) -> int:
    """1, 2 or 4."""
    return int(one_of("1", "2", "4")(str(value)))


def read_mask(value: Any) -> str:
    """What :func:`engines.swap.masks.choice.read_masks` reads, as text; a list in TOML."""
    from engines.swap.masks.choice import read_masks

    text = ",".join(map(read_text, value)) if isinstance(value, list) else read_text(value)
    try:
        read_masks(text)
    except ValueError as error:
        raise Wrong(str(error)) from error
    return text


def read_restorer(value: Any) -> str:
    """What :func:`engines.restore.choice.read_restore` reads, as text."""
    from engines.restore.choice import read_restore

    text = read_text(value)
    try:
        read_restore(text)
    except ValueError as error:
        raise Wrong(str(error)) from error
    return text


def read_device(value: Any) -> str:
    """``auto``, ``cpu`` or ``cuda[:N]``."""
    text = read_text(value)
    kind, colon, number = text.partition(":")
    if kind not in ("auto", "cpu", "cuda") or (colon and (kind != "cuda" or not number.isdecimal())):
        raise ValueError
    return text


def read_mirror(value: Any) -> str:
    """The address of a folder: https, or http on this machine."""
    from engines.catalogue.urls import checked_mirror

    try:
        return checked_mirror(read_text(value))
    except ValueError as error:
        raise Wrong(str(error)) if str(error) else ValueError from error
