"""ONNX to a plan, through the builder of TensorRT 11 or TensorRT-RTX: strongly typed, shapes fixed."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from engines.errors import EngineError
from engines.runtime.trt.bindings import TensorRt, brief

FLAGS: Final = ("strongly typed", "static", "level 3")
"""What the builder is told, as a part of a plan's key."""

_LEVEL: Final = 3
_WORKSPACE: Final = 4 << 30
_FATAL: Final = 1

Report = Callable[[float, str], bool]
"""Takes how far the build is, 0…1, and what it is doing; returns whether to go on."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """What the builder gave.

    Attributes:
        plan: The plan.
        timings: The timing cache as it is now; empty with TensorRT-RTX, which has none.
        layers: Of the network as it was parsed.
        warned: What the builder warned of.
    """

    plan: bytes = field(repr=False)
    timings: bytes = field(repr=False)
    layers: int
    warned: tuple[str, ...]


def compile_plan(
    trt: TensorRt, model: bytes, name: str, report: Report, timings: bytes = b"", for_this_gpu: bool = True
) -> Compiled:
    """Builds a plan. Takes minutes, and a GPU unless it is TensorRT-RTX's.

    Args:
        trt: TensorRT.
        model: ONNX with fixed shapes, each value of the type that it is to be computed in.
        name: Of the model, for messages.
        report: Told how far it is.
        timings: The timing cache of an earlier build.
        for_this_gpu: With TensorRT-RTX, for the GPU that is there and not for every one.

    Raises:
        EngineError: TensorRT does not take the model, or was told to stop.
    """
    module = trt.module
    trt.said()
    try:
        builder = module.Builder(trt.logger)
        # Without it TensorRT 10's rules would hold where they still exist, and float16 would be a mere wish.
        network = builder.create_network(1 << int(module.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
        parser = module.OnnxParser(network, trt.logger)
        parsed = parser.parse(model)
    except Exception as error:
        raise EngineError(
            f"TensorRT cannot be used here: {brief(error)}.", "See: doppelcam doctor"
        ) from error
    if not parsed or network.num_outputs < 1:  # of nothing at all it makes an empty network, and is content
        raise EngineError(
            f"TensorRT cannot read {name}: {_why_not_parsed(parser, trt)}.",
            "Export it again with other operators, or run it without TensorRT.",
        )
    free = [one.name for one in _inputs(network) if any(int(size) < 1 for size in one.shape)]
    if free:
        raise EngineError(f"The input {free[0]} of {name} has no fixed size.", "Give --batch or --side.")
    config = builder.create_builder_config()
    config.set_memory_pool_limit(module.MemoryPoolType.WORKSPACE, _WORKSPACE)
    config.builder_optimization_level = _LEVEL
    monitor = _monitor(module, report)
    config.progress_monitor = monitor
    if trt.is_rtx:
        if for_this_gpu:
            config.num_compute_capabilities = 1
            config.set_compute_capability(module.ComputeCapability.CURRENT, 0)
    else:
        _use_timings(config, timings)
    layers = int(network.num_layers)
    built = builder.build_serialized_network(network, config)
    if monitor.stopped:
        raise EngineError(f"Building {name} was stopped.")
    if built is None:
        raise EngineError(
            f"TensorRT cannot build {name}: {trt.why('it does not say why')}.",
            "Close other programs that use the GPU, or run it without TensorRT.",
        )
    kept = b"" if trt.is_rtx else _timings_of(config)
    warned = tuple(dict.fromkeys(brief(text) for severity, text in trt.said() if severity > _FATAL))
    return Compiled(bytes(built), kept, layers, warned)


def _inputs(network: Any) -> list[Any]:
    return [network.get_input(number) for number in range(network.num_inputs)]


def _why_not_parsed(parser: Any, trt: TensorRt) -> str:
    for number in range(parser.num_errors):
        error = parser.get_error(number)
        node = f" (operator {error.node_operator()})" if error.node_operator() else ""
        return brief(error.desc()) + node
    return trt.why("it does not say why")


def _use_timings(config: Any, timings: bytes) -> None:
    """Gives the builder an earlier cache; one that it does not take is replaced by an empty one."""
    for blob in (timings, b"") if timings else (b"",):
        with contextlib.suppress(Exception):  # pybind raises what it likes for a broken blob
            cache = config.create_timing_cache(blob)
            if cache is not None and config.set_timing_cache(cache, False):
                return


def _timings_of(config: Any) -> bytes:
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cache = config.get_timing_cache()
        if cache is not None:
            return bytes(cache.serialize())
    return b""


def _monitor(module: Any, report: Report) -> Any:
    class Monitor(module.IProgressMonitor):  # type: ignore[misc]
        """Phases lie inside each other; each step of an outer one is the whole of those inside."""

        def __init__(self) -> None:
            module.IProgressMonitor.__init__(self)
            self.stopped = False
            self._phases: dict[str, tuple[str | None, int, int]] = {}
            self._furthest = 0.0

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            self._phases[phase_name] = (parent_phase, max(int(num_steps), 1), 0)

        def step_complete(self, phase_name: str, step: int) -> bool:
            parent, steps, _ = self._phases.get(phase_name, (None, 1, 0))
            self._phases[phase_name] = (parent, steps, int(step) + 1)
            try:
                # A phase may turn out to have more inside of it than was known; nobody wants to go back.
                self._furthest = max(self._furthest, self._done(phase_name))
                goes_on = report(self._furthest, phase_name)
            except Exception:  # must not pass through the builder
                goes_on = False
            self.stopped = self.stopped or not goes_on
            return goes_on

        def phase_finish(self, phase_name: str) -> None:
            self._phases.pop(phase_name, None)

        def _done(self, phase: str) -> float:
            share = 0.0
            name: str | None = phase
            # Bounded, whatever a builder calls its phases.
            for _ in range(len(self._phases)):
                if name is None or name not in self._phases:
                    break
                parent, steps, done = self._phases[name]
                share = min((done + share) / steps, 1.0)
                name = parent
            return share

    return Monitor()
