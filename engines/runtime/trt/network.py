"""A network through TensorRT: a plan, buffers that stay, one stream, and a CUDA graph of the whole run."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from engines.errors import EngineError
from engines.faces import Array
from engines.runtime.base import TensorSpec
from engines.runtime.trt.bindings import TensorRt, brief
from engines.runtime.trt.plans import Loaded

log = logging.getLogger(__name__)

_DTYPES: Final = {
    "FLOAT": "float32", "HALF": "float16", "INT8": "int8", "UINT8": "uint8", "INT32": "int32", "INT64": "int64",
    "BOOL": "bool",
}  # fmt: skip
_ALIGNMENT: Final = 256
"""Bytes; TensorRT's own demand on every address."""
_TO_GPU, _TO_HOST = 1, 2
"""Of ``cudaMemcpyKind``."""


class _Borrowed:
    """A stream of somebody else's, as CuPy wants to be told of it."""

    def __init__(self, address: int) -> None:
        self._address = address

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._address


class TensorRtNetwork:
    """A :class:`~engines.runtime.base.Network` that runs a plan on a GPU.

    Everything is allocated when it is opened. The first run, and the first one after :meth:`bind`, launches each kernel
    by itself; what it launched is then captured as a CUDA graph, and every later run launches that. Where a plan cannot
    be captured it goes on without.

    With a stream that was given, and all outputs bound, :meth:`run` returns before the GPU is done: whoever gave the
    stream uses the results on it. Otherwise it waits.

    Args:
        name: What to call it in a message.
        loaded: The plan, checked.
        trt: TensorRT.
        cupy: CuPy, which has seen a GPU.
        gpu: Its number.
        stream: Address of the CUDA stream to run on; 0 for one of its own.

    Attributes:
        why_no_graph: Why it runs without a CUDA graph; empty while it does not, or was not tried yet.

    Raises:
        EngineError: TensorRT does not take the plan, or there is not enough memory.
    """

    def __init__(
        self, name: str, loaded: Loaded, trt: TensorRt, cupy: Any, gpu: int, stream: int = 0
    ) -> None:
        self.name, self.why_no_graph = name, ""
        self.nodes: dict[str, int] = {}
        self.input_specs: Sequence[TensorSpec] = ()
        self.output_specs: Sequence[TensorSpec] = ()
        self.inputs: Sequence[Array] = ()
        self.outputs: Sequence[Array] = ()
        self._trt, self._cupy = trt, cupy
        self._device = cupy.cuda.Device(gpu)
        self._borrowed = stream != 0
        self._graph: Any = None
        self._tried = False
        self._memory: list[Any] = []
        self._uploads: dict[int, tuple[int, int, int]] = {}
        self._downloads: dict[int, tuple[int, int, int]] = {}
        self._runtime: Any = None
        self._engine: Any = None
        self._context: Any = None
        self._kernels: Any = ()
        self._stream: Any = None
        try:
            with self._on_gpu():
                self._stream = (
                    cupy.cuda.Stream.from_external(_Borrowed(stream))
                    if stream
                    else cupy.cuda.Stream(non_blocking=True)
                )
                self._open(loaded)
        except BaseException:
            self.close()
            raise

    @property
    def captured(self) -> bool:
        """Whether runs are launches of a CUDA graph."""
        return self._graph is not None

    def bind(self, inputs: Mapping[int, int], outputs: Mapping[int, int]) -> None:
        """See :class:`~engines.runtime.base.Network`. Addresses are multiples of 256."""
        self._check_open()
        with self._on_gpu():
            # What is on its way still reads and writes the old addresses, and so would the old graph.
            self._stream.synchronize()
            self._graph, self._tried, self.why_no_graph = None, False, ""
            for given, specs, staged in (
                (inputs, self.input_specs, self._uploads), (outputs, self.output_specs, self._downloads),
            ):  # fmt: skip
                for number, address in given.items():
                    if not 0 <= number < len(specs):
                        raise EngineError(
                            f"The network {self.name} has no tensor number {number} to bind memory to."
                        )
                    self._set_address(specs[number].name, address)
                    staged.pop(number, None)

    def run(self) -> None:
        """See :class:`~engines.runtime.base.Network`."""
        self._check_open()
        with self._on_gpu():
            copy, stream = self._cupy.cuda.runtime.memcpyAsync, self._stream.ptr
            for device, host, size in self._uploads.values():
                copy(device, host, size, _TO_GPU, stream)
            if self._graph is not None:
                self._graph.launch(self._stream)
            else:
                self._launch()
            for device, host, size in self._downloads.values():
                copy(host, device, size, _TO_HOST, stream)
            if self._downloads or not self._borrowed or not self._tried:
                self._stream.synchronize()
            if not self._tried:
                self._capture()

    def close(self) -> None:
        """See :class:`~engines.runtime.base.Network`."""
        if self._stream is not None:
            with contextlib.suppress(Exception), self._device:
                self._stream.synchronize()
        # In this order: each is made of the one behind it.
        self._graph = None
        self._context = None
        self._kernels = ()
        self._engine = None
        self._runtime = None
        self._uploads, self._downloads = {}, {}
        self.inputs = self.outputs = ()
        self._memory = []
        self._stream = None

    def jit(self) -> bytes:
        """The kernels that TensorRT-RTX compiled for this GPU, to be kept beside the plan; empty otherwise."""
        if not self._kernels:
            return b""
        with contextlib.suppress(Exception), self._device:  # it only saves time
            return bytes(self._kernels[1].serialize())
        return b""

    def _open(self, loaded: Loaded) -> None:
        trt, note = self._trt, loaded.note
        trt.said()
        self._runtime = trt.module.Runtime(trt.logger)
        self._engine = self._runtime.deserialize_cuda_engine(loaded.plan)
        if self._engine is None:
            raise EngineError(
                f"TensorRT does not take the plan of {self.name}: {trt.why('it does not say why')}.",
                f"Type: doppelcam engines build {self.name} --again",
            )
        self._context = self._made_context(loaded.jit)
        if self._context is None:
            raise EngineError(
                f"The network {self.name} cannot be opened on the GPU: {trt.why('there is not enough memory')}.",
                "Close other programs that use the GPU.",
            )
        names = [self._engine.get_tensor_name(number) for number in range(self._engine.num_io_tensors)]
        if sorted(names) != sorted((*note.inputs, *note.outputs)):
            raise EngineError(
                f"The plan of {self.name} has the tensors {', '.join(names)}, and was built with others.",
                f"Type: doppelcam engines build {self.name} --again",
            )
        self.input_specs = [self._spec(name, "INPUT") for name in note.inputs]
        self.output_specs = [self._spec(name, "OUTPUT") for name in note.outputs]
        self.inputs = [
            self._buffer(number, spec, self._uploads) for number, spec in enumerate(self.input_specs)
        ]
        self.outputs = [
            self._buffer(number, spec, self._downloads) for number, spec in enumerate(self.output_specs)
        ]
        self.nodes = {note.title: int(self._engine.num_layers)}

    def _made_context(self, jit: bytes) -> Any:
        if not self._trt.is_rtx:
            return self._engine.create_execution_context()
        # TensorRT-RTX compiles kernels when a context is made: seconds, saved by what was kept of the last time.
        config = self._engine.create_runtime_config()
        cache = config.create_runtime_cache()
        if jit and not cache.deserialize(jit):
            log.info("the kept kernels of %s do not fit here and are compiled again", self.name)
        config.set_runtime_cache(cache)
        self._kernels = (config, cache)  # which the context may go on using
        return self._engine.create_execution_context(config)

    def _spec(self, name: str, mode: str) -> TensorSpec:
        engine = self._engine
        shape = tuple(int(size) for size in engine.get_tensor_shape(name))
        dtype = _DTYPES.get(engine.get_tensor_dtype(name).name, "")
        place = engine.get_tensor_location(name).name
        if (
            not dtype
            or place != "DEVICE"
            or engine.get_tensor_mode(name).name != mode
            or any(one < 1 for one in shape)
        ):
            raise EngineError(
                f"The plan of {self.name} has the tensor {name} as {mode.lower()} {shape} in memory of the "
                f"{place.lower()}, which cannot be used.",
                f"Type: doppelcam engines build {self.name} --again",
            )
        return TensorSpec(name, shape, dtype)

    def _buffer(self, number: int, spec: TensorSpec, staged: dict[int, tuple[int, int, int]]) -> Array:
        """Memory of the GPU for a tensor, and page-locked memory of the host to copy from or to."""
        dtype = np.dtype(spec.dtype)
        count = int(np.prod(spec.shape, dtype=np.int64))
        size = count * dtype.itemsize
        memory, pinned = self._cupy.cuda.alloc(size), self._cupy.cuda.alloc_pinned_memory(size)
        self._memory += [memory, pinned]
        host = np.frombuffer(pinned, dtype, count).reshape(spec.shape)
        host[...] = 0
        self._set_address(spec.name, int(memory.ptr))
        staged[number] = (int(memory.ptr), host.ctypes.data, size)
        return host

    def _set_address(self, name: str, address: int) -> None:
        if address % _ALIGNMENT or not self._context.set_tensor_address(name, address):
            raise EngineError(
                f"The network {self.name} does not take the memory at {address:#x} for {name}: it has to be at a "
                f"multiple of {_ALIGNMENT}."
            )

    def _launch(self) -> None:
        if not self._context.execute_async_v3(self._stream.ptr):
            raise EngineError(
                f"The network {self.name} failed: {self._trt.why('TensorRT does not say why')}."
            )

    def _capture(self) -> None:
        """Captures one run. Nothing is computed meanwhile."""
        self._tried = True
        reason, graph = "", None
        try:
            self._stream.begin_capture()
        except Exception as error:
            reason = brief(error)
        else:
            try:
                self._launch()
            except Exception as error:
                reason = brief(error)
            try:
                # A stream stays in capture until this, whatever went wrong before.
                graph = self._stream.end_capture()
            except Exception as error:
                reason = reason or brief(error)
        if reason or graph is None:
            self.why_no_graph = reason or "nothing was captured"
            log.warning("%s runs without a CUDA graph: %s", self.name, self.why_no_graph)
        else:
            self._graph = graph

    def _check_open(self) -> None:
        if self._context is None:
            raise EngineError(f"The network {self.name} is closed.")

    @contextlib.contextmanager
    def _on_gpu(self) -> Iterator[None]:
        """The GPU is the one that CUDA uses, and what it raises is said in our words."""
        try:
            with self._device:
                yield
        except EngineError:
            raise
        except MemoryError as error:
            raise EngineError(
                f"The GPU has not enough memory for {self.name}: {brief(error)}.",
                "Close other programs that use the GPU.",
            ) from error
        except Exception as error:  # CuPy and TensorRT raise their own classes, which differ by version
            raise EngineError(f"The network {self.name} failed: {brief(error)}.") from error
