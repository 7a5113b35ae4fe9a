"""TensorRT and CuPy for machines without a GPU: plans that double, in memory of the host, and everything checked.

Each name and argument is held against what the real packages have (``tests/data/*_api.txt``); what is done in a wrong
order fails as it would on a GPU, or louder. An attribute that the real class lacks cannot be set or read.
"""

from __future__ import annotations

import contextlib
import ctypes
import enum
import inspect
import json
import re
import weakref
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np

DATA = Path(__file__).parent / "data"
SURFACES = {
    "tensorrt": "tensorrt_11_4_api.txt",
    "tensorrt_rtx": "tensorrt_rtx_1_7_api.txt",
    "cupy": "cupy_14_2_api.txt",
}
MAGIC = b"ptrt"
STREAM = 0x7000


@cache
def surface(package):
    """For each class its members: None for an attribute or an overloaded method, else the arguments' names."""
    classes, now = {}, {}
    for line in (DATA / SURFACES[package]).read_text("utf-8").splitlines():
        if line.startswith("## "):
            now = classes.setdefault(line[3:].split()[0], {})
        elif line.strip().startswith("enum: "):
            now.update(dict.fromkeys(line.strip()[6:].split(", ")))
        elif " ::" in line:
            name, _, signature = line.strip().partition(" ::")
            now[name] = _arguments(signature)
    return classes


def _arguments(signature):
    inner = re.match(r"\s*\w+\((.*?)(?:\)\s*(?:->.*)?)?$", signature)
    if not inner or "*args" in signature:
        return None
    names = []
    for part in re.split(r",\s*(?![^\[(<]*[\])>])", inner[1]):
        told = re.match(r"(?:\w+ )?(\w+)\s*(?::|=|$)", part.strip())
        if told and told[1] != "self":
            names.append(told[1])
    return names


def strangers(package, classes):
    """What fakes have that the real classes do not, or have with other arguments."""
    wrong = []
    for name, fake in classes.items():
        real = surface(package).get(name)
        if real is None:
            wrong.append(name)
            continue
        for member, value in vars(fake).items():
            if member.startswith("_") and member != "__init__":
                continue
            if member != "__init__" and member not in real:
                wrong.append(f"{name}.{member}")
            elif inspect.isfunction(value) and real.get(member) is not None:
                taken = [one for one in inspect.signature(value).parameters if one not in ("self", "_gpu")]
                if taken != real[member][: len(taken)]:
                    wrong.append(f"{name}.{member}({', '.join(taken)})")
    return wrong


class Strict:
    """Takes no attribute that the real class lacks."""

    _package = "tensorrt"

    def __setattr__(self, name, value):
        if not name.startswith("_"):
            known = surface(self._package)[type(self).__name__]
            assert name in known, f"{type(self).__name__} has no {name}"
        object.__setattr__(self, name, value)


class Gpu:
    """The memory, the stream and the order in which things happen.

    Attributes:
        memory: What is allocated, by address.
        calls: How often what was done.
        faults: What fails: ``capture``, ``capture_end``, ``execute``, ``context``, ``deserialize``, ``memory``.
    """

    def __init__(self, *faults):
        self.memory, self.calls, self.faults = {}, Counter(), set(faults)
        self.alive = weakref.WeakSet()
        self.captured = None
        self.current = False
        self.order = []

    def happens(self, what):
        assert self.current, f"{what} while another device is current"
        self.calls[what] += 1
        self.order.append(what)
        del self.order[:-50]

    def allocate(self, size, kind):
        self.happens(kind)
        assert self.captured is None, "nothing is allocated while a graph is captured"
        if "memory" in self.faults and len(self.memory) >= 3:
            raise MemoryError("out of memory allocating 1 byte")
        return Memory(self, size)

    def at(self, address, size, dtype=np.uint8):
        """What lies at an address."""
        assert any(
            start <= address and address + size <= start + length for start, length in self.memory.items()
        ), f"{address:#x} is nobody's memory"
        return np.frombuffer((ctypes.c_char * size).from_address(address), dtype)


class Memory:
    """Aligned as CuPy aligns; gone when nobody holds it."""

    def __init__(self, gpu, size):
        self._all = np.zeros(size + 512, np.uint8)
        self._offset = -self._all.ctypes.data % 512
        self.ptr, self._size, self._gpu = self._all.ctypes.data + self._offset, size, gpu
        gpu.memory[self.ptr] = size
        weakref.finalize(self, gpu.memory.pop, self.ptr)

    def __buffer__(self, flags):  # Python 3.12
        return memoryview(self._all[self._offset : self._offset + self._size])


