"""What can be wrong with a virtual camera on Linux: each fault with a sentence and a fix of its own."""

from __future__ import annotations

import errno
from pathlib import Path

from engines.errors import DeviceError
from realtime.device_access import permission_fix
from realtime.sinks import v4l2
from realtime.v4l2_capability import DRIVER, Capabilities

LOAD_MODULE = 'sudo modprobe v4l2loopback exclusive_caps=1 card_label="doppelcam"'
RELOAD_MODULE = f"sudo modprobe -r v4l2loopback && {LOAD_MODULE}"


def open_device(path: str, kernel: v4l2.Kernel) -> v4l2.Device:
    """Opens a device to look at it.

    Raises:
        DeviceError: It is not there, not permitted, busy, or not a device.
    """
    try:
        return v4l2.Device(path, kernel)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENODEV, errno.ENXIO):
            raise DeviceError(f"There is no device {path}.", f"Make one: {LOAD_MODULE}") from error
        if error.errno in (errno.EACCES, errno.EPERM):
            raise not_permitted(path) from error
        if error.errno == errno.EBUSY:
            raise busy(path) from error
        raise not_a_camera(path, error.strerror or str(error)) from error


def fault_of(path: str, caps: Capabilities, sysfs: Path, owner: int | None) -> DeviceError | None:
    """Why frames cannot be sent to a device with these capabilities; None when they can."""
    if caps.driver != DRIVER:
        return not_a_camera(path, f"“{caps.card}” is a device of the driver {caps.driver}")
    if caps.output and caps.capture and not v4l2.loaded_exclusive(sysfs):
        return DeviceError(
            f"The virtual camera {path} was made without exclusive_caps: browsers and Zoom do not list it.",
            RELOAD_MODULE,
        )
    if caps.stuck:
        return DeviceError(
            f"The virtual camera {path} is stuck: an older v4l2loopback did not let it go.",
            RELOAD_MODULE,
        )
    return None if caps.output else busy(path, owner)


def busy(path: str, owner: int | None = None) -> DeviceError:
    """Somebody else feeds the device; ``owner`` is the process, if it is one of ours."""
    if owner is not None:
        return DeviceError(
            f"Another doppelcam (process {owner}) feeds the virtual camera {path}.",
            f"End it first: kill {owner}",
        )
    return DeviceError(
        f"Another program feeds the virtual camera {path}, or one died and a reader still holds it.",
        f"Close that program and every program that shows this camera; `fuser -v {path}` names them.",
    )


def not_permitted(path: str) -> DeviceError:
    """The user may not open the device."""
    return DeviceError(f"You are not permitted to use {path}.", permission_fix(path))


def not_a_camera(path: str, why: str) -> DeviceError:
    """Something else than v4l2loopback is behind the path."""
    return DeviceError(
        f"{path} is not a virtual camera: {why}.",
        "`doppelcam devices` lists the virtual cameras there are.",
    )


def lost(path: str, error: OSError) -> DeviceError:
    """The device answers no more."""
    return DeviceError(
        f"The virtual camera {path} is gone: {error.strerror or error}.", f"Make it again: {LOAD_MODULE}"
    )
