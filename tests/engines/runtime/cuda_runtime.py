"""ONNX Runtime on a machine with a GPU, in so far as a machine without one can play it.

The real runtime computes, on the CPU; what this module adds is what a GPU's build shows of itself: its providers, which
of them gets which node, memory that is not the host's, and refusals in the words of the real one. Its surface is held
against the real package by a test.
"""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import onnxruntime as real

CUDA, TENSORRT, CPU = "CUDAExecutionProvider", "TensorrtExecutionProvider", "CPUExecutionProvider"
REFUSED = (
    "[ONNXRuntimeError] : 1 : FAIL : This session contains graph nodes that are assigned to the default CPU EP, but "
    "fallback to CPU EP has been explicitly disabled by the user."
)
CONFLICT = (
    "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Conflicting session configuration: explicitly added the CPU EP to the "
    "session, but also disabled fallback to the CPU EP via session configuration options."
)


class Fail(Exception):
    """As the real one's, which is no RuntimeError."""


class CudaRuntime:
    """A module ``onnxruntime``.

    Args:
        providers: What it says it has.
        loads: Whether its CUDA provider's libraries are there.
        on_cpu: Kinds of node that CUDA does not take.
        silent: Gives every node to the CPU and says nothing, whatever it was told.
        missing: Libraries that cannot be loaded.
        fails: What running raises.
        wrong: Whether what comes out is wrong.
        pinned: Whether it offers memory that host and GPU share.
    """

    package_name = "onnxruntime-gpu"
    __version__ = "1.26.0"
    OrtDeviceMemoryType = real.OrtDeviceMemoryType

    def __init__(
        self, providers=(TENSORRT, CUDA, CPU), loads=True, on_cpu=(), silent=False, missing=(), fails=None,
        wrong=False, pinned=False, cuda="12.8", tells=True,
    ):  # fmt: skip
        self.loads, self.on_cpu, self.silent, self.missing = loads, set(on_cpu), silent, missing
        self.fails, self.wrong, self.pinned, self.tells = fails, wrong, pinned, tells
        self.cuda_version, self._providers = cuda, list(providers)
        self.calls, self.opened, self.copies, self.severity = [], [], [], None
        self.SessionOptions = SessionOptions
        self.OrtValue = SimpleNamespace(
            ortvalue_from_numpy=real.OrtValue.ortvalue_from_numpy,
            ortvalue_from_shape_and_type=self._allocate,
        )

    def InferenceSession(self, model, options, providers, enable_fallback):
        assert enable_fallback == 0, "its Python layer would open it once more on the CPU"
        return Session(self, model, options, providers)

    def get_available_providers(self):
        return self._providers

    def set_default_logger_severity(self, level):
        self.severity = level

    def preload_dlls(self, cuda=True, cudnn=True, msvc=True, directory=None):
        for name in self.missing:
            print(f"Failed to load {name}: {name}: cannot open shared object file: No such file or directory")
        if self.missing:
            print(
                "Please follow https://onnxruntime.ai/docs/install/#cuda-and-cudnn to install CUDA and CuDNN."
            )

    def get_ep_devices(self):
        if not self.pinned:
            return real.get_ep_devices()
        return [
            SimpleNamespace(ep_name=CUDA, memory_info=lambda kind: SimpleNamespace(device_id=0, kind=kind))
        ]

    def _allocate(self, shape, element_type, device_type="cpu", device_id=0, vendor_id=-1, memory_info=None):
        if memory_info is not None:
            assert memory_info.kind == real.OrtDeviceMemoryType.HOST_ACCESSIBLE
            self.calls.append("pinned")
            return real.OrtValue.ortvalue_from_shape_and_type(shape, element_type)
        assert device_type == "cuda"
        return DeviceMemory(self, shape, element_type, device_id)


class SessionOptions:
    """Keeps what it is told."""

    def __init__(self):
        self.entries, self.free = {}, {}
        self.intra_op_num_threads = self.inter_op_num_threads = 0
        self.log_severity_level = 2

    def add_session_config_entry(self, key, value):
        self.entries[key] = value

    def add_free_dimension_override_by_name(self, name, value):
        self.free[name] = value


