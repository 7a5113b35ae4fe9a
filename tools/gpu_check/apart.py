"""Each part in a process of its own: a card that fails stays failed for the process that made it fail."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from tools.gpu_check.rows import Row, from_json

ROOT = Path(__file__).parents[2]
MARK = "gpu_check rows: "
"""Begins the line in which a process hands over what it found; libraries may print anything before."""

Run = Callable[[str, float], list[Row]]
"""Runs a part by its name within so many seconds."""


def hand_over(rows: Sequence[Row]) -> str:
    """What a process prints for :func:`in_a_process` to read."""
    return MARK + json.dumps([asdict(row) for row in rows])


def in_a_process(part: str, seconds: float, command: Sequence[str] = ()) -> list[Row]:
    """Runs one part apart. Whatever becomes of it, there are rows.

    Args:
        part: Its name.
        seconds: How long it may take.
        command: What to run, in tests.
    """
    command = command or (sys.executable, "-m", "tools.gpu_check", "--part", part)
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, errors="replace", timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as late:
        return [*_found(late.stdout), _lost(part, f"not done after {seconds:.0f} s")]
    rows = _found(done.stdout)
    if done.returncode != 0:
        last = [line for line in done.stderr.splitlines() if line.strip()]
        why = last[-1][:300] if last else "no word why"
        rows.append(_lost(part, f"its process ended with {done.returncode}: {why}"))
    elif not rows:
        rows.append(_lost(part, "its process told nothing"))
    return rows


def _lost(part: str, why: str) -> Row:
    return Row(part, "the rest of it", note=why, ran=False)


def _found(text: str | bytes | None) -> list[Row]:
    """Rows in what was printed; a line that was cut off is none."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    rows: list[Row] = []
    for line in (text or "").splitlines():
        if line.startswith(MARK):
            try:
                rows += from_json(json.loads(line.removeprefix(MARK)))
            except (ValueError, TypeError):
                continue
    return rows


def run_all(
    parts: dict[str, float], seconds: float, run: Run, say: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
) -> list[Row]:  # fmt: skip
    """All parts, one after another, within a time.

    Args:
        parts: Name and seconds of each, the most important first.
        seconds: For all of them.
        run: How one is run.
        say: Told what is being done.
        clock: Seconds.

    Returns:
        What they found, in the order of the parts.
    """
    end, rows = clock() + seconds, []
    for part, limit in parts.items():
        left = end - clock()
        if left < min(limit, 5.0):
            rows.append(Row(part, "all of it", note="no time was left", ran=False))
            continue
        say(f"{part} …")
        try:
            rows += run(part, min(limit, left))
        except Exception as error:  # one part that cannot even be started leaves the others
            rows.append(_lost(part, f"{type(error).__name__}: {error}"))
    return rows
