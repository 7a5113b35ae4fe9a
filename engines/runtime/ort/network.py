"""A network through ONNX Runtime, on the CPU, on CUDA, or through its TensorRT provider."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from engines.errors import EngineError
from engines.faces import Array
from engines.runtime.base import TensorSpec
from engines.runtime.device import CPU, Device
from engines.runtime.model.file import Hint, ModelFile, read_model_file
from engines.runtime.ort import bindings as ort
from engines.runtime.ort.session import Place, open_session
from engines.runtime.shapes import Sizes, fixed_shapes, overrides, shown_shape

_DTYPES: Final = {
    "tensor(float)": "float32", "tensor(float16)": "float16", "tensor(double)": "float64", "tensor(bool)": "bool",
    "tensor(uint8)": "uint8", "tensor(int8)": "int8", "tensor(uint16)": "uint16", "tensor(int16)": "int16",
    "tensor(uint32)": "uint32", "tensor(int32)": "int32", "tensor(uint64)": "uint64", "tensor(int64)": "int64",
}  # fmt: skip

_LARGE: Final = 20_000_000
"""Bytes from which a network is worth all cores: below, threads wait for each other longer than they work.

That holds for a detector with a large picture too: 17 MB at 640×640, on two cores, took 250 ms with one thread and 269
with two; beside another thread that is busy for 20 ms of 33, as the rest of a frame is, 389 and 350."""


def threads_for(size: int) -> int:
    """Threads inside one operator, on the CPU: one rule for every network, whoever it belongs to.

    Args:
        size: Of the model's file, bytes.

    Returns:
        1 for a small network, which is faster so and leaves the other cores to the rest; for a large one 0, which is
        one per physical core, or as many as the process may use.
    """
    if size < _LARGE:
        return 1
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
        if allowed < (os.cpu_count() or 1):
            return allowed
    return 0


class OnnxNetwork:
    """A :class:`~engines.runtime.base.Network` in ONNX Runtime.

    On the CPU the buffers are bound once, and nothing is copied. On a GPU the inputs are copied to memory of the device
    that stays, and the runtime copies the outputs back; what :meth:`bind` was told of is copied neither way.

    Args:
        path: The ``.onnx`` or ``.dfm`` file.
        device: What to run on.
        sizes: What to put for dimensions that the model leaves free.
        hint: What is known of the file, for the message when it is broken.
        tensorrt: Through ONNX Runtime's TensorRT provider, with CUDA for what that leaves.
        stream: Address of the CUDA stream to run on; 0 for one of its own.

    Raises:
        EngineError: The file is missing or no model that can be used, the runtime is not installed, or it would not run
            on that device.
    """

    def __init__(
        self,
        path: Path,
        *,
        device: Device = CPU,
        sizes: Sizes | None = None,
        hint: Hint | None = None,
        tensorrt: bool = False,
        stream: int = 0,
    ) -> None:
        self.name = path.stem
        on_gpu = device.kind == "cuda"
        runtime = ort.load_for_cuda()[0] if on_gpu else ort.load()
        file = read_model_file(path, hint)
        declared = file.outline.inputs
        fixed = fixed_shapes(declared, sizes or Sizes(), self.name)
        place = Place(
            gpu=device.index if on_gpu else None,
            threads=threads_for(file.size),
            tensorrt=tensorrt,
            stream=stream,
            free=overrides(declared, fixed, self.name),
        )
        self._session, self.nodes = _open(runtime, file, place, self.name)
        self._device = ("cuda", device.index) if on_gpu else ("cpu", 0)
        self.input_specs: Sequence[TensorSpec] = [
            TensorSpec(node.name, fixed.get(node.name, ()), _dtype(node, self.name))
            for node in self._session.get_inputs()
        ]
        self.inputs: Sequence[Array] = [_host(runtime, spec, place.gpu) for spec in self.input_specs]
        self._binding = self._session.io_binding()
        self._staged: dict[int, tuple[Any, Array]] = {}
        for number, (spec, array) in enumerate(zip(self.input_specs, self.inputs, strict=True)):
            if on_gpu:
                value = runtime.OrtValue.ortvalue_from_shape_and_type(
                    spec.shape, array.dtype.type, *self._device
                )
                self._staged[number] = (value, array)
            else:
                value = runtime.OrtValue.ortvalue_from_numpy(array)
            self._binding.bind_ortvalue_input(spec.name, value)
        # Sizes that have no name the graph cannot be told, so what it says of its outputs may not hold.
        told = all(dim is not None for one in declared for dim in one.shape or ())
        self.output_specs: Sequence[TensorSpec] = self._read_outputs(told)
        self.outputs: Sequence[Array] = [_host(runtime, spec, place.gpu) for spec in self.output_specs]
        for spec, array in zip(self.output_specs, self.outputs, strict=True):
            # Memory of the host, on a GPU too: the runtime then copies each result back by itself.
            self._binding.bind_ortvalue_output(spec.name, runtime.OrtValue.ortvalue_from_numpy(array))

    def bind(self, inputs: Mapping[int, int], outputs: Mapping[int, int]) -> None:
        """See :class:`~engines.runtime.base.Network`."""
        try:
            for number, address in inputs.items():
                spec = self.input_specs[number]
                self._binding.bind_input(
                    spec.name, *self._device, np.dtype(spec.dtype).type, spec.shape, address
                )
                self._staged.pop(number, None)
            for number, address in outputs.items():
                spec = self.output_specs[number]
                self._binding.bind_output(
                    spec.name, *self._device, np.dtype(spec.dtype).type, spec.shape, address
                )
        except Exception as error:
            raise EngineError(
                f"The network {self.name} does not take memory that was given to it: {ort.brief(error)}."
            ) from error

    def run(self) -> None:
        """See :class:`~engines.runtime.base.Network`."""
        if self._session is None:
            raise EngineError(f"The network {self.name} is closed.")
        try:
            for value, array in self._staged.values():
                value.update_inplace(array)
            self._session.run_with_iobinding(self._binding)
        except Exception as error:  # the runtime raises its own classes, which differ by version
            raise EngineError(f"The network {self.name} failed: {ort.brief(error)}.") from error

    def close(self) -> None:
        """See :class:`~engines.runtime.base.Network`."""
        self._staged = {}
        self._binding = self._session = None

    def _read_outputs(self, told: bool) -> list[TensorSpec]:
        """Shapes of the outputs: as the graph says, or, where it cannot know, as a first run gives them."""
        nodes = self._session.get_outputs()
        shapes = [tuple(node.shape or ()) for node in nodes]
        if not told or not all(shape and all(isinstance(dim, int) for dim in shape) for shape in shapes):
            feeds = {spec.name: array for spec, array in zip(self.input_specs, self.inputs, strict=True)}
            promised = shapes
            try:
                shapes = [tuple(np.shape(out)) for out in self._session.run(None, feeds)]
            except Exception as error:
                raise EngineError(
                    f"The network {self.name} failed in its first run: {ort.brief(error)}.",
                    "It may need other input sizes than those it was opened with.",
                ) from error
            for node, said, given in zip(nodes, promised, shapes, strict=True):
                if any(isinstance(dim, int) and dim != size for dim, size in zip(said, given, strict=False)):
                    raise EngineError(
                        f"The output {node.name} of {self.name} is {shown_shape(given)}, and the file promises "
                        f"{shown_shape(said)}.",
                        "Open it with the sizes it was made for, or export it again.",
                    )
        specs = [
            TensorSpec(node.name, shape, _dtype(node, self.name))
            for node, shape in zip(nodes, shapes, strict=True)
        ]
        for spec in specs:
            if 0 in spec.shape:
                raise EngineError(
                    f"The output {spec.name} of {self.name} is {shown_shape(spec.shape)}: its size depends on what "
                    "the network sees.",
                    "Export the model without selection of results (non-maximum suppression) at its end.",
                )
        return specs


def _open(runtime: Any, file: ModelFile, place: Place, name: str) -> tuple[Any, dict[str, int]]:
    try:
        return open_session(runtime, str(file.path), place, f"The network {name}")
    except EngineError:
        raise
    except Exception as error:
        if place.gpu is not None and _readable_on_cpu(runtime, file, place):
            raise EngineError(
                f"The network {name} does not open on {place.name}: {ort.brief(error)}.",
                "Its TensorRT provider needs TensorRT 10: leave it out, and CUDA does the work."
                if place.tensorrt
                else "Close other programs that use the GPU, or use --device cpu.",
            ) from error
        raise file.refused(error) from error


def _readable_on_cpu(runtime: Any, file: ModelFile, place: Place) -> bool:
    """Whether it is the GPU that refused, and not the file that is broken."""
    with contextlib.suppress(Exception):
        open_session(runtime, str(file.path), Place(free=place.free), file.path.stem)
        return True
    return False


def _dtype(node: Any, name: str) -> str:
    try:
        return _DTYPES[node.type]
    except KeyError:
        raise EngineError(
            f"{node.name} of the network {name} is of type {node.type}, which is no picture and no number.",
            "Export the model with tensors of floats.",
        ) from None


def _host(runtime: Any, spec: TensorSpec, gpu: int | None) -> Array:
    """A buffer of zeros in the host's memory; where it is for a GPU, pinned if the runtime can do that."""
    if gpu is not None:
        with contextlib.suppress(Exception):  # a gain in speed that not every version offers
            pinned = _pinned(runtime, spec, gpu)
            if pinned is not None:
                return pinned
    return np.zeros(spec.shape, spec.dtype)


def _pinned(runtime: Any, spec: TensorSpec, gpu: int) -> Array | None:
    kind = runtime.OrtDeviceMemoryType.HOST_ACCESSIBLE
    devices = [one for one in runtime.get_ep_devices() if one.ep_name == ort.CUDA_PROVIDER]
    for info in (one.memory_info(kind) for one in devices):
        if info is None or info.device_id != gpu:
            continue
        dtype = np.dtype(spec.dtype).type
        value = runtime.OrtValue.ortvalue_from_shape_and_type(spec.shape, dtype, memory_info=info)
        array: Array = value.numpy()
        if array.ctypes.data == value.data_ptr() and array.flags.writeable:
            array[...] = 0
            return array
    return None
