"""Words for writing LLVM's vectors by hand: what the innermost loops of the kernels are put together from."""

from __future__ import annotations

from collections.abc import Sequence

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
