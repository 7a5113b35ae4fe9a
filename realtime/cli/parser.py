"""What can be typed. Values are checked elsewhere, the same way whichever door they come in by."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn

from engines.errors import UsageError
from realtime import __version__
from realtime.settings.config import BENCH, DEMO, FACE_WIDTHS, SIZES, Config
from realtime.settings.options import BY_NAME, GROUPS, OPTIONS, Option, typed

_OPTION_DEST: Final = "option_"
_FEW: Final = 4
"""So many options need no headings."""

_ENGINE_OPTIONS: Final = (
    "max-faces", "detect-every", "landmarks", "engine", "device", "detector", "landmarker", "embedder",
    "boost", "morph", "mask", "colour", "restore", "models",
)  # fmt: skip

_ABOUT: Final = (
    "A real-time virtual camera that puts another face on yours, on the CPU, with nothing to download."
)

_EXAMPLES: Final = {
    "": "doppelcam demo\ndoppelcam run --face person.jpg\ndoppelcam doctor",
    "demo": "doppelcam demo\ndoppelcam demo --face person.jpg --duration 5 --output pictures",
    "run": "doppelcam run --face person.jpg\n"
    "doppelcam run --face front.jpg side.jpg --source camera:1 --size 1920x1080 --on-lost hold,slate\n"
    "doppelcam run --face person.jpg --source file:in.mp4 --sink file:out.mp4 --offline",
    "bench": "doppelcam bench --seconds 5\n"
    "doppelcam bench --json --size 1920x1080 > before.json\n"
    "doppelcam bench --size 1920x1080 --compare before.json --enforce\n"
    "doppelcam bench --sweep --seconds 2 --plot sweep.png",
    "devices": "doppelcam devices --json",
    "doctor": "doppelcam doctor\ndoppelcam doctor --try",
    "config": "doppelcam config show",
    "models": "doppelcam models list\ndoppelcam models pull inswapper_128",
    "models list": "doppelcam models list\ndoppelcam models list --kind swap --json",
    "models info": "doppelcam models info hyperswap_1a_256",
    "models pull": "doppelcam models pull xseg_3\n"
    "doppelcam models pull inswapper_128 --accept-licence\n"
    "doppelcam models pull gfpgan_1.4 --from /media/stick",
    "models verify": "doppelcam models verify\ndoppelcam models verify ghost_1_256 --pin",
    "engines": "doppelcam engines build inswapper_128\ndoppelcam engines list",
    "engines build": "doppelcam engines build inswapper_128\n"
    "doppelcam engines build hyperswap_1a_256 --boost 2 --device cuda:1\n"
    "doppelcam engines build mine.onnx --precision fp32",
    "engines list": "doppelcam engines list --json",
    "engines clean": "doppelcam engines clean\ndoppelcam engines clean --all",
    "config show": "doppelcam config show --config studio.toml --fps 25",
    "config validate": "doppelcam config validate studio.toml",
}


class _Parser(argparse.ArgumentParser):
    """Mistakes become the same kind of error as all others."""

    def error(self, message: str) -> NoReturn:
        from realtime.settings.load import did_you_mean

        unknown = re.search(r"unrecognized arguments: (.*)", message)
        choice = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        help_line = f"See: {self.prog} --help"
        if unknown:
            word = unknown[1].split()[0]
            known = [flag for action in self.every_action() for flag in action.option_strings]
            raise UsageError(f"{self.prog} does not know '{word}'.", did_you_mean(word, known) or help_line)
        if choice:
            names = [name.strip(" '") for name in choice[2].split(",")]
            raise UsageError(f"There is no verb '{choice[1]}'.", did_you_mean(choice[1], names) or help_line)
        raise UsageError(message[0].upper() + message[1:] + ".", help_line)

    def every_action(self) -> Iterable[argparse.Action]:
        """Of this parser and of its verbs."""
        for action in self._actions:
            yield action
            if isinstance(action, argparse._SubParsersAction):
                for parser in action.choices.values():
                    yield from parser.every_action()


def _example(name: str) -> str:
    lines = _EXAMPLES[name].splitlines()
    return ("examples:" if len(lines) > 1 else "example:") + "".join(f"\n  {line}" for line in lines)


def make_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("-v", "--verbose", action="store_true", default=argparse.SUPPRESS,
                        help="log to stderr, and show where an error came from")  # fmt: skip
    parser = _Parser("doppelcam", description=_ABOUT, epilog=_example(""), formatter_class=_formatter,
                     parents=[common], allow_abbrev=False)  # fmt: skip
    parser.set_defaults(verbose=False, verb=None)
    parser.add_argument("--version", action="version", version=f"doppelcam {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", title="verbs")

    def verb(name: str, about: str, parent: Any = verbs) -> _Parser:
        sub: _Parser = parent.add_parser(
            name.split()[-1], help=about, description=about[0].upper() + about[1:] + ".",
            epilog=_example(name), formatter_class=_formatter, parents=[common], allow_abbrev=False,
        )  # fmt: skip
        sub.set_defaults(verb=name.split()[0])
        return sub

    _demo(verb("demo", "show it at work for ten seconds, with no camera and no download"))
    _run(verb("run", "be the camera, until Ctrl-C"))
    _bench(verb("bench", "measure latency on this machine"))
    _json(verb("devices", "list cameras and virtual cameras"))
    _doctor(verb("doctor", "find out why it does not work, and what mends it"))
    config = verb("config", "show or check the configuration")
    config.set_defaults(action=None, usage=config.format_help)
    actions = config.add_subparsers(metavar="ACTION", title="actions")
    show = verb("config show", "show what would be used and where each value came from", actions)
    show.set_defaults(action="show")
    _json(show)
    _file(show)
    _options(show, (option.name for option in OPTIONS), Config())
    validate = verb("config validate", "check a configuration file", actions)
    validate.set_defaults(action="validate")
    validate.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="default: the file that run would use"
    )
    _models(verb("models", "list, download and check networks"), verb)
    _engines(verb("engines", "build, list and remove TensorRT plans"), verb)
    return parser


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=28, width=100)


def _demo(parser: _Parser) -> None:
    _options(parser, ("face", "source", "size", "fps", "duration", "seed", *_ENGINE_OPTIONS), DEMO)
    sink = "where frames go (default: the virtual camera if there is one, else doppelcam-demo.mp4)"
    _add(parser, replace(BY_NAME["sink"], help=sink), None)
    parser.add_argument("--output", type=Path, default=Path(), metavar="DIR",
                        help="folder of the video and the picture (default: this one)")  # fmt: skip


def _run(parser: _Parser) -> None:
    # Nothing is downloaded while it runs.
    _options(parser, (option.name for option in OPTIONS if option.name != "mirror"), Config())
    _file(parser)
    parser.add_argument("--json", action="store_true", help="print a line of JSON a second and nothing else")


def _bench(parser: _Parser) -> None:
    taken = ("source", "face", "sink", "size", "fps", "seed", "governor", "budget")
    _options(parser, (*taken, "audio", "stream-bitrate", "stream-keyframes", *_ENGINE_OPTIONS), BENCH)
    parser.add_argument("--seconds", default="10", metavar="S", help="how long to measure (default: 10)")
    parser.add_argument("--face-width", metavar="PX", help="width of the portrait's face, pixels")
    parser.add_argument("--slow", default="0", metavar="MS", help="add so much work to every frame")
    parser.add_argument(
        "--max", action="store_true", help="find the highest rate at which nothing is dropped"
    )
    parser.add_argument("--profile", action="store_true", help="show where the time goes inside the stages")
    parser.add_argument("--loopback", nargs="?", const="", metavar="DEVICE",
                        help="read the picture back in another process, from a virtual camera, a --sink stream:URL, or "
                        "memory")  # fmt: skip
    parser.add_argument(
        "--sweep",
        action="store_true",
        help="measure sizes of frame and face, and numbers of faces, --seconds each",
    )
    parser.add_argument("--sizes", metavar="WxH,…", help=f"of a sweep (default: {SIZES})")
    parser.add_argument("--face-widths", metavar="PX,…", help=f"of a sweep (default: {FACE_WIDTHS})")
    parser.add_argument("--faces", metavar="N,…", help="of a sweep: how many side by side (default: 1)")
    parser.add_argument("--engines", metavar="NAME,…", help="of a sweep (default: mesh)")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw the sweep")
    parser.add_argument("--enforce", action="store_true", help="exit with 5 if a budget was missed")
    parser.add_argument(
        "--compare", type=Path, metavar="OLD.json", help="show an earlier result beside this one"
    )
    _json(parser)


def _doctor(parser: _Parser) -> None:
    parser.add_argument("--try", dest="attempt", action="store_true",
                        help="use the devices, too: measure each camera for some seconds and send colour bars to the "
                        "virtual camera and back")  # fmt: skip
    _json(parser)


def _models(models: _Parser, verb: Callable[..., _Parser]) -> None:
    models.set_defaults(action=None, usage=models.format_help)
    actions = models.add_subparsers(metavar="ACTION", title="actions")
    listed = verb("models list", "list every known network and what there is of it", actions)
    listed.add_argument("--kind", metavar="KIND", help="only those for this: swap, embed, detect, restore, …")
    info = verb("models info", "say everything about one network", actions)
    info.add_argument("name", metavar="NAME", help="of a network, or the path of a file")
    pull = verb("models pull", "download networks, and what they need", actions)
    pull.add_argument("names", nargs="+", metavar="NAME")
    pull.add_argument("--accept-licence", action="store_true",
                      help="accept the licence of every network named, and of those it needs")  # fmt: skip
    pull.add_argument("--from", dest="origin", type=Path, metavar="FOLDER",
                      help="copy from this folder instead of downloading")  # fmt: skip
    pull.add_argument("--again", action="store_true", help="even what is there and right")
    verify = verb("models verify", "read every file again and compare its sum", actions)
    verify.add_argument("names", nargs="*", metavar="NAME", help="default: all that are there")
    verify.add_argument("--pin", action="store_true", help="trust files of unknown sum as they are now")
    for sub, action in ((listed, "list"), (info, "info"), (pull, "pull"), (verify, "verify")):
        sub.set_defaults(action=action)
        if action != "pull":
            _json(sub)
        _file(sub)
        _options(sub, ("models", "mirror") if action == "pull" else ("models",), Config())


def _engines(engines: _Parser, verb: Callable[..., _Parser]) -> None:
    engines.set_defaults(action=None, usage=engines.format_help)
    actions = engines.add_subparsers(metavar="ACTION", title="actions")
    built = verb("engines build", "build the TensorRT plan of a network, which takes minutes", actions)
    built.add_argument("model", metavar="MODEL", help="of a network, the path of a file, or NAME=FILE")
    built.add_argument("--boost", default="1", metavar="N", help="for run --boost N (default: 1)")
    built.add_argument("--precision", default="fp16", metavar="P", help="fp16 or fp32 (default: fp16)")
    built.add_argument("--keep-fp32", default="", metavar="OP,…",
                       help="operators to keep in float32, besides those that always are")  # fmt: skip
    built.add_argument("--batch", default="1", metavar="N", help="where a file leaves that open (default: 1)")
    built.add_argument("--side", metavar="PX", help="height and width, where a file leaves them open")
    built.add_argument("--again", action="store_true", help="even if there is one")
    listed = verb("engines list", "list the plans, and why one is not used", actions)
    clean = verb("engines clean", "remove plans that are not used", actions)
    clean.add_argument("--all", action="store_true", help="and those that are")
    for sub, action in ((built, "build"), (listed, "list"), (clean, "clean")):
        sub.set_defaults(action=action)
        _json(sub)
    _file(built)
    _options(built, ("device", "models"), Config())


def _json(parser: _Parser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")


def _file(parser: _Parser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file (TOML)")


def _options(parser: _Parser, names: Iterable[str], defaults: Config) -> None:
    wanted = set(names)
    if len(wanted) > _FEW:
        parser.usage = f"{parser.prog} [OPTION …]"
    for title, options in GROUPS.items():
        these = [option for option in options if option.name in wanted]
        place = parser.add_argument_group(title) if these and len(wanted) > _FEW else parser
        for option in these:
            _add(place, option, getattr(defaults, option.field))


def _add(place: argparse._ActionsContainer, option: Option, default: Any) -> None:
    shape: dict[str, Any] = {"metavar": option.metavar}
    if option.kind == "switch":
        shape = {"action": argparse.BooleanOptionalAction}
    elif option.kind == "many":
        shape |= {"action": "extend", "nargs": "+"}
    # A picture that ships with the package has a path that says nothing.
    built_in = isinstance(default, tuple) and default and isinstance(default[0], Path)
    usual = default[0].stem.title() if built_in else typed(default)
    place.add_argument(f"--{option.name}", dest=_OPTION_DEST + option.field, default=argparse.SUPPRESS,
                       help=option.help + (f" (default: {usual})" if usual else ""), **shape)  # fmt: skip


def given_flags(args: argparse.Namespace) -> dict[str, Any]:
    """The values of options that were typed, by option name."""
    return {
        option.name: getattr(args, _OPTION_DEST + option.field)
        for option in OPTIONS
        if hasattr(args, _OPTION_DEST + option.field)
    }
