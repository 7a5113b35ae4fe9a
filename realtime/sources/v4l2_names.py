"""Which cameras Linux has, what they are called, and what they can give."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from realtime.v4l2_capability import SIZE, Capabilities, ask

SYSFS: Final = Path("/sys/class/video4linux")
DEV: Final = Path("/dev")

Ioctl: TypeAlias = Callable[[int, int, bytearray], object]
"""``fcntl.ioctl``: descriptor, request, the structure to fill; raises OSError at the end of a list."""

ENUM_FMT: Final = 0xC0405602
ENUM_FRAMESIZES: Final = 0xC02C564A
ENUM_FRAMEINTERVALS: Final = 0xC034564B

_BUFFER_CAPTURE: Final = 1
_DISCRETE: Final = 1

COMPRESSED: Final = ("MJPG", "JPEG", "H264", "HEVC")
"""Formats that fit through any cable."""

# A driver that never ends its lists must not hang us.
_MOST_FORMATS: Final = 32
_MOST_SIZES: Final = 64
_MOST_RATES: Final = 32


@dataclass(frozen=True, slots=True)
class CameraFormat:
    """One way a camera can send its pictures.

    Attributes:
        fourcc: Pixel format: "MJPG", "YUYV", …
        size: Width and height, pixels.
        rates: Frames a second, highest first; empty where the driver does not say.
    """

    fourcc: str
    size: tuple[int, int]
    rates: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class CameraInfo:
    """One camera.

    Attributes:
        index: Number, as OpenCV counts; it can change with every boot.
        path: The device; empty where there are only numbers.
        name: What the camera calls itself.
        stable_id: A path that stays with the camera, or with its socket, over boots; empty if there is none.
        formats: What it can give; empty where that cannot be asked.
        virtual: Whether a program and not a sensor is behind it.
    """

    index: int
    path: str
    name: str
    stable_id: str = ""
    formats: tuple[CameraFormat, ...] = ()
    virtual: bool = False


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a device says of itself, and what it can give."""

    itself: Capabilities
    formats: tuple[CameraFormat, ...]


def v4l2_cameras(sysfs: Path = SYSFS, dev: Path = DEV, ioctl: Ioctl | None = None) -> tuple[CameraInfo, ...]:
    """Every device that pictures can be read from, virtual ones too, by number.

    A device that cannot be opened (no permission, busy) is listed with what sysfs knows of it.

    Args:
        sysfs: Where the kernel lists video devices.
        dev: Where their nodes are.
        ioctl: How to ask a device; the system's where None.
    """
    try:
        entries = list(sysfs.iterdir())
    except OSError:
        return ()
    stable = _stable_ids(dev)
    cameras = []
    for entry in entries:
        number = entry.name.removeprefix("video")
        if not number.isdecimal() or number == entry.name:
            continue
        path = dev / entry.name
        asked = _ask(path, ioctl)
        virtual = _looks_virtual(entry) if asked is None else "loopback" in asked.itself.driver.lower()
        # A webcam has a second node for metadata; a loopback device nobody writes to yet only takes pictures.
        if asked is None:
            reads = _read_text(entry / "index") in ("0", "")
        else:
            reads = asked.itself.capture or (virtual and asked.itself.output)
        if not reads:
            continue
        name = _read_text(entry / "name") or (asked.itself.card if asked else "") or entry.name
        formats = asked.formats if asked else ()
        cameras.append(CameraInfo(int(number), str(path), name, stable.get(entry.name, ""), formats, virtual))
    return tuple(sorted(cameras, key=lambda camera: camera.index))


def _read_text(path: Path) -> str:
    try:
        text = path.read_bytes()[:256].decode(errors="replace")
    except OSError:
        return ""
    return "".join(c if c.isprintable() else " " for c in text).strip()


def _looks_virtual(entry: Path) -> bool:
    """Whether no hardware is behind a device, as far as sysfs tells without opening it."""
    return "virtual" in entry.resolve().parts or (entry / "max_openers").exists()


