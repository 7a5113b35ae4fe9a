"""The virtual camera, through pyvirtualcam: v4l2loopback on Linux, OBS on Windows and macOS."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engines.errors import DeviceError
from engines.faces import Image
from realtime.clock import Clock
from realtime.frame import Frame
from realtime.sinks import v4l2
from realtime.sinks.claim import Claim
from realtime.sinks.i420 import I420, require_showable
from realtime.sinks.loopback_faults import (
    LOAD_MODULE,
    RELOAD_MODULE,
    busy,
    fault_of,
    lost,
    not_a_camera,
    not_permitted,
    open_device,
)
from realtime.v4l2_capability import DRIVER

_OBS = "OBS Virtual Camera"
_DEAF_FOR_NS = 1_000_000_000


class Camera(Protocol):
    """The part of ``pyvirtualcam.Camera`` that is used."""

    @property
    def device(self) -> str:
        """Name or path of the device in use."""
        ...

    def send(self, frame: Image) -> None:
        """Writes one picture; on Linux a failed write is only printed."""
        ...

    def close(self) -> None:
        """Lets the device go."""
        ...


CameraFactory = Callable[[int, int, float, str | None], Camera]
"""Opens a camera that takes I420: width, height, fps, device."""


def open_pyvirtualcam(width: int, height: int, fps: float, device: str | None) -> Camera:
    """The only place that knows pyvirtualcam; see :data:`CameraFactory`.

    Raises:
        ImportError: It is not installed, or not for this system.
        RuntimeError: No backend could open the device; the text says why.
    """
    import pyvirtualcam

    camera: Camera = pyvirtualcam.Camera(width, height, fps, fmt=pyvirtualcam.PixelFormat.I420, device=device)
    return camera


@dataclass(frozen=True, slots=True)
class VirtualCamera:
    """One virtual camera of this machine.

    Attributes:
        path: Device file on Linux, else the name.
        name: As programs show it.
        driver: What makes it.
        ready: Whether frames could be sent to it now.
        why_not: The reason; empty when it is ready.
        fix: What mends that.
    """

    path: str
    name: str
    driver: str
    ready: bool
    why_not: str
    fix: str = ""


def list_virtual_cameras(
    *,
    sysfs: Path = v4l2.SYSFS,
    kernel: v4l2.Kernel | None = None,
    platform: str = sys.platform,
    obs_installed: Callable[[], bool] | None = None,
    claims: Path | None = None,
) -> list[VirtualCamera]:
    """Every virtual camera of this machine; nothing is changed by looking.

    Args:
        sysfs: Where Linux lists video devices.
        kernel: System calls; the real ones by default.
        platform: As ``sys.platform``.
        obs_installed: Whether OBS's camera is there (Windows, macOS).
        claims: Where it is noted which devices are in use; the user's own place by default.
    """
    if not platform.startswith("linux"):
        there = (obs_installed or _obs_installed)()
        return [VirtualCamera(_OBS, _OBS, "obs", True, "")] if there else []
    calls = kernel or v4l2.SystemKernel()
    return [_look(node, calls, sysfs, claims) for node in v4l2.nodes(sysfs) if node.loopback]


def _look(node: v4l2.Node, kernel: v4l2.Kernel, sysfs: Path, claims: Path | None) -> VirtualCamera:
    fault: DeviceError | None = None
    driver = DRIVER
    try:
        device = open_device(node.path, kernel)
    except DeviceError as error:
        fault = error
    else:
        try:
            caps = device.capabilities()
            driver = caps.driver
            claim = Claim(node.path, claims)
            # One that opening mends counts as ready.
            if not caps.stuck and (caps.output or not claim.left_behind()):
                fault = fault_of(node.path, caps, sysfs, claim.owner())
        except OSError as error:
            fault = lost(node.path, error)
        finally:
            device.close()
    if fault is None:
        return VirtualCamera(node.path, node.name, driver, True, "")
    return VirtualCamera(node.path, node.name, driver, False, fault.what, fault.fix)


class VirtualCamSink:
    """Sends frames to a virtual camera that other programs see as a webcam.

    Args:
        device: A number, a path or a card name; None takes the first one that is ready.
        clock: For how long a device that shows nothing is borne with.
        factory: Opens the camera.
        sysfs: Where Linux lists video devices.
        kernel: System calls on Linux.
        platform: As ``sys.platform``.
        claims: Where it is noted which devices are in use; the user's own place by default.
    """

    def __init__(
        self,
        device: str | None,
        clock: Clock,
        *,
        factory: CameraFactory = open_pyvirtualcam,
        sysfs: Path = v4l2.SYSFS,
        kernel: v4l2.Kernel | None = None,
        platform: str = sys.platform,
        claims: Path | None = None,
    ) -> None:
        self.name = f"virtual camera {device}" if device else "virtual camera"
        self._wanted = device
        self._clock = clock
        self._factory = factory
        self._sysfs = sysfs
        self._kernel = kernel or v4l2.SystemKernel()
        self._linux = platform.startswith("linux")
        self._claims = claims
        self._claim: Claim | None = None
        self._path = ""
        self._camera: Camera | None = None
        self._watch: v4l2.Device | None = None
        self._i420: I420 | None = None
        self._deaf_since: int | None = None

    @property
    def device(self) -> str:
        """Path or name of the device in use; empty while there is none."""
        return self._path

    def open(self, size: tuple[int, int], fps: float) -> None:
        """See :class:`realtime.sinks.base.Sink`."""
        require_showable("A virtual camera", size, fps)
        self.close()
        try:
            if self._linux:
                self._path = self._choose()
                self._watch = self._ready_device(self._path)
            self._camera = self._start(size, fps)
            self._path = self._camera.device
            self._check_size(size)
            self._i420 = I420(size)
            if self._linux:
                self._claim = Claim(self._path, self._claims)
                self._claim.take()
        except BaseException:
            self.close()
            raise
        self._deaf_since = None

    def send(self, frame: Frame) -> None:
        """See :class:`realtime.sinks.base.Sink`."""
        if self._camera is None or self._i420 is None:
            raise ValueError("send() before open()")
        picture = self._i420.of(frame)
        try:
            self._camera.send(picture)
        except (RuntimeError, OSError) as error:
            raise DeviceError(
                f"The virtual camera {self._path} takes no more frames: {error}.",
                "`doppelcam doctor` says what is wrong with it.",
            ) from error
        self._check_taken()

    def close(self) -> None:
        """See :class:`realtime.sinks.base.Sink`."""
        camera, self._camera = self._camera, None
        watch, self._watch = self._watch, None
        self._i420 = None
        path, self._path = self._path, ""
        try:
            if camera is not None:
                camera.close()
        finally:
            if watch is not None:
                _let_go(watch, path, self._kernel, wrote=camera is not None)
            if self._claim is not None:
                self._claim.release()
                self._claim = None

    def _choose(self) -> str:
        if self._wanted is not None:
            return v4l2.find(self._wanted, v4l2.nodes(self._sysfs))
        cameras = list_virtual_cameras(
            sysfs=self._sysfs, kernel=self._kernel, platform="linux", claims=self._claims
        )
        for camera in cameras:
            if camera.ready:
                return camera.path
        if not cameras:
            raise DeviceError("There is no virtual camera on this machine.", f"Make one: {LOAD_MODULE}")
        # Opening the first one again gives the reason as an error of its own.
        return cameras[0].path

    def _ready_device(self, path: str) -> v4l2.Device:
        device = open_device(path, self._kernel)
        claim = Claim(path, self._claims)
        try:
            caps = device.capabilities()
            # Held by a reader, it looks as if it were being fed; that its writer is dead only we can know.
            orphan = caps.driver == DRIVER and not caps.output and claim.left_behind()
            if caps.stuck or orphan:
                device.mend()
                device.close()
                device = open_device(path, self._kernel)
                caps = device.capabilities()
        except OSError as error:
            device.close()
            raise not_a_camera(path, str(error)) from error
        fault = fault_of(path, caps, self._sysfs, claim.owner())
        if fault is not None:
            device.close()
            raise fault
        return device

    def _start(self, size: tuple[int, int], fps: float) -> Camera:
        try:
            return self._factory(size[0], size[1], fps, self._path or self._wanted)
        except ImportError as error:
            raise DeviceError(
                f"The package pyvirtualcam, which feeds virtual cameras, cannot be loaded: {error}.",
                "pip install pyvirtualcam",
            ) from error
        except (RuntimeError, OSError, ValueError, KeyError) as error:
            raise self._refused(size, error) from error

    def _refused(self, size: tuple[int, int], error: Exception) -> DeviceError:
        """A backend's text made into an error with a fix."""
        said = " ".join(str(error).split())
        if not self._linux:
            return DeviceError(
                f"The virtual camera {self._wanted or _OBS} cannot be opened: {said}",
                "Install OBS Studio, start its virtual camera once and stop it again, and close every other "
                "program that feeds it.",
            )
        if "busy" in said.casefold() or "in use" in said.casefold():
            return busy(self._path)
        if "permission" in said.casefold():
            return not_permitted(self._path)
        return DeviceError(
            f"The virtual camera {self._path} does not take {size[0]}x{size[1]} frames: {said}",
            f"Close every program that uses it, or load it anew: {RELOAD_MODULE}",
        )

    def _check_size(self, size: tuple[int, int]) -> None:
        """v4l2loopback keeps a reader's size and says nothing; the picture would be garbage."""
        if self._watch is None:
            return
        try:
            actual = self._watch.output_size()
        except OSError as error:
            raise lost(self._path, error) from error
        if actual != size:
            raise DeviceError(
                f"The virtual camera {self._path} keeps {actual[0]}x{actual[1]}, not {size[0]}x{size[1]}, "
                "because a program is still watching it.",
                f"Close the programs that show this camera, or use --size {actual[0]}x{actual[1]}.",
            )

    def _check_taken(self) -> None:
        """Notices what pyvirtualcam only prints: the device went away, or a write gave it no picture.

        A device that was given a picture is a capture device from then on. One ioctl, no pixels.
        """
        if self._watch is None:
            return
        try:
            showing = self._watch.capabilities().capture
        except OSError as error:
            raise lost(self._path, error) from error
        if showing:
            self._deaf_since = None
            return
        now = self._clock.now_ns()
        if self._deaf_since is None:
            self._deaf_since = now
        elif now - self._deaf_since >= _DEAF_FOR_NS:
            raise DeviceError(
                f"The virtual camera {self._path} was sent frames and shows none of them.",
                f"Load it anew: {RELOAD_MODULE}",
            )


def _let_go(watch: v4l2.Device, path: str, kernel: v4l2.Kernel, *, wrote: bool) -> None:
    """Closes our look at the device; if we wrote, it stays an output for whoever comes next."""
    # At this point the work is done; a device that is gone needs no mending.
    with contextlib.suppress(OSError):
        if wrote and not watch.capabilities().output:
            watch.mend()
    with contextlib.suppress(OSError):
        watch.close()
    # The module may look stuck only once the last descriptor is closed.
    with contextlib.suppress(OSError):
        if wrote:
            again = v4l2.Device(path, kernel)
            try:
                if again.capabilities().stuck:
                    again.mend()
            finally:
                again.close()


def _obs_installed() -> bool:
    if sys.platform == "win32":
        import winreg

        try:
            winreg.OpenKey(winreg.HKEY_CLASSES_ROOT, r"CLSID\{A3FCE0F5-3493-419F-958A-ABA1250EC20B}").Close()
        except OSError:
            return False
        return True
    return sys.platform == "darwin" and Path("/Applications/OBS.app").exists()
