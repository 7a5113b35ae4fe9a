"""Every option of ``doppelcam run``, once: its name, what it may be, what it does.

A command line, the environment and a TOML file are three doors to the same table; see
:mod:`realtime.settings.load` for which of them wins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from realtime.pace.stages import STAGES
from realtime.settings.config import SINKS, SOURCES
from realtime.settings.values import (
    many_of,
    number,
    one_of,
    read_address,
    read_boost,
    read_budget,
    read_control,
    read_device,
    read_landmarker,
    read_landmarks,
    read_mask,
    read_mirror,
    read_on_lost,
    read_pair,
    read_path,
    read_predict,
    read_restorer,
    read_size,
    read_switch,
    read_text,
    spec_of,
    whole,
)
from realtime.sinks.streams.target import concealed

_SPEC, _PLAIN, _PAIR, _MODEL, _MODELS = "spec", "plain", "pair", "model", "models"


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
            behind the colon of a ``spec``, both of a ``pair``, a ``model`` that is given by its file, each of
            several ``models`` with commas between, or not at all.
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


GROUPS: Final = MappingProxyType({
    "pictures in and out": (
    Option("source", "camera[:INDEX|NAME|PATH], file:PATH, portrait[:PATH] or pattern",
           "where frames come from",
           spec_of(SOURCES, ("file",), ("pattern",)), "SPEC", paths=_SPEC),
    Option("face", "one or more different photos of one person",
           "photos of the person whose face is put on", many_of(read_path), "PHOTO", "many", paths=_PLAIN),
    Option("sink", "virtualcam[:DEVICE], file:PATH, preview[:PORT], stream:URL or null, each once",
           "where frames go; may be repeated",
           many_of(spec_of(SINKS, ("file", "stream"), ("null",))), "SPEC", "many", paths=_SPEC),
    Option("size", "WIDTHxHEIGHT, even, from 64x64 to 7680x4320",
           "size of the frames; without it 1280x720, or the file's own", read_size, "WxH"),
    Option("fps", "a number from 1 to 240",
           "frames a second; without it 30, or the file's own", number(1, 240), "N"),
    Option("duration", "seconds from 0.1 to 1000000", "end after so many seconds", number(0.1, 1e6), "S"),
    Option("offline", "true or false",
           "every frame of a file, none dropped, as fast as it goes", read_switch, kind="switch"),
    Option("seed", "a whole number from 0 to 4294967295",
           "of everything random in a generated source", whole(0, 2**32 - 1), "N"),
    ),
    "what swaps, and on what": (
    Option("engine", "the name of an engine, the path of a model, or NAME=PATH",
           "what swaps: mesh, portrait (the picture itself moves; of a drawing, mark points: docs/portrait.md), "
           "a name of models list, or the path of an .onnx or .dfm file", read_text, "NAME",
           paths=_MODEL),
    Option("device", "auto, cpu or cuda[:N]", "what it runs on: auto, cpu or cuda[:N]", read_device, "DEVICE"),
    Option("models", "a folder", "folder of the networks that you have", read_path, "FOLDER", paths=_PLAIN),
    Option("mirror", "an https address of a folder, or an http one on this machine",
           "where to download networks from, if not from where the catalogue says", read_mirror, "URL"),
    ),
    "who is swapped": (
    Option("max-faces", "a whole number from 1 to 8", "faces swapped at once", whole(1, 8), "N"),
    Option("select", "owner, largest, center or reference",
           "who is swapped: owner (the first one stays it), largest, center, reference (who is on --reference)",
           one_of("owner", "largest", "center", "reference"), "WHO"),
    Option("reference", "one or more different photos of one person",
           "photos of the one person who is swapped", many_of(read_path), "PHOTO", "many", paths=_PLAIN),
    Option("reference-distance", "a number from 0 to 2",
           "how unlike a photo a face may be: 0 the same, 1 unrelated", number(0, 2), "N"),
    Option("person", "LIVE=PHOTO, two paths, each pair once",
           "who is on LIVE gets the face on PHOTO, and nobody else any; may be repeated",
           many_of(read_pair), "LIVE=PHOTO", "many", paths=_PAIR),
    Option("others", "veil or bare",
           "faces that are seen and not swapped: veil pixelates them", one_of("veil", "bare"), "HOW"),
    Option("embedder", "the name of an identity network or the path of an .onnx file",
           "recognise people by this network: the owner after hiding, those on photos", read_text, "NAME",
           paths=_MODEL),
    ),
    "how faces are found and followed": (
    Option("detector", "builtin, the name of a detector or the path of an .onnx file",
           "what finds faces: builtin, or an SCRFD or YOLOFace", read_text, "NAME", paths=_MODEL),
    Option("landmarker", "builtin, mediapipe:FILE.task, or a name or path of a landmark network",
           "builtin, mediapipe:FILE.task, or 2dfan4 or 2d106det to align neural engines by", read_landmarker, "NAME",
           paths=_MODEL),
    Option("landmarks", "468 or 478",
           "landmarks of a face; 478 refines lips and lids at twice the cost", read_landmarks, "N"),
    Option("detect-every", "a whole number from 1 to 600",
           "look for new faces every N frames", whole(1, 600), "N"),
    Option("smoothing", "a number from 0 to 1",
           "how still the face is held: 0 follows at once, 1 holds stillest", number(0, 1), "0…1"),
    Option("predict", "off, auto or milliseconds from 0 to 100",
           "carry landmarks ahead by so many ms; auto: by the frame age", read_predict, "MS|auto|off"),
    ),
    "what viewers see": (
    Option("on-lost", "hold,veil or hold,slate or veil or slate or passthrough",
           "what viewers see when the swap cannot be trusted", read_on_lost, "POLICY"),
    Option("label", "true or false",
           "the mark that says the picture is synthetic", read_switch, kind="switch"),
    ),
    "of the engine mesh": (
    Option("shape", "a number from 0 to 1",
           "how far your face takes on the photo's proportions", number(0, 1), "0…1"),
    Option("eyes", "mixed, live or photo",
           "mixed: the photo's lids and colours, your gaze and blinks", one_of("mixed", "live", "photo"), "WHOSE"),
    Option("mouth", "live or photo",
           "live: your teeth and tongue between the photo's lips", one_of("live", "photo"), "WHOSE"),
    Option("occluders", "live or cover",
           "live: hands, microphones and masks stay before the face; cover: they are painted over",
           one_of("live", "cover"), "HOW"),
    ),
    "of swap generators": (
    Option("boost", "1, 2 or 4",
           "feed a swap generator a crop so many times finer, at the cost of its square", read_boost, "N"),
    Option("mask", "auto, or of oval, ellipse, box, occlusion[=MODEL], regions[:NAME+NAME…][=MODEL], live-mouth and "
           "live-eyes some, with commas between",
           "what a swap generator's face is masked by: auto (oval, and occlusion if there is an XSeg), or some of "
           "oval, ellipse, box, occlusion, regions, live-mouth, live-eyes",
           read_mask, "MASK,…", paths=_MODELS),
    Option("restore", "MODEL[:STRENGTH[:EVERY]]: a name or a path, a number from 0 to 1, a whole number from 1 to 30",
           "restore a swap generator's face by this network, so far (from 0 to 1), on every so manieth frame",
           read_restorer, "MODEL[:STRENGTH[:EVERY]]", paths=_MODEL),
    Option("colour", "match, poisson or none",
           "a swap generator's colours: match the live face, blend gradients (slow, for files), or leave them",
           one_of("match", "poisson", "none"), "HOW"),
    Option("morph", "a number from 0 to 1", "how far a DFM morphs to its person", number(0, 1), "0…1"),
    ),
    "of the engine portrait": (
    Option("background", "#rrggbb, green or file:PATH of a picture",
           "behind the picture of --engine portrait where it is transparent or too narrow", read_text, "COLOUR|FILE",
           paths=_SPEC),
    ),
    "pace": (
    Option("governor", "true or false",
           "let something give way when frames take too long", read_switch, kind="switch"),
    Option("budget", f"STAGE=MS,… of the stages {', '.join(STAGES)}",
           "budget of a stage in ms, if not the default", read_budget, "STAGE=MS,…"),
    Option("metrics", "a port from 0 to 65535",
           "port of metrics for Prometheus, for this machine only; 0 for any free one", whole(0, 65535), "PORT"),
    ),
    "streams": (
    Option("audio", "mic[:NAME], file:PATH or none",
           "what is heard in streams, delayed like the picture",
           spec_of(("mic", "file", "none"), ("file",), ("none",)), "SPEC", paths=_SPEC),
    Option("stream-bitrate", "a whole number from 100 to 100000, in kbit/s",
           "kilobits a second of a stream's pictures; without it what suits the size",
           whole(100, 100_000), "KBPS"),
    Option("stream-keyframes", "seconds from 0.2 to 20",
           "seconds between keyframes of a stream: how long who joins late waits", number(0.2, 20), "S"),
    ),
    "control page": (
    Option("control", "auto, off or a port from 0 to 65535",
           "port of the control page, for this machine only; 0 for any free one, auto on a desktop",
           read_control, "PORT"),
    Option("control-host", "an address of this machine, for example 192.168.1.20 or 0.0.0.0",
           "let other machines in through this address, too; needs a password", read_address, "ADDRESS"),
    Option("control-password-file", "a file whose first line is the password",
           "password of the control page; or set DOPPELCAM_CONTROL_PASSWORD", read_path, "FILE", paths=_PLAIN),
    Option("control-osc", "a port from 0 to 65535",
           "port of OSC messages from a stream deck on this machine; 0 for any free one", whole(0, 65535), "PORT"),
    ),
})  # fmt: skip
"""Options that are explained together, by their heading."""

OPTIONS: Final = tuple(option for options in GROUPS.values() for option in options)

BY_NAME: Final = MappingProxyType({option.name: option for option in OPTIONS})


def typed(value: Any) -> str:
    """A value as it would be typed behind its flag, without the keys of streams; empty for nothing."""
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
    return f"{value:g}" if isinstance(value, float) else concealed(str(value))
