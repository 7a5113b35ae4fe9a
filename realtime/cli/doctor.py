"""``doppelcam doctor``."""

from __future__ import annotations

import argparse
import json
import platform

from rich.text import Text

from realtime import __version__
from realtime.doctor.check import Check, State
from realtime.doctor.doctor import examine
from realtime.show import clean, stderr, stdout, table

_MARKS: dict[State, Text] = {
    "ok": Text("✓", "green"),
    "missing": Text("–", "yellow"),
    "failed": Text("✗", "bold red"),
}


def main(args: argparse.Namespace) -> int:
    """Prints every check; 1 if something that is needed failed."""
    console = stderr()
    checks: list[Check] = []
    if console.is_terminal and not args.json:
        with console.status("Looking …", spinner="dots"):
            checks.extend(examine(args.attempt))
    else:
        checks.extend(examine(args.attempt))
    failed = any(check.state == "failed" for check in checks)
    if args.json:
        print(json.dumps(_document(checks, failed), ensure_ascii=False, indent=2))
    else:
        _show(checks)
    return 1 if failed else 0


def _document(checks: list[Check], failed: bool) -> dict[str, object]:
    return {
        "schema": 1,
        "version": __version__,
        "system": platform.platform(),
        "ok": not failed,
        "checks": [check.as_json() for check in checks],
    }


def _show(checks: list[Check]) -> None:
    made = table("", "check", "found")
    for check in checks:
        made.add_row(_MARKS[check.state], check.name, Text(clean(check.found)))
        if check.fix:
            made.add_row("", "", Text("→ " + clean(check.fix), "cyan"))
    console = stdout()
    console.print(made)
    console.print()
    failed = [check for check in checks if check.state == "failed"]
    missing = [check for check in checks if check.state == "missing"]
    if failed:
        console.print(Text(f"{len(failed)} of {len(checks)} checks failed; each → mends one.", "bold"))
    elif missing:
        console.print(f"doppelcam works here; {len(missing)} things it could use are missing.")
    else:
        console.print("All is well.")
