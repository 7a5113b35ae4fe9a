"""A file in, a detector, landmarker or embedder out: what it is, is told by what its graph gives."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

from engines.analysis import embed, fan, scrfd
from engines.analysis.embed import Embedder
from engines.analysis.fan import Fan
from engines.analysis.feed import unfit
from engines.analysis.insight106 import Insight106
from engines.analysis.landmarker import Landmarker
from engines.analysis.networks import FindsFaces
from engines.analysis.scrfd import Scrfd
from engines.analysis.yoloface import YoloFace
from engines.catalogue.entry import Kind
from engines.catalogue.store import SUFFIXES, Store
from engines.errors import UsageError
from engines.files import open_regular
from engines.runtime.base import Network
from engines.runtime.device import CPU, Device
from engines.runtime.open import open_network

Part = TypeVar("Part")


def file_of(named: str, kind: Kind, store: Store) -> Path:
    """The file behind a name or a path.

    Args:
        named: A name of the catalogue, or the path of an ``.onnx`` file, which is opened to see that it is one.
        kind: What it must be for, where it is a name.
        store: Where the user's networks lie.

    Raises:
        UsageError: There is no such name or file, or it is for something else, or no file but a folder or a device.
        EngineError: Its file is not there.
    """
    if Path(named).suffix.lower() in SUFFIXES:
        path = Path(named).expanduser()
        open_regular(path, "a model").close()
        return path
    entry = store.catalogue.entry(named)
    if entry.kind != kind:
        raise UsageError(
            f"The model {named} is of the kind {entry.kind}, not {kind}.",
            f"See: doppelcam models list --kind {kind}",
        )
    return store.require(named)


def open_detector(path: Path, device: Device = CPU) -> FindsFaces:
    """Opens a detector.

    Args:
        path: An SCRFD with five points, or a YOLOFace.
        device: What to run on.

    Raises:
        EngineError: It cannot be opened, or is neither; the sentence says what was found and what was expected.
    """
    expected = "nine outputs as of SCRFD (N×1, N×4 and N×10 for three strides) or 1×20×8400 as of YOLOFace"

    def build(network: Network) -> FindsFaces:
        if Scrfd.fits(network):
            return Scrfd(network)
        if YoloFace.fits(network):
            return YoloFace(network)
        raise unfit(network, "a face detector that this program knows", expected)

    return _open(path, device, scrfd.SIDE, build)


def open_landmarker(path: Path, device: Device = CPU) -> Landmarker:
    """Opens a network for the landmarks that align a face.

    Args:
        path: A 2DFAN4 or a 2d106det.
        device: What to run on.

    Raises:
        EngineError: It cannot be opened, or is neither; the sentence says what was found and what was expected.
    """

    def build(network: Network) -> Landmarker:
        if Fan.fits(network):
            return Fan(network)
        if Insight106.fits(network):
            return Insight106(network)
        raise unfit(
            network, "a landmark network that this program knows",
            "1×68×3 or 1×68×64×64 as of 2DFAN4, or 1×212 as of 2d106det",
        )  # fmt: skip

    return _open(path, device, fan.SIDE, build)


def open_embedder(path: Path, device: Device = CPU) -> Embedder:
    """Opens an identity network.

    Args:
        path: Of the shape of w600k_r50, with an embedding of any length.
        device: What to run on.

    Raises:
        EngineError: It cannot be opened, or is none; the sentence says what was found and what was expected.
    """
    return _open(path, device, embed.SIDE, Embedder)


def _open(path: Path, device: Device, side: int, build: Callable[[Network], Part]) -> Part:
    with ExitStack() as undo:
        network = open_network(path, device, side=side)
        undo.callback(network.close)
        part = build(network)
        undo.pop_all()
    return part
