"""Measures any engine on photos and clips.

    python -m tools.compare                                     the packaged photos on the animated portraits
    python -m tools.compare --photo me.jpg --clip talk.mp4      one photo on one video
    python -m tools.compare --sheet sheet.png --sheet-every 10  and every tenth frame to look at

Give --photo once for each person; several files behind one --photo are several photos of that person.
A clip is a video, or portrait:PHOTO for an animated portrait. What the figures mean: docs/quality.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from engines.errors import DoppelcamError, PhotoError, UsageError
from engines.files import open_regular
from realtime.settings.config import Config
from realtime.settings.options import BY_NAME
from realtime.show import stderr, stdout
from tools.compare import clips, identity, report
from tools.compare.measures import Shift
from tools.compare.observe import Observer
from tools.compare.run import EVERY, Comparison, Row
from tools.compare.sheet import Section, write


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.partition("x")
    if not (width.isdecimal() and height.isdecimal() and 64 <= min(int(width), int(height)) <= 8192):
        raise argparse.ArgumentTypeError("it must be WxH, for instance 1920x1080")
    return int(width), int(height)


def _positive(text: str) -> int:
    if not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError("it must be a number from 1 on")
    return int(text)


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError("it must be a number from 0 to 1")
    return value


def _read(name: str, value: str) -> str:
    """A value of an option of ``doppelcam run``, checked."""
    option = BY_NAME[name]
    try:
        return str(option.read(value))
    except ValueError as error:
        raise UsageError(
            f"--{name} must be {option.expects}, not '{value}'.", "See: doppelcam run --help"
        ) from error


def _parser() -> argparse.ArgumentParser:
    usual = Config()
    parser = argparse.ArgumentParser(
        prog="python -m tools.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--photo",
        type=Path,
        nargs="+",
        action="append",
        metavar="FILE",
        help="photos of one person; repeat it",
    )
    add("--clip", nargs="+", action="extend", metavar="CLIP", help="a video, portrait or portrait:PHOTO")
    add(
        "--engine",
        default=usual.engine,
        metavar="NAME",
        help="as behind run --engine: mesh, a name or a path",
    )
    add("--models", type=Path, metavar="FOLDER", help="where networks lie, if not in the usual folder")
    add("--mask", default=usual.mask, metavar="MASK,…", help="as behind run --mask")
    add("--restore", metavar="MODEL", help="as behind run --restore")
    add("--device", default=usual.device, help="auto, cpu or cuda[:N]")
    add("--landmarks", type=int, default=usual.landmarks, choices=(468, 478))
    add("--shape", type=_share, default=usual.shape, metavar="0…1", help=f"default {usual.shape:g}")
    add("--eyes", default=usual.eyes, choices=("live", "mixed", "photo"))
    add("--mouth", default=usual.mouth, choices=("live", "photo"))
    add(
        "--size",
        type=_size,
        metavar="WxH",
        help="of the frames; a video keeps its own, a portrait has 1920x1080",
    )
    add("--frames", type=_positive, metavar="N", help="of each clip at most; a portrait gives 300")
    add("--every", type=_positive, default=EVERY, metavar="N", help=f"frames between looks, default {EVERY}")
    add(
        "--identity",
        type=Path,
        default=identity.DEFAULT,
        metavar="ONNX",
        help="the network that judges likeness",
    )
    add("--json", action="store_true", help="one JSON document on stdout and nothing else")
    add("--markdown", nargs="?", const="-", metavar="FILE", help="tables as Markdown, or into this document")
    add("--sheet", type=Path, metavar="PNG", help="a contact sheet: live above output")
    add(
        "--sheet-every",
        type=_positive,
        metavar="N",
        help="frames between its moments; about 16 in all by default",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Measures and prints; returns the exit code."""
    args = _parser().parse_args(argv)
    try:
        return _compare(args)
    except DoppelcamError as error:
        print(f"compare: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def _compare(args: argparse.Namespace) -> int:
    people = [tuple(group) for group in args.photo or [[photo] for photo in clips.PHOTOS]]
    for photo in (photo for photos in people for photo in photos):
        open_regular(photo, "a photo", PhotoError).close()
    shown = (
        [clips.clip_of(spec, args.size, args.frames) for spec in args.clip]
        if args.clip
        else clips.default_clips(args.size, args.frames)
    )
    if args.markdown and args.markdown != "-":
        # Before minutes of work, and not after them.
        report.place_in(Path(args.markdown))
    config = Config(
        engine=args.engine, device=args.device, landmarks=args.landmarks, shape=args.shape, eyes=args.eyes,
        mouth=args.mouth, models=args.models, mask=_read("mask", args.mask),
        restore=_read("restore", args.restore) if args.restore else None,
    )  # fmt: skip
    rows: list[Row] = []
    jaws: dict[str, Shift] = {}
    sections: list[Section] = []
    with closing(identity.IdentityNetwork(args.identity)) as judge, closing(Observer()) as observer:
        for photos in people:
            _person(args, replace(config, face=photos), shown, judge, observer, rows, jaws, sections)
    if not rows:
        raise UsageError(
            "Every clip shows the very photo that would be put on it.", "Name another --photo or --clip."
        )
    if args.sheet:
        write(sections, args.sheet)
    settings = {
        "engine": args.engine, "device": args.device, "landmarks": args.landmarks, "shape": args.shape,
        "eyes": args.eyes, "mouth": args.mouth, "mask": args.mask, "restore": args.restore, "every": args.every,
    }  # fmt: skip
    _print(args, rows, jaws, settings)
    return 0


def _person(
    args: argparse.Namespace,
    config: Config,
    shown: Sequence[clips.Clip],
    judge: identity.IdentityNetwork,
    observer: Observer,
    rows: list[Row],
    jaws: dict[str, Shift],
    sections: list[Section],
) -> None:
    """Everything about one person; what is found is added to the lists."""
    photos = config.face
    name = photos[0].stem
    others = [clip for clip in shown if not any(clip.shows(photo) for photo in photos)]
    if not others:
        return
    log = stderr()
    comparison = Comparison(config, name, judge, observer, args.every)
    for clip in others:
        log.print(f"{name} on {clip.name}", style="dim")
        section = Section(photos[0], f"{name} on {clip.name}", args.sheet_every)
        row = comparison.run(clip, section.watch if args.sheet else None)
        section.note = (
            f"output·photo {row.out_photo:.2f} · output·live {row.out_live:.2f} · "
            f"expression {row.expression:.4f} · {row.frames:,} frames"
        )
        rows.append(row)
        sections.append(section)
    portraits = [clip for clip in clips.default_clips(None, None) if not any(map(clip.shows, photos))]
    if portraits:
        jaws[name] = comparison.jaw(portraits[0])


def _print(
    args: argparse.Namespace, rows: Sequence[Row], jaws: dict[str, Shift], settings: dict[str, object]
) -> None:
    if args.markdown and args.markdown != "-":
        report.into_document(Path(args.markdown), report.as_markdown(rows, jaws))
    if args.json:
        print(json.dumps(report.as_json(rows, jaws, settings), indent=2))
    elif args.markdown == "-":
        print(report.as_markdown(rows, jaws), end="")
    else:
        console = stdout()
        for part in report.as_tables(rows, jaws):
            console.print(part)


if __name__ == "__main__":
    sys.exit(main())
