"""v4l2loopback as its source says it behaves, old and new, with pyvirtualcam's camera on top of it."""

from __future__ import annotations

import errno
import os
import struct

import numpy as np

DRIVER = b"v4l2 loopback"


class Opener:
    def __init__(self, device):
        self.device = device
        self.writer = False


class LoopbackDevice:
    """One device. ``old``: 0.12.7, else 0.15."""

    def __init__(self, *, old=False, exclusive=True, card="doppelcam", driver=DRIVER, size=(0, 0)):
        self.old, self.exclusive, self.card, self.driver = old, exclusive, card.encode(), driver
        self.size = size
        self.max_openers = 10
        self.openers = 0
        self.ready_for_output = True
        self.ready_for_capture = 0
        self.format_owner = None
        self.gone = False
        self.deaf = False
        self.mended = 0
        self.pictures = []

    def caps(self):
        if not self.exclusive:
            return 0x3
        if self.old:
            return (0x1 if self.ready_for_capture else 0) | (0x2 if self.ready_for_output else 0)
        return 0x1 if self.ready_for_capture else 0x2

    def open(self):
        if self.openers >= self.max_openers:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        self.openers += 1
        return Opener(self)

    def close(self, opener):
        self.openers -= 1
        if self.old:
            if self.openers == 0:
                self.ready_for_capture = 0
            if opener.writer:
                self.ready_for_output = True
        elif self.format_owner is opener:
            self.format_owner, self.ready_for_capture = None, 0

    def set_format(self, opener, size):
        if self.old:
            if not self.ready_for_capture:
                self.size = size
            return
        if self.format_owner not in (None, opener):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        if self.openers <= 2:  # the opener and the sink's look; a third one is a reader, who keeps the format
            self.size = size
        self.format_owner = opener

    def write(self, picture):
        if self.gone or self.deaf:
            return  # pyvirtualcam prints and goes on
        self.ready_for_output, self.ready_for_capture = False, 1
        self.pictures.append(picture)

    def stream_on(self, opener):
        if not self.old:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        opener.writer, self.ready_for_output = True, False
        self.ready_for_capture += 1
        self.mended += 1


class FakeKernel:
    """Answers the system calls of :mod:`realtime.sinks.v4l2`."""

    def __init__(self, **devices):
        self.devices = {f"/dev/{name}": device for name, device in devices.items()}
        self.refuse = {}
        self.files = {}
        self.calls = 0

    def open(self, path):
        if path in self.refuse:
            raise OSError(self.refuse[path], os.strerror(self.refuse[path]))
        if path not in self.devices:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        fd = max(self.files, default=100) + 1
        self.files[fd] = self.devices[path].open()
        return fd

    def close(self, fd):
        opener = self.files.pop(fd)
        opener.device.close(opener)

    def ioctl(self, fd, request, buffer):
        opener = self.files[fd]
        device = opener.device
        self.calls += 1
        if device.gone:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        number = request & 0xFF
        assert (request >> 8) & 0xFF == ord("V")
        assert (request >> 16) & 0x3FFF == len(buffer)
        if number == 0:
            caps = device.caps() | 0x05200000
            struct.pack_into(
                "=16s32s32sIII", buffer, 0, device.driver, device.card, b"", 0, caps | 0x80000000, caps
            )
        elif number == 4:
            assert struct.unpack_from("=I", buffer)[0] == 2
            struct.pack_into("=II", buffer, struct.calcsize("P"), *device.size)
        elif number == 18:
            assert struct.unpack("=i", buffer)[0] == 2
            device.stream_on(opener)
        else:
            raise AssertionError(f"unknown ioctl {request:#x}")

    def factory(self, width, height, fps, device):
        """As ``pyvirtualcam.Camera(width, height, fps, fmt=I420, device=device)``."""
        return FakeCamera(self, width, height, fps, device)


class FakeCamera:
    """pyvirtualcam's Camera: same names, same texts, same silence about failed writes."""

    def __init__(self, kernel, width, height, fps, path):
        device = kernel.devices[path]
        self._opener = device.open()
        try:
            if not device.caps() & 0x2:
                raise RuntimeError(f"'v4l2loopback' backend: Device {path} is not a video output device.")
            try:
                device.set_format(self._opener, (width, height))
            except OSError as error:
                raise RuntimeError(
                    f"'v4l2loopback' backend: Virtual camera device {path} could not be configured: "
                    f"{error.strerror}"
                ) from error
        except RuntimeError:
            device.close(self._opener)
            raise
        self.device, self.width, self.height, self.fps = path, width, height, fps
        self.closed = 0

    def send(self, frame):
        assert frame.dtype == np.uint8
        assert frame.size == self.width * self.height * 3 // 2
        assert frame.flags.c_contiguous
        self._opener.device.write(frame.copy())

    def close(self):
        if not self.closed:
            self._opener.device.close(self._opener)
        self.closed += 1


def make_sysfs(root, exclusive_caps=None, **names):
    """A folder like /sys/class/video4linux.

    ``video3="Webcam"`` is a camera, ``video10=("doppelcam", True)`` a loopback; ``exclusive_caps`` is what
    the module says of its parameter.
    """
    if exclusive_caps is not None:
        parameters = root / "module" / "v4l2loopback" / "parameters"
        parameters.mkdir(parents=True)
        (parameters / "exclusive_caps").write_text(exclusive_caps + "\n")
    root = root / "class" / "video4linux"
    root.mkdir(parents=True)
    for node, name in names.items():
        loopback = isinstance(name, tuple)
        folder = root / node
        folder.mkdir(parents=True)
        (folder / "name").write_text((name[0] if loopback else name) + "\n", encoding="utf-8")
        if loopback:
            (folder / "max_openers").write_text("10\n")
    return root
