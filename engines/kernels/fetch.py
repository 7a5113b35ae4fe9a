"""The innermost loops of a crop, in LLVM's portable vectors: blocks of pixels averaged, and bilinear samples taken.

As in :mod:`engines.kernels.lay` values carry six binary places in 16 bits and weights fifteen, so nothing is off by
more than a tenth of a level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from engines.kernels.vectors import (
    BYTE,
    FLOAT,
    INT,
    LONG,
    SHORT,
    clamp,
    gather,
    joined,
    mix,
    pick,
    same,
    splat,
    vector,
    weights,
)

BLOCK: Final = 8
"""Pixels that are sampled at a time."""
PLACES: Final = 64
"""What one level is in a picture that was averaged: six binary places."""

Two = Callable[[ir.IRBuilder, Sequence[ir.Value]], tuple[ir.Value, ir.Value]]
"""Addresses of pixels to what lies there and to the right of it: four lanes a pixel, 16 bits."""


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
    pixels = both.type.count // 8
    lanes = [8 * pixel + lane for pixel in range(pixels) for lane in range(4)]
    return pick(builder, both, lanes), pick(builder, both, [lane + 4 for lane in lanes])


def _samples(
    builder: ir.IRBuilder, read: Two, size: int, bits: int, source: ir.Value, stride: ir.Value,
    u: ir.Value, v: ir.Value,
) -> ir.Value:  # fmt: skip
    """Bilinear samples: four numbers a pixel, with six binary places.

    Args:
        builder: LLVM's.
        read: Of a picture.
        size: Bytes of its pixels.
        bits: What its values lack to six binary places.
        source: Its address.
        stride: Bytes from one row to the next.
        u: Columns, 16.16.
        v: Rows, 16.16.
    """
    pixels, whole = u.type.count, same(u.type, 16)
    rows = builder.mul(builder.ashr(v, whole), splat(builder, builder.trunc(stride, INT), pixels))
    offsets = builder.add(rows, builder.mul(builder.ashr(u, whole), same(u.type, size)))
    upper = [
        builder.add(source, builder.zext(builder.extract_element(offsets, INT(pixel)), LONG))
        for pixel in range(pixels)
    ]
    lower = [builder.add(place, stride) for place in upper]
    down, corners = weights(builder, v, 4), []
    for above, below in zip(read(builder, upper), read(builder, lower), strict=True):
        # Differences of bytes with seven places more just fit.
        fine = builder.shl(above, same(above.type, bits)) if bits else above
        corners.append(builder.add(fine, mix(builder, above, below, down, bits + 1)))
    near, far = corners
    return builder.add(near, mix(builder, near, far, weights(builder, u, 4), 1))


def _loop(builder: ir.IRBuilder, read: Two, size: int, bits: int, arguments: Sequence[ir.Value]) -> None:
    blocks, target, source, stride, u, v, du, dv, u_high, v_high, *colours = arguments
    entry, body, done = (
        builder.block, builder.append_basic_block("samples"), builder.append_basic_block("done"),
    )  # fmt: skip
    ramp = ir.Constant(vector(INT, BLOCK), list(range(BLOCK)))
    u, v = (
        builder.add(splat(builder, start, BLOCK), builder.mul(ramp, splat(builder, by, BLOCK)))
        for start, by in ((u, du), (v, dv))
    )
    du, dv = (splat(builder, builder.mul(by, INT(BLOCK)), BLOCK) for by in (du, dv))
    scale, offset = gather(builder, colours[:3] * BLOCK), gather(builder, colours[3:] * BLOCK)
    start = (blocks, target, u, v)
    builder.branch(body)

    builder.position_at_end(body)
    state = [builder.phi(value.type) for value in start]
    left, target, u, v = state
    found = _samples(
        builder, read, size, bits, source, stride, clamp(builder, u, u_high), clamp(builder, v, v_high)
    )
    three = pick(builder, found, [4 * pixel + channel for pixel in range(BLOCK) for channel in range(3)])
    plain = builder.sitofp(builder.sext(three, vector(INT, 3 * BLOCK)), vector(FLOAT, 3 * BLOCK))
    plain = builder.fadd(builder.fmul(plain, scale), offset)
    builder.store(plain, builder.inttoptr(target, plain.type.as_pointer()), align=4)
    following = (
        builder.sub(left, left.type(1)), builder.add(target, target.type(12 * BLOCK)),
        builder.add(u, du), builder.add(v, dv),
    )  # fmt: skip
    for phi, first, then in zip(state, start, following, strict=True):
        phi.add_incoming(first, entry)
        phi.add_incoming(then, builder.block)
    builder.cbranch(builder.icmp_signed(">", following[0], left.type(0)), body, done)
    builder.position_at_end(done)


def _sampler(read: Two, size: int, bits: int):  # type: ignore[no-untyped-def]
    """A loop that samples a picture; see the arguments of the kernel inside."""

    @intrinsic
    def sample(
        typing_context, blocks, target, source, stride, u, v, du, dv, u_high, v_high, s0, s1, s2, o0, o1, o2
    ):  # type: ignore[no-untyped-def]
        """Samples :data:`BLOCK` pixels so many times.

        Args:
            typing_context: Numba's.
            blocks: How many times, at least once.
            target: Address of what is written, three float32 a pixel.
            source: Address of the picture.
            stride: Bytes from one of its rows to the next.
            u: Column of the first sample, 16.16.
            v: Row of the first sample, 16.16.
            du: Step of u per pixel.
            dv: Step of v per pixel.
            u_high: Largest u that may be sampled; it and everything below it, down to 0, has a right neighbour.
            v_high: Largest v that may be sampled; likewise with the row below.
            s0: Factor of a channel, of values with six binary places.
            s1: Of the next one.
            s2: Of the last one.
            o0: What is added then.
            o1: To the next one.
            o2: To the last one.
        """
        signature = types.void(
            types.intp, types.uintp, types.uintp, types.intp, *([types.int32] * 6), *([types.float32] * 6)
        )

        def build(context, builder, _signature, arguments):  # type: ignore[no-untyped-def]
            _loop(builder, read, size, bits, list(arguments))
            return context.get_dummy_value()

        return signature, build

    return sample


sample_bytes = _sampler(_of_bytes, 3, 6)
"""Of three bytes a pixel."""
sample_shorts = _sampler(_of_shorts, 8, 0)
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
