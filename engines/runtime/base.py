"""What a network is to the rest of the program, whatever runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

    Its life, whatever runs it: :func:`~engines.runtime.open.open_network`, :func:`~engines.runtime.rate.warm_up`, any
    number of :meth:`run`, :meth:`close`. Fill :attr:`inputs` in place, call :meth:`run`, read :attr:`outputs`: nothing
    is allocated in between.

    Attributes:
        name: What to call it in a message.
        input_specs: Of every input, in the file's order.
        output_specs: Of every output, in the file's order.
        inputs: The input buffers, in the memory of the host.
        outputs: The output buffers, likewise; overwritten by the next run.
        nodes: How many nodes of the graph run on which provider. Says where it *really* runs.
    """

    name: str
    input_specs: Sequence[TensorSpec]
    output_specs: Sequence[TensorSpec]
    inputs: Sequence[Array]
    outputs: Sequence[Array]
    nodes: dict[str, int]

    def bind(self, inputs: Mapping[int, int], outputs: Mapping[int, int]) -> None:
        """Reads and writes memory of the network's own device in place of the host's buffers, from now on.

        This is for a pipeline that keeps its pictures on the device: nothing is copied for what is bound, and the
        buffer of the same number in :attr:`inputs` or :attr:`outputs` is not looked at any more.

        Args:
            inputs: For each input by its number, the address of memory with its shape and type, C-contiguous. It has to
                stay until :meth:`close`.
            outputs: For each output by its number, likewise.

        Raises:
            EngineError: The runtime refused.
        """
        ...

    def run(self) -> None:
        """Computes the outputs from the inputs.

        Raises:
            EngineError: The runtime failed.
        """
        ...

    def close(self) -> None:
        """Frees everything; may be called twice."""
        ...
