"""Files named by a user, opened so that nothing they may turn out to be can hang or surprise us."""

from __future__ import annotations

import hashlib
import os
import stat
from io import BufferedReader
from pathlib import Path

from engines.errors import UsageError


def quoted(path: Path) -> str:
    """A path as it can be shown: in quotes, on one line, nothing in it that a terminal would obey."""
    return repr(str(path)).replace("\\\\", "\\")


def open_regular(path: Path, what: str, error: type[UsageError] = UsageError) -> BufferedReader:
    """Opens an ordinary, non-empty file for reading.

    Args:
        path: The file.
        what: What it should be, with its article: "a photo", "a video".
        error: The class to raise.

    Returns:
        The open file, at its start.

    Raises:
        UsageError: Of the given class. The path does not exist, is a directory, a pipe or a device, is empty,
            may not be read, or cannot be a path at all. The sentence names it and says which.
    """
    noun = what.split()[-1]
    try:
        # A pipe without a writer would block in open() and a device might do anything; the flag prevents the
        # first, and the look at the open file itself, not at its path, the second.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        fix = f"Give the path of {what}."
        raise error(f"There is no file {quoted(path)}.", fix) from None
    except NotADirectoryError:
        raise error(f"There is no file {quoted(path)}: a part of its path is not a folder.") from None
    except PermissionError:
        if path.is_dir():  # Windows says this of directories.
            raise error(f"{quoted(path)} is a directory, not {what}.", f"Name a {noun} in it.") from None
        fix = f"Change its permissions, or copy the {noun} to a folder of your own."
        raise error(f"There is no permission to read {quoted(path)}.", fix) from None
    except (OSError, ValueError) as reason:
        text = reason.strerror if isinstance(reason, OSError) and reason.strerror else str(reason)
        raise error(f"{quoted(path)} cannot be opened: {text}.", f"Give the path of {what}.") from None
    try:
        about = os.fstat(descriptor)
        if stat.S_ISDIR(about.st_mode):
            raise error(f"{quoted(path)} is a directory, not {what}.", f"Name a {noun} in it.")
        if not stat.S_ISREG(about.st_mode):
            raise error(f"{quoted(path)} is a device or a pipe, not a file.", f"Give the path of {what}.")
        if about.st_size == 0:
            raise error(f"{quoted(path)} is empty (0 bytes).", "Copy or download it again.")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def sha256_of(path: Path) -> str:
    """The sha256 of a file, 64 hexadecimal digits.

    Raises:
        UsageError: It cannot be read.
    """
    with open_regular(path, "a model") as file:
        try:
            return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise UsageError(
                f"{quoted(path)} cannot be read: {error.strerror or error}.", "Check the disk."
            ) from error
