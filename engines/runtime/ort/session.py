"""A session of ONNX Runtime that runs where it was told to, or is refused.

ONNX Runtime gives to the CPU whatever a GPU's provider does not take, and all of it when that provider does not load,
and says nothing. So a GPU is first asked for with no CPU behind it. Only what is refused then is opened with one, to
see which nodes it is for. Those that do arithmetic with shapes are welcome there, as ONNX Runtime itself prefers it:
their few numbers are needed by the host anyway. Anything else is an error that names them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from engines.errors import EngineError
from engines.runtime.ort.bindings import CPU_PROVIDER, CUDA_PROVIDER, TENSORRT_PROVIDER

_ABOUT_SHAPES: Final = frozenset(
    (
        "Shape", "Size", "Gather", "Slice", "Concat", "Unsqueeze", "Squeeze", "Cast", "Range", "ConstantOfShape",
        "Constant", "Identity", "Reshape", "Add", "Sub", "Mul", "Div", "Mod", "Min", "Max", "Floor", "Ceil", "Equal",
        "Less", "Greater", "Not", "And", "Or", "Where", "Expand", "ReduceProd",
    )
)  # fmt: skip
_SHAPE_SOURCES: Final = frozenset({"Shape", "Size"})
_MOST_ABOUT_SHAPES: Final = 0.25
"""Of all nodes."""

_SHOWN: Final = 6


class Node(NamedTuple):
    """One node of a graph and who runs it."""

    provider: str
    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where and how a session is to run.

    Attributes:
        gpu: Number of the GPU; None for the CPU.
        threads: Threads inside one operator, on the CPU; 0 for one per core.
        tensorrt: Through ONNX Runtime's TensorRT provider, with CUDA for what it leaves.
        stream: Address of the CUDA stream to run on; 0 for one of its own.
        free: Sizes of named free dimensions.
    """

    gpu: int | None = None
    threads: int = 1
    tensorrt: bool = False
    stream: int = 0
    free: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As on the command line."""
        return "cpu" if self.gpu is None else f"cuda:{self.gpu}"


def open_session(ort: Any, model: str | bytes, place: Place, name: str) -> tuple[Any, dict[str, int]]:
    """Opens a session, and makes sure of where it runs.

    Args:
        ort: ONNX Runtime.
        model: The file's path, or its bytes.
        place: Where to run it.
        name: What to call it.

    Returns:
        The session, and how many nodes run on which provider.

    Raises:
        EngineError: It would not run where it was told to.
        Exception: Of the runtime's own classes, for everything else.
    """
    if place.gpu is None:
        session = _make(ort, model, place, [CPU_PROVIDER], strict=False)
        return session, _counts(nodes_of(session), session)
    wanted = _gpu_providers(place)
    lacking = next((one for one, _ in wanted if one not in ort.get_available_providers()), None)
    if lacking:
        raise EngineError(
            f"{name} was to run on {place.name}, and this ONNX Runtime has no {lacking}.",
            "See what doctor says: doppelcam doctor",
        )
    try:
        session = _make(ort, model, place, wanted, strict=True)
    except Exception as error:
        if "CPU EP" not in str(error):
            raise
        session = _make(ort, model, place, [*wanted, CPU_PROVIDER], strict=False)
    nodes = nodes_of(session)
    _check(nodes, session, wanted[0][0], place, name)
    return session, _counts(nodes, session)


def nodes_of(session: Any) -> list[Node] | None:
    """Every node and who runs it; None where the runtime is too old to tell."""
    try:
        return [
            Node(subgraph.ep_name, node.name, node.op_type)
            for subgraph in session.get_provider_graph_assignment_info()
            for node in subgraph.get_nodes()
        ]
    except (AttributeError, TypeError, RuntimeError):
        return None


def _gpu_providers(place: Place) -> list[tuple[str, dict[str, str]]]:
    about = {"device_id": str(place.gpu)}
    if place.stream:
        about["user_compute_stream"] = str(place.stream)
    # Memory for several networks: each takes what it needs, not the next power of two.
    cuda = (CUDA_PROVIDER, {**about, "arena_extend_strategy": "kSameAsRequested"})
    return [(TENSORRT_PROVIDER, about), cuda] if place.tensorrt else [cuda]


def _make(ort: Any, model: str | bytes, place: Place, providers: list[Any], *, strict: bool) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = place.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4 if strict else 3
    # A spinning thread would take a core from capture and output.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if strict:
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    for dim, size in place.free.items():
        options.add_free_dimension_override_by_name(dim, size)
    # Without the last one its Python layer opens the session once more on the CPU when a provider fails.
    return ort.InferenceSession(model, options, providers=providers, enable_fallback=0)


def _check(nodes: list[Node] | None, session: Any, provider: str, place: Place, name: str) -> None:
    if provider not in session.get_providers():
        raise EngineError(
            f"{name} was to run on {place.name}, and ONNX Runtime could not load its {provider}.",
            "See what doctor says: doppelcam doctor",
        )
    if nodes is None:
        raise EngineError(
            f"{name} was to run on {place.name}, and this ONNX Runtime does not tell where it runs.",
            "Type: pip install 'doppelcam[gpu]'",
        )
    on_cpu = [node for node in nodes if node.provider == CPU_PROVIDER]
    on_gpu = len(nodes) - len(on_cpu)
    if nodes and not on_gpu:
        raise EngineError(
            f"{name} was to run on {place.name}, and ONNX Runtime gave all of its {len(nodes)} nodes to the CPU.",
            "Use --device cpu to have it so, or see what doctor says: doppelcam doctor",
        )
    if on_cpu and not _only_about_shapes(on_cpu, len(nodes)):
        shown = ", ".join(f"{node.kind} ({node.name})" for node in on_cpu[:_SHOWN])
        more = f" and {len(on_cpu) - _SHOWN} more" if len(on_cpu) > _SHOWN else ""
        raise EngineError(
            f"{name} was to run on {place.name}, and {len(on_cpu)} of its {len(nodes)} nodes would run on the CPU: "
            f"{shown}{more}.",
            "Export it again with operators that CUDA has, or use --device cpu for all of it.",
        )


def _only_about_shapes(on_cpu: list[Node], count: int) -> bool:
    kinds = {node.kind for node in on_cpu}
    return (
        kinds <= _ABOUT_SHAPES and bool(kinds & _SHAPE_SOURCES) and len(on_cpu) <= _MOST_ABOUT_SHAPES * count
    )


def _counts(nodes: list[Node] | None, session: Any) -> dict[str, int]:
    if nodes is None:
        # An old runtime; with one provider listed the answer is known all the same.
        return dict.fromkeys(session.get_providers(), 0)
    return dict(Counter(node.provider for node in nodes).most_common())