class DeviceMemory:
    """A tensor in the GPU's memory: the host cannot see it, so it has to be copied there."""

    def __init__(self, runtime, shape, element_type, device_id):
        self.runtime, self.device_id, self.memory = runtime, device_id, np.full(shape, 77, element_type)

    def update_inplace(self, data):
        assert data.flags.c_contiguous
        assert data.shape == self.memory.shape
        self.runtime.copies.append(self.memory.shape)
        self.memory[...] = data


class Session:
    """A session whose nodes are where the runtime says."""

    def __init__(self, runtime, model, options, providers):
        names = [one if isinstance(one, str) else one[0] for one in providers]
        self.runtime, self.options, self._asked = runtime, options, providers
        strict = options.entries.get("session.disable_cpu_ep_fallback") == "1"
        runtime.opened.append((names, dict(one for one in providers if not isinstance(one, str)), strict))
        if strict and CPU in names:
            raise Fail(CONFLICT)
        inner = real.SessionOptions()
        inner.log_severity_level = 4
        inner.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        for name, size in options.free.items():
            inner.add_free_dimension_override_by_name(name, size)
        self._real = real.InferenceSession(model, inner, providers=[CPU])
        working = [name for name in names if name != CPU] if runtime.loads else []
        self._providers = [*working, CPU]
        main = CPU if runtime.silent or not working else working[0]
        self.assigned = []
        for subgraph in self._real.get_provider_graph_assignment_info():
            for node in subgraph.get_nodes():
                self.assigned.append((CPU if node.op_type in runtime.on_cpu else main, node))
        if strict and not runtime.silent and any(provider == CPU for provider, _ in self.assigned):
            raise Fail(REFUSED)

    def get_inputs(self):
        return self._real.get_inputs()

    def get_outputs(self):
        return self._real.get_outputs()

    def get_providers(self):
        return self._providers

    def get_provider_graph_assignment_info(self):
        if not self.runtime.tells:
            raise AttributeError("get_provider_graph_assignment_info")
        return [
            SimpleNamespace(ep_name=provider, get_nodes=lambda node=node: [node])
            for provider, node in self.assigned
        ]

    def run(self, output_names, input_feed, run_options=None):
        if self.runtime.fails:
            raise self.runtime.fails
        found = self._real.run(output_names, input_feed)
        return [out + 1 for out in found] if self.runtime.wrong else found

    def io_binding(self):
        return Binding()

    def run_with_iobinding(self, iobinding, run_options=None):
        found = self.run(None, {name: read() for name, read in iobinding.sources.items()})
        for node, out in zip(self.get_outputs(), found, strict=True):
            iobinding.targets[node.name](out)


class Binding:
    """Remembers where to read and to write."""

    def __init__(self):
        self.sources, self.targets, self.devices = {}, {}, {}

    def bind_ortvalue_input(self, name, ortvalue):
        assert isinstance(ortvalue, DeviceMemory), "memory of the host would be copied now and never again"
        self.sources[name] = lambda: ortvalue.memory

    def bind_ortvalue_output(self, name, ortvalue):
        host = ortvalue.numpy()
        self.targets[name] = lambda out: np.copyto(host, out)

    def bind_input(self, name, device_type, device_id, element_type, shape, buffer_ptr):
        self.devices[name] = (device_type, device_id)
        self.sources[name] = lambda: _memory(element_type, shape, buffer_ptr)

    def bind_output(
        self, name, device_type="cpu", device_id=0, element_type=None, shape=None, buffer_ptr=None
    ):
        self.devices[name] = (device_type, device_id)
        self.targets[name] = lambda out: np.copyto(_memory(element_type, shape, buffer_ptr), out)


def _memory(element_type, shape, address):
    size = int(np.prod(shape)) * np.dtype(element_type).itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(address), element_type).reshape(shape)
