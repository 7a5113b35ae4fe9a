"""What a run is asked to do, with its defaults. :mod:`realtime.options` says how each of it is typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Final

SOURCES: Final = ("camera", "file", "portrait", "pattern")
SINKS: Final = ("virtualcam", "file", "preview", "null")


@dataclass(frozen=True, slots=True)
class Config:
    """What ``doppelcam run`` is asked to do; every value is checked before it gets here.

    Attributes:
        source: ``camera[:INDEX|NAME|PATH]``, ``file:PATH``, ``portrait[:PATH]`` or ``pattern``.
        face: Photos of the one person whose face is put on.
        sink: ``virtualcam[:DEVICE]``, ``file:PATH``, ``preview[:PORT]`` or ``null``, at least one.
        size: Width and height asked of the source, pixels, both even; None leaves a file its own.
        fps: Frames a second asked of the source and kept by the sinks; None leaves a file its own.
        engine: Name of the swapper.
        device: ``auto``, ``cpu`` or ``cuda[:N]``.
        max_faces: How many faces are swapped at once, at most.
        select: Who is swapped when there are more: ``owner``, ``largest`` or ``center``.
        on_lost: What viewers see when the swap cannot be trusted, in this order.
        label: Whether the picture carries a mark that says it is synthetic.
        duration: Seconds after which it ends by itself; None runs until it is stopped.
        offline: Every frame of a file, none dropped, as fast as it goes.
        detect_every: Frames from one look for new faces to the next.
        landmarks: 468, or 478 with refined lips, lids and irises.
        others: ``veil`` pixelates faces that are followed and not swapped, ``bare`` leaves them.
        shape: How far the live face takes on the photo's proportions, 0…1.
        eyes: ``mixed``, ``live`` or ``photo``.
        mouth: ``live`` or ``photo``.
        seed: Of everything random in a generated source.
        metrics: Port of the metrics for Prometheus, on this machine only; None for none, 0 for any free one.
        governor: Whether something gives way when frames take too long.
        budget: Budget of a stage, ms, where it differs from the default.
    """

    source: str = "camera"
    face: tuple[Path, ...] = ()
    sink: tuple[str, ...] = ("virtualcam",)
    size: tuple[int, int] | None = None
    fps: float | None = None
    engine: str = "mesh"
    device: str = "auto"
    max_faces: int = 1
    select: str = "owner"
    on_lost: tuple[str, ...] = ("hold", "veil")
    label: bool = True
    duration: float | None = None
    offline: bool = False
    detect_every: int = 10
    landmarks: int = 468
    others: str = "veil"
    shape: float = 0.8
    eyes: str = "mixed"
    mouth: str = "live"
    seed: int = 0
    metrics: int | None = None
    governor: bool = True
    budget: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


_HOPPER: Final = Path(__file__).parent / "assets" / "hopper.jpg"

BENCH: Final = Config(
    source="portrait", face=(_HOPPER,), sink=("null",), size=(1920, 1080), fps=30.0, governor=False
)
"""What ``doppelcam bench`` measures, whatever the user's own configuration says. Nothing gives way unless asked to: a
figure is of the whole work."""

SIZES: Final = "640x360,1280x720,1920x1080"
FACE_WIDTHS: Final = "80,160,320"
"""What ``doppelcam bench --sweep`` goes through."""

DEMO: Final = Config(source="portrait", face=(_HOPPER,), sink=(), size=(1280, 720), fps=30.0, duration=10.0)
"""What ``doppelcam demo`` shows; it looks for a sink itself."""


def contradiction(config: Config) -> str:
    """What in a configuration cannot go together, as a sentence; empty when everything can."""
    if config.offline and not config.source.startswith("file:"):
        return "offline works on a file: it needs the source file:PATH."
    if config.offline and any(not sink.startswith(("file:", "null")) for sink in config.sink):
        return "offline goes at its own speed: it writes to file:PATH or null only."
    if config.offline and config.metrics is not None:
        return "offline is over before anybody asks: metrics do not go with it."
    if config.offline and config.duration is not None:
        return "offline ends with the file: duration does not go with it."
    if config.offline and config.fps is not None:
        return "offline keeps every frame at the file's own rate: fps does not go with it."
    files = [sink.partition(":")[2] for sink in config.sink if sink.startswith("file:")]
    if any(_same_file(one, other) for one, other in combinations(files, 2)):
        return "two sinks write the same file."
    source = config.source.partition(":")
    if source[0] == "file" and any(
        sink.partition(":")[0] == "file" and _same_file(sink.partition(":")[2], source[2])
        for sink in config.sink
    ):
        return "source and sink are the same file."
    return ""


def _same_file(one: str, other: str) -> bool:
    return Path(one).expanduser().resolve() == Path(other).expanduser().resolve()
