"""Who may use a device file, and the line that changes it."""

from __future__ import annotations

import os
from pathlib import Path


def permission_fix(path: str) -> str:
    """What someone who is refused a device file has to type.

    Args:
        path: Of the device.
    """
    try:
        about = Path(path).stat()
    except OSError:
        return _join("video")
    # What the group may not do, joining it does not change.
    if about.st_gid == 0 or about.st_mode & 0o060 != 0o060:
        return f"sudo chgrp video {path} && sudo chmod 660 {path}, then {_join('video')}"
    name = _group(about.st_gid)
    if name is None:  # A container that was given the device and not the group's name.
        return f"Start the container with --group-add {about.st_gid}, or: sudo chmod o+rw {path}"
    if _is_member(about.st_gid):
        return f"sudo chmod 660 {path}"
    if _is_listed(name):
        return f"You were added to the group {name} after you logged in: log out and in again."
    return _join(name)


def _join(group: str) -> str:
    return f'sudo usermod -aG {group} "$USER", then log out and in again'


def _group(gid: int) -> str | None:
    try:
        import grp

        return grp.getgrgid(gid).gr_name
    except (ImportError, KeyError):
        return None


def _is_member(gid: int) -> bool:
    try:
        return gid in (os.getgid(), *os.getgroups())
    except AttributeError:  # Windows has no groups of this kind.
        return False


def _is_listed(group: str) -> bool:
    """Whether the system's list has this user in the group, whatever this login knows of it."""
    try:
        import grp
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name in grp.getgrnam(group).gr_mem
    except (ImportError, KeyError, AttributeError):
        return False
