"""Which networks a tracker sees with: those that ship with the program, or the user's in their place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engines.analysis.embed import Embedder
from engines.analysis.mediapipe import open_mediapipe
from engines.analysis.networks import Networks, open_networks
from engines.analysis.open import file_of, open_detector, open_landmarker
from engines.analysis.topology import REFINED_POINTS
from engines.catalogue.store import Store
from engines.errors import UsageError
from engines.runtime.device import Device
from realtime.settings.config import Config

BUILT_IN: Final = "builtin"
MEDIAPIPE: Final = "mediapipe"


@dataclass(frozen=True, slots=True)
class Seeing:
    """What a tracker is given.

    Attributes:
        open: Opens the networks, for a number of landmarks and of faces.
        landmarks: How many landmarks there will be, on the photo and on the live face.
        can_shrink: Whether fewer of them can be read when there is no time.
    """

    open: Callable[[int, int], Networks]
    landmarks: int
    can_shrink: bool


def seeing_of(
    config: Config, device: Device, store: Store, identity: Callable[[], Embedder] | None, mesh: bool
) -> Seeing:
    """What a configuration asks for. Files are looked for here; nothing is opened.

    Args:
        config: What is wanted.
        device: What the user's networks run on; those that ship with the program run on the CPU.
        store: Where the user's networks lie.
        identity: Opens an identity network; None for none.
        mesh: Whether the engine paints a mesh, and so needs a whole one.

    Raises:
        UsageError: There is no such network, or the engine cannot use it.
        EngineError: It is not there.
    """
    named, _, bundle = config.landmarker.partition(":")
    if named == MEDIAPIPE and bundle:
        path = Path(bundle).expanduser()
        return Seeing(lambda points, count: open_mediapipe(path, count, identity), REFINED_POINTS, False)
    if config.landmarker != BUILT_IN and mesh:
        raise UsageError(
            f"The engine {config.engine} paints a mesh of 468 points, and {config.landmarker} gives only the few "
            "that a neural swapper is aligned by.",
            "Leave --landmarker out, use --landmarker mediapipe:FILE.task, or another --engine.",
        )
    detector = None if config.detector == BUILT_IN else file_of(config.detector, "detect", store)
    landmarker = None if config.landmarker == BUILT_IN else file_of(config.landmarker, "landmarks", store)

    def opened(points: int, count: int) -> Networks:
        return open_networks(
            points, count, config.governor,
            detector=(lambda: open_detector(detector, device)) if detector else None,
            identity=identity,
            landmarker=(lambda: open_landmarker(landmarker, device)) if landmarker else None,
        )  # fmt: skip

    return Seeing(opened, config.landmarks, config.governor)
