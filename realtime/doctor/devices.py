"""The doctor's checks of cameras and virtual cameras."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from engines.errors import DeviceError
from realtime.clock import Clock, SystemClock
from realtime.device_access import permission_fix
from realtime.doctor.check import Check
from realtime.doctor.round_trip import SIZES, TOLERANCE, Seen, round_trip
from realtime.sinks.loopback_faults import RELOAD_MODULE
from realtime.sinks.loopback_module import LoopbackModule
from realtime.sinks.virtualcam import VirtualCamera, list_virtual_cameras
from realtime.sources.camera import CameraSource, list_cameras
from realtime.sources.v4l2_names import COMPRESSED, CameraInfo

DeviceChecks = tuple[tuple[str, Callable[[], Iterable[Check]]], ...]

_WANTED: Final = (1280, 720)
_WANTED_FPS: Final = 30.0
_MEASURE_S: Final = 2.0
_OBS_FIX: Final = "Install OBS Studio, start its virtual camera once, and stop it again."


def device_checks(attempt: bool) -> DeviceChecks:
    """The checks of devices, by name.

    Args:
        attempt: Whether devices may be used for a moment, and not only looked at.
    """
    looks: DeviceChecks = (
        ("camera", lambda: check_cameras(list_cameras())),
        ("permission", lambda: check_access(Path("/dev"))),
        ("virtual camera", lambda: check_virtual_cameras(list_virtual_cameras())),
    )
    tries: DeviceChecks = (
        ("camera, tried", lambda: try_cameras(list_cameras())),
        ("virtual camera, tried", lambda: try_virtual_cameras(list_virtual_cameras())),
    )
    return (*looks, *tries) if attempt else looks


def check_cameras(cameras: Sequence[CameraInfo]) -> Iterable[Check]:
    """What each camera says it can give.

    Args:
        cameras: As listed.
    """
    for camera in cameras:
        lack = _lack(camera) if camera.formats else None
        named = f"{camera.name} ({camera.path})" if camera.path else camera.name
        if lack is None:
            yield Check("camera", "ok", f"{named}{': ' + _best(camera) if camera.formats else ''}")
        else:
            yield Check("camera", "missing", f"{named}: {_best(camera)}; {lack[0]}", lack[1])
    if not cameras:
        yield Check("camera", "missing", "none found", _no_camera())


def _best(camera: CameraInfo) -> str:
    """For each format the largest size and its rate, the two most useful formats first."""
    best: dict[str, str] = {}
    for one in sorted(
        camera.formats, key=lambda each: (each.fourcc not in COMPRESSED, -each.size[0] * each.size[1])
    ):
        rate = f" at {one.rates[0]:g} fps" if one.rates else ""
        best.setdefault(one.fourcc, f"{one.fourcc} up to {one.size[0]}×{one.size[1]}{rate}")
    return ", ".join(list(best.values())[:2])


def _lack(camera: CameraInfo) -> tuple[str, str] | None:
    """What it lacks for a smooth picture of the usual size, and what helps; None if nothing."""
    large = [one for one in camera.formats if one.size[0] >= _WANTED[0] and one.size[1] >= _WANTED[1]]
    if not large:
        sizes = max((one.size for one in camera.formats), key=lambda size: size[0] * size[1])
        return f"no {_WANTED[0]}×{_WANTED[1]}", f"Use --size {sizes[0]}x{sizes[1]}"
    rates = [max(one.rates) for one in large if one.rates]
    if not rates or max(rates) >= 0.7 * _WANTED_FPS:
        return None
    smooth = [
        one.size
        for one in camera.formats
        if one.rates and max(one.rates) >= 0.7 * _WANTED_FPS and min(one.size) > 0
    ]
    size = max(smooth, key=lambda each: each[0] * each[1], default=None)
    fix = f"Use --size {size[0]}x{size[1]}" if size else "Use a USB 3 port, or a camera that sends MJPG"
    return f"only {max(rates):g} fps at {_WANTED[0]}×{_WANTED[1]}", fix


def _no_camera() -> str:
    if Path("/.dockerenv").exists():
        return "Start the container with --device /dev/video0"
    return "Plug one in and see: doppelcam devices; without one: doppelcam demo"


def check_access(devices: Path) -> Iterable[Check]:
    """Whether the video devices may be opened.

    Args:
        devices: Where the system keeps them.
    """
    nodes = sorted(devices.glob("video*"))
    refused = [node for node in nodes if not os.access(node, os.R_OK | os.W_OK)]
    if refused:
        names = ", ".join(node.name for node in refused)
        yield Check("permission", "failed", f"not for {names}", permission_fix(str(refused[0])))
    elif nodes:
        yield Check("permission", "ok", f"to open {', '.join(node.name for node in nodes)}")


def check_virtual_cameras(
    cameras: Sequence[VirtualCamera], module: LoopbackModule | None = None, platform: str = sys.platform
) -> Iterable[Check]:
    """Whether there is a virtual camera that takes pictures, and what to do where there is none.

    Args:
        cameras: As listed.
        module: What this machine has of v4l2loopback.
        platform: As ``sys.platform``.
    """
    ready = any(camera.ready for camera in cameras)
    for camera in cameras:
        if camera.ready:
            yield Check("virtual camera", "ok", _named(camera))
        else:
            # One that another program feeds is no fault where there is a second one.
            yield Check(
                "virtual camera",
                "missing" if ready else "failed",
                f"{_named(camera)}: {camera.why_not}",
                camera.fix,
            )
    if not platform.startswith("linux"):
        if not cameras:
            yield Check("virtual camera", "missing", "OBS Studio's virtual camera is not installed", _OBS_FIX)
        return
    module = module or LoopbackModule()
    if not cameras:
        finding = module.why_none()
        yield Check("virtual camera", "missing", finding.what, finding.fix)
        return
    lasting = module.after_a_restart()
    version = f"v4l2loopback {module.version}" if module.version else "v4l2loopback"
    if lasting is None:
        yield Check("module", "ok", f"{version}, loaded at every start")
    else:
        yield Check("module", "missing", f"{version}. {lasting.what}", lasting.fix)


def make_virtual_camera(platform: str = sys.platform) -> str:
    """What to do on this system to get a virtual camera."""
    return LoopbackModule().why_none().fix if platform.startswith("linux") else _OBS_FIX


def _named(camera: VirtualCamera) -> str:
    return camera.name if camera.name == camera.path else f"{camera.name} ({camera.path})"


def try_cameras(
    cameras: Sequence[CameraInfo],
    make: Callable[[int | str], CameraSource] | None = None,
    clock: Clock | None = None,
    seconds: float = _MEASURE_S,
) -> Iterable[Check]:
    """Opens each camera for a moment: what was agreed on, and what really comes.

    Args:
        cameras: As listed.
        make: Makes a source of a camera's path or number.
        clock: Time.
        seconds: How long to measure, each.
    """
    clock = clock or SystemClock()
    for camera in cameras:
        which = camera.path or camera.index
        source = make(which) if make else CameraSource(which, _WANTED, _WANTED_FPS, clock)
        try:
            yield _measure(source, camera, clock, seconds)
        except DeviceError as error:
            yield Check("camera, tried", "failed", error.what, error.fix)
        finally:
            source.close()


def _measure(source: CameraSource, camera: CameraInfo, clock: Clock, seconds: float) -> Check:
    source.open()
    until = clock.now_ns() + round(seconds * 1e9)
    count, began, last = 0, 0, 0
    while clock.now_ns() < until or count < 3:
        last = source.read().captured_ns
        began = began or last
        count += 1
    width, height = source.size
    fps = (count - 1) * 1e9 / (last - began) if last > began else 0.0
    kind = f" of {source.fourcc}" if source.fourcc else ""
    found = f"{camera.name}: {fps:.1f} fps{kind} at {width}×{height}, measured"
    if fps >= 0.7 * min(_WANTED_FPS, source.fps):
        return Check("camera, tried", "ok", found)
    return Check("camera, tried", "missing", f"{found}; {source.fps:g} were promised", source.slow_fix)


def try_virtual_cameras(
    cameras: Sequence[VirtualCamera],
    send: Callable[[str, tuple[int, int], Clock], Seen] = round_trip,
    platform: str = sys.platform,
    sizes: Sequence[tuple[int, int]] = SIZES,
) -> Iterable[Check]:
    """Sends colour bars through each virtual camera that is ready, and reads them back.

    Args:
        cameras: As listed.
        send: Sends bars of a size to a device and says what came back.
        platform: As ``sys.platform``.
        sizes: What to send.
    """
    for camera in cameras:
        if not camera.ready:
            continue
        if not platform.startswith("linux"):
            found = f"{_named(camera)} cannot be read back on this system: look at it in a video call"
            yield Check("virtual camera, tried", "ok", found)
            continue
        for size in sizes:
            yield _sent(camera, size, send)


def _sent(
    camera: VirtualCamera, size: tuple[int, int], send: Callable[[str, tuple[int, int], Clock], Seen]
) -> Check:
    name, asked = "virtual camera, tried", f"{size[0]}×{size[1]}"
    try:
        seen = send(camera.path, size, SystemClock())
    except DeviceError as error:
        return Check(name, "failed", f"{asked}: {error.what}", error.fix)
    if seen.size != size:
        return Check(
            name, "failed", f"{asked} was sent and {seen.size[0]}×{seen.size[1]} came back", RELOAD_MODULE
        )
    if seen.off > TOLERANCE:
        return Check(
            name, "failed", f"{asked}: colours come back {seen.off} of 255 levels off", RELOAD_MODULE
        )
    return Check(
        name, "ok", f"{camera.name}: {asked} came back with the right colours, {seen.off} levels off"
    )
