"""One script for the day a graphics card is at hand: at most eight minutes, with whatever is on that machine.

    python -m tools.gpu_check                           a table
    python -m tools.gpu_check --json card.json          and everything as JSON
    python -m tools.gpu_check --only kernels,rates      some parts

Parts: kernels (each against the processor's own), rates (what the card can do at most), stages (each step of a frame
against that), frames (from upload to download, with and without a CUDA graph) and network (inswapper's shape in half
precision). Each runs in a process of its own. *floor* is the least time that the bytes and operations of a line could
take on this card, as measured; *power* is how near a line comes to it.

Ends with 0; with 1 if something was wrong; with 4 if there is no card.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from engines.errors import EngineError
from engines.kernels.gpu.card import Card, load_cupy
from tools.gpu_check import golden, measured, network
from tools.gpu_check.apart import hand_over, in_a_process, run_all
from tools.gpu_check.bench import Bench
from tools.gpu_check.rows import Row, report, table, to_json

SECONDS = 460.0
"""For everything; what is left of eight minutes is for starting and writing."""

LIMITS = {"kernels": 120.0, "rates": 60.0, "frames": 90.0, "network": 150.0, "stages": 90.0}
"""Seconds of each part, the most important first."""


def _kernels(card: Card, _torch: Any) -> Iterator[Row]:
    yield from golden.compare(card)


def _rates(card: Card, torch: Any) -> Iterator[Row]:
    yield from measured.rates(Bench(card, runs=10), torch=torch)


def _stages(card: Card, _torch: Any) -> Iterator[Row]:
    yield from measured.stages(Bench(card, runs=10, inner=50))


def _frames(card: Card, _torch: Any) -> Iterator[Row]:
    yield from measured.frames(Bench(card, runs=100))


def _network(card: Card, torch: Any) -> Iterator[Row]:
    bench = Bench(card, runs=30)
    yield from network.through_torch(bench, torch)
    yield from network.through_the_program(bench)


PARTS: dict[str, Callable[[Card, Any], Iterator[Row]]] = {
    "kernels": _kernels, "rates": _rates, "frames": _frames, "network": _network, "stages": _stages,
}  # fmt: skip


def only(text: str) -> list[str]:
    """Parts named by a user, in our order."""
    names = text.split(",")
    if unknown := sorted(set(names) - PARTS.keys()):
        raise argparse.ArgumentTypeError(f"there is no part {unknown[0]!r}; choose from {', '.join(PARTS)}")
    return [name for name in PARTS if name in names]


def arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.gpu_check",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there, too")
    parser.add_argument("--only", type=only, default=list(PARTS), metavar="PART,…", help="these parts only")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help=f"for everything; default {SECONDS:.0f}"
    )
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    return parser.parse_args(given)


def one_part(name: str) -> int:
    """In a process of its own: what a part finds is printed as it is found."""
    card = Card()
    for row in PARTS[name](card, measured.torch_on(card)):
        print(hand_over([row]), flush=True)
    return 0


def about(cupy: Any) -> dict[str, object]:
    """What the figures belong to."""
    card, runtime = cupy.cuda.runtime.getDeviceProperties(0), cupy.cuda.runtime
    name = card["name"]
    return {
        "card": name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name),
        "compute capability": f"{card['major']}.{card['minor']}",
        "multiprocessors": card["multiProcessorCount"],
        "driver for CUDA": runtime.driverGetVersion(), "CUDA": runtime.runtimeGetVersion(),
        "cupy": cupy.__version__, "python": platform.python_version(), "machine": platform.platform(),
    }  # fmt: skip


def main(given: Sequence[str]) -> int:
    options = arguments(given)
    try:
        if options.part:
            return one_part(options.part)
        cupy = load_cupy()
    except EngineError as error:
        print(f"error: {error.what}", file=sys.stderr)
        return error.exit_code
    started = time.monotonic()
    rows = run_all(
        {name: LIMITS[name] for name in options.only}, options.seconds, in_a_process,
        lambda text: print(text, file=sys.stderr, flush=True),
    )  # fmt: skip
    found = report({**about(cupy), "seconds": round(time.monotonic() - started)}, rows)
    print(table(found), end="")
    if options.json:
        options.json.write_text(to_json(found), "utf-8")
    return 1 if found["wrong"] or not any(row.ran for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
