"""``doppelcam config show`` and ``config validate``."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.text import Text

from realtime.cli.parser import given_flags
from realtime.settings.load import CONFIG_VARIABLE, Origin, Settings, default_file, load
from realtime.settings.options import OPTIONS, typed
from realtime.show import clean, short_path, stdout, table
from realtime.sinks.streams.target import concealed


def main(args: argparse.Namespace) -> int:
    """Does the action; without one it says which there are."""
    if args.action == "show":
        return _show(load(given_flags(args), os.environ, args.config), as_json=args.json)
    if args.action == "validate":
        return _validate(args.file)
    print(args.usage())
    return 2


def _show(settings: Settings, as_json: bool) -> int:
    rows = [
        (option, getattr(settings.config, option.field), settings.origins[option.field]) for option in OPTIONS
    ]
    if as_json:
        values = {
            option.name: {"value": _plain(value), "from": origin.kind, "where": origin.where}
            for option, value, origin in rows
        }
        read = str(settings.file) if settings.file else None
        print(json.dumps({"schema": 1, "file": read, "values": values}, ensure_ascii=False, indent=2))
        return 0
    made = table("option", "value", "from")
    for option, value, origin in rows:
        style = "dim" if origin.kind == "default" else ""
        made.add_row(Text(option.name), Text(clean(_words(value)), style), Text(_where(origin), style))
    console = stdout()
    console.print(made)
    console.print()
    file = settings.file or default_file()
    known = "read" if settings.file else "not there"
    console.print(Text(f"Configuration file: {short_path(file)} ({known})", "dim"))
    return 0


def _validate(file: Path | None) -> int:
    # The environment is left out: the question is whether the file is right.
    told = os.environ.get(CONFIG_VARIABLE)
    named = file or (Path(told).expanduser() if told else default_file())
    settings = load({}, {}, named)
    given = sum(origin.kind == "file" for origin in settings.origins.values())
    stdout().print(f"{short_path(named)}: valid, sets {given} of {len(OPTIONS)} options.", markup=False)
    return 0


def _where(origin: Origin) -> str:
    if origin.kind != "file":
        return origin.where or origin.kind
    path, _, line = origin.where.rpartition(":")
    return f"{short_path(Path(path))}:{line}"


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, str):
        return concealed(value)
    return dict(value) if isinstance(value, Mapping) else value


def _words(value: Any) -> str:
    """A value for a person."""
    if isinstance(value, tuple) and value and isinstance(value[0], Path):
        return ", ".join(short_path(path) for path in value)
    return typed(value) or "–"
