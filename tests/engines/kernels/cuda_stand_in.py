"""CuPy for machines without a card: arrays in NumPy memory, kernels run by the processor, and everything counted.

Only what the program uses is here, and nothing that CuPy would refuse: an array is no NumPy array, and a copy is an
explicit one.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections import Counter, deque

import numpy as np

from engines.kernels.gpu.card import KERNELS, Card
from engines.kernels.gpu.faces import FaceKernels
from engines.kernels.gpu.mesh import MeshKernels
from engines.kernels.gpu.pictures import PictureKernels
from tests.engines.kernels import cuda_host


class Pointer:
    def __init__(self, address):
        self.ptr = address


class DeviceArray:
    """What CuPy's ndarray is to the program."""

    def __init__(self, memory):
        self._memory = memory
        self.shape, self.strides, self.dtype = memory.shape, memory.strides, memory.dtype
        self.ndim, self.nbytes, self.flags = memory.ndim, memory.nbytes, memory.flags
        self.data = Pointer(memory.ctypes.data)

    def __array__(self, *_args, **_kwargs):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __getitem__(self, index):
        part = self._memory[index]
        assert part.base is not None, "that would copy"
        return DeviceArray(part)

    def view(self, dtype):
        return DeviceArray(self._memory.view(dtype))

    def transpose(self, *axes):
        return DeviceArray(self._memory.transpose(*axes))

    def reshape(self, *shape):
        return DeviceArray(self._memory.reshape(*shape))


class Context:
    def __enter__(self):
        return self

    def __exit__(self, *about):
        return None


class Stream(Context):
    """What is put on it happens at once, or, on a lazy stand-in, when somebody waits for it and not before."""

    def __init__(self, cupy):
        self._cupy, self.ptr = cupy, 7 + len(cupy.streams)
        self.queue = deque()
        cupy.streams[self.ptr] = self

    def put(self, what, step):
        """Puts a step on the stream, and writes down that it was put there."""
        cupy = self._cupy
        cupy.fails(what)
        cupy.log.append((what, self.ptr))
        if cupy.lazy and cupy.captured is None:
            with cupy.lock:
                self.queue.append(step)
        else:
            step()

    def run(self, until=lambda: False):
        """Does what is on the stream, up to when something is true."""
        with self._cupy.lock:
            while self.queue and not until():
                self.queue.popleft()()

    def synchronize(self):
        assert self._cupy.captured is None, "nobody waits for a stream that is captured"
        self._cupy.fails("waits")
        self._cupy.counts["waits"] += 1
        self._cupy.log.append(("waits", self.ptr))
        self.run()

    def wait_event(self, event):
        recorded = event.recorded
        self.put(("after", event.number), lambda: recorded is None or recorded())

    def begin_capture(self):
        if self._cupy.refuses_capture:
            raise RuntimeError("cudaErrorStreamCaptureUnsupported")
        assert self._cupy.captured is None
        self._cupy.captured = []

    def end_capture(self):
        steps, self._cupy.captured = self._cupy.captured, None
        return Graph(self._cupy, steps)


class Event:
    def __init__(self, cupy, block, disable_timing):
        assert block, "a processor that waits must not spin"
        self._cupy, self.timed = cupy, not disable_timing
        cupy.counts["events"] += 1
        self.number = cupy.counts["events"]
        self.recorded = None
        self.at = None

    def record(self, stream):
        done = []

        def happen():
            done.append(1)
            self._cupy.time += 1
            self.at = self._cupy.time

        stream.put(("mark", self.number), happen)
        self.recorded = lambda: stream.run(lambda: bool(done))

    def synchronize(self):
        self._cupy.fails("waits")
        self._cupy.counts["waits"] += 1
        self._cupy.log.append(("waits for", self.number))
        if self.recorded is not None:
            self.recorded()


class Graph:
    def __init__(self, cupy, steps):
        self._cupy, self._steps = cupy, steps

    def launch(self, stream):
        self._cupy.counts["graphs"] += 1

        def all_of_them():
            for step in self._steps:
                step()

        stream.put("graphs", all_of_them)


class Device(Context):
    def __init__(self, index):
        self.id = index


class RawModule:
    def __init__(self, cupy, code, options):
        assert code.isascii()
        assert "--use_fast_math" not in options
        self._cupy = cupy
        cupy.counts["compiled"] += 1

    def get_function(self, name):
        assert name in KERNELS
        run = cuda_host.kernel(name)

        def start(grid, block, arguments):
            # A kernel is given to the stream that is current; there is one that kernels ever run on.
            self._cupy.happens("launches", lambda: run(grid, block, arguments), name=name)

        return start


class Runtime:
    def __init__(self, cupy):
        self._cupy = cupy

    def getDeviceCount(self):
        return 1

    def getDeviceProperties(self, index):
        return {"name": b"stand-in", "multiProcessorCount": 1, "major": 0, "minor": 0}

    def memcpyAsync(self, to, start, size, kind, stream):
        what = {1: "uploads", 2: "downloads", 3: "copies"}[kind]
        cupy = self._cupy
        if what == "uploads" and not cupy.is_locked(start, size) and cupy.lazy:
            # CUDA takes what is not page-locked out of the way before it returns.
            there = ctypes.string_at(start, size)
            cupy.happens(what, lambda: ctypes.memmove(to, there, size), size, stream)
            return
        cupy.happens(what, lambda: ctypes.memmove(to, start, size), size, stream)
        if what == "downloads" and not cupy.is_locked(to, size) and cupy.captured is None:
            cupy.streams[stream].run()

    def memsetAsync(self, place, value, size, stream):
        self._cupy.happens("clears", lambda: ctypes.memset(place, value, size), 0, stream)

    def hostRegister(self, place, size, flags):
        cupy = self._cupy
        if cupy.refuses_lock:
            raise RuntimeError("cudaErrorHostMemoryAlreadyRegistered")
        assert place not in cupy.locked
        cupy.locked[place] = size
        cupy.counts["locked"] += 1

    def hostUnregister(self, place):
        del self._cupy.locked[place]


