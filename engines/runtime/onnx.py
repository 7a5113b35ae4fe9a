"""ONNX Runtime, on the CPU. The only file that imports it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from engines.errors import EngineError
from engines.faces import Array
from engines.runtime.base import TensorSpec

_DTYPES = {"tensor(float)": "float32", "tensor(float16)": "float16", "tensor(double)": "float64",
           "tensor(uint8)": "uint8", "tensor(int64)": "int64", "tensor(int32)": "int32"}  # fmt: skip


def _runtime() -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise EngineError(
            "ONNX Runtime is not installed, so no network can run.",
            "Type: pip install 'doppelcam[cpu]'",
        ) from error
    return onnxruntime


def runtime_version() -> str | None:
    """Version of ONNX Runtime, None where there is none."""
    try:
        return str(_runtime().__version__)
    except EngineError:
        return None


def _spec(node: Any, shape: Sequence[int] | None = None) -> TensorSpec:
    # A free dimension (a batch, mostly) is run with one.
    dims = tuple(shape or (d if isinstance(d, int) and d > 0 else 1 for d in node.shape))
    return TensorSpec(node.name, dims, _DTYPES.get(node.type, "float32"))


class OnnxNetwork:
    """A :class:`~engines.runtime.base.Network` on the CPU.

    Args:
        path: The ``.onnx`` file.
        threads: Threads inside one operator. Small networks are faster with one, and leave the other cores alone.

    Raises:
        EngineError: The file is missing, is no ONNX model, or the runtime is not installed.
    """

    def __init__(self, path: Path, threads: int = 1) -> None:
        ort = _runtime()
        self.name = path.stem
        if not path.is_file():
            raise EngineError(f"The network {path} is missing.", "Install doppelcam again: it ships with it.")
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # A spinning thread would take a core from capture and output.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        try:
            self._session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the runtime raises its own classes, which differ by version
            raise EngineError(f"{path.name} is not a model that ONNX Runtime can read: {error}") from error
        self.input_specs: Sequence[TensorSpec] = [_spec(node) for node in self._session.get_inputs()]
        self.inputs: Sequence[Array] = [np.zeros(spec.shape, spec.dtype) for spec in self.input_specs]
        self._binding = self._session.io_binding()
        for spec, array in zip(self.input_specs, self.inputs, strict=True):
            value = ort.OrtValue.ortvalue_from_numpy(array)
            self._binding.bind_ortvalue_input(spec.name, value)
        feeds = {spec.name: array for spec, array in zip(self.input_specs, self.inputs, strict=True)}
        shapes = [out.shape for out in self._session.run(None, feeds)]
        nodes = self._session.get_outputs()
        self.output_specs: Sequence[TensorSpec] = [
            _spec(node, shape) for node, shape in zip(nodes, shapes, strict=True)
        ]
        self.outputs: Sequence[Array] = [np.zeros(spec.shape, spec.dtype) for spec in self.output_specs]
        for spec, array in zip(self.output_specs, self.outputs, strict=True):
            self._binding.bind_ortvalue_output(spec.name, ort.OrtValue.ortvalue_from_numpy(array))
        self.nodes = _nodes_per_provider(self._session)

    def run(self) -> None:
        """See :class:`~engines.runtime.base.Network`."""
        try:
            self._session.run_with_iobinding(self._binding)
        except Exception as error:
            raise EngineError(f"The network {self.name} failed: {error}") from error

    def close(self) -> None:
        """See :class:`~engines.runtime.base.Network`."""
        self._binding = self._session = None


def _nodes_per_provider(session: Any) -> dict[str, int]:
    try:
        subgraphs = session.get_provider_graph_assignment_info()
        counts: dict[str, int] = {}
        for subgraph in subgraphs:
            counts[subgraph.ep_name] = counts.get(subgraph.ep_name, 0) + len(subgraph.get_nodes())
        return counts
    except (AttributeError, TypeError, RuntimeError):
        # Older runtimes do not tell; with one provider listed the answer is known all the same.
        return dict.fromkeys(session.get_providers(), 0)
