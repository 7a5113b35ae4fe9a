"""What a model file says of its inputs, outputs and weights, as the catalogue compares it: sizes, or left open."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from engines.errors import EngineError, UsageError
from engines.files import open_regular, quoted
from engines.runtime.model.file import HEAD, outline_of, stranger
from engines.runtime.model.format import Declared, Weight
from engines.runtime.model.protobuf import Malformed, Truncated


@dataclass(frozen=True, slots=True)
class Value:
    """One input, output or weight.

    Attributes:
        name: As in the file.
        shape: Sizes; None for one that is left open. None where no shape is given at all.
        dtype: NumPy's name, ``bfloat16``, or empty for another one.
    """

    name: str
    shape: tuple[int | None, ...] | None
    dtype: str


@dataclass(frozen=True, slots=True)
class Graph:
    """What a model file takes and gives.

    Attributes:
        inputs: What has to be fed, in the file's order; weights that are listed as inputs are left out.
        outputs: In the file's order.
        weights: In the file's order.
        nodes: How many operations there are.
        opset: Version of ONNX's own operators.
    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    weights: tuple[Value, ...]
    nodes: int
    opset: int


def read_graph(path: Path) -> Graph:
    """Reads what a model file says of itself.

    Args:
        path: ``.onnx`` or ``.dfm``.

    Raises:
        UsageError: There is no such file, or it cannot be read.
        EngineError: It is no ONNX model, or not all of one; the sentence says what it is, where that can be told.
    """
    with open_regular(path, "a model") as file:
        kind = stranger(file.read(HEAD))
        if kind:
            raise EngineError(f"{quoted(path)} is {kind}, not an ONNX model.", "Download it again.")
        try:
            told = outline_of(file)
            if not told.outputs or not told.nodes:
                raise Malformed("it has no graph")
        except Truncated as cut:
            raise _broken(path, f"it ends early, of at least {cut.promised:,} bytes") from None
        except Malformed as wrong:
            raise _broken(path, str(wrong)) from None
    return Graph(_values(told.inputs), _values(told.outputs), _values(told.weights), told.nodes, told.opset)


def graph_or_none(path: Path) -> Graph | None:
    """The same, None for whatever is no ONNX model."""
    try:
        return read_graph(path)
    except (EngineError, UsageError, OSError):
        return None


def _broken(path: Path, why: str) -> EngineError:
    return EngineError(f"{quoted(path)} is not a whole ONNX model: {why}.", "Download it again.")


def _values(declared: Iterable[Declared | Weight]) -> tuple[Value, ...]:
    """The same without the names of sizes that are left open."""
    return tuple(
        Value(
            one.name,
            None
            if one.shape is None
            else tuple(size if isinstance(size, int) else None for size in one.shape),
            one.dtype,
        )
        for one in declared
    )
