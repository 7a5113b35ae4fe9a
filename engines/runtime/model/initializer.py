"""One matrix out of an ONNX file, as the file has it: read before a runtime rewrites anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from engines.errors import EngineError
from engines.faces import Floats
from engines.files import quoted
from engines.runtime.model.file import read_model_file
from engines.runtime.model.format import Weight

_PLAIN: Final = ("float32", "float16", "float64", "bfloat16")


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
    weights = read_model_file(path).outline.weights
    named = [weight for weight in weights if weight.name == name and weight.shape == shape]
    chosen = named[0] if named else weights[-1] if weights else None
    if chosen is None or chosen.shape != shape or chosen.dtype not in _PLAIN:
        what = "nothing" if chosen is None else "×".join(map(str, chosen.shape)) or "a single number"
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


def _values(onnx: Any, weight: Weight, path: Path) -> Any:
    """The numbers of one weight, without a look at half a gigabyte of others."""
    try:
        with path.open("rb") as file:
            file.seek(weight.at.start)
            tensor = onnx.TensorProto.FromString(file.read(weight.at.end - weight.at.start))
        return onnx.numpy_helper.to_array(tensor, str(path.parent.resolve()))
    except Exception as error:  # too short, or of another encoding; protobuf's own classes differ by version
        raise EngineError(
            f"A weight of {quoted(path)} cannot be read: {error}.", "Download it again."
        ) from error
