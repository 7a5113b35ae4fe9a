"""``doppelcam run``."""

from __future__ import annotations

import argparse
import json
import os

from realtime.assemble import assemble
from realtime.cli.lines import SCHEMA
from realtime.cli.live import Preparing, follow, introduce, summary
from realtime.cli.parser import given_flags
from realtime.settings.load import load
from realtime.show import stderr
from realtime.stats import stats_of


def main(args: argparse.Namespace) -> int:
    """Is the camera until it is stopped, or makes a file from a file."""
    config = load(given_flags(args), os.environ, args.config).config
    parts = assemble(config)
    if not config.offline:
        follow(parts, config, args.json)
        return 0
    console = stderr()
    with Preparing(console) as preparing:
        report = parts.offline(preparing)
    introduce(console, config, parts)
    if args.json:
        print(json.dumps({"schema": SCHEMA, "state": "ended", **stats_of(report)}, ensure_ascii=False))
    else:
        summary(report, parts)
    return 0
