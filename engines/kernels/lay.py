"""The innermost loop of paste-back, in LLVM's portable vectors of 16-bit numbers.

A crop that is pasted back has its colours matched already, so a pixel needs no light of its own as in
:mod:`engines.kernels.span`: it is sampled and blended, and for that 16 bits are enough. Values carry six binary places,
weights fifteen; a product's upper half is one instruction on every processor. Nothing is off by more than a twentieth
of a level.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from engines.kernels.vectors import (
    BYTE,
    INT,
    SHORT,
    before,
    clamp,
    joined,
    mix,
    pair,
    pick,
    ramps,
    repeat,
    same,
    texels_at,
    vector,
    weights,
)

BLOCK = 8
"""Pixels that are blended at a time."""


def _texels(builder: ir.IRBuilder, texture: ir.Value, stride: ir.Value, u: ir.Value, v: ir.Value) -> ir.Value:
    """Bilinear samples: four numbers a pixel with six binary places."""
    pixels = u.type.count
    corners = texels_at(builder, texture, stride, u, v)
    upper = joined(builder, [pair(builder, corner) for corner in corners])
    lower = joined(builder, [pair(builder, builder.add(corner, stride)) for corner in corners])
    six = same(upper.type, 6)
    down = builder.add(builder.shl(upper, six), mix(builder, upper, lower, weights(builder, v, 8), 7))
    near = pick(builder, down, [8 * pixel + channel for pixel in range(pixels) for channel in range(4)])
    far = pick(builder, down, [8 * pixel + channel + 4 for pixel in range(pixels) for channel in range(4)])
    return builder.add(near, mix(builder, near, far, weights(builder, u, 4), 1))


def _blend(
    builder: ir.IRBuilder, target: ir.Value, texture: ir.Value, stride: ir.Value, u: ir.Value, v: ir.Value,
    inside: ir.Value,
) -> None:  # fmt: skip
    """Blends as many pixels as u has lanes; those that are not inside are written back as they were."""
    pixels = u.type.count
    lanes = 4 * pixels
    lit = _texels(builder, texture, stride, u, v)
    opacity = pick(builder, lit, [lane | 3 for lane in range(lanes)])
    # 255 with six places becomes one with fifteen.
    opacity = builder.add(
        builder.shl(opacity, same(opacity.type, 1)), builder.lshr(opacity, same(opacity.type, 7))
    )
    covered = pick(builder, inside, [lane // 4 for lane in range(lanes)])
    opacity = builder.select(covered, opacity, same(opacity.type, 0))
    place = builder.inttoptr(target, vector(BYTE, 3 * pixels).as_pointer())
    # The fourth lane of a pixel repeats its red; it is not written back.
    widened = [3 * (lane // 4) + min(lane % 4, 2) for lane in range(lanes)]
    below = builder.zext(pick(builder, builder.load(place, align=1), widened), vector(SHORT, lanes))
    below = builder.shl(below, same(below.type, 6))
    mixed = builder.add(below, mix(builder, below, lit, opacity, 1))
    mixed = builder.lshr(builder.add(mixed, same(mixed.type, 32)), same(mixed.type, 6))
    as_bytes = builder.trunc(mixed, vector(BYTE, lanes))
    builder.store(pick(builder, as_bytes, [lane for lane in range(lanes) if lane % 4 < 3]), place, align=1)


def _run(builder: ir.IRBuilder, pixels: int, arguments: Sequence[ir.Value]) -> None:
    """A loop that blends ``pixels`` at a time, the last ones behind a mask."""
    count, target, texture, stride, u, v, du, dv, u_high, v_high = arguments
    (u, v), (du, dv) = ramps(builder, pixels, (u, v), (du, dv))

    def turn(values: list[ir.Value]) -> Sequence[ir.Value]:
        left, target, u, v = values
        inside = before(builder, left, pixels)
        _blend(builder, target, texture, stride, clamp(builder, u, u_high), clamp(builder, v, v_high), inside)
        return (
            builder.sub(left, INT(pixels)), builder.add(target, target.type(3 * pixels)),
            builder.add(u, du), builder.add(v, dv),
        )  # fmt: skip

    repeat(builder, (builder.trunc(count, INT), target, u, v), turn)


def _span(pixels: int):  # type: ignore[no-untyped-def]
    """A loop that takes ``pixels`` at a time; see the arguments of the kernel inside."""

    @intrinsic
    def lay(typing_context, count, target, texture, stride, u, v, du, dv, u_high, v_high):  # type: ignore[no-untyped-def]
        """Blends a run of pixels of one row.

        Args:
            typing_context: Numba's.
            count: How many pixels, at least one.
            target: Address of the first pixel, three bytes each.
            texture: Address of the texture, four bytes a texel: B, G, R, opacity 0…255.
            stride: Bytes from one row of the texture to the next.
            u: Column of the first sample, 16.16.
            v: Row of the first sample, 16.16.
            du: Step of u per pixel.
            dv: Step of v per pixel.
            u_high: Largest u that may be sampled; it and everything below it, down to 0, has a right neighbour.
            v_high: Largest v that may be sampled; likewise with the row below.
        """
        signature = types.void(types.intp, types.uintp, types.uintp, types.intp, *([types.int32] * 6))

        def build(context, builder, _signature, arguments):  # type: ignore[no-untyped-def]
            _run(builder, pixels, arguments)
            return context.get_dummy_value()

        return signature, build

    return lay


lay_blocks = _span(BLOCK)
lay_pixels = _span(1)
