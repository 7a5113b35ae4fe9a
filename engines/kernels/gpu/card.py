"""One graphics card: its memory, its stream, and the kernels of ``cuda/`` compiled for it. Only this file and
``lane.py`` know CuPy.

Whoever opens a :class:`Card` owns its stream: one thread. Another has a :class:`~engines.kernels.gpu.lane.Lane`.
Nothing here allocates but :meth:`Card.empty` and :meth:`Card.pinned`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike

from engines.errors import EngineError
from engines.faces import Array
from engines.kernels.gpu.lane import Errors, Lane

FILES: Final = ("common", "crop", "paste", "mask", "mesh", "colour", "cells", "lift", "yuv")
"""The files of ``cuda/``, in the order in which they are put together."""

KERNELS: Final = (
    "crop_float", "crop_half", "bake_float", "bake_half", "paste", "feather_convex",
    "narrow_float", "narrow_half", "erode_lines", "blur_lines", "mesh_setup", "mesh_bin", "mesh_shade",
    "moment_parts_float", "moment_parts_half", "moment_sums", "cell_means", "stretch_cells", "paint_sprite", "lift",
    "put_back", "bgr_to_i420",
)  # fmt: skip

OPTIONS: Final = ("--std=c++17", "--fmad=false")
"""For the compiler. Unfused, a card computes what a processor computes, and the tests on a processor mean something;
what these kernels wait for is memory. Fast mathematics would let no number pass for one. CuPy itself adds -ftz=true:
numbers below 1e-38 are noughts."""

GpuArray = Any
"""A CuPy array."""

_TO_CARD, _FROM_CARD, _ON_CARD = 1, 2, 3
_FIX = "Use --device cpu, or --device auto."


def source() -> str:
    """All kernels as one text that includes nothing."""
    folder = Path(__file__).parent / "cuda"
    return "".join(f'#line 1 "{name}.cu"\n{(folder / f"{name}.cu").read_text("utf-8")}' for name in FILES)


def load_cupy() -> Any:
    """CuPy, on a machine where it finds a card.

    Raises:
        EngineError: It is not installed or finds none; the sentence says which.
    """
    try:
        import cupy
    except ImportError as error:
        raise EngineError(
            f"The GPU is reached through CuPy, which cannot be imported: {error}.",
            "Install it with the program: pip install 'doppelcam[gpu]'. " + _FIX,
        ) from None
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except RuntimeError as error:
        raise EngineError(
            f"CuPy finds no GPU: {error}.", "Install or update the NVIDIA driver. " + _FIX
        ) from None
    if count < 1:
        raise EngineError("CuPy finds no GPU on this machine.", _FIX)
    return cupy


class Recipe:
    """Launches and copies whose parameters were worked out once, to be done again and again.

    Args:
        card: Whose.
        steps: In their order.
    """

    def __init__(self, card: Card, steps: Sequence[Callable[[], None]]) -> None:
        self._card = card
        self._steps = tuple(steps)
        self._graph: Any = None

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def captured(self) -> bool:
        """Whether it runs as one CUDA graph."""
        return self._graph is not None

    def run(self) -> None:
        """Puts everything on the card's stream; does not wait for it.

        Raises:
            EngineError: The card failed.
        """
        with self._card.errors(), self._card.current():
            if self._graph is not None:
                self._graph.launch(self._card.stream)
                return
            for step in self._steps:
                step()

    def capture(self) -> str:
        """Makes one CUDA graph of it, so that the processor launches once and not step by step.

        Run it once before, outside: what allocates on its first run must not do so here.

        Returns:
            Nothing when it worked. Else why not; then it goes on step by step.
        """
        stream = self._card.stream
        with self._card.current():
            try:
                stream.begin_capture()
            except RuntimeError as error:
                return str(error)
            reason = ""
            try:
                for step in self._steps:
                    step()
            except (RuntimeError, EngineError) as error:
                reason = str(error)
            try:
                # A stream stays in capture until this, whatever went wrong before.
                graph = stream.end_capture()
            except RuntimeError as error:
                return reason or str(error)
        if not reason:
            self._graph = graph
        return reason


def alike(host: Any, array: GpuArray) -> None:
    """Makes sure that one can be copied into the other.

    Raises:
        ValueError: They differ in shape or type, or are not contiguous.
    """
    if (host.shape, host.dtype) != (array.shape, array.dtype):
        raise ValueError(f"{host.dtype} {host.shape} is not copied to or from {array.dtype} {array.shape}")
    if not (host.flags.c_contiguous and array.flags.c_contiguous):
        raise ValueError("only contiguous arrays are copied")


class Card:
    """A card with its kernels ready.

    Args:
        index: Which one.
        cupy: What stands in for CuPy, in tests.

    Attributes:
        stream: The CuPy stream on which everything happens.

    Raises:
        EngineError: There is no such card, or its kernels cannot be compiled.
    """

    def __init__(self, index: int = 0, cupy: Any = None) -> None:
        self._cupy = cupy or load_cupy()
        count = self._cupy.cuda.runtime.getDeviceCount()
        if not 0 <= index < count:
            raise EngineError(f"There is no GPU number {index}: this machine has {count}.", _FIX)
        self._device = self._cupy.cuda.Device(index)
        self._steps: list[Callable[[], None]] | None = None
        with self._device:
            self.stream = self._cupy.cuda.Stream(non_blocking=True)
            try:
                # CuPy keeps what it compiled on the disk, by this text, the options and the card.
                module = self._cupy.RawModule(code=source(), options=OPTIONS)
                self._functions = {name: module.get_function(name) for name in KERNELS}
            except Exception as error:  # CuPy raises what the compiler, the driver or the disk raised.
                raise EngineError(
                    f"The GPU's kernels cannot be compiled: {error}", "Update the NVIDIA driver. " + _FIX
                ) from error

    @property
    def name(self) -> str:
        """As the driver calls it."""
        about = self._cupy.cuda.runtime.getDeviceProperties(self._device.id)
        name = about["name"]
        return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)

    def current(self) -> Any:
        """A context in which the card and its stream are the ones that CuPy uses."""
        return _Both(self._device, self.stream)

    def errors(self) -> Any:
        """A context in which what the driver says becomes an :class:`EngineError`."""
        return Errors()

    def empty(self, shape: Sequence[int], dtype: DTypeLike) -> GpuArray:
        """Memory on the card, holding anything.

        Raises:
            EngineError: There is not enough.
        """
        with self.errors(), self.current():
            return self._cupy.empty(tuple(shape), dtype)

    def array(self, values: Array) -> GpuArray:
        """Values on the card, in memory of their own. Waits until they are there."""
        host = np.ascontiguousarray(values)
        array = self.empty(host.shape, host.dtype)
        self.upload(host, array)
        self.synchronize()
        return array

    def pinned(self, shape: Sequence[int], dtype: DTypeLike) -> Array:
        """Page-locked memory of the processor, the only kind that is copied without being waited for."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        with self.errors(), self.current():
            memory = self._cupy.cuda.alloc_pinned_memory(max(size, 1))
        return np.frombuffer(memory, np.uint8, size).view(dtype).reshape(tuple(shape))

    def upload(self, host: Array, array: GpuArray) -> None:
        """Copies to the card; returns before it is done when ``host`` is page-locked.

        Raises:
            ValueError: They differ in shape or type, or are not contiguous.
        """
        self._copy(array.data.ptr, host.ctypes.data, host, array, _TO_CARD)

    def download(self, array: GpuArray, host: Array) -> None:
        """Copies from the card; returns before it is done when ``host`` is page-locked.

        Raises:
            ValueError: They differ in shape or type, or are not contiguous.
        """
        self._copy(host.ctypes.data, array.data.ptr, host, array, _FROM_CARD)

    def copy(self, source: GpuArray, target: GpuArray) -> None:
        """Copies from one array of the card to another.

        Raises:
            ValueError: They differ in shape or type, or are not contiguous.
        """
        self._copy(target.data.ptr, source.data.ptr, source, target, _ON_CARD)

    def _copy(self, to: int, start: int, host: Any, array: GpuArray, kind: int) -> None:
        alike(host, array)
        copy, stream, size = self._cupy.cuda.runtime.memcpyAsync, self.stream.ptr, host.nbytes
        self.do(lambda: copy(to, start, size, kind, stream))

    def clear(self, array: GpuArray) -> None:
        """Fills an array with noughts."""
        if not array.flags.c_contiguous:
            raise ValueError("only contiguous arrays are cleared")
        clear, place, size, stream = (
            self._cupy.cuda.runtime.memsetAsync, array.data.ptr, array.nbytes, self.stream.ptr
        )  # fmt: skip
        self.do(lambda: clear(place, 0, size, stream))

    def launch(self, name: str, grid: Sequence[int], block: Sequence[int], *arguments: Any) -> None:
        """Starts a kernel.

        Args:
            name: One of :data:`KERNELS`.
            grid: Blocks along x, y and z.
            block: Threads of a block along x, y and z.
            arguments: CuPy arrays and NumPy scalars of the very types that the kernel takes.
        """
        function, places, threads = self._functions[name], tuple(grid), tuple(block)
        self.do(lambda: function(places, threads, arguments))

    def do(self, step: Callable[[], None]) -> None:
        """Does something on the card's stream: now, or as a part of the recipe that is being written.

        Raises:
            EngineError: The card failed.
        """
        if self._steps is not None:
            self._steps.append(step)
            return
        with self.errors(), self.current():
            step()

    def record(self, job: Callable[[], None]) -> Recipe:
        """Writes down what a job would launch and copy, without doing it.

        The arrays it names stay the ones that are used.

        Raises:
            EngineError: A recipe is being written already.
        """
        if self._steps is not None:
            raise EngineError("A recipe is written inside another one.")
        steps: list[Callable[[], None]] = []
        self._steps = steps
        try:
            job()
        finally:
            self._steps = None
        return Recipe(self, steps)

    def synchronize(self) -> None:
        """Waits for everything on the stream.

        Raises:
            EngineError: Something on it failed.
        """
        with self.errors():
            self.stream.synchronize()

    def event(self, timed: bool = False) -> Any:
        """A mark that can be set on a stream and waited for. Whoever waits on the processor sleeps meanwhile.

        Args:
            timed: Whether :meth:`elapsed_ns` is to know when it was passed.
        """
        with self.errors(), self.current():
            return self._cupy.cuda.Event(block=True, disable_timing=not timed)

    def mark(self, event: Any) -> None:
        """Sets an event behind everything that is on the stream."""
        with self.errors(), self.current():
            event.record(self.stream)

    def after(self, event: Any) -> None:
        """Lets the stream wait for an event of another one; the processor does not wait."""
        with self.errors(), self.current():
            self.stream.wait_event(event)

    def wait(self, event: Any) -> None:
        """Waits on the processor until an event is passed.

        Raises:
            EngineError: Something before it failed.
        """
        with self.errors(), self.current():
            event.synchronize()

    def elapsed_ns(self, begun: Any, ended: Any) -> int:
        """What went by on the card between two timed events that were passed."""
        with self.errors(), self.current():
            return int(self._cupy.cuda.get_elapsed_time(begun, ended) * 1e6)

    def lane(self) -> Lane:
        """Another stream of this card, for another thread."""
        with self.errors(), self.current():
            return Lane(self._cupy, self._device.id)

    def release(self) -> None:
        """Gives back to the driver what no array holds any more, on the card and of page-locked memory."""
        with self.errors(), self.current():
            self._cupy.get_default_memory_pool().free_all_blocks()
            self._cupy.get_default_pinned_memory_pool().free_all_blocks()

    def used_bytes(self) -> int:
        """Memory that arrays of this process hold on the card."""
        return int(self._cupy.get_default_memory_pool().used_bytes())


class _Both:
    """The device and the stream, entered together; cheaper than an exit stack, and used for every launch."""

    def __init__(self, device: Any, stream: Any) -> None:
        self._device, self._stream = device, stream

    def __enter__(self) -> None:
        self._device.__enter__()
        self._stream.__enter__()

    def __exit__(self, *about: Any) -> None:
        self._stream.__exit__(*about)
        self._device.__exit__(*about)
