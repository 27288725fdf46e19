"""Integer division: strength reduction to shifts and multiplications, and legalization to truncating
division.

    %1 = IDIV %x, 8 : i32      ->   %1 = SHR %x, 3 : i32
    %2 = MOD %x, 8 : i32       ->   %2 = AND %x, 7 : i32
    %3 = IDIV %n, 10 : i32     ->   %3 = SHR (MUL %n, 205), 11 : i32      where 0 <= n < 100

Floor division becomes truncating division (CDIV) with a correction if the signs may differ. No
division traps: a division by zero gives 0, and the minimum integer divided by -1 wraps to itself."""

from __future__ import annotations

from typing import Final

from svod_dtype import DType, int32, int64, uint32, uint64
from svod_ir import Op, RuleSet, UOp, rule
from svod_ir.pattern import INT, splat, splat_value, var

__all__ = ["DIVISION", "find_power_of_two", "get_magic", "splat_like"]

x, y, c = var("x"), var("y"), splat("c")


def splat_like(like: UOp, value: bool | int | float) -> UOp:
    """Make a constant of the dtype of `like`, in every lane."""
    return UOp.const(like.dtype, value)


def find_power_of_two(value: object) -> int | None:
    """Return k if the value is 2**k."""
    return (
        value.bit_length() - 1
        if isinstance(value, int) and value > 0 and value & (value - 1) == 0
        else None
    )