def _stable_ids(dev: Path) -> dict[str, str]:
    """The link that stays with each device, by the name of its node; the camera's own before its socket's."""
    found: dict[str, str] = {}
    for folder in ("by-path", "by-id"):
        try:
            links = sorted((dev / "v4l" / folder).iterdir())
        except OSError:
            continue
        for link in links:
            try:
                found[link.readlink().name] = str(link)
            except OSError:
                continue
    return found


def _ask(path: Path, ioctl: Ioctl | None) -> _Asked | None:
    """Asks a device what it is; None if it cannot be opened or does not answer."""
    try:
        if ioctl is None:
            import fcntl

            ioctl = fcntl.ioctl
        descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    except (ImportError, OSError):
        return None
    try:
        about = ask(ioctl, descriptor, bytearray(SIZE))
        return _Asked(about, tuple(_formats(descriptor, ioctl)) if about.capture else ())
    except OSError:
        return None
    finally:
        os.close(descriptor)


def fourcc_name(code: int) -> str:
    """A pixel format as people write it; empty for what is none.

    Args:
        code: The four letters, the first one lowest. The highest bit says that the samples are big-endian.
    """
    letters = (code & 0x7FFFFFFF).to_bytes(4, "little").decode("ascii", "replace").rstrip("\0 ")
    if not (letters and letters.isascii() and letters.isprintable()):
        return ""
    return f"{letters}-BE" if code & 0x80000000 else letters


def _listed(descriptor: int, ioctl: Ioctl, request: int, ask: bytes, size: int, most: int) -> Iterator[bytes]:
    """The entries of one of the kernel's lists; ``ask`` follows the entry's number in the structure."""
    for number in range(most):
        entry = bytearray(struct.pack("<I", number) + ask).ljust(size, b"\0")
        try:
            ioctl(descriptor, request, entry)
        except OSError:
            return
        yield bytes(entry)


def _formats(descriptor: int, ioctl: Ioctl) -> Iterator[CameraFormat]:
    kind = struct.pack("<I", _BUFFER_CAPTURE)
    for entry in _listed(descriptor, ioctl, ENUM_FMT, kind, 64, _MOST_FORMATS):
        code = entry[44:48]
        for size in _sizes(descriptor, ioctl, code):
            yield CameraFormat(
                fourcc_name(int.from_bytes(code, "little")), size, _rates(descriptor, ioctl, code, size)
            )


def _sizes(descriptor: int, ioctl: Ioctl, code: bytes) -> list[tuple[int, int]]:
    """The sizes of one format, largest first; of a range, its two ends."""
    sizes: set[tuple[int, int]] = set()
    for entry in _listed(descriptor, ioctl, ENUM_FRAMESIZES, code, 44, _MOST_SIZES):
        (kind,) = struct.unpack_from("<I", entry, 8)
        if kind == _DISCRETE:
            sizes.add(struct.unpack_from("<II", entry, 12))
            continue
        low_x, high_x, _step_x, low_y, high_y, _step_y = struct.unpack_from("<6I", entry, 12)
        sizes |= {(low_x, low_y), (high_x, high_y)}
        break
    return sorted((size for size in sizes if min(size) > 0), key=lambda s: (-s[0] * s[1], s))


def _rates(descriptor: int, ioctl: Ioctl, code: bytes, size: tuple[int, int]) -> tuple[float, ...]:
    """Frames a second at one size, highest first; of a range, its two ends."""
    rates: set[float] = set()
    ask = code + struct.pack("<II", *size)
    for entry in _listed(descriptor, ioctl, ENUM_FRAMEINTERVALS, ask, 52, _MOST_RATES):
        kind, *fractions = struct.unpack_from("<5I", entry, 16)
        seconds = [(fractions[0], fractions[1])]
        if kind != _DISCRETE:
            seconds.append((fractions[2], fractions[3]))
        rates |= {round(below / above, 2) for above, below in seconds if above and below}
        if kind != _DISCRETE:
            break
    return tuple(sorted(rates, reverse=True))
