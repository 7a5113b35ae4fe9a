"""The layers of inswapper_128 as they were published, as data: to size and to time, with weights that know no face."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SIDE: Final = 128
LATENT: Final = 512


@dataclass(frozen=True)
class Conv:
    """A convolution and what surrounds it.

    Attributes:
        inputs: Channels.
        outputs: Channels.
        kernel: Side of its window, pixels.
        stride: Pixels from window to window.
        doubled: Whether its input is made twice as large first, bilinearly.
        mirrored: Whether its border is mirrored, not black.
        styled: Whether its output is brought to mean 0 and spread 1, and to what the source face asks for then.
        after: ``leaky``, ``relu``, ``tanh`` or nothing.
    """

    inputs: int
    outputs: int
    kernel: int = 3
    stride: int = 1
    doubled: bool = False
    mirrored: bool = False
    styled: bool = False
    after: str = "leaky"


@dataclass(frozen=True)
class Shape:
    """Layers before, within and after the blocks, each of which is added to its own input.

    Attributes:
        head: First layers.
        blocks: Pairs of layers.
        tail: Last layers.
    """

    head: tuple[Conv, ...]
    blocks: tuple[tuple[Conv, ...], ...]
    tail: tuple[Conv, ...]

    @property
    def parameters(self) -> int:
        """Numbers in its weights."""
        return sum(_parameters(layer) for layer, _ in self._sized())

    @property
    def operations(self) -> float:
        """Multiplications and additions of its convolutions, for one picture of 128 pixels."""
        return float(sum(
            2 * layer.kernel**2 * layer.inputs * layer.outputs * side**2 for layer, side in self._sized()
        ))  # fmt: skip

    def _sized(self) -> list[tuple[Conv, int]]:
        """Every layer with the side of its output, pixels."""
        side, found = SIDE, []
        for layer in (*self.head, *(layer for block in self.blocks for layer in block), *self.tail):
            side = side * (2 if layer.doubled else 1) // layer.stride
            found.append((layer, side))
        return found


def inswapper(thinner: int = 1) -> Shape:
    """The published shape: 138 million parameters, 175 thousand million multiplications and as many additions.

    Args:
        thinner: Channels are divided by this, for tests.
    """
    c = 1024 // thinner
    block = (Conv(c, c, styled=True, after="relu"), Conv(c, c, styled=True, after=""))
    return Shape(
        (
            Conv(3, c // 8, 7, mirrored=True), Conv(c // 8, c // 4), Conv(c // 4, c // 2, stride=2),
            Conv(c // 2, c, stride=2),
        ),
        (block,) * 6,
        (
            Conv(c, c // 2, doubled=True), Conv(c // 2, c // 4, doubled=True), Conv(c // 4, c // 8),
            Conv(c // 8, 3, 7, mirrored=True, after="tanh"),
        ),
    )  # fmt: skip


def _parameters(layer: Conv) -> int:
    convolution = layer.kernel**2 * layer.inputs * layer.outputs + layer.outputs
    return convolution + (2 * layer.outputs * (LATENT + 1) if layer.styled else 0)