def cupy_for(gpu):
    """CuPy on a machine with one GPU."""

    class Device(Strict):
        _package = "cupy"

        def __init__(self, device=None):
            assert device == 0
            self._depth = 0

        def use(self):
            gpu.current = True

        def __enter__(self):
            self._depth += 1
            gpu.current = True

        def __exit__(self, *about):
            self._depth -= 1
            gpu.current = self._depth > 0

    class Stream(Strict):
        _package = "cupy"

        def __init__(self, null=False, non_blocking=False, ptds=False, priority=None):
            assert non_blocking, "the null stream waits for everybody"
            gpu.happens("stream")
            gpu.alive.add(self)
            self.ptr = STREAM

        @classmethod
        def from_external(cls, obj):
            stream = cls.__new__(cls)
            gpu.happens("borrowed")
            stream.ptr = obj.__cuda_stream__()[1]
            return stream

        def synchronize(self):
            assert gpu.captured is None, "nobody waits for a stream that is captured"
            gpu.calls["waits"] += 1
            gpu.order.append("wait")

        def begin_capture(self, mode=None):
            gpu.happens("capture")
            assert gpu.captured is None
            if "capture" in gpu.faults:
                raise RuntimeError("cudaErrorStreamCaptureUnsupported")
            gpu.captured = []

        def end_capture(self):
            steps, gpu.captured = gpu.captured, None
            if "capture_end" in gpu.faults:
                raise RuntimeError("cudaErrorStreamCaptureInvalidated")
            return Graph(steps)

    class Graph(Strict):
        _package = "cupy"

        def __init__(self, steps):
            self._steps = steps
            gpu.alive.add(self)

        def launch(self, stream=None):
            gpu.happens("graph")
            for step in self._steps:
                step()

    class MemoryPointer(Strict):
        _package = "cupy"

        def __init__(self, memory):
            self._memory, self.ptr = memory, memory.ptr

    class runtime:
        @staticmethod
        def getDeviceCount():
            return 1

        @staticmethod
        def memcpyAsync(dst, src, size, kind, stream):
            gpu.happens({1: "upload", 2: "download"}[kind])
            assert gpu.captured is None
            gpu.at(dst, size)[:] = gpu.at(src, size)

    class cuda:
        @staticmethod
        def alloc(size):
            return MemoryPointer(gpu.allocate(size, "alloc"))

        @staticmethod
        def alloc_pinned_memory(size):
            memory = gpu.allocate(size, "pinned")
            # NumPy reads the buffer of a C type on every Python; the memory lives as long as that does.
            view = (ctypes.c_char * size).from_buffer(memory._all, memory._offset)
            view._memory = memory
            return view

    cuda.Device, cuda.Stream, cuda.runtime = Device, Stream, runtime
    module = type("cupy", (), {"cuda": cuda, "__version__": "14.2.0"})
    module.fakes = {
        "Device": Device, "Stream": Stream, "Graph": Graph, "MemoryPointer": MemoryPointer, "cuda": cuda,
        "runtime": runtime,
    }  # fmt: skip
    return module


def plan_of(inputs, outputs, factor=2.0):
    """A plan that multiplies what goes in. Each tensor is a name with a shape and TensorRT's name of the type."""
    table = {"inputs": inputs, "outputs": outputs, "factor": factor}
    return MAGIC + json.dumps(table).encode()


