"""The innermost loop of the composite, written in LLVM's portable vectors.

A pixel of the swap is four channels: blue, green, red, opacity. Four pixels fill one wide register, and so do the two
neighbouring texels of two of them. A compiler cannot find that in scalar code that ends in a three-byte store; written
as LLVM vectors it becomes the right instructions on AVX-512, AVX2, SSE and NEON alike. ``docs/performance.md`` has the
figures.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from engines.kernels.vectors import (
    BYTE,
    FLOAT,
    INT,
    before,
    clamp,
    gather,
    pair,
    pick,
    ramps,
    repeat,
    same,
    texels_at,
    vector,
)

_FAST = ("contract",)
BLOCK = 4
"""Pixels that are shaded at a time."""

FIXED = 65536
"""Texture coordinates are 16.16 fixed point: this is one texel."""


def _floats(value: float, lanes: int) -> ir.Constant:
    return ir.Constant(vector(FLOAT, lanes), [value] * lanes)


def _lerp(builder: ir.IRBuilder, low: ir.Value, high: ir.Value, weight: ir.Value) -> ir.Value:
    return builder.fadd(low, builder.fmul(weight, builder.fsub(high, low, _FAST), _FAST), _FAST)


def _row(builder: ir.IRBuilder, corners: Sequence[ir.Value]) -> list[ir.Value]:
    """The texel pairs of each pixel, as floats; two pixels a vector where there are two."""
    pairs = [pair(builder, corner) for corner in corners]
    if len(pairs) > 1:
        pairs = [pick(builder, a, range(16), b) for a, b in zip(pairs[::2], pairs[1::2], strict=True)]
    return [builder.uitofp(two, vector(FLOAT, two.type.count)) for two in pairs]


def _fraction(builder: ir.IRBuilder, coordinate: ir.Value) -> ir.Value:
    lanes = coordinate.type.count
    low = builder.and_(coordinate, same(coordinate.type, 0xFFFF))
    return builder.fmul(builder.sitofp(low, vector(FLOAT, lanes)), _floats(1 / FIXED, lanes))


def _texels(builder: ir.IRBuilder, texture: ir.Value, stride: ir.Value, u: ir.Value, v: ir.Value) -> ir.Value:
    """Bilinear samples of a four-channel texture, one per lane of u and v: four floats each, 0…255."""
    pixels = u.type.count
    corners = texels_at(builder, texture, stride, u, v)
    upper = _row(builder, corners)
    lower = _row(builder, [builder.add(corner, stride) for corner in corners])
    down, right = _fraction(builder, v), _fraction(builder, u)
    mixed = [
        _lerp(builder, a, b, pick(builder, down, [(8 * i + lane) // 8 for lane in range(a.type.count)]))
        for i, (a, b) in enumerate(zip(upper, lower, strict=True))
        for i in [i * a.type.count // 8]
    ]
    across = pick(builder, right, [lane // 4 for lane in range(4 * pixels)])
    left_lanes = [8 * pixel + channel for pixel in range(pixels) for channel in range(4)]
    second = mixed[1] if len(mixed) > 1 else None
    near = pick(builder, mixed[0], left_lanes, second)
    far = pick(builder, mixed[0], [lane + 4 for lane in left_lanes], second)
    return _lerp(builder, near, far, across)


def _shade(
    builder: ir.IRBuilder, target: ir.Value, texture: ir.Value, stride: ir.Value,
    u: ir.Value, v: ir.Value, gain: ir.Value, inside: ir.Value,
) -> None:  # fmt: skip
    """Blends as many pixels as u has lanes; those that are not inside are written back as they were."""
    pixels = u.type.count
    lanes = 4 * pixels
    lit = builder.fmul(_texels(builder, texture, stride, u, v), gain)
    opacity = pick(builder, lit, [lane | 3 for lane in range(lanes)])
    covered = pick(builder, inside, [lane // 4 for lane in range(lanes)])
    opacity = builder.select(covered, opacity, _floats(0.0, lanes))
    white = _floats(255.0, lanes)
    lit = builder.select(builder.fcmp_ordered("<", lit, white), lit, white)
    place = builder.inttoptr(target, vector(BYTE, 3 * pixels).as_pointer())
    # The fourth lane of a pixel repeats its red; it is not written back.
    widened = [3 * (lane // 4) + min(lane % 4, 2) for lane in range(lanes)]
    below = builder.uitofp(pick(builder, builder.load(place, align=1), widened), vector(FLOAT, lanes))
    mixed = builder.fadd(_lerp(builder, below, lit, opacity), _floats(0.5, lanes))
    as_bytes = builder.trunc(builder.fptosi(mixed, vector(INT, lanes)), vector(BYTE, lanes))
    builder.store(pick(builder, as_bytes, [lane for lane in range(lanes) if lane % 4 < 3]), place, align=1)


def _run(builder: ir.IRBuilder, pixels: int, arguments: Sequence[ir.Value]) -> None:
    """A loop that shades ``pixels`` at a time, the last ones behind a mask."""
    count, target, texture, stride, u, v, du, dv, u_high, v_high = arguments[:10]
    gain, step = gather(builder, arguments[10:14]), gather(builder, arguments[14:18])
    lanes = range(4 * pixels)
    (u, v), (du, dv) = ramps(builder, pixels, (u, v), (du, dv))
    gain, step = (pick(builder, four, [lane % 4 for lane in lanes]) for four in (gain, step))
    ahead = ir.Constant(step.type, [float(lane // 4) for lane in lanes])
    gain = builder.fadd(gain, builder.fmul(step, ahead, _FAST), _FAST)
    step = builder.fmul(step, _floats(float(pixels), 4 * pixels))

    def turn(values: list[ir.Value]) -> Sequence[ir.Value]:
        left, target, u, v, gain = values
        inside = before(builder, left, pixels)
        u_in, v_in = clamp(builder, u, u_high), clamp(builder, v, v_high)
        _shade(builder, target, texture, stride, u_in, v_in, gain, inside)
        return (
            builder.sub(left, INT(pixels)), builder.add(target, target.type(3 * pixels)),
            builder.add(u, du), builder.add(v, dv), builder.fadd(gain, step),
        )  # fmt: skip

    repeat(builder, (builder.trunc(count, INT), target, u, v, gain), turn)


def _span(pixels: int):  # type: ignore[no-untyped-def]
    """A span shader that takes ``pixels`` at a time; see the arguments of the kernel inside."""

    @intrinsic
    def shade(  # type: ignore[no-untyped-def]
        typing_context,
        count,
        target,
        texture,
        stride,
        u,
        v,
        du,
        dv,
        u_high,
        v_high,
        g0,
        g1,
        g2,
        g3,
        d0,
        d1,
        d2,
        d3,
    ):
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
            g0: Gain of blue at the first pixel; ``g1`` green, ``g2`` red, ``g3`` opacity divided by 255.
            d0: Step of the gain of blue; ``d1``, ``d2``, ``d3`` likewise.
        """
        signature = types.void(
            types.intp, types.uintp, types.uintp, types.intp, *([types.int32] * 6), *([types.float32] * 8)
        )

        def build(context, builder, _signature, arguments):  # type: ignore[no-untyped-def]
            _run(builder, pixels, arguments)
            return context.get_dummy_value()

        return signature, build

    return shade


@intrinsic
def prefetch(typing_context, address):  # type: ignore[no-untyped-def]
    """Has a cache line brought near that is going to be written.

    Args:
        typing_context: Numba's.
        address: Any address in it. One that may not be read is no fault: it is a hint.
    """

    def build(context, builder, _signature, arguments):  # type: ignore[no-untyped-def]
        pointer = BYTE.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, INT, INT, INT])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        # For writing, to be kept in every cache, as data.
        builder.call(hint, [builder.inttoptr(arguments[0], pointer), INT(1), INT(3), INT(1)])
        return context.get_dummy_value()

    return types.void(types.uintp), build


shade_blocks = _span(BLOCK)
shade_pixels = _span(1)