@rule((x // c).of(INT))
def divide_by_constant(x: UOp, c: UOp) -> UOp | None:
    """x // c -> shift, or multiplication by a magic number and shift, or CDIV with a correction."""
    divisor = int(splat_value(c) or 0)
    if divisor == 0:
        return splat_like(x, 0)
    if divisor == 1:
        return x
    shift = find_power_of_two(divisor)
    if shift is not None:
        return x >> splat_like(x, shift)
    if divisor > 0:
        return _floor_by_positive(x, divisor)
    if divisor == -1:
        return -x
    return None


@rule((x // y).of(INT))
def floor_division(x: UOp, y: UOp) -> UOp:
    """x // y -> CDIV(x, y) - (the remainder is not 0 and its sign differs from y), guarded against 0
    and -1.
    """
    divisor = _safe_divisor(x, y)
    quotient = x.alu(Op.CDIV, divisor)
    if _may_differ_in_sign(x, y):
        remainder = x - quotient * divisor
        quotient = quotient - _is_off(remainder, divisor).cast(x.dtype)
    if divisor is y:
        return quotient
    if _may_overflow(x, y):
        quotient = y.eq(-1).where(-x, quotient)
    return y.eq(0).where(splat_like(x, 0), quotient)


@rule((x % c).of(INT))
def mod_by_constant(x: UOp, c: UOp) -> UOp | None:
    """x % c -> x & (c - 1) for a power of two, else x - x // c * c."""
    divisor = int(splat_value(c) or 0)
    if divisor in (0, 1, -1):
        return splat_like(x, 0)
    if find_power_of_two(divisor) is not None:
        return x & splat_like(x, divisor - 1)
    return x - (x // c) * c


@rule((x % y).of(INT))
def floor_mod(x: UOp, y: UOp) -> UOp:
    """x % y -> CMOD(x, y), plus y if it is not 0 and its sign differs from y, guarded against 0 and
    -1.
    """
    divisor = _safe_divisor(x, y)
    remainder = x.alu(Op.CMOD, divisor)
    if _may_differ_in_sign(x, y):
        remainder = _is_off(remainder, divisor).where(remainder + divisor, remainder)
    # A divisor of 0 or -1 was replaced by 1, whose remainder of 0 is the required result.
    return remainder


DIVISION: Final = RuleSet(
    "division", (divide_by_constant, floor_division, mod_by_constant, floor_mod), is_pure=True
)


def _safe_divisor(x: UOp, y: UOp) -> UOp:
    """Return `y`, or 1 where dividing by `y` would trap."""
    low, high = y.bounds
    safe = y
    if _may_overflow(x, y):
        safe = y.eq(-1).where(splat_like(y, 1), safe)
    if low <= 0 <= high:
        safe = y.eq(0).where(splat_like(y, 1), safe)
    return safe


def _may_overflow(x: UOp, y: UOp) -> bool:
    return x.dtype.is_signed and x.vmin == x.dtype.min and y.vmin <= -1 <= y.vmax


def _may_differ_in_sign(x: UOp, y: UOp) -> bool:
    return x.dtype.is_signed and not (
        (x.vmin >= 0 and y.vmin >= 0) or (x.vmax <= 0 and y.vmax <= 0)
    )


def _is_off(remainder: UOp, divisor: UOp) -> UOp:
    return remainder.ne(0) & ((remainder ^ divisor) < 0)


def _floor_by_positive(x: UOp, divisor: int) -> UOp:
    """Return floor(x / divisor) for a divisor above 1 that is no power of two."""
    if x.vmin >= 0:
        return _divide_non_negative(x, divisor, int(x.vmax))
    # Adding a multiple of the divisor makes x non-negative, unless it overflows.
    steps = -(int(x.vmin) // divisor)
    if int(x.vmax) + steps * divisor <= int(x.dtype.max):
        moved = x + splat_like(x, steps * divisor)
        return _divide_non_negative(moved, divisor, int(x.vmax) + steps * divisor) - splat_like(
            x, steps
        )
    # For negative x, ~x is non-negative and x // d == ~(~x // d).
    sign = x >> splat_like(x, x.dtype.bits - 1)
    return _divide_non_negative(x ^ sign, divisor, int(x.dtype.max)) ^ sign


def _divide_non_negative(x: UOp, divisor: int, vmax: int) -> UOp:
    """Return x / divisor for 0 <= x <= vmax, by the narrowest multiplication that is exact."""
    if vmax < divisor:
        return splat_like(x, 0)
    factor, shift = get_magic(divisor, vmax)
    # The product is at least 1 << shift, so the shift is less than the number of bits.
    if factor * vmax <= x.dtype.max:
        return (x * splat_like(x, factor)) >> splat_like(x, shift)
    wide = _wide_type(x, factor * vmax)
    if wide is not None:
        product = x.cast(wide) * UOp.const(wide.vec(x.dtype.lanes), factor)
        return (product >> splat_like(product, shift)).cast(x.dtype)
    # The compiler's own strength reduction, by a high multiplication, is cheapest for unsigned
    # division.
    unsigned = _UNSIGNED.get(x.dtype.scalar, x.dtype.scalar).vec(x.dtype.lanes)
    return x.cast(unsigned).alu(Op.CDIV, UOp.const(unsigned, divisor)).cast(x.dtype)


_UNSIGNED: Final[dict[DType, DType]] = {int32: uint32, int64: uint64}


def _wide_type(x: UOp, product: int) -> DType | None:
    """Choose a wider type for the multiplication; None if there is none.

    A wider type would halve the lanes of a vector, so vectors are not widened from 32 bits on.
    """
    bits = x.dtype.bits
    if bits < 32 and product <= uint32.max:
        return uint32
    return (
        uint64
        if bits <= 32 and product <= uint64.max and (x.dtype.lanes == 1 or bits < 32)
        else None
    )


def get_magic(divisor: int, vmax: int) -> tuple[int, int]:
    """Return (factor, shift) with the smallest shift such that n // divisor == n * factor >> shift
    for 0 <= n <= vmax.

    Source: Warren 2013, "Hacker's Delight", section 10-9 (unsigned division by divisors above 1).
    """
    # The worst case is the largest n that is one less than a multiple of the divisor.
    hardest = (vmax + 1) // divisor * divisor - 1
    for shift in range(2 * vmax.bit_length() + 1):
        excess = -(1 << shift) % divisor
        if 1 << shift > hardest * excess:
            return ((1 << shift) + excess) // divisor, shift
    raise AssertionError(f"no magic number divides 0..{vmax} by {divisor}")
