"""What a run is asked to do, with its defaults. :mod:`realtime.settings.options` says how each of it is typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Final

from engines.shipped import paints_all
from realtime.settings.values import Pair

SOURCES: Final = ("camera", "file", "portrait", "pattern")
SINKS: Final = ("virtualcam", "file", "preview", "stream", "null")


@dataclass(frozen=True, slots=True)
class Config:
    """What ``doppelcam run`` is asked to do; every value is checked before it gets here.

    Attributes:
        source: ``camera[:INDEX|NAME|PATH]``, ``file:PATH``, ``portrait[:PATH]`` or ``pattern``.
        face: Photos of the one person whose face is put on.
        sink: ``virtualcam[:DEVICE]``, ``file:PATH``, ``preview[:PORT]``, ``stream:URL`` or ``null``, at least one.
        size: Width and height asked of the source, pixels, both even; None leaves a file its own.
        fps: Frames a second asked of the source and kept by the sinks; None leaves a file its own.
        engine: Name of the swapper, path of a model, or ``NAME=PATH``.
        device: ``auto``, ``cpu`` or ``cuda[:N]``.
        max_faces: How many faces are swapped at once, at most.
        select: Who is swapped when there are more: ``owner``, ``largest``, ``center`` or ``reference``.
        reference: Photos of the one person who is swapped, whoever else is there.
        reference_distance: How far two identities may be apart and still be one person's, 0…2.
        person: People who are recognised and get a photo of their own each.
        embedder: Identity network: name or path; None for one that is needed, or none.
        detector: What finds faces: ``builtin``, a name or a path.
        landmarker: What finds landmarks: ``builtin``, ``mediapipe:FILE.task``; or a name or a path, for the
            alignment of a neural swapper.
        on_lost: What viewers see when the swap cannot be trusted, in this order.
        label: Whether the picture carries a mark that says it is synthetic.
        duration: Seconds after which it ends by itself; None runs until it is stopped.
        offline: Every frame of a file, none dropped, as fast as it goes.
        detect_every: Frames from one look for new faces to the next.
        predict: By how much landmarks are carried ahead: ``off``, ``auto`` (the frame age) or milliseconds, as text.
        landmarks: 468, or 478 with refined lips, lids and irises.
        others: ``veil`` pixelates faces that are followed and not swapped, ``bare`` leaves them.
        shape: How far the live face takes on the photo's proportions, 0…1.
        eyes: ``mixed``, ``live`` or ``photo``.
        mouth: ``live`` or ``photo``.
        occluders: ``live`` keeps hands, microphones and masks before the face, ``cover`` paints over them.
        seed: Of everything random in a generated source.
        metrics: Port of the metrics for Prometheus, on this machine only; None for none, 0 for any free one.
        governor: Whether something gives way when frames take too long.
        budget: Budget of a stage, ms, where it differs from the default.
        boost: How many times finer than its own picture a swap generator is fed: 1, 2 or 4.
        morph: How far a DFM morphs to its person, 0…1.
        mask: What a swap generator's face is masked by, as typed; see :func:`engines.swap.masks.choice.read_masks`.
        restore: What it is restored by, ``MODEL[:STRENGTH[:EVERY]]``; None for nothing.
        colour: What a swap generator's face is fitted to the frame by: ``match``, ``poisson`` or ``none``.
        background: What is behind the picture of the engine portrait: ``#rrggbb``, ``green`` or ``file:PATH``; None for
            the picture's mean colour, or its blurred edges.
        models: Folder of the networks that the user has; None for the usual one of this system.
        mirror: Address of a folder to download them from; None for where the catalogue says.
        audio: What is heard in streams: ``mic[:NAME]``, ``file:PATH`` or ``none``.
        stream_bitrate: Of the pictures of a stream, kilobits a second; None for what suits their size.
        stream_keyframes: Seconds from one keyframe of a stream to the next.
        smoothing: How still landmarks are held: 0 follows at once, 1 holds stillest.
        control: Port of the control page, as text; ``auto`` on a desktop and not elsewhere, ``off`` for none.
        control_host: Address that the control page listens on.
        control_password_file: File whose first line is the page's password; None for the environment's, or none.
        control_osc: Port of OSC messages, on this machine only; None for none.
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
    reference: tuple[Path, ...] = ()
    reference_distance: float = 0.6
    person: tuple[Pair, ...] = ()
    embedder: str | None = None
    detector: str = "builtin"
    landmarker: str = "builtin"
    on_lost: tuple[str, ...] = ("hold", "veil")
    label: bool = True
    duration: float | None = None
    offline: bool = False
    detect_every: int = 10
    predict: str = "off"
    landmarks: int = 468
    others: str = "veil"
    shape: float = 0.8
    eyes: str = "mixed"
    mouth: str = "live"
    occluders: str = "live"
    seed: int = 0
    metrics: int | None = None
    governor: bool = True
    budget: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    boost: int = 1
    morph: float = 0.75
    mask: str = "auto"
    restore: str | None = None
    colour: str = "match"
    background: str | None = None
    models: Path | None = None
    mirror: str | None = None
    audio: str = "none"
    stream_bitrate: int | None = None
    stream_keyframes: float = 2.0
    smoothing: float = 0.5
    control: str = "auto"
    control_host: str = "127.0.0.1"
    control_password_file: Path | None = None
    control_osc: int | None = None


_HOPPER: Final = Path(__file__).parent.parent / "assets" / "hopper.jpg"

BENCH: Final = Config(
    source="portrait", face=(_HOPPER,), sink=("null",), size=(1920, 1080), fps=30.0, governor=False
)
"""What ``doppelcam bench`` measures, whatever the user's own configuration says. Nothing gives way unless asked to: a
figure is of the whole work."""

SIZES: Final = "640x360,1280x720,1920x1080"
FACE_WIDTHS: Final = "80,160,320"
"""What ``doppelcam bench --sweep`` goes through."""

DEMO: Final = Config(
    source="portrait", face=(_HOPPER,), sink=(), size=(1280, 720), fps=30.0, duration=10.0, control="off"
)
"""What ``doppelcam demo`` shows; it looks for a sink itself."""


def contradiction(config: Config) -> str:
    """What in a configuration cannot go together, as a sentence; empty when everything can."""
    if config.offline and not config.source.startswith("file:"):
        return "offline works on a file: it needs the source file:PATH."
    if config.offline and any(not sink.startswith(("file:", "null")) for sink in config.sink):
        return "offline goes at its own speed: it writes to file:PATH or null only."
    if config.offline and config.metrics is not None:
        return "offline is over before anybody asks: metrics do not go with it."
    if config.offline and (config.control not in ("auto", "off") or config.control_osc is not None):
        return "offline is over before anybody steers it: control does not go with it."
    if config.offline and config.duration is not None:
        return "offline ends with the file: duration does not go with it."
    if config.offline and config.fps is not None:
        return "offline keeps every frame at the file's own rate: fps does not go with it."
    if paints_all(config.engine) and config.on_lost == ("passthrough",):
        return f"the engine {config.engine} shows nothing of the camera: on-lost passthrough does not go with it."
    if config.person and (config.face or config.reference):
        return "person says who gets which photo: face and reference do not go with it."
    if (config.reference or config.person) and config.select not in ("owner", "reference"):
        return f"photos say who is swapped: select {config.select} does not go with reference or person."
    if config.select == "reference" and not (config.reference or config.person):
        return "select reference needs a photo of the one who is swapped: reference PHOTO."
    if config.landmarker.startswith("mediapipe:") and config.detector != "builtin":
        return "mediapipe finds faces by itself: detector does not go with it."
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
