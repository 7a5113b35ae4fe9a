"""Words for writing LLVM's vectors by hand: what the innermost loops of the kernels are put together from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

BYTE, SHORT, INT, LONG = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64)
FLOAT, DOUBLE = ir.FloatType(), ir.DoubleType()


def vector(element: ir.Type, lanes: int) -> ir.VectorType:
    """So many of one kind."""
    return ir.VectorType(element, lanes)


def pick(
    builder: ir.IRBuilder, first: ir.Value, lanes: Sequence[int], second: ir.Value | None = None
) -> ir.Value:
    """Some lanes of one vector, or of two laid end to end."""
    if second is None:
        second = ir.Constant(first.type, ir.Undefined)
    return builder.shuffle_vector(first, second, ir.Constant(vector(INT, len(lanes)), list(lanes)))


def gather(builder: ir.IRBuilder, values: Sequence[ir.Value]) -> ir.Value:
    """Scalars as the lanes of one vector."""
    lanes: ir.Value = ir.Constant(vector(values[0].type, len(values)), ir.Undefined)
    for lane, value in enumerate(values):
        lanes = builder.insert_element(lanes, value, INT(lane))
    return lanes


def splat(builder: ir.IRBuilder, value: ir.Value, lanes: int) -> ir.Value:
    """One scalar in every lane."""
    return pick(builder, gather(builder, [value, value]), [0] * lanes)


def pair(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """Two neighbouring texels: eight bytes."""
    return builder.load(builder.inttoptr(address, vector(BYTE, 8).as_pointer()), align=1)


def clamp(builder: ir.IRBuilder, lanes: ir.Value, high: ir.Value) -> ir.Value:
    """Each lane brought between nought and one scalar."""
    zero, high = ir.Constant(lanes.type, [0] * lanes.type.count), splat(builder, high, lanes.type.count)
    lanes = builder.select(builder.icmp_signed(">", lanes, zero), lanes, zero)
    return builder.select(builder.icmp_signed("<", lanes, high), lanes, high)


def same(kind: ir.Type, value: int) -> ir.Constant:
    """One whole number in every lane of a kind of vector."""
    return ir.Constant(kind, [value] * kind.count)


def joined(builder: ir.IRBuilder, vectors: Sequence[ir.Value]) -> ir.Value:
    """As many vectors of bytes as a power of two end to end, as 16 bits."""
    parts = list(vectors)
    while len(parts) > 1:
        parts = [
            pick(builder, a, range(2 * a.type.count), b) for a, b in zip(parts[::2], parts[1::2], strict=True)
        ]
    return builder.zext(parts[0], vector(SHORT, parts[0].type.count))


def mix(builder: ir.IRBuilder, low: ir.Value, high: ir.Value, weight: ir.Value, bits: int) -> ir.Value:
    """What has to be added to ``low``, on the way to ``high``, both of 16 bits.

    The difference is moved up by so many bits; of its product with a weight of fifteen binary places the upper half is
    kept, which is one instruction.
    """
    apart = builder.shl(builder.sub(high, low), same(low.type, bits))
    wide = vector(INT, apart.type.count)
    product = builder.mul(builder.sext(apart, wide), builder.sext(weight, wide))
    return builder.trunc(builder.ashr(product, same(wide, 16)), apart.type)


def weights(builder: ir.IRBuilder, coordinate: ir.Value, lanes: int) -> ir.Value:
    """What of a 16.16 coordinate is below one, in fifteen bits, for so many lanes a pixel."""
    pixels = coordinate.type.count
    part = builder.lshr(builder.and_(coordinate, same(coordinate.type, 0xFFFF)), same(coordinate.type, 1))
    return pick(
        builder, builder.trunc(part, vector(SHORT, pixels)), [lane // lanes for lane in range(lanes * pixels)]
    )


def ramps(
    builder: ir.IRBuilder, pixels: int, starts: Sequence[ir.Value], steps: Sequence[ir.Value]
) -> tuple[list[ir.Value], list[ir.Value]]:
    """Whole numbers that grow along a row, of so many pixels side by side.

    Args:
        builder: LLVM's.
        pixels: How many.
        starts: Each number at the first of them.
        steps: How much each grows from one pixel to the next.

    Returns:
        Each number at every pixel, and what it grows by to as many pixels further on.
    """
    ahead = ir.Constant(vector(INT, pixels), list(range(pixels)))
    first = [
        builder.add(splat(builder, start, pixels), builder.mul(ahead, splat(builder, step, pixels)))
        for start, step in zip(starts, steps, strict=True)
    ]
    return first, [splat(builder, builder.mul(step, INT(pixels)), pixels) for step in steps]


def before(builder: ir.IRBuilder, left: ir.Value, pixels: int) -> ir.Value:
    """Which of so many pixels lie before the end of a row, of which so many are left."""
    ahead = ir.Constant(vector(INT, pixels), list(range(pixels)))
    return builder.icmp_signed(">", splat(builder, left, pixels), ahead)


def texels_at(
    builder: ir.IRBuilder, texture: ir.Value, stride: ir.Value, u: ir.Value, v: ir.Value
) -> list[ir.Value]:
    """Addresses of the texels of four bytes at some 16.16 places, rounded down, one per lane of u and v."""
    pixels, whole = u.type.count, same(u.type, 16)
    rows = builder.mul(builder.ashr(v, whole), splat(builder, builder.trunc(stride, INT), pixels))
    offsets = builder.add(rows, builder.shl(builder.ashr(u, whole), same(u.type, 2)))
    return [
        builder.add(texture, builder.zext(builder.extract_element(offsets, INT(pixel)), LONG))
        for pixel in range(pixels)
    ]


def repeat(
    builder: ir.IRBuilder, start: Sequence[ir.Value], turn: Callable[[list[ir.Value]], Sequence[ir.Value]]
) -> None:
    """A loop that runs at least once, and as long as the first of its values is above nought.

    Args:
        builder: LLVM's; stands behind the loop afterwards.
        start: The values of the first turn.
        turn: Writes one turn with its values, and gives those of the next.
    """
    entry = builder.block
    body, done = builder.append_basic_block("turn"), builder.append_basic_block("done")
    builder.branch(body)
    builder.position_at_end(body)
    values = [builder.phi(value.type) for value in start]
    following = turn(values)
    for phi, first, then in zip(values, start, following, strict=True):
        phi.add_incoming(first, entry)
        phi.add_incoming(then, builder.block)
    left = following[0]
    builder.cbranch(builder.icmp_signed(">", left, left.type(0)), body, done)
    builder.position_at_end(done)
