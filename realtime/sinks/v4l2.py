"""What Linux knows about its virtual cameras: names in sysfs, and four ioctls of Video4Linux."""

from __future__ import annotations

import errno
import os
import re
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engines.errors import DeviceError, UsageError
from realtime.v4l2_capability import SIZE, Capabilities, ask

SYSFS = Path("/sys/class/video4linux")
# struct v4l2_format holds pointers, so its size and the place of its union follow the machine's word.
_POINTER = struct.calcsize("P")
_FORMAT_SIZE, _PIX_AT = (208, 8) if _POINTER == 8 else (204, 4)
_G_FMT = 0xC0005604 | _FORMAT_SIZE << 16
_STREAMON = 0x40045612
_BUF_TYPE_OUTPUT = 2


class Kernel(Protocol):
    """The system calls made on a device; every failure is an ``OSError``."""

    def open(self, path: str) -> int:
        """Opens for reading and writing, without waiting."""
        ...

    def ioctl(self, fd: int, request: int, buffer: bytearray) -> None:
        """Calls the driver; it reads and changes the buffer."""
        ...

    def close(self, fd: int) -> None:
        """Closes."""
        ...


class SystemKernel:
    """The real one."""

    def open(self, path: str) -> int:
        """See :class:`Kernel`."""
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))

    def ioctl(self, fd: int, request: int, buffer: bytearray) -> None:
        """See :class:`Kernel`."""
        if sys.platform == "win32":
            raise OSError(errno.ENOSYS, "no ioctl on this system")
        # Here, because Windows has no such module and this file must import there.
        import fcntl

        fcntl.ioctl(fd, request, buffer, True)

    def close(self, fd: int) -> None:
        """See :class:`Kernel`."""
        os.close(fd)


class Device:
    """An open V4L2 device. It only asks: it takes no part in the stream.

    Args:
        path: Of the device file.
        kernel: System calls.

    Raises:
        OSError: It cannot be opened.
    """

    def __init__(self, path: str, kernel: Kernel) -> None:
        self._kernel = kernel
        self._fd: int | None = kernel.open(path)
        self._capability = bytearray(SIZE)

    def capabilities(self) -> Capabilities:
        """Asks what the device is now; see :func:`realtime.v4l2_capability.ask`.

        Raises:
            OSError: ``ENODEV`` when the device is gone.
        """
        return ask(self._kernel.ioctl, self._descriptor(), self._capability)

    def output_size(self) -> tuple[int, int]:
        """Width and height of the pictures the device takes, whatever it was asked for.

        Raises:
            OSError: The device does not say.
        """
        buffer = bytearray(_FORMAT_SIZE)
        struct.pack_into("=I", buffer, 0, _BUF_TYPE_OUTPUT)
        self._kernel.ioctl(self._descriptor(), _G_FMT, buffer)
        width, height = struct.unpack_from("=II", buffer, _PIX_AT)
        return int(width), int(height)

    def mend(self) -> None:
        """Makes a stuck 0.12.7 device an output again; it is one after the :meth:`close` that must follow.

        Starting the output stream marks this descriptor as the writer, and a writer's close frees the device.
        Newer modules answer EINVAL and are left as they were.
        """
        try:
            self._kernel.ioctl(
                self._descriptor(), _STREAMON, bytearray(_BUF_TYPE_OUTPUT.to_bytes(4, sys.byteorder))
            )
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise

    def close(self) -> None:
        """Closes; may be called twice."""
        fd, self._fd = self._fd, None
        if fd is not None:
            self._kernel.close(fd)

    def _descriptor(self) -> int:
        if self._fd is None:
            raise OSError(errno.EBADF, "the device was closed")
        return self._fd


@dataclass(frozen=True, slots=True)
class Node:
    """A video device as sysfs lists it.

    Attributes:
        path: Of the device file.
        name: Card name.
        loopback: Whether v4l2loopback made it; a real camera is never opened to find out.
    """

    path: str
    name: str
    loopback: bool


def nodes(sysfs: Path = SYSFS) -> list[Node]:
    """Every video device of the machine, in the order of their numbers."""
    found: list[tuple[int, Node]] = []
    for folder in sysfs.glob("video*"):
        number = folder.name.removeprefix("video")
        try:
            name = (folder / "name").read_text("utf-8", "replace").strip()
        except OSError:
            continue
        if number.isdecimal():
            # Only v4l2loopback has this attribute, in every version.
            loopback = (folder / "max_openers").exists()
            found.append((int(number), Node(f"/dev/{folder.name}", name, loopback)))
    return [node for _, node in sorted(found, key=lambda item: item[0])]


def loaded_exclusive(sysfs: Path = SYSFS) -> bool:
    """Whether the module was loaded with exclusive_caps for every virtual camera there is.

    What a device says of itself is not enough: 0.12.7 claims to be both camera and output between two writers
    while a reader stays.
    """
    parameter = sysfs.parent.parent / "module" / "v4l2loopback" / "parameters" / "exclusive_caps"
    try:
        flags = parameter.read_text("ascii", "replace").strip().split(",")
    except OSError:
        return False
    count = sum(node.loopback for node in nodes(sysfs))
    return count > 0 and len(flags) >= count and all(flag in ("Y", "1") for flag in flags[:count])


def find(device: str, known: list[Node]) -> str:
    """The path of a device given by number, path or card name.

    Raises:
        UsageError: Several devices have this name.
        DeviceError: None has.
    """
    if device.isdecimal():
        return f"/dev/video{int(device)}"
    if device.startswith("/"):
        # Stable names such as /dev/v4l/by-id/… are links, and the driver's library wants the device itself.
        real = os.path.realpath(device)
        return real if re.fullmatch(r"/dev/video\d+", real) else device
    same = [node for node in known if node.name == device] or [
        node for node in known if node.name.casefold() == device.casefold()
    ]
    same = [node for node in same if node.loopback] or same
    if len(same) > 1:
        raise UsageError(
            f"{len(same)} video devices are called “{device}”.",
            f"Give the path of one: {', '.join(node.path for node in same)}.",
        )
    if not same:
        there = ", ".join(f"“{node.name}” ({node.path})" for node in known if node.loopback) or "none"
        raise DeviceError(
            f"No virtual camera is called “{device}”.",
            f"There is: {there}. `doppelcam devices` lists them all.",
        )
    return same[0].path
