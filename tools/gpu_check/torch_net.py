"""A network's shape as PyTorch runs it: half precision, its norms in single."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tools.gpu_check.shape import LATENT, Conv, Shape


def build(torch: Any, shape: Shape, batch: int, device: str, half: bool = True) -> Callable[[Any], Any]:
    """Weights at random, on the device.

    Args:
        torch: PyTorch.
        shape: Which layers.
        batch: Pictures at a time.
        device: Where, in PyTorch's words.
        half: Whether to compute in half precision.

    Returns:
        Pictures in, (batch, 3, side, side) 0…1; pictures out, likewise.
    """
    kind = torch.float16 if half else torch.float32
    random = torch.Generator("cpu").manual_seed(0)

    def weights(*size: int) -> Any:
        inputs = 1
        for number in size[1:]:
            inputs *= number
        return (torch.randn(size, generator=random) * (2 / inputs) ** 0.5).to(device, kind)

    def layer(conv: Conv) -> Callable[[Any], Any]:
        kernel = weights(conv.outputs, conv.inputs, conv.kernel, conv.kernel)
        kernel = kernel.contiguous(memory_format=torch.channels_last)
        bias = torch.zeros(conv.outputs, device=device, dtype=kind)
        style = (weights(2 * conv.outputs, LATENT) @ latent.T).T if conv.styled else None

        def run(x: Any) -> Any:
            functions, pad = torch.nn.functional, conv.kernel // 2
            if conv.doubled:
                x = functions.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
            if conv.mirrored:
                x, pad = functions.pad(x, (pad,) * 4, mode="reflect"), 0
            x = functions.conv2d(x, kernel, bias, conv.stride, pad)
            if style is not None:
                gain, offset = style[:, :, None, None].chunk(2, dim=1)
                single = x.float()
                centred = single - single.mean((2, 3), keepdim=True)
                spread = (centred.square().mean((2, 3), keepdim=True) + 1e-8).rsqrt()
                x = (centred * spread).to(kind) * (1 + gain) + offset
            if conv.after == "leaky":
                return functions.leaky_relu(x, 0.2)
            return {"relu": torch.relu, "tanh": torch.tanh, "": lambda y: y}[conv.after](x)

        return run

    latent = torch.randn((batch, LATENT), generator=random).to(device, kind)
    latent = latent / latent.norm(dim=1, keepdim=True)
    head, tail = [layer(conv) for conv in shape.head], [layer(conv) for conv in shape.tail]
    blocks = [[layer(conv) for conv in block] for block in shape.blocks]

    def run(pictures: Any) -> Any:
        with torch.inference_mode():
            x = pictures.contiguous(memory_format=torch.channels_last)
            for step in head:
                x = step(x)
            for block in blocks:
                y = x
                for step in block:
                    y = step(y)
                x = x + y
            for step in tail:
                x = step(x)
            return (x + 1) / 2

    return run
