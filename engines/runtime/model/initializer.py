"""One matrix out of an ONNX file, as the file has it: read before a runtime rewrites anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from engines.errors import EngineError
from engines.faces import Floats
from engines.files import quoted

_PLAIN: Final = (1, 10, 11, 16)
"""ONNX's numbers of float32, float16, float64 and bfloat16."""


def read_matrix(path: Path, name: str, shape: tuple[int, int]) -> Floats:
    """Reads a weight by its name; where none has that name and shape, the file's last one.

    Args:
        path: The model.
        name: Of the weight.
        shape: What it must be.

    Returns:
        Float32 of that shape.

    Raises:
        EngineError: The ``onnx`` package is not there, the file is no model, has no such weight, keeps it outside of
            its own folder, or it is not made of finite numbers.
    """
    try:
        import onnx
    except ImportError as error:
        raise EngineError(
            f"The package onnx is not installed, so {quoted(path)} cannot be read.",
            "Type: pip install 'doppelcam[cpu]'",
        ) from error
    try:
        weights = onnx.load(str(path), load_external_data=False).graph.initializer
    except Exception as error:  # protobuf raises its own classes, which differ by version
        raise EngineError(
            f"{quoted(path)} is not a whole ONNX model: {error}.", "Download it again."
        ) from error
    named = [weight for weight in weights if weight.name == name and tuple(weight.dims) == shape]
    chosen = named[0] if named else weights[-1] if len(weights) else None
    if chosen is None or tuple(chosen.dims) != shape or chosen.data_type not in _PLAIN:
        what = "nothing" if chosen is None else "×".join(map(str, chosen.dims)) or "a single number"
        raise EngineError(
            f"{quoted(path)} has no weight {name}: a matrix of {shape[0]}×{shape[1]} was expected, by that name or as "
            f"the last weight, which is {what}.",
            "Use the file as it was published; converters and optimisers may drop the matrix.",
        )
    matrix = np.asarray(_values(onnx, chosen, path), np.float32).reshape(shape)
    if not np.isfinite(matrix).all():
        raise EngineError(
            f"The weight {name} of {quoted(path)} is not made of numbers.", "Download it again."
        )
    return matrix


def _values(onnx: Any, tensor: Any, path: Path) -> Any:
    folder = path.parent.resolve()
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        kept = {entry.key: entry.value for entry in tensor.external_data}
        place = (folder / kept.get("location", "")).resolve()
        # A model may name any file of this machine here.
        if not (place.is_relative_to(folder) and place.is_file()):
            raise EngineError(
                f"{quoted(path)} keeps its weights in {kept.get('location', '')!r}, and that is no file in its folder.",
                "Put the model and its data beside each other, as they were published.",
            )
    try:
        return onnx.numpy_helper.to_array(tensor, str(folder))
    except Exception as error:  # too short, or of another encoding
        raise EngineError(
            f"A weight of {quoted(path)} cannot be read: {error}.", "Download it again."
        ) from error
