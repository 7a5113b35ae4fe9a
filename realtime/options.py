"""Every option of ``doppelcam run``, once: its name, what it may be, what it does.

A command line, the environment and a TOML file are three doors to the same table; see
:mod:`realtime.config_load` for which of them wins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from realtime.budget import STAGES
from realtime.config import SINKS, SOURCES
from realtime.values import (
    many_of,
    number,
    one_of,
    read_budget,
    read_device,
    read_landmarks,
    read_on_lost,
    read_path,
    read_size,
    read_switch,
    read_text,
    spec_of,
    whole,
)

_SPEC, _PLAIN = "spec", "plain"


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


OPTIONS: Final = (
    Option("source", "camera[:INDEX|NAME|PATH], file:PATH, portrait[:PATH] or pattern",
           "where frames come from",
           spec_of(SOURCES, ("file",), ("pattern",)), "SPEC", paths=_SPEC),
    Option("face", "one or more different photos of one person",
           "photos of the person whose face is put on", many_of(read_path), "PHOTO", "many", paths=_PLAIN),
    Option("sink", "virtualcam[:DEVICE], file:PATH, preview[:PORT] or null, each once",
           "where frames go; may be repeated",
           many_of(spec_of(SINKS, ("file",), ("null",))), "SPEC", "many", paths=_SPEC),
    Option("size", "WIDTHxHEIGHT, even, from 64x64 to 7680x4320",
           "size of the frames; without it 1280x720, or the file's own", read_size, "WxH"),
    Option("fps", "a number from 1 to 240",
           "frames a second; without it 30, or the file's own", number(1, 240), "N"),
    Option("engine", "the name of an engine", "what swaps: mesh", read_text, "NAME"),
    Option("device", "auto, cpu or cuda[:N]", "what it runs on: auto, cpu or cuda[:N]", read_device, "DEVICE"),
    Option("max-faces", "a whole number from 1 to 8", "faces swapped at once", whole(1, 8), "N"),
    Option("select", "owner, largest or center",
           "who is swapped: owner (the first one stays it), largest, center",
           one_of("owner", "largest", "center"), "WHO"),
    Option("on-lost", "hold,veil or hold,slate or veil or slate or passthrough",
           "what viewers see when the swap cannot be trusted", read_on_lost, "POLICY"),
    Option("label", "true or false",
           "the mark that says the picture is synthetic", read_switch, kind="switch"),
    Option("duration", "seconds from 0.1 to 1000000", "end after so many seconds", number(0.1, 1e6), "S"),
    Option("offline", "true or false",
           "every frame of a file, none dropped, as fast as it goes", read_switch, kind="switch"),
    Option("detect-every", "a whole number from 1 to 600",
           "look for new faces every N frames", whole(1, 600), "N"),
    Option("landmarks", "468 or 478",
           "landmarks of a face; 478 refines lips and lids at twice the cost", read_landmarks, "N"),
    Option("others", "veil or bare",
           "faces that are seen and not swapped: veil pixelates them", one_of("veil", "bare"), "HOW"),
    Option("shape", "a number from 0 to 1",
           "how far your face takes on the photo's proportions", number(0, 1), "0…1"),
    Option("eyes", "mixed, live or photo",
           "mixed: the photo's lids and colours, your gaze and blinks", one_of("mixed", "live", "photo"), "WHOSE"),
    Option("mouth", "live or photo",
           "live: your teeth and tongue between the photo's lips", one_of("live", "photo"), "WHOSE"),
    Option("seed", "a whole number from 0 to 4294967295",
           "of everything random in a generated source", whole(0, 2**32 - 1), "N"),
    Option("metrics", "a port from 0 to 65535",
           "port of metrics for Prometheus, for this machine only; 0 for any free one", whole(0, 65535), "PORT"),
    Option("governor", "true or false",
           "let something give way when frames take too long", read_switch, kind="switch"),
    Option("budget", f"STAGE=MS,… of the stages {', '.join(STAGES)}",
           "budget of a stage in ms, if not the default", read_budget, "STAGE=MS,…"),
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
