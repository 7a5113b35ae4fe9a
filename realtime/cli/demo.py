"""``doppelcam demo``."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.text import Text

from engines.errors import DoppelcamError
from realtime.assemble import assemble
from realtime.cli.live import follow
from realtime.cli.parser import given_flags
from realtime.demo import PICTURE, VIDEO, folder_for, is_bare, moments_for, note_of, with_sink, write_picture
from realtime.moments import MomentsSink, WatchedSource
from realtime.settings.config import DEMO
from realtime.settings.load import from_flags
from realtime.show import clean, short_path, stderr, stdout
from realtime.sources.open import DEFAULT_FPS


def main(args: argparse.Namespace) -> int:
    """Shows it at work, and leaves a picture."""
    config = from_flags(given_flags(args), DEMO)
    folder = folder_for(args.output)
    config, passed_over = with_sink(config, folder)
    if passed_over:
        stderr().print(Text(f"{clean(passed_over)} So the demo goes into {VIDEO}.", "yellow"))
    moments = moments_for(config, config.fps or DEFAULT_FPS)
    parts = assemble(
        config, watch=lambda source: WatchedSource(source, moments), more_sinks=[MomentsSink(moments)]
    )
    report = follow(parts, config)
    if not moments.pairs:
        raise DoppelcamError(
            "The demo ended before a face was swapped.",
            "Give it longer: --duration 30, or see: doppelcam doctor",
        )
    picture = folder / PICTURE
    console = stdout()
    console.print()
    for sink in config.sink:
        kind, _, path = sink.partition(":")
        if kind == "file":
            console.print(Text.assemble(("video    ", "dim"), short_path(Path(path))))
    note = note_of(report, parts.source.size, parts.device.name)
    if write_picture(moments.pairs, config.face[0], note, picture, is_bare(config.source)):
        console.print(Text.assemble(("picture  ", "dim"), short_path(picture)))
    return 0
