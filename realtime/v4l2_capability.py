"""What a V4L2 device says of itself, camera or virtual camera."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

QUERYCAP: Final = 0x80685600
SIZE: Final = 104
"""Bytes of the structure that is asked for."""

DRIVER: Final = "v4l2 loopback"
"""What v4l2loopback calls itself."""

_CAPTURE: Final = 0x00000001
_OUTPUT: Final = 0x00000002
_OWN: Final = 0x80000000
"""The device has words of its own beside those of its driver."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a device is at the moment.

    Attributes:
        driver: The driver's name; :data:`DRIVER` for v4l2loopback.
        card: The name that programs show.
        capture: It gives pictures.
        output: It takes pictures.
    """

    driver: str
    card: str
    capture: bool
    output: bool

    @property
    def stuck(self) -> bool:
        """Neither camera nor output: v4l2loopback 0.12.7 after its writer closed or died; it stays shut."""
        return self.driver == DRIVER and not self.capture and not self.output


def ask(ioctl: Callable[[int, int, bytearray], object], descriptor: int, room: bytearray) -> Capabilities:
    """Asks an open device; a microsecond, and no new memory worth the name.

    Args:
        ioctl: Descriptor, request, the structure to fill; ``fcntl.ioctl`` or what stands in for it.
        descriptor: Of the device.
        room: :data:`SIZE` bytes, scratch.

    Raises:
        OSError: It is no such device, or is gone (``ENODEV``).
    """
    ioctl(descriptor, QUERYCAP, room)
    driver, card, _bus, _version, whole, own = struct.unpack_from("=16s32s32sIII", room)
    flags = own if whole & _OWN else whole
    return Capabilities(_text(driver), _text(card), bool(flags & _CAPTURE), bool(flags & _OUTPUT))


def _text(raw: bytes) -> str:
    text = raw.split(b"\0", 1)[0].decode("utf-8", "replace")
    return "".join(c if c.isprintable() else " " for c in text).strip()
