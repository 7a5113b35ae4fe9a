"""ONNX Runtime as it is installed. The only file that imports it."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from typing import Any, Final

from engines.errors import EngineError

CPU_PROVIDER: Final = "CPUExecutionProvider"
CUDA_PROVIDER: Final = "CUDAExecutionProvider"
TENSORRT_PROVIDER: Final = "TensorrtExecutionProvider"

INSTALL: Final = "Type: pip install 'doppelcam[cpu]'"
_CLEAN_INSTALL: Final = f"Type: pip uninstall -y onnxruntime onnxruntime-gpu; then {INSTALL[6:]}"
_SILENT: Final = 4
_LONGEST: Final = 300


def load() -> Any:
    """The module.

    Raises:
        EngineError: It is not installed, or not whole.
    """
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise EngineError("ONNX Runtime is not installed, so no network can run.", INSTALL) from error
    except Exception as error:  # a library of its own that is missing shows as any kind of error
        text = f"{type(error).__name__}: {error}"
        raise EngineError(
            f"ONNX Runtime is installed and cannot be loaded: {text}.", _CLEAN_INSTALL
        ) from error
    if not hasattr(onnxruntime, "InferenceSession"):
        # Its CPU and GPU packages share a folder, and removing one leaves an empty shell of the other.
        raise EngineError("ONNX Runtime is installed in part only: it holds no code.", _CLEAN_INSTALL)
    return onnxruntime


def load_for_cuda() -> tuple[Any, list[str]]:
    """The module, with the libraries that its CUDA provider needs already in memory.

    Those of the ``nvidia-*`` packages lie where no loader looks, so the provider does not find them by itself. Not to
    be called before an NVIDIA driver was seen.

    Returns:
        The module, and the names of the libraries that could not be loaded.

    Raises:
        EngineError: It is not installed, or not whole.
    """
    ort = load()
    # What it would print is said in our own words.
    ort.set_default_logger_severity(_SILENT)
    said = io.StringIO()
    with redirect_stdout(said):
        ort.preload_dlls()
    return ort, list(dict.fromkeys(re.findall(r"^Failed to load (\S+?):", said.getvalue(), re.MULTILINE)))


def brief(reason: Exception | str) -> str:
    """The readable part of what the runtime raised, on one line, without a full stop."""
    text = re.sub(r"^.*?\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ", "", str(reason).strip(), flags=re.DOTALL)
    text = re.sub(r"\S*/onnxruntime_src/\S+:\d+ .*?\) (?=[A-Z])", "", text)
    text = re.sub(r"[\x00-\x1f\x7f-\x9f\s]+", " ", text).strip().rstrip(".")
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
