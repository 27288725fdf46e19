"""The exact remainder of floats, as a loop that repeats once for every `mantissa_bits` bits of the
quotient but the first.

before → after:

    FMOD %x, %y     n = REDUCE(exponent of x - exponent of y; MAX) / mantissa_bits, which is 0 for ordinary operands
                    r = DEFINE_REG; STORE(r, |x|)
                    loop of n iterations: STORE(r, LOAD(r) modulo |y| * 2^(mantissa_bits * (n - i)))
                    LOAD(AFTER(r, END)) modulo |y|, with the sign of x

Each step is exact: its quotient has no more bits than the mantissa, so that it is at most one too
large, and the remainder is a multiple of the last bit of the divisor and less than the divisor."""

from __future__ import annotations

from svod_dtype import DType, float32, float64, index
from svod_ir import AxisType, FreshIds, Op, UOp, make_alu
from svod_schedule.lower.transcendental.floats import (
    FloatFormat,
    fma,
    format_of,
    product_error,
    with_sign_of,
)

__all__ = ["write_remainder"]

_ZERO = UOp.const(index, 0)


def write_remainder(x: UOp, y: UOp, fresh: FreshIds, *, has_fma: bool) -> UOp:
    """FMOD of two float32 or float64 values."""
    layout = format_of(x)
    size, divisor = make_alu(Op.ABS, x), make_alu(Op.ABS, y)
    exponents = _exponent(layout, size), _split_divisor(layout, divisor)[1]
    last = (1 << (layout.dtype.bits - 1 - layout.mantissa_bits)) - 1
    # The step after the loop gives the results of infinities, NaN and a divisor of 0.
    is_ordinary = (exponents[0] < last) & (divisor > 0.0)
    distance = is_ordinary.where(exponents[0] - exponents[1], _number(exponents[0], 0))
    if x.dtype.lanes > 1:
        distance = UOp(Op.REDUCE, layout.signed, (distance,), Op.MAX)
    largest = _number(distance, last + layout.mantissa_bits)
    distance = make_alu(Op.MIN, make_alu(Op.MAX, distance, _number(distance, 0)), largest)
    count = distance.cast(index) // layout.mantissa_bits
    loop = fresh.make_range(count, AxisType.LOOP)

    outer = sorted({*x.ranges, *y.ranges}, key=lambda r: r.arg.id)
    # The divisor goes through a register too: read in the loop, it keeps what depends on it there.
    argument, value = fresh.make_register(x.dtype), fresh.make_register(x.dtype)
    given = argument.after(*outer).index(_ZERO).store(divisor)
    begun = value.after(*outer).index(_ZERO).store(size)
    inside = argument.after(given, loop).index(_ZERO).load()
    rest = value.after(begun, loop).index(_ZERO)
    shift = ((count - loop) * layout.mantissa_bits).cast(layout.signed)
    reduced = _reduce_shifted(layout, rest.load(), inside, _spread(shift, x.dtype), has_fma=has_fma)
    whole = value.after(rest.store(reduced).end(loop)).index(_ZERO).load()
    return with_sign_of((divisor > whole).where(whole, _reduce(whole, divisor, has_fma=has_fma)), x)


def _number(like: UOp, value: int) -> UOp:
    return UOp.const(like.dtype, value)


def _spread(scalar: UOp, like: DType) -> UOp:
    lanes = like.lanes
    return scalar if lanes == 1 else UOp(Op.BROADCAST, scalar.dtype.vec(lanes), (scalar,))


def _exponent(layout: FloatFormat, size: UOp) -> UOp:
    """The biased exponent of a value that is not negative."""
    return layout.to_bits(size) >> layout.mantissa_bits


def _split_divisor(layout: FloatFormat, divisor: UOp) -> tuple[UOp, UOp]:
    """The bits of a normal float with the digits of `divisor`, and the biased exponent of
    `divisor`, also below 0.
    """
    exponent = _exponent(layout, divisor)
    is_subnormal = exponent < 1
    normal = is_subnormal.where(divisor * 2.0**layout.mantissa_bits, divisor)
    own = _exponent(layout, normal)
    return layout.to_bits(normal), is_subnormal.where(own - layout.mantissa_bits, own)


def _reduce_shifted(
    layout: FloatFormat, size: UOp, divisor: UOp, shift: UOp, *, has_fma: bool
) -> UOp:
    """`size` modulo `divisor * 2^shift`, where that is not above `size`."""
    bits, exponent = _split_divisor(layout, divisor)
    exponent = exponent + shift
    largest = _number(exponent, (1 << (layout.dtype.bits - 1 - layout.mantissa_bits)) - 2)
    digits = bits & ((1 << layout.mantissa_bits) - 1)
    shifted = layout.from_bits(
        digits | (make_alu(Op.MIN, exponent, largest) << layout.mantissa_bits)
    )
    is_below = make_alu(Op.LE, exponent, _exponent(layout, size)) & make_alu(Op.LE, shifted, size)
    # A divisor of 0 has no digits, and what would be left of `size` is no NaN.
    return (is_below & (divisor > 0.0)).where(_reduce(size, shifted, has_fma=has_fma), size)


def _reduce(size: UOp, divisor: UOp, *, has_fma: bool) -> UOp:
    """`size` modulo `divisor`, whose quotient has no more bits than the mantissa."""
    quotient = make_alu(Op.TRUNC, make_alu(Op.FDIV, size, divisor))
    if has_fma:
        rest = fma(-quotient, divisor, size)
    elif size.dtype.scalar is float32:
        wide = [
            operand.cast(float64.vec(size.dtype.lanes)) for operand in (size, quotient, divisor)
        ]
        rest = (wide[0] - wide[1] * wide[2]).cast(size.dtype)
    else:
        product = quotient * divisor
        rest = size - product - product_error(quotient, divisor, product, has_fma=False)
    # The quotient was rounded, and may have reached the next integer.
    return (rest < 0.0).where(rest + divisor, rest)