class Cuda:
    def __init__(self, cupy):
        self._cupy = cupy
        self.runtime, self.Device = Runtime(cupy), Device

    def Stream(self, non_blocking):
        assert non_blocking
        return Stream(self._cupy)

    def Event(self, block, disable_timing):
        return Event(self._cupy, block, disable_timing)

    def get_elapsed_time(self, begun, ended):
        assert begun.timed and ended.timed
        assert begun.at is not None and ended.at is not None, "nobody waited for it"
        return float(ended.at - begun.at)

    def alloc_pinned_memory(self, size):
        self._cupy.fails("pinned")
        self._cupy.counts["pinned"] += 1
        memory = np.zeros(size, np.uint8)
        self._cupy.held_here += size
        weakref.finalize(memory, self._cupy.let_go_here, size)
        self._cupy.locked[memory.ctypes.data] = size
        weakref.finalize(memory, self._cupy.locked.pop, memory.ctypes.data, None)
        return memory


class Pool:
    def __init__(self, cupy):
        self._cupy = cupy

    def used_bytes(self):
        return self._cupy.held

    def free_all_blocks(self):
        self._cupy.counts["released"] += 1


class StandIn:
    """Handed to :class:`engines.kernels.gpu.card.Card` in the place of CuPy.

    Args:
        refuses_capture: Whether no stream can be captured.
        lazy: Whether what is put on a stream is done as late as CUDA might do it: when somebody waits for it. Then
            whoever forgets to wait is found out.

    Attributes:
        counts: allocations, uploads, downloads, copies, launches, clears, graphs, waits, pinned, compiled, events.
        bytes: Of uploads and downloads.
        sizes: Of every upload and download, in their order.
        allocated: Bytes that were ever taken.
        held: Bytes of the card that arrays hold now; ``held_here`` those of page-locked memory.
        log: What was put on which stream, and what was waited for.
        fault: An exception for what is named in ``faulty``.
    """

    def __init__(self, refuses_capture=False, lazy=False):
        self.counts, self.bytes, self.sizes, self.allocated = Counter(), Counter(), [], 0
        self.held = self.held_here = self.time = 0
        self.captured, self.refuses_capture, self.lazy, self.refuses_lock = None, refuses_capture, lazy, False
        self.streams, self.locked, self.log = {}, {}, []
        self.lock = threading.RLock()
        self.fault, self.faulty = None, ()
        self.cuda = Cuda(self)

    def fails(self, what):
        if self.fault is not None and (what in self.faulty or not self.faulty):
            raise self.fault

    def is_locked(self, place, size):
        return any(
            start <= place and place + size <= start + long for start, long in list(self.locked.items())
        )

    def let_go(self, size):
        self.held -= size

    def let_go_here(self, size):
        self.held_here -= size

    def happens(self, what, step, size=0, stream=7, name=None):
        """Does a step and counts it; while a stream is captured it is only written down."""

        def counted():
            self.counts[what] += 1
            self.bytes[what] += size
            if size:
                self.sizes.append((what, size))
            step()

        if self.captured is None:
            self.streams[stream].put(name or what, counted)
        else:
            self.captured.append(counted)

    def empty(self, shape, dtype):
        assert self.captured is None, "memory is not taken while a stream is captured"
        self.fails("allocations")
        self.counts["allocations"] += 1
        memory = np.empty(shape, dtype)
        # What was never written must not look like noughts.
        memory.view(np.uint8).reshape(-1)[:] = 0xAB
        self.allocated += memory.nbytes
        self.held += memory.nbytes
        weakref.finalize(memory, self.let_go, memory.nbytes)
        return DeviceArray(memory)

    def RawModule(self, code, options):
        return RawModule(self, code, options)

    def get_default_memory_pool(self):
        return Pool(self)

    def get_default_pinned_memory_pool(self):
        return Pool(self)


class Desk:
    """A stand-in card with every kernel, and short words for going there and back.

    Attributes:
        cupy: The stand-in, with its counts.
        card: The program's own card on it.
    """

    def __init__(self, size=(64, 48), faces=4, triangles=64, lazy=False):
        self.cupy = StandIn(lazy=lazy)
        self.card = Card(cupy=self.cupy)
        self.mesh = MeshKernels(self.card, size, triangles)
        self.faces = FaceKernels(self.card, faces)
        self.pictures = PictureKernels(self.card)

    def there(self, *arrays):
        """Copies on the card; one alone is no tuple."""
        copies = tuple(self.card.array(np.asarray(array)) for array in arrays)
        return copies if len(copies) > 1 else copies[0]

    def back(self, array):
        """A contiguous array of the card as NumPy's."""
        host = np.empty(array.shape, array.dtype)
        self.card.download(array, host)
        self.card.synchronize()
        return host
