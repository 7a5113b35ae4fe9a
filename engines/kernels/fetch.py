"""The innermost loops of a crop, in LLVM's portable vectors: blocks of pixels averaged, and bilinear samples taken.

A sample is worked out in floating point, since networks are fed with it; only what was averaged is kept in 16 bits
between the two steps, with six binary places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from engines.kernels.vectors import (
    BYTE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    SHORT,
    gather,
    joined,
    pick,
    repeat,
    same,
    splat,
    vector,
)

BLOCK: Final = 8
"""Pixels that are sampled at a time."""
PLACES: Final = 64
"""What one level is in a picture that was averaged: six binary places."""

Two = Callable[[ir.IRBuilder, Sequence[ir.Value]], tuple[ir.Value, ir.Value]]
"""Addresses of pixels to what lies there and to the right of it: three floats a pixel."""
_FAST: Final = ("contract",)


def _of_bytes(builder: ir.IRBuilder, places: Sequence[ir.Value]) -> tuple[ir.Value, ir.Value]:
    """Two pixels of three bytes each. Not one byte more is read: the picture may end there."""
    six = vector(BYTE, 6).as_pointer()
    read = [builder.load(builder.inttoptr(place, six), align=1) for place in places]
    both = joined(builder, [pick(builder, one, [0, 1, 2, 2, 3, 4, 5, 5]) for one in read])
    return _halves(builder, both)


def _of_shorts(builder: ir.IRBuilder, places: Sequence[ir.Value]) -> tuple[ir.Value, ir.Value]:
    """Two pixels of four times 16 bits each."""
    eight = vector(SHORT, 8).as_pointer()
    read = [builder.load(builder.inttoptr(place, eight), align=2) for place in places]
    while len(read) > 1:
        read = [
            pick(builder, a, range(2 * a.type.count), b) for a, b in zip(read[::2], read[1::2], strict=True)
        ]
    return _halves(builder, read[0])


def _halves(builder: ir.IRBuilder, both: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Eight lanes of 16 bits a pixel as three floats of each of the two."""
    pixels = both.type.count // 8
    wide, real = vector(INT, 3 * pixels), vector(FLOAT, 3 * pixels)
    near, far = (
        builder.sitofp(
            builder.sext(
                pick(builder, both, [8 * pixel + first + c for pixel in range(pixels) for c in range(3)]),
                wide,
            ),
            real,
        )
        for first in (0, 4)
    )
    return near, far


def _mixed(builder: ir.IRBuilder, low: ir.Value, high: ir.Value, weight: ir.Value) -> ir.Value:
    apart = builder.fmul(builder.fsub(high, low, flags=_FAST), weight, flags=_FAST)
    return builder.fadd(low, apart, flags=_FAST)


