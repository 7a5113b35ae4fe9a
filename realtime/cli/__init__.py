"""The command line: ``doppelcam VERB``. Data on stdout, log and progress on stderr.

Nothing heavy is imported before a verb needs it, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import Final, Protocol, cast

from engines.errors import DoppelcamError
from realtime.cli.parser import make_parser

INTERRUPTED: Final = 130
_SWITCH_S: Final = 0.0005


class Verb(Protocol):
    """A module that does one verb."""

    def main(self, args: argparse.Namespace) -> int:
        """Does it; returns the exit code."""
        ...


_VERBS: Final = {
    "demo": "realtime.cli.demo",
    "run": "realtime.cli.run",
    "bench": "realtime.cli.bench",
    "devices": "realtime.cli.devices",
    "doctor": "realtime.cli.doctor",
    "config": "realtime.cli.config",
    "models": "realtime.cli.models",
    "engines": "realtime.cli.engines",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb.

    Args:
        argv: Arguments behind the program's name; those of the process by default.

    Returns:
        The exit code: 0 done, 1 failed, 2 usage, 3 device, 4 engine, 5 budget missed, 130 interrupted.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    verbose = "-v" in arguments or "--verbose" in arguments
    try:
        return _dispatch(arguments)
    except SystemExit as done:  # argparse, after --help and --version
        return done.code if isinstance(done.code, int) else 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone; what is still buffered must not fail once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except DoppelcamError as error:
        if verbose:
            traceback.print_exc()
        complain(error.what, error.fix)
        return error.exit_code
    except Exception as error:
        if verbose:
            traceback.print_exc()
        complain(
            f"Something went wrong inside doppelcam: {type(error).__name__}: {error}",
            "" if verbose else "Run it again with -v to see where.",
        )
        return 1


def _dispatch(arguments: list[str]) -> int:
    parser = make_parser()
    args = parser.parse_args(arguments)
    if args.verb is None:
        parser.print_help(sys.stderr)
        return 2
    if args.verbose:
        _log_to_stderr()
    verb = cast("Verb", importlib.import_module(_VERBS[args.verb]))
    previous, interval = _end_like_ctrl_c(), sys.getswitchinterval()
    # A thread that comes back from a kernel waits this long for the GIL when another one is busy in Python. The
    # default of 5 ms is a third of a frame's time at 60 fps.
    sys.setswitchinterval(_SWITCH_S)
    try:
        return verb.main(args)
    finally:
        sys.setswitchinterval(interval)
        if previous is not None:
            signal.signal(signal.SIGTERM, previous)


def _end_like_ctrl_c() -> signal._HANDLER:
    """Lets SIGTERM end a run as cleanly as Ctrl-C; None where that cannot be set up."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        return signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not on the main thread
        return None


def _log_to_stderr() -> None:
    import logging

    logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(name)s: %(message)s", stream=sys.stderr)
    for noisy in ("numba", "PIL", "libav"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def complain(what: str, fix: str) -> None:
    """Says what is wrong and what mends it, on stderr."""
    from realtime.show import stderr

    console = stderr()
    console.print("[bold red]error:[/] ", end="")
    console.print(what, markup=False)
    if fix:
        console.print("[bold green]fix:[/]   ", end="")
        console.print(fix, markup=False)