def tensorrt_for(gpu, name="tensorrt", version="11.4.0.106"):
    """TensorRT, of either flavour, on a machine with one GPU."""
    rtx = name == "tensorrt_rtx"

    def members(kind):
        return enum.IntEnum(kind, {one: number for number, one in enumerate(surface(name)[kind])})

    class Base(Strict):
        _package = name

    class ILogger:  # this and the next are for subclasses, which have what they like
        def log(self, severity, msg): ...

    class IProgressMonitor:
        def __init__(self): ...

    class IHostMemory(bytes):
        @property
        def nbytes(self):
            return len(self)

    class Runtime(Base):
        def __init__(self, logger):
            assert gpu.current and isinstance(logger, ILogger)
            self._logger = logger
            gpu.alive.add(self)

        def deserialize_cuda_engine(self, serialized_engine):
            gpu.happens("deserialize")
            if "deserialize" in gpu.faults or not serialized_engine.startswith(MAGIC):
                self._logger.log(1, "The engine plan file is not compatible\nwith this version of TensorRT.")
                return None
            return ICudaEngine(json.loads(serialized_engine[len(MAGIC) :]), self._logger)

    class ICudaEngine(Base):
        def __init__(self, table, logger):
            self._table, self._logger = table, logger
            self._tensors = {**table["inputs"], **table["outputs"]}
            self.num_io_tensors, self.num_layers = len(self._tensors), 7
            gpu.alive.add(self)

        def get_tensor_name(self, index):
            return sorted(self._tensors)[index]  # an order of its own

        def get_tensor_shape(self, name):
            return tuple(self._tensors[name][0])

        def get_tensor_dtype(self, name):
            return DataType[self._tensors[name][1]]

        def get_tensor_mode(self, name):
            return TensorIOMode.INPUT if name in self._table["inputs"] else TensorIOMode.OUTPUT

        def get_tensor_location(self, name):
            return TensorLocation[self._tensors[name][2] if len(self._tensors[name]) > 2 else "DEVICE"]

        def create_runtime_config(self):
            return IRuntimeConfig()

        def create_execution_context(self, config=None):
            gpu.happens("context")
            return None if "context" in gpu.faults else IExecutionContext(self, config)

    class IRuntimeCache(Base):
        def __init__(self):
            self._blob = b""

        def deserialize(self, blob):
            self._blob = bytes(blob)
            return blob.startswith(b"kernels")

        def serialize(self):
            return IHostMemory(b"kernels compiled here")

    class IRuntimeConfig(Base):
        def create_runtime_cache(self):
            return IRuntimeCache()

        def set_runtime_cache(self, cache):
            self._cache = cache
            return True

    class IExecutionContext(Base):
        def __init__(self, engine, config):
            assert (config is not None) == rtx
            self._engine, self._config = engine, config
            self._addresses, self._runs = {}, 0
            gpu.alive.add(self)

        def set_tensor_address(self, name, memory):
            gpu.happens("address")
            assert gpu.captured is None
            assert name in self._engine._tensors
            self._addresses[name] = memory
            self._runs = 0  # what is captured has to be run with the same addresses before
            return memory % 256 == 0

        def execute_async_v3(self, stream_handle):
            gpu.happens("execute")
            missing = set(self._engine._tensors) - set(self._addresses)
            assert not missing, f"executed before the addresses of {missing} were set"
            if "execute" in gpu.faults:
                self._engine._logger.log(1, "CUDA error 700 launching a kernel.")
                return False
            if gpu.captured is not None:
                assert self._runs, "captured before it was run once outside"
                gpu.captured.append(_computation(self._engine, dict(self._addresses), gpu))
                return True
            self._runs += 1
            _computation(self._engine, self._addresses, gpu)()
            return True

    class ITensor(Base):
        def __init__(self, value):
            self.name = value.name
            self.shape = tuple(
                dim.dim_value if dim.dim_value else -1 for dim in value.type.tensor_type.shape.dim
            )

    class INetworkDefinition(Base):
        def __init__(self, flags):
            assert flags == 1 << NetworkDefinitionCreationFlag.STRONGLY_TYPED, "FP16 would be a mere wish"
            self._graph, self.num_layers, self.num_inputs, self.num_outputs = None, 0, 0, 0

        def get_input(self, index):
            return ITensor(self._graph.input[index])

    class ParserError(Base):
        def desc(self):
            return "No importer registered for op:\nOdd."

        def node_operator(self):
            return "Odd"

    class OnnxParser(Base):
        def __init__(self, network, logger):
            assert isinstance(logger, ILogger)
            self._network, self.num_errors = network, 0

        def parse(self, model):
            import onnx

            graph = onnx.load_from_string(model).graph
            if any(node.op_type == "Odd" for node in graph.node):
                self.num_errors = 1
                return False
            network = self._network
            network._graph, network.num_layers = graph, len(graph.node)
            network.num_inputs, network.num_outputs = len(graph.input), len(graph.output)
            return True

        def get_error(self, index):
            return ParserError()

    class ITimingCache(Base):
        def __init__(self, blob):
            self._blob = blob

        def serialize(self):
            return IHostMemory(self._blob + b"+1")

    class IBuilderConfig(Base):
        def __init__(self):
            self._cache = None

        def set_memory_pool_limit(self, pool, pool_size):
            assert pool == MemoryPoolType.WORKSPACE

        def create_timing_cache(self, serialized_timing_cache):
            assert not rtx, "it is deprecated there, and does nothing"
            if serialized_timing_cache.startswith(b"broken"):
                raise RuntimeError("of another version")
            return ITimingCache(serialized_timing_cache)

        def set_timing_cache(self, cache, ignore_mismatch):
            assert not ignore_mismatch
            self._cache = cache
            return True

        def get_timing_cache(self):
            return self._cache

        def set_compute_capability(self, compute_capability, index):
            assert (compute_capability.name, index) == ("CURRENT", 0)
            return True

    class Builder(Base):
        def __init__(self, logger):
            assert isinstance(logger, ILogger)
            if "builder" in gpu.faults:
                raise TypeError("pybind11::init(): factory function returned nullptr")
            self._logger = logger

        def create_network(self, flags=0):
            return INetworkDefinition(flags)

        def create_builder_config(self):
            return IBuilderConfig()

        def build_serialized_network(self, network, config):
            gpu.calls["built"] += 1
            monitor = config.progress_monitor
            monitor.phase_start("Building", None, 2)
            for step in range(2):
                monitor.phase_start("Tactics", "Building", 4)
                for inner in range(4):
                    if not monitor.step_complete("Tactics", inner):
                        return None
                monitor.phase_finish("Tactics")
                if not monitor.step_complete("Building", step):
                    return None
            monitor.phase_finish("Building")
            if "build" in gpu.faults:
                self._logger.log(1, "Could not find any implementation for node Conv_0.")
                return None
            self._logger.log(2, "one warning")
            self._logger.log(2, "one warning")

            def tensors(values):
                kinds = {1: "FLOAT", 10: "HALF"}
                return {
                    one.name: (list(ITensor(one).shape), kinds[one.type.tensor_type.elem_type])
                    for one in values
                }

            return IHostMemory(plan_of(tensors(network._graph.input), tensors(network._graph.output)))

    NetworkDefinitionCreationFlag = members("NetworkDefinitionCreationFlag")
    MemoryPoolType = members("MemoryPoolType")
    DataType, TensorIOMode = members("DataType"), members("TensorIOMode")
    TensorLocation = members("TensorLocation")
    fakes = [
        IProgressMonitor, Runtime, ICudaEngine, IExecutionContext, IRuntimeConfig, Builder, IBuilderConfig, OnnxParser,
        INetworkDefinition, ITensor, ITimingCache, ParserError, *[IRuntimeCache] * rtx,
    ]  # fmt: skip
    if not rtx:
        for only in ("create_runtime_cache", "set_runtime_cache"):
            delattr(IRuntimeConfig, only)
        del IBuilderConfig.set_compute_capability
    module = type(name, (), {one.__name__: one for one in (ILogger, *fakes)})
    module.__version__, module.MemoryPoolType = version, MemoryPoolType
    module.NetworkDefinitionCreationFlag = NetworkDefinitionCreationFlag
    if rtx:
        module.ComputeCapability = members("ComputeCapability")
    module.fakes = {one.__name__: one for one in fakes}
    return module


def _computation(engine, addresses, gpu):
    dtypes = {"FLOAT": np.float32, "HALF": np.float16, "INT32": np.int32, "INT64": np.int64, "BOOL": np.bool_}

    def at(name):
        shape, kind = engine._tensors[name][:2]
        dtype = np.dtype(dtypes[kind])
        return gpu.at(addresses[name], int(np.prod(shape)) * dtype.itemsize, dtype).reshape(shape)

    table = engine._table

    def compute():
        first = at(next(iter(table["inputs"])))
        for name in table["outputs"]:
            out = at(name)
            out[...] = np.resize(first.astype(np.float64) * table["factor"], out.shape).astype(out.dtype)

    return compute


@contextlib.contextmanager
def nothing_left(gpu):
    """Whatever was made inside is freed at the end, without the garbage collector's help."""
    yield
    assert not gpu.memory
    assert not gpu.alive, [type(one).__name__ for one in gpu.alive]
