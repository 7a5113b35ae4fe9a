"""A model file and a device in, a network out: the only file that knows every runtime.

On a GPU a plan of TensorRT comes first, then ONNX Runtime with CUDA, then, where the user left the choice, the CPU.
Each step down is said.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from engines.errors import EngineError
from engines.runtime.base import Network
from engines.runtime.device import CPU, Device
from engines.runtime.model.file import Hint
from engines.runtime.ort.network import OnnxNetwork
from engines.runtime.shapes import Sizes
from engines.runtime.trt.planned import Plans
from engines.runtime.trt.plans import Unplanned

log = logging.getLogger(__name__)


def open_network(
    model: Path,
    device: Device = CPU,
    *,
    batch: int = 1,
    side: int | None = None,
    shapes: Mapping[int, Sequence[int]] | None = None,
    hint: Hint | None = None,
    stream: int = 0,
    progress: Callable[[str], None] = log.warning,
    plans: Plans | None = None,
) -> Network:
    """Opens a network; which runtime runs it is nobody else's business.

    Args:
        model: The ``.onnx`` (or ``.dfm``) file.
        device: What to run on.
        batch: What to put for the first dimension of each input, where that is free. Where it is fixed it stays, which
            ``input_specs`` shows: who has more than fits calls :meth:`~engines.runtime.base.Network.run` several times.
        side: What to put for height and width of a picture, where both are free.
        shapes: Whole shapes of some inputs, by number, for models that leave other dimensions free.
        hint: What is known of the file, for the message when it is broken.
        stream: Address of the CUDA stream to run on; 0 for one of its own.
        progress: Told of each step down from TensorRT to CUDA to the CPU, and why.
        plans: Where plans are and what runs them.

    Raises:
        EngineError: The file is missing, is no such model, or cannot run on that device.
    """
    sizes = Sizes(batch, side, shapes or {})
    if device.kind == "cpu":
        return OnnxNetwork(model, sizes=sizes, hint=hint)
    try:
        return (plans or Plans()).open(model, device.index, sizes, hint, stream)
    except Unplanned as error:
        why = error
    except EngineError as error:
        # What is wrong with the model itself the next runtime says again.
        why = Unplanned(error.what, error.fix)
    try:
        network = OnnxNetwork(model, device=device, sizes=sizes, hint=hint, stream=stream)
    except EngineError as error:
        if not device.may_fall_back:
            raise EngineError(f"{error.what} And: {why.what}", error.fix) from error
        network = OnnxNetwork(model, sizes=sizes, hint=hint)
        progress(f"{model.stem} runs on the CPU. CUDA: {error.what} TensorRT: {why.what} {why.fix}".strip())
        return network
    progress(f"{model.stem} runs through ONNX Runtime with CUDA, not TensorRT: {why.what} {why.fix}".strip())
    return network
