"""The folder of plans. A plan is a program that runs in this one, so nobody else may be able to put one there."""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from engines.errors import EngineError
from engines.files import quoted

_KEY_FILE: Final = ".key"
_KEY_BYTES: Final = 32
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def default_plan_folder(environ: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """Where plans lie."""
    if platform == "win32":
        base = Path(environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "doppelcam" / "engines"


class PlanFolder:
    """A folder that only this user can write, and its files.

    On Windows what other users may do is left to the profile that it lies in; links are refused there, too.

    Args:
        path: The folder; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self) -> None:
        """Makes the folder if it is not there.

        Raises:
            EngineError: It cannot be made, or others can write in it.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise EngineError(
                f"The folder of plans {quoted(self.path)} cannot be made: {error.strerror or error}.",
                "Make it writable, or set XDG_CACHE_HOME to a folder of yours.",
            ) from error
        self.check()

    def check(self) -> None:
        """Makes sure that nobody but this user, and root, can put anything here.

        Raises:
            EngineError: Somebody can; the sentence says where, and the fix what to type.
        """
        about = self._look(self.path)
        if about is None:
            return
        if stat.S_ISLNK(about.st_mode) or not stat.S_ISDIR(about.st_mode):
            what = "a link" if stat.S_ISLNK(about.st_mode) else "no folder"
            raise EngineError(
                f"The folder of plans {quoted(self.path)} is {what}, which is refused: a plan is a program.",
                f"Remove it: rm {quoted(self.path)}",
            )
        if not hasattr(os, "getuid"):
            return
        if about.st_uid != os.getuid():
            raise EngineError(
                f"The folder of plans {quoted(self.path)} belongs to another user, which is refused: a plan is a "
                "program.",
                "Move it away; the next build makes a new one.",
            )
        if about.st_mode & _OTHERS_WRITE:
            raise EngineError(
                f"Others can write in the folder of plans {quoted(self.path)}, which is refused: a plan is a program.",
                f"Type: rm -r {quoted(self.path)}; then build the plans again",
            )
        for above in self.path.resolve().parents:
            self._check_above(above)

    def _check_above(self, folder: Path) -> None:
        """A folder that others can write in lets them put another one in the place of what is in it."""
        about = self._look(folder)
        if about is None or about.st_mode & stat.S_ISVTX:
            return
        writable = about.st_mode & stat.S_IWOTH or (
            about.st_mode & stat.S_IWGRP and not _own_group(about.st_gid)
        )
        if writable or about.st_uid not in (0, os.getuid()):
            raise EngineError(
                f"Others can write in {quoted(folder)}, and so replace the folder of plans in it, which is refused: a "
                "plan is a program.",
                f"Type: chmod go-w {quoted(folder)}, or set XDG_CACHE_HOME to a folder that only you can write.",
            )

    @staticmethod
    def _look(path: Path) -> os.stat_result | None:
        try:
            return path.lstat()
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise EngineError(f"{quoted(path)} cannot be looked at: {error}.") from error

    def read(self, name: str, most: int) -> bytes:
        """Reads one file of the folder.

        What is returned is what was checked: the open file is looked at, not its path.

        Args:
            name: A plain name.
            most: Bytes that it may have.

        Raises:
            EngineError: It is not there, a link, no ordinary file, somebody else's, open to others, or too large.
        """
        path = self.path / name
        if Path(name).name != name or name in ("", ".", ".."):
            raise EngineError(f"{name!r} is no plain name of a file, which is refused.", self._fix)
        flags = (
            os.O_RDONLY
            | getattr(os, "O_NOFOLLOW", 0)
            | getattr(os, "O_NONBLOCK", 0)
            | getattr(os, "O_BINARY", 0)
        )
        if path.is_symlink():
            raise EngineError(f"{quoted(path)} is a link, which is refused: a plan is a program.", self._fix)
        try:
            descriptor = os.open(path, flags)
        except FileNotFoundError:
            raise EngineError(f"{quoted(path)} is missing.", self._fix) from None
        except OSError as error:
            raise EngineError(
                f"{quoted(path)} cannot be read: {error.strerror or error}.", self._fix
            ) from error
        with os.fdopen(descriptor, "rb") as file:
            about = os.fstat(file.fileno())
            wrong = _wrong_with(about, most)
            if wrong:
                raise EngineError(
                    f"{quoted(path)} {wrong}, which is refused: a plan is a program.", self._fix
                )
            # One more, so that a file that grows meanwhile shows as too long.
            data = file.read(about.st_size + 1)
        if len(data) != about.st_size:
            raise EngineError(f"{quoted(path)} changed while it was read.", "Try again.")
        return data

    def write(self, name: str, data: bytes) -> None:
        """Writes one file, whole or not at all.

        Raises:
            EngineError: It cannot be written.
        """
        path, part = self.path / name, self.path / f".{name}.{secrets.token_hex(4)}.part"
        try:
            descriptor = os.open(
                part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600
            )
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except OSError as error:
            raise EngineError(
                f"{quoted(path)} cannot be written: {error.strerror or error}.", "Make room on the disk."
            ) from error
        finally:
            with contextlib.suppress(OSError):
                part.unlink()

    def names(self, suffix: str) -> Iterator[str]:
        """Names of its files that end so, sorted; hidden ones are left out."""
        if self.path.is_dir():
            for name in sorted(entry.name for entry in self.path.iterdir()):
                if name.endswith(suffix) and not name.startswith("."):
                    yield name

    def sign(self, data: bytes) -> str:
        """A signature that only this user can make, by a key that lies in the folder. One process at a time.

        Raises:
            EngineError: The key cannot be read or made.
        """
        return hmac.new(self._own_key(), data, "sha256").hexdigest()

    def signed(self, data: bytes, signature: object) -> bool:
        """Whether a signature was made here."""
        if not os.path.lexists(self.path / _KEY_FILE):
            return False
        return isinstance(signature, str) and hmac.compare_digest(
            self.sign(data).encode(), signature.encode()
        )

    def _own_key(self) -> bytes:
        path = self.path / _KEY_FILE
        if not os.path.lexists(path):
            self.make()
            with contextlib.suppress(FileExistsError):
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(secrets.token_bytes(_KEY_BYTES))
        key = self.read(_KEY_FILE, _KEY_BYTES)
        if len(key) != _KEY_BYTES:
            raise EngineError(
                f"{quoted(path)} is broken.", f"Type: rm -r {quoted(self.path)}; then build again"
            )
        return key

    @property
    def _fix(self) -> str:
        return "Type: doppelcam engines clean; then build it again: doppelcam engines build NAME"


def _wrong_with(about: os.stat_result, most: int) -> str:
    """What is wrong with an open file, as the end of a sentence."""
    if not stat.S_ISREG(about.st_mode):
        return "is no ordinary file"
    if about.st_size > most:
        return f"has {about.st_size:,} bytes, where {most:,} were expected at most"
    if not hasattr(os, "getuid"):
        return ""
    if about.st_uid != os.getuid():
        return "belongs to another user"
    if about.st_mode & _OTHERS_WRITE:
        return "can be written by others"
    return "has a second name elsewhere (a hard link)" if about.st_nlink > 1 else ""


def _own_group(gid: int) -> bool:
    """Whether a group is the user's own, which some systems make for each user and open files to."""
    try:
        import grp
        import pwd

        group, user = grp.getgrgid(gid), pwd.getpwuid(os.getuid())
    except (ImportError, KeyError):
        return False
    return gid == user.pw_gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
