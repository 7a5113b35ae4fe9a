"""What a network is to the rest of the program, whatever runs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from engines.faces import Array


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input or output.

    Attributes:
        name: As in the model's file; exporters differ, so nothing is found by it.
        shape: Every dimension fixed.
        dtype: NumPy's name of the type.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str


class Network(Protocol):
    """One network, opened once, run by one thread with buffers that stay where they are.

    Fill :attr:`inputs` in place, call :meth:`run`, read :attr:`outputs`: nothing is allocated in between.

    Attributes:
        name: What to call it in a message.
        input_specs: Of every input, in the file's order.
        output_specs: Of every output, in the file's order.
        inputs: The input buffers.
        outputs: The output buffers; overwritten by the next run.
        nodes: How many nodes of the graph run on which provider. Says where it *really* runs.
    """

    name: str
    input_specs: Sequence[TensorSpec]
    output_specs: Sequence[TensorSpec]
    inputs: Sequence[Array]
    outputs: Sequence[Array]
    nodes: dict[str, int]

    def run(self) -> None:
        """Computes the outputs from the inputs.

        Raises:
            EngineError: The runtime failed.
        """
        ...

    def close(self) -> None:
        """Frees everything; may be called twice."""
        ...
