"""A model file and a device in, a network out: the only file that knows every runtime."""

from __future__ import annotations

from pathlib import Path

from engines.runtime.base import Network
from engines.runtime.device import CPU, Device
from engines.runtime.onnx import OnnxNetwork


def open_network(model: Path, device: Device = CPU, *, threads: int = 1, batch: int = 1) -> Network:
    """Opens a network; which runtime runs it is nobody else's business.

    Args:
        model: The ``.onnx`` (or ``.dfm``) file.
        device: What to run on.
        threads: Threads inside one operator, on the CPU.
        batch: What to put for a free first dimension.

    Raises:
        EngineError: The file is missing, is no such model, or cannot run on that device.
    """
    return OnnxNetwork(model, threads)
