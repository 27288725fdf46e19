"""Exact remainder of floats (FMOD), as a loop with one iteration for every `mantissa_bits` bits of the
quotient except the first.

before → after:

    FMOD %x, %y     n = REDUCE(exponent of x - exponent of y; MAX) / mantissa_bits, which is 0 for ordinary operands
                    r = DEFINE_REG; STORE(r, |x|)
                    loop of n iterations: STORE(r, LOAD(r) modulo |y| * 2^(mantissa_bits * (n - i)))
                    LOAD(AFTER(r, END)) modulo |y|, with the sign of x

Each step is exact: its quotient has no more bits than the mantissa, so the rounded quotient is at
most one too large. The remainder is a multiple of the last bit of the divisor and less than the
divisor, so it is representable."""

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
    """Compute FMOD of two float32 or float64 values."""
    layout = format_of(x)
    size, divisor = make_alu(Op.ABS, x), make_alu(Op.ABS, y)
    exponents = _exponent(layout, size), _split_divisor(layout, divisor)[1]
    largest_exponent = (1 << (layout.dtype.bits - 1 - layout.mantissa_bits)) - 1
    # The step after the loop gives the results of infinities, NaN and a divisor of 0.
    is_ordinary = (exponents[0] < largest_exponent) & (divisor > 0.0)
    distance = is_ordinary.where(exponents[0] - exponents[1], _number(exponents[0], 0))
    if x.dtype.lanes > 1:
        distance = UOp(Op.REDUCE, layout.signed, (distance,), Op.MAX)
    largest = _number(distance, largest_exponent + layout.mantissa_bits)
    distance = make_alu(Op.MIN, make_alu(Op.MAX, distance, _number(distance, 0)), largest)
    count = distance.cast(index) // layout.mantissa_bits
    loop = fresh.make_range(count, AxisType.LOOP)

    outer = sorted({*x.ranges, *y.ranges}, key=lambda r: r.arg.id)
    # The divisor goes through a register, so that values that depend on it are not hoisted out of the
    # loop, which rarely runs.
    argument, value = fresh.make_register(x.dtype), fresh.make_register(x.dtype)
    divisor_store = argument.after(*outer).index(_ZERO).store(divisor)
    size_store = value.after(*outer).index(_ZERO).store(size)
    inside = argument.after(divisor_store, loop).index(_ZERO).load()
    remainder = value.after(size_store, loop).index(_ZERO)
    shift = ((count - loop) * layout.mantissa_bits).cast(layout.signed)
    reduced = _reduce_shifted(
        layout, remainder.load(), inside, _spread(shift, x.dtype), has_fma=has_fma
    )
    reduced_size = value.after(remainder.store(reduced).end(loop)).index(_ZERO).load()
    return with_sign_of(
        (divisor > reduced_size).where(
            reduced_size, _reduce(reduced_size, divisor, has_fma=has_fma)
        ),
        x,
    )


def _number(like: UOp, value: int) -> UOp:
    return UOp.const(like.dtype, value)


def _spread(scalar: UOp, like: DType) -> UOp:
    lanes = like.lanes
    return scalar if lanes == 1 else UOp(Op.BROADCAST, scalar.dtype.vec(lanes), (scalar,))


def _exponent(layout: FloatFormat, size: UOp) -> UOp:
    """Return the biased exponent of a non-negative value."""
    return layout.to_bits(size) >> layout.mantissa_bits


def _split_divisor(layout: FloatFormat, divisor: UOp) -> tuple[UOp, UOp]:
    """Return the bits of a normal float with the significand of `divisor`, and the biased exponent of
    `divisor`, which is negative for subnormals.
    """
    exponent = _exponent(layout, divisor)
    is_subnormal = exponent < 1
    normal = is_subnormal.where(divisor * 2.0**layout.mantissa_bits, divisor)
    own = _exponent(layout, normal)
    return layout.to_bits(normal), is_subnormal.where(own - layout.mantissa_bits, own)


def _reduce_shifted(
    layout: FloatFormat, size: UOp, divisor: UOp, shift: UOp, *, has_fma: bool
) -> UOp:
    """Return `size` modulo `divisor * 2^shift`, or `size` if it is less than that."""
    bits, exponent = _split_divisor(layout, divisor)
    exponent = exponent + shift
    largest = _number(exponent, (1 << (layout.dtype.bits - 1 - layout.mantissa_bits)) - 2)
    digits = bits & ((1 << layout.mantissa_bits) - 1)
    shifted = layout.from_bits(
        digits | (make_alu(Op.MIN, exponent, largest) << layout.mantissa_bits)
    )
    is_below = make_alu(Op.LE, exponent, _exponent(layout, size)) & make_alu(Op.LE, shifted, size)
    # A divisor of 0 must leave `size` unchanged: the step after the loop makes it NaN.
    return (is_below & (divisor > 0.0)).where(_reduce(size, shifted, has_fma=has_fma), size)


def _reduce(size: UOp, divisor: UOp, *, has_fma: bool) -> UOp:
    """Return `size` modulo `divisor`, if the quotient has no more bits than the mantissa."""
    quotient = make_alu(Op.TRUNC, make_alu(Op.FDIV, size, divisor))
    if has_fma:
        remainder = fma(-quotient, divisor, size)
    elif size.dtype.scalar is float32:
        wide = [
            operand.cast(float64.vec(size.dtype.lanes)) for operand in (size, quotient, divisor)
        ]
        remainder = (wide[0] - wide[1] * wide[2]).cast(size.dtype)
    else:
        product = quotient * divisor
        remainder = size - product - product_error(quotient, divisor, product, has_fma=False)
    # The quotient was rounded, and may have reached the next integer.
    return (remainder < 0.0).where(remainder + divisor, remainder)
