"""The main job with nothing at hand: a portrait for a camera, another face on it, a video and a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from engines.analysis.source import SourceReader
from engines.errors import DeviceError, UsageError
from realtime import __version__
from realtime.clock import SystemClock
from realtime.moments import Moments, Pair
from realtime.pace.budget import Report
from realtime.picture import save, side_by_side
from realtime.settings.config import DEMO, Config
from realtime.sinks.virtualcam import VirtualCamSink, list_virtual_cameras
from realtime.sources.open import DEFAULT_FPS, DEFAULT_SIZE

VIDEO: Final = "doppelcam-demo.mp4"
PICTURE: Final = "doppelcam-demo.png"

_MOMENTS: Final = 12
"""How many moments there are to choose the picture from."""


def try_camera(config: Config) -> str:
    """Opens the virtual camera for a moment. Whether OBS's works is only known once it was tried.

    Args:
        config: Of which size and rate.

    Returns:
        Why it does not open, as a sentence; empty if it does.
    """
    sink = VirtualCamSink(None, SystemClock())
    try:
        sink.open(config.size or DEMO.size or DEFAULT_SIZE, config.fps or DEFAULT_FPS)
    except (DeviceError, UsageError) as error:
        return error.what
    finally:
        sink.close()
    return ""


def with_sink(
    config: Config, folder: Path, attempt: Callable[[Config], str] = try_camera
) -> tuple[Config, str]:
    """The configuration with somewhere to send frames: the virtual camera if one works, else a video.

    Args:
        config: ``sink`` is left alone if it has any.
        folder: Where the video goes.
        attempt: Says why the virtual camera does not open; empty if it does.

    Returns:
        The configuration, and why a virtual camera that is there was not taken; empty if none was passed over.
    """
    if config.sink:
        return config, ""
    why = ""
    if any(camera.ready for camera in list_virtual_cameras()):
        why = attempt(config)
        if not why:
            return replace(config, sink=("virtualcam",)), ""
    return replace(config, sink=(f"file:{folder / VIDEO}",)), why


def is_bare(source: str) -> bool:
    """Whether a picture may be left in which the live face is seen: not that of somebody before a camera.

    Args:
        source: As in the configuration.
    """
    return source.partition(":")[0] != "camera"


def folder_for(path: Path) -> Path:
    """The folder the results go to, made if it is not there.

    Raises:
        UsageError: It cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"The folder {path} cannot be made: {error.strerror}.", "Name another with --output."
        ) from error
    return path


def moments_for(config: Config, fps: float) -> Moments:
    """Moments spread over the demo."""
    seconds = config.duration or 10.0
    return Moments(every=round(seconds * fps / (_MOMENTS + 1)), most=_MOMENTS)


def note_of(report: Report, size: tuple[int, int], device: str) -> str:
    """What was measured, in one line."""
    measured = f"{size[0]}x{size[1]} · {report.fps('sent'):.0f} fps · {report.process.p50:.1f} ms a frame"
    return f"doppelcam {__version__} · {measured} on the {device.upper()}"


def write_picture(pairs: Sequence[Pair], photo: Path, note: str, path: Path, bare: bool = True) -> bool:
    """Writes the side by side.

    Args:
        pairs: Moments to choose from.
        photo: Whose face was put on.
        note: A line below.
        path: The PNG.
        bare: Whether the live face may be seen in it; else it is veiled.

    Returns:
        Whether there was a moment to show.

    Raises:
        UsageError: It cannot be written.
    """
    reader = SourceReader()
    try:
        face = reader.read(photo)
    finally:
        reader.close()
    picture = side_by_side(pairs, face, note, bare)
    if picture is None:
        return False
    try:
        save(picture, path)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}.", "Name another folder with --output."
        ) from error
    return True