def _whole(
    builder: ir.IRBuilder, places: ir.Value, high: ir.Value, last: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Coordinates as whole pixels that have a neighbour, and what is left, as three floats a pixel."""
    pixels = places.type.count
    low = ir.Constant(places.type, [0.0] * pixels)
    places = builder.select(builder.fcmp_ordered(">", places, low), places, low)
    places = builder.select(builder.fcmp_ordered("<", places, high), places, high)
    whole = builder.fptosi(places, vector(INT, pixels))
    whole = builder.select(builder.icmp_signed("<", whole, last), whole, last)
    part = builder.fsub(places, builder.sitofp(whole, places.type))
    narrow = builder.fptrunc(part, vector(FLOAT, pixels))
    return whole, pick(builder, narrow, [lane // 3 for lane in range(3 * pixels)])


def _samples(
    builder: ir.IRBuilder, read: Two, size: int, source: ir.Value, stride: ir.Value, across: ir.Value,
    down: ir.Value, right: ir.Value, below: ir.Value,
) -> ir.Value:  # fmt: skip
    """Bilinear samples: three floats a pixel.

    Args:
        builder: LLVM's.
        read: Of a picture.
        size: Bytes of its pixels.
        source: Its address.
        stride: Bytes from one row to the next.
        across: Whole columns.
        down: Whole rows.
        right: What of the next column counts.
        below: What of the next row counts.
    """
    pixels = across.type.count
    rows = builder.mul(down, splat(builder, builder.trunc(stride, INT), pixels))
    offsets = builder.add(rows, builder.mul(across, same(across.type, size)))
    upper = [
        builder.add(source, builder.zext(builder.extract_element(offsets, INT(pixel)), LONG))
        for pixel in range(pixels)
    ]
    lower = [builder.add(place, stride) for place in upper]
    near, far = (
        _mixed(builder, above, under, below)
        for above, under in zip(read(builder, upper), read(builder, lower), strict=True)
    )
    return _mixed(builder, near, far, right)


def _loop(builder: ir.IRBuilder, read: Two, size: int, arguments: Sequence[ir.Value]) -> None:
    blocks, target, source, stride, u, v, du, dv, u_high, v_high, *colours = arguments
    ramp = ir.Constant(vector(DOUBLE, BLOCK), [float(pixel) for pixel in range(BLOCK)])
    u, v = (
        builder.fadd(splat(builder, start, BLOCK), builder.fmul(ramp, splat(builder, by, BLOCK)))
        for start, by in ((u, du), (v, dv))
    )
    du, dv = (splat(builder, builder.fmul(by, DOUBLE(float(BLOCK))), BLOCK) for by in (du, dv))
    bounds = []
    for high in (u_high, v_high):
        last = builder.sub(builder.fptosi(high, INT), INT(1))
        bounds.append((splat(builder, high, BLOCK), splat(builder, last, BLOCK)))
    scale, offset = gather(builder, colours[:3] * BLOCK), gather(builder, colours[3:] * BLOCK)

    def turn(values: list[ir.Value]) -> Sequence[ir.Value]:
        left, target, u, v = values
        (across, right), (down, below) = (
            _whole(builder, places, *bound) for places, bound in zip((u, v), bounds, strict=True)
        )
        found = _samples(builder, read, size, source, stride, across, down, right, below)
        plain = builder.fadd(builder.fmul(found, scale, flags=_FAST), offset, flags=_FAST)
        builder.store(plain, builder.inttoptr(target, plain.type.as_pointer()), align=4)
        return (
            builder.sub(left, left.type(1)), builder.add(target, target.type(12 * BLOCK)),
            builder.fadd(u, du), builder.fadd(v, dv),
        )  # fmt: skip

    repeat(builder, (blocks, target, u, v), turn)


def _sampler(read: Two, size: int):  # type: ignore[no-untyped-def]
    """A loop that samples a picture; see the arguments of the kernel inside."""

    @intrinsic
    def sample(  # type: ignore[no-untyped-def]
        typing_context, blocks, target, source, stride, u, v, du, dv, u_high, v_high, s0, s1, s2, o0, o1, o2
    ):
        """Samples :data:`BLOCK` pixels so many times.

        Args:
            typing_context: Numba's.
            blocks: How many times, at least once.
            target: Address of what is written, three float32 a pixel.
            source: Address of the picture.
            stride: Bytes from one of its rows to the next.
            u: Column of the first sample; may lie outside.
            v: Its row.
            du: Step of u per pixel.
            dv: Step of v per pixel.
            u_high: The last column, at least 1.
            v_high: The last row, at least 1.
            s0: Factor of a channel.
            s1: Of the next one.
            s2: Of the last one.
            o0: What is added then.
            o1: To the next one.
            o2: To the last one.
        """
        signature = types.void(
            types.intp, types.uintp, types.uintp, types.intp, *([types.float64] * 6), *([types.float32] * 6)
        )

        def build(context, builder, _signature, arguments):  # type: ignore[no-untyped-def]
            _loop(builder, read, size, list(arguments))
            return context.get_dummy_value()

        return signature, build

    return sample


sample_bytes = _sampler(_of_bytes, 3)
"""Of three bytes a pixel."""
sample_shorts = _sampler(_of_shorts, 8)
"""Of what :func:`fold` wrote."""


@intrinsic
def fold(typing_context, count, target, sums, block, share):  # type: ignore[no-untyped-def]
    """Averages blocks of one row.

    Args:
        typing_context: Numba's.
        count: How many blocks, at least one.
        target: Address of what is written: four times 16 bits a block, six binary places; the last is nothing.
        sums: Address of sums down the columns of the blocks, three int32 a pixel. One more is read than there is.
        block: Pixels along a block's side.
        share: What a sum is to be multiplied by.
    """
    signature = types.void(types.intp, types.uintp, types.uintp, types.intp, types.float32)

    def build(context, builder, _signature, arguments):  # type: ignore[no-untyped-def]
        count, target, sums, block, share = arguments
        four = vector(INT, 4)
        share = splat(builder, share, 4)
        half = ir.Constant(vector(FLOAT, 4), [0.5] * 4)
        entry = builder.block
        outer, inner, store, done = (
            builder.append_basic_block(name) for name in ("block", "pixel", "store", "done")
        )
        builder.branch(outer)

        builder.position_at_end(outer)
        left, to, at = builder.phi(count.type), builder.phi(target.type), builder.phi(sums.type)
        builder.branch(inner)

        builder.position_at_end(inner)
        pixels, place, total = builder.phi(block.type), builder.phi(sums.type), builder.phi(four)
        more = builder.load(builder.inttoptr(place, four.as_pointer()), align=4)
        added, beyond = builder.add(total, more), builder.add(place, place.type(12))
        fewer = builder.sub(pixels, pixels.type(1))
        for phi, first, then in (
            (pixels, block, fewer), (place, at, beyond), (total, same(four, 0), added),
        ):  # fmt: skip
            phi.add_incoming(first, outer)
            phi.add_incoming(then, inner)
        builder.cbranch(builder.icmp_signed(">", fewer, fewer.type(0)), inner, store)

        builder.position_at_end(store)
        mean = builder.fmul(builder.sitofp(added, vector(FLOAT, 4)), share)
        short = builder.trunc(builder.fptosi(builder.fadd(mean, half), four), vector(SHORT, 4))
        builder.store(short, builder.inttoptr(to, short.type.as_pointer()), align=2)
        for phi, first, then in (
            (left, count, builder.sub(left, left.type(1))),
            (to, target, builder.add(to, to.type(8))),
            (at, sums, beyond),
        ):
            phi.add_incoming(first, entry)
            phi.add_incoming(then, store)
        rest = builder.sub(left, left.type(1))
        builder.cbranch(builder.icmp_signed(">", rest, rest.type(0)), outer, done)
        builder.position_at_end(done)
        return context.get_dummy_value()

    return signature, build
