"""Which virtual cameras doppelcam feeds on this machine, so that a start after a crash may clear up behind it.

An older v4l2loopback, whose writer dies while a program still shows the camera, looks the same as one that is being
fed. Only we can know that the dead one was ours: each device in use has a file, locked for as long as its program
lives, and removed when that ends in good order.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path


def claims_folder() -> Path:
    """Where the files lie: gone after a reboot wherever the system has such a place for each user."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        return Path(runtime) / "doppelcam"
    user = os.getuid() if hasattr(os, "getuid") else "user"
    return Path(tempfile.gettempdir()) / f"doppelcam-{user}"


class Claim:
    """The file of one device. Where it cannot be written, nothing is known and nothing is lost.

    Args:
        device: Path of the device.
        folder: Where the files lie.
    """

    def __init__(self, device: str, folder: Path | None = None) -> None:
        self._folder = claims_folder() if folder is None else folder
        self._file = self._folder / Path(device).name
        self._identity = _identity(device)
        self._descriptor: int | None = None

    def owner(self) -> int | None:
        """The process that feeds the device through us and lives; None when there is none."""
        locked, _, process = self._look()
        return process if locked else None

    def left_behind(self) -> bool:
        """Whether a program of ours fed this device, since it is there, and died without letting it go."""
        locked, identity, _ = self._look()
        return not locked and identity == self._identity != ""

    def take(self) -> None:
        """From now on it is this program that feeds the device."""
        self.release()
        if not self._identity:
            return
        with contextlib.suppress(OSError, ImportError):
            import fcntl

            self._folder.mkdir(mode=0o700, exist_ok=True)
            if not self._is_ours():
                return
            descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.ftruncate(descriptor, 0)
                os.write(descriptor, f"{os.getpid()} {self._identity}".encode())
            except OSError:
                os.close(descriptor)
                raise
            self._descriptor = descriptor

    def release(self) -> None:
        """The device was let go in good order; may be called twice."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with contextlib.suppress(OSError):
                self._file.unlink()
            os.close(descriptor)

    def _look(self) -> tuple[bool, str, int | None]:
        """Whether the file is locked; the device and the process it names."""
        try:
            import fcntl

            if not self._is_ours():
                return False, "", None
            descriptor = os.open(self._file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except (OSError, ImportError):
            return False, "", None
        try:
            process, _, identity = os.read(descriptor, 200).decode("ascii", "replace").partition(" ")
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                locked = False
            except OSError:
                locked = True
            return locked, identity, int(process) if process.isdecimal() else None
        except OSError:
            return False, "", None
        finally:
            os.close(descriptor)

    def _is_ours(self) -> bool:
        """Whether nobody else can have put files into the folder: it may lie where everyone may write."""
        about = self._folder.lstat()
        return stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and not about.st_mode & 0o022


def _identity(device: str) -> str:
    """What changes when the device is made anew or the machine is started anew; empty if it is not there."""
    try:
        about = Path(device).stat()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""
    return f"{boot} {about.st_rdev} {about.st_ino}"
