"""What a source of sound is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

RATE: Final = 48_000
"""Samples a second, everywhere inside."""
CHANNELS: Final = 2

Samples = NDArray[np.float32]
"""(n, 2) float32, left and right, -1…1."""


@dataclass(frozen=True, slots=True)
class AudioBlock:
    """Some sound, and when it was heard.

    Attributes:
        samples: (n, 2) float32 at :data:`RATE`.
        captured_ns: Monotonic time of its first sample.
    """

    samples: Samples
    captured_ns: int


class AudioSource(Protocol):
    """A microphone or a file. One thread opens, reads and closes it.

    Attributes:
        name: What to call it in a message.
    """

    name: str

    def open(self) -> None:
        """Gets ready.

        Raises:
            DeviceError: The microphone is missing, busy or not permitted.
            UsageError: The file cannot be read.
        """
        ...

    def read(self) -> AudioBlock | None:
        """The next block, once it was heard; None when the source was told to stop.

        Raises:
            DeviceError: The microphone was lost.
            UsageError: The file is broken.
        """
        ...

    def close(self) -> None:
        """Lets it go; may be called twice, and before :meth:`open`."""
        ...
