"""Every option of ``doppelcam run``, once: its name, what it may be, its default.

A command line, the environment and a TOML file are three doors to the same table; see
:mod:`realtime.config_load` for which of them wins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from realtime.budget import STAGES

SOURCES: Final = ("camera", "file", "portrait", "pattern")
SINKS: Final = ("virtualcam", "file", "preview", "null")
POLICIES: Final = (("hold", "veil"), ("hold", "slate"), ("veil",), ("slate",), ("passthrough",))
"""What viewers may be shown when the swap cannot be trusted, each in this order."""

_SPEC, _PLAIN = "spec", "plain"
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True, slots=True)
class Config:
    """What ``doppelcam run`` is asked to do; every value is checked before it gets here.

    Attributes:
        source: ``camera[:INDEX|NAME|PATH]``, ``file:PATH``, ``portrait[:PATH]`` or ``pattern``.
        face: Photos of the one person whose face is put on.
        sink: ``virtualcam[:DEVICE]``, ``file:PATH``, ``preview[:PORT]`` or ``null``, at least one.
        size: Width and height asked of the source, pixels, both even; None leaves a file its own.
        fps: Frames a second asked of the source and kept by the sinks; None leaves a file its own.
        engine: Name of the swapper.
        device: ``auto``, ``cpu`` or ``cuda[:N]``.
        max_faces: How many faces are swapped at once, at most.
        select: Who is swapped when there are more: ``owner``, ``largest`` or ``center``.
        on_lost: What viewers see when the swap cannot be trusted, in this order.
        label: Whether the picture carries a mark that says it is synthetic.
        duration: Seconds after which it ends by itself; None runs until it is stopped.
        offline: Every frame of a file, none dropped, as fast as it goes.
        detect_every: Frames from one look for new faces to the next.
        landmarks: 468, or 478 with refined lips, lids and irises.
        others: ``veil`` pixelates faces that are followed and not swapped, ``bare`` leaves them.
        shape: How far the live face takes on the photo's proportions, 0…1.
        eyes: ``mixed``, ``live`` or ``photo``.
        mouth: ``live`` or ``photo``.
        seed: Of everything random in a generated source.
        metrics: Port of the metrics for Prometheus, on this machine only; None for none, 0 for any free one.
        governor: Whether something gives way when frames take too long.
        budget: Budget of a stage, ms, where it differs from the default.
    """

    source: str = "camera"
    face: tuple[Path, ...] = ()
    sink: tuple[str, ...] = ("virtualcam",)
    size: tuple[int, int] | None = None
    fps: float | None = None
    engine: str = "mesh"
    device: str = "auto"
    max_faces: int = 1
    select: str = "owner"
    on_lost: tuple[str, ...] = ("hold", "veil")
    label: bool = True
    duration: float | None = None
    offline: bool = False
    detect_every: int = 10
    landmarks: int = 468
    others: str = "veil"
    shape: float = 0.8
    eyes: str = "mixed"
    mouth: str = "live"
    seed: int = 0
    metrics: int | None = None
    governor: bool = True
    budget: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


class Wrong(ValueError):
    """A value is wrong in a way that needs words of its own."""


_HOPPER: Final = Path(__file__).parent / "assets" / "hopper.jpg"

BENCH: Final = Config(
    source="portrait", face=(_HOPPER,), sink=("null",), size=(1920, 1080), fps=30.0, governor=False
)
"""What ``doppelcam bench`` measures, whatever the user's own configuration says. Nothing gives way unless asked to: a
figure is of the whole work."""

SIZES: Final = "640x360,1280x720,1920x1080"
FACE_WIDTHS: Final = "80,160,320"
"""What ``doppelcam bench --sweep`` goes through."""

DEMO: Final = Config(source="portrait", face=(_HOPPER,), sink=(), size=(1280, 720), fps=30.0, duration=10.0)
"""What ``doppelcam demo`` shows; it looks for a sink itself."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option, whichever door it comes in by.

    Attributes:
        name: As in TOML and behind ``--``.
        expects: What it must be, to end the sentence "it must be …".
        help: What it does, one line.
        read: Checks a value (text from a flag or the environment, or TOML's own type) and returns it typed.
            Raises ValueError; :class:`Wrong` where ``expects`` does not say it all.
        metavar: How the value is shown in the help.
        kind: ``one`` value, ``many``, or a ``switch``.
        paths: How a value names a file, so that a relative one in a TOML file is relative to it: ``plain``,
            behind the colon of a ``spec``, or not at all.
    """

    name: str
    expects: str
    help: str
    read: Callable[[Any], Any]
    metavar: str = ""
    kind: str = "one"
    paths: str = ""

    @property
    def field(self) -> str:
        """The attribute of :class:`Config`."""
        return self.name.replace("-", "_")

    @property
    def variable(self) -> str:
        """The environment variable."""
        return "DOPPELCAM_" + self.field.upper()


def _whole(low: int, high: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, bool | float):
            raise ValueError
        number = int(value)
        if not low <= number <= high:
            raise ValueError
        return number

    return read


def _number(low: float, high: float) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        if isinstance(value, bool):
            raise ValueError
        number = float(value)
        if not (math.isfinite(number) and low <= number <= high):
            raise ValueError
        return number

    return read


def _one_of(*choices: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in choices:
            raise ValueError
        return str(value)

    return read


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError
    return value.strip()


def _path(value: Any) -> Path:
    try:
        return Path(_text(value)).expanduser()
    except RuntimeError as error:
        raise Wrong("there is no such home folder") from error


def _spec(
    kinds: tuple[str, ...], needs_target: tuple[str, ...], no_target: tuple[str, ...]
) -> Callable[[Any], str]:
    """Reads ``KIND`` or ``KIND:TARGET``; what a target may be is the business of the one who opens it."""

    def read(value: Any) -> str:
        text = _text(value)
        kind, colon, target = text.partition(":")
        if kind in needs_target and target:
            _path(target)
        if kind == "stream":
            raise Wrong("'stream' is not available in this version")
        if kind not in kinds or (colon and not target):
            raise ValueError
        if kind in needs_target and not target:
            raise Wrong(f"'{kind}' needs a path: {kind}:PATH")
        if kind in no_target and target:
            raise Wrong(f"'{kind}' takes nothing behind it")
        return text

    return read


def _many(item: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
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
    width, height = _whole(64, 7680)(parts[0]), _whole(64, 4320)(parts[1])
    if width % 2 or height % 2:
        raise Wrong("virtual cameras and video files need even numbers")
    return width, height


def _on_lost(value: Any) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    policy = tuple(_text(part) for part in parts)
    if policy not in POLICIES:
        raise ValueError
    return policy


def _switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = _text(value).lower()
    if text not in _TRUE + _FALSE:
        raise ValueError
    return text in _TRUE


def _budget(value: Any) -> Mapping[str, float]:
    if isinstance(value, str):
        value = dict(part.split("=", 1) for part in value.split(","))
    if not isinstance(value, Mapping):
        raise ValueError
    budget = {}
    for stage, ms in value.items():
        if stage.strip() not in STAGES:
            raise Wrong(f"there is no stage '{stage.strip()}'")
        budget[stage.strip()] = _number(0.01, 10_000)(ms)
    return MappingProxyType(budget)


def _landmarks(value: Any) -> int:
    return int(_one_of("468", "478")(str(value)))


def _device(value: Any) -> str:
    text = _text(value)
    kind, colon, number = text.partition(":")
    if kind not in ("auto", "cpu", "cuda") or (colon and (kind != "cuda" or not number.isdecimal())):
        raise ValueError
    return text


OPTIONS: Final = (
    Option("source", "camera[:INDEX|NAME|PATH], file:PATH, portrait[:PATH] or pattern",
           "where frames come from",
           _spec(SOURCES, ("file",), ("pattern",)), "SPEC", paths=_SPEC),
    Option("face", "one or more different photos of one person",
           "photos of the person whose face is put on", _many(_path), "PHOTO", "many", paths=_PLAIN),
    Option("sink", "virtualcam[:DEVICE], file:PATH, preview[:PORT] or null, each once",
           "where frames go; may be repeated",
           _many(_spec(SINKS, ("file",), ("null",))), "SPEC", "many", paths=_SPEC),
    Option("size", "WIDTHxHEIGHT, even, from 64x64 to 7680x4320",
           "size of the frames; without it 1280x720, or the file's own", read_size, "WxH"),
    Option("fps", "a number from 1 to 240",
           "frames a second; without it 30, or the file's own", _number(1, 240), "N"),
    Option("engine", "the name of an engine", "what swaps: mesh", _text, "NAME"),
    Option("device", "auto, cpu or cuda[:N]", "what it runs on: auto, cpu or cuda[:N]", _device, "DEVICE"),
    Option("max-faces", "a whole number from 1 to 8", "faces swapped at once", _whole(1, 8), "N"),
    Option("select", "owner, largest or center",
           "who is swapped: owner (the first one stays it), largest, center",
           _one_of("owner", "largest", "center"), "WHO"),
    Option("on-lost", "hold,veil or hold,slate or veil or slate or passthrough",
           "what viewers see when the swap cannot be trusted", _on_lost, "POLICY"),
    Option("label", "true or false",
           "the mark that says the picture is synthetic", _switch, kind="switch"),
    Option("duration", "seconds from 0.1 to 1000000", "end after so many seconds", _number(0.1, 1e6), "S"),
    Option("offline", "true or false",
           "every frame of a file, none dropped, as fast as it goes", _switch, kind="switch"),
    Option("detect-every", "a whole number from 1 to 600",
           "look for new faces every N frames", _whole(1, 600), "N"),
    Option("landmarks", "468 or 478",
           "landmarks of a face; 478 refines lips and lids at twice the cost", _landmarks, "N"),
    Option("others", "veil or bare",
           "faces that are seen and not swapped: veil pixelates them", _one_of("veil", "bare"), "HOW"),
    Option("shape", "a number from 0 to 1",
           "how far your face takes on the photo's proportions", _number(0, 1), "0…1"),
    Option("eyes", "mixed, live or photo",
           "mixed: the photo's lids and colours, your gaze and blinks", _one_of("mixed", "live", "photo"), "WHOSE"),
    Option("mouth", "live or photo",
           "live: your teeth and tongue between the photo's lips", _one_of("live", "photo"), "WHOSE"),
    Option("seed", "a whole number from 0 to 4294967295",
           "of everything random in a generated source", _whole(0, 2**32 - 1), "N"),
    Option("metrics", "a port from 0 to 65535",
           "port of metrics for Prometheus, for this machine only; 0 for any free one", _whole(0, 65535), "PORT"),
    Option("governor", "true or false",
           "let something give way when frames take too long", _switch, kind="switch"),
    Option("budget", f"STAGE=MS,… of the stages {', '.join(STAGES)}",
           "budget of a stage in ms, if not the default", _budget, "STAGE=MS,…"),
)  # fmt: skip

BY_NAME: Final = MappingProxyType({option.name: option for option in OPTIONS})


def typed(value: Any) -> str:
    """A value as it would be typed behind its flag; empty for nothing."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(one, int) for one in value):
        return f"{value[0]}x{value[1]}"
    if isinstance(value, Mapping):
        return ",".join(f"{name}={typed(one)}" for name, one in value.items())
    if isinstance(value, tuple | list):
        return ",".join(typed(one) for one in value)
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def contradiction(config: Config) -> str:
    """What in a configuration cannot go together, as a sentence; empty when everything can."""
    if config.offline and not config.source.startswith("file:"):
        return "offline works on a file: it needs the source file:PATH."
    if config.offline and any(not sink.startswith(("file:", "null")) for sink in config.sink):
        return "offline goes at its own speed: it writes to file:PATH or null only."
    if config.offline and config.metrics is not None:
        return "offline is over before anybody asks: metrics do not go with it."
    if config.offline and config.duration is not None:
        return "offline ends with the file: duration does not go with it."
    if config.offline and config.fps is not None:
        return "offline keeps every frame at the file's own rate: fps does not go with it."
    files = [sink.partition(":")[2] for sink in config.sink if sink.startswith("file:")]
    if any(_same_file(one, other) for one, other in combinations(files, 2)):
        return "two sinks write the same file."
    source = config.source.partition(":")
    if source[0] == "file" and any(
        sink.partition(":")[0] == "file" and _same_file(sink.partition(":")[2], source[2])
        for sink in config.sink
    ):
        return "source and sink are the same file."
    return ""


def _same_file(one: str, other: str) -> bool:
    return _path(one).resolve() == _path(other).resolve()
