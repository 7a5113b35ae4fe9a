"""One writer at a time for a file, in whatever process."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from engines.errors import DoppelcamError, UsageError
from engines.files import quoted


@contextlib.contextmanager
def claimed(path: Path, tries: int = 1, wait: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """Holds a file for writing; the system lets go when the process ends, however it ends.

    Args:
        path: The file that will be written; the claim lies beside it.
        tries: How often to ask, a tenth of a second apart: more than once for what is only held for a moment.
        wait: Waits so many seconds.

    Raises:
        DoppelcamError: Another process, or another thread, holds it.
        UsageError: The folder cannot be written.
    """
    beside = path.with_name(f".{path.name}.claim")
    try:
        file = beside.open("ab")
    except OSError as error:
        text = error.strerror or str(error)
        raise UsageError(
            f"{quoted(path.parent)} cannot be written: {text}.", "Make it writable, or choose another folder."
        ) from error
    with file:
        for trial in range(tries):
            if _take(file.fileno()):
                break
            if trial + 1 < tries:
                wait(0.1)
        else:
            raise DoppelcamError(
                f"Another doppelcam is writing {quoted(path)}.", "Wait until it is done, then try again."
            )
        # The claim's file stays: removing it would let two hold two different ones.
        yield


def _take(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
