"""decompose: legalize ops that the target lacks, and apply strength reduction and peephole rules.

before → after:

    %1 = MUL %x, 8 : i32       ->   %1 = SHL %x, 3 : i32
    %2 = MAX %x, %y : i32      ->   %2 = WHERE (LT %x, %y), %y, %x : i32

Integer divisions are in a separate module, `division`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

from svod_dtype import float16, float32, float64, uint8, uint16, uint32, uint64
from svod_ir import Op, Rule, RuleSet, Target, UOp, graph_rewrite, rule
from svod_ir.pattern import BOOL, FLOAT, INT, NUMBER, node, splat, splat_value, var
from svod_schedule.lower.arithmetic.division import DIVISION, find_power_of_two, splat_like

__all__ = [
    "CHEAPER",
    "FOR_MISSING",
    "FUSE",
    "FUSE_INTEGERS",
    "SIMPLER",
    "decompose",
    "make_decompositions",
]

x, y, z, c = var("x"), var("y"), var("z"), splat("c")


def decompose(sink: UOp, target: Target) -> UOp:
    """Rewrite `sink` to the ops of the target."""
    return graph_rewrite(make_decompositions(target), sink)


def make_decompositions(target: Target) -> RuleSet:
    """Make the late rules for a target: rules that always pay, and rules for ops that it lacks."""
    return _make_rules(target.native_ops, target.contracts)


# Building a RuleSet indexes its patterns; a process has few targets.
@lru_cache(maxsize=16)
def _make_rules(native: frozenset[Op], contracts: bool) -> RuleSet:
    missing = tuple(r for op, r in FOR_MISSING if op not in native)
    # A rule that makes an op which another rule decomposes would not terminate.
    simpler = tuple(r for r in SIMPLER if _RESULT_OP.get(r, Op.NOT) in native)
    rules = (
        RuleSet("missing", missing, is_pure=True)
        + DIVISION
        + RuleSet("simpler", simpler, is_pure=True)
    )
    if {Op.SHL, Op.SHR} <= native:
        rules = rules + CHEAPER
    if Op.MULACC in native:
        rules = rules + (FUSE if contracts else FUSE_INTEGERS)
    return rules.renamed("decompose")


@rule(node(Op.NOT, x < y, kinds=BOOL))
def not_less(x: UOp, y: UOp) -> UOp | None:
    """~(x < y) -> y <= x.  When neither can be NaN."""
    # With a NaN both comparisons are false, so the negation of one is not the other.
    return None if x.dtype.is_float else y <= x


@rule(node(Op.NOT, x <= y, kinds=BOOL))
def not_less_or_equal(x: UOp, y: UOp) -> UOp | None:
    """~(x <= y) -> y < x.  When neither can be NaN."""
    return None if x.dtype.is_float else y < x


@rule(node(Op.NOT, x.eq(y)))
def not_equal(x: UOp, y: UOp) -> UOp:
    """~(x == y) -> x != y."""
    return x.ne(y)


@rule(node(Op.NOT, x.ne(y)))
def not_unequal(x: UOp, y: UOp) -> UOp:
    """~(x != y) -> x == y."""
    return x.eq(y)


@rule((~x) & (~y))
def and_of_nots(x: UOp, y: UOp) -> UOp:
    """~x & ~y -> ~(x | y)."""
    return ~(x | y)


@rule((~x) | (~y))
def or_of_nots(x: UOp, y: UOp) -> UOp:
    """~x | ~y -> ~(x & y)."""
    return ~(x & y)


@rule((x * -1).of(NUMBER))
def times_minus_one(x: UOp) -> UOp:
    """x * -1 -> -x."""
    return -x


@rule((x + node(Op.NEG, y)).of(NUMBER))
def add_negated(x: UOp, y: UOp) -> UOp:
    """x + -y -> x - y."""
    return x - y


@rule((x / c).of(FLOAT))
def divide_by_power_of_two(x: UOp, c: UOp) -> UOp | None:
    """x / c -> x * (1 / c).  When 1 / c is exact."""
    divisor = splat_value(c)
    # The significand of a power of two is 0.5; its inverse is exact unless it overflows, which the
    # last line tests.
    if not divisor or not math.isfinite(divisor) or abs(math.frexp(divisor)[0]) != 0.5:
        return None
    inverse = splat_like(x, 1.0 / divisor)
    factor = splat_value(inverse)
    return x * inverse if factor and 1.0 / factor == divisor else None


SIMPLER: Final = RuleSet(
    "simpler",
    (
        not_less,
        not_less_or_equal,
        not_equal,
        not_unequal,
        and_of_nots,
        or_of_nots,
        times_minus_one,
        add_negated,
        divide_by_power_of_two,
    ),
    is_pure=True,
)


_RESULT_OP: Final[dict[Rule, Op]] = {not_less: Op.LE, not_equal: Op.NE}
"""Rules whose result the target may lack."""


@rule((x * c).of(INT))
def multiply_by_power_of_two(x: UOp, c: UOp) -> UOp | None:
    """x * 2**k -> x << k."""
    shift = find_power_of_two(splat_value(c))
    return x << splat_like(x, shift) if shift else None


CHEAPER: Final = RuleSet("cheaper", (multiply_by_power_of_two,), is_pure=True)


@rule((x * y + z).of(FLOAT))
def fuse_multiply_add(x: UOp, y: UOp, z: UOp) -> UOp | None:
    """x * y + z -> MULACC(x, y, z).  When the dtype is float32 or float64."""
    return x.alu(Op.MULACC, y, z) if x.dtype.scalar in (float32, float64) else None


@rule(((x << c) + z).of(INT))
def fuse_shift_add(x: UOp, c: UOp, z: UOp) -> UOp | None:
    """(x << k) + z -> MULACC(x, 2**k, z)."""
    shift = int(splat_value(c) or 0)
    return x.alu(Op.MULACC, splat_like(x, 1 << shift), z) if 0 < shift < x.dtype.bits else None


FUSE: Final = RuleSet("fuse", (fuse_multiply_add, fuse_shift_add), is_pure=True)
FUSE_INTEGERS: Final = RuleSet("fuse-integers", (fuse_shift_add,), is_pure=True)


@rule(node(Op.RECIPROCAL, x))
def reciprocal(x: UOp) -> UOp:
    """RECIPROCAL(x) -> 1 / x."""
    return splat_like(x, 1.0) / x


@rule(node(Op.RSQRT, x))
def reciprocal_root(x: UOp) -> UOp:
    """RSQRT(x) -> 1 / SQRT(x), in float32 for float16, so that it is rounded once."""
    # A square root and a division in float16 would round twice.
    wide = x.cast(float32.vec(x.dtype.lanes)) if x.dtype.scalar is float16 else x
    return (splat_like(wide, 1.0) / wide.alu(Op.SQRT)).cast(x.dtype)


@rule(node(Op.SIGN, x))
def sign(x: UOp) -> UOp:
    """SIGN(x) -> (x < 0).where(-1, (0 < x).where(1, x + 0)), which is NaN for NaN, and 0.0 for
    -0.0.
    """
    if x.dtype.is_bool:
        return x
    positive = (splat_like(x, 0) < x).where(splat_like(x, 1), x + 0.0 if x.dtype.is_float else x)
    return positive if x.dtype.is_unsigned else (x < 0).where(splat_like(x, -1), positive)


@rule(node(Op.ABS, x).of(INT | BOOL))
def absolute_integer(x: UOp) -> UOp:
    """ABS(x) -> (x < 0).where(-x, x)."""
    return (x < 0).where(-x, x) if x.dtype.is_signed else x


@rule(x <= y)
def less_or_equal(x: UOp, y: UOp) -> UOp:
    """x <= y -> ~(y < x), or x < y | x == y for floats."""
    return (x < y) | x.eq(y) if x.dtype.is_float else ~(y < x)


@rule(x.ne(y).ordered())
def unequal(x: UOp, y: UOp) -> UOp:
    """x != y -> ~(x == y)."""
    return ~x.eq(y)


@rule(x.maximum(y).ordered())
def maximum(x: UOp, y: UOp) -> UOp:
    """MAX(x, y) -> (y < x).where(x, y), or x where x is NaN; MAX(0.0, -0.0) is 0.0."""
    larger = (y < x).where(x, y)
    return _choose_of_floats(x, y, larger, Op.AND) if x.dtype.is_float else larger


@rule(x.minimum(y).ordered())
def minimum(x: UOp, y: UOp) -> UOp:
    """MIN(x, y) -> (x < y).where(x, y), or x where x is NaN; MIN(0.0, -0.0) is -0.0."""
    smaller = (x < y).where(x, y)
    return _choose_of_floats(x, y, smaller, Op.OR) if x.dtype.is_float else smaller


def _choose_of_floats(x: UOp, y: UOp, chosen: UOp, signs: Op) -> UOp:
    """Return `chosen`, or x where x is NaN.

    Equal floats have equal bits, unless they are zeros: then `signs` combines the sign bits.
    """
    bits = _STORAGE[x.dtype.itemsize].vec(x.dtype.lanes)
    equal = x.bitcast(bits).alu(signs, y.bitcast(bits)).bitcast(x.dtype)
    return x.ne(x).where(x, x.eq(y).where(equal, chosen))


_STORAGE: Final = {1: uint8, 2: uint16, 4: uint32, 8: uint64}


@rule(node(Op.POW, x, y).of(INT))
def integer_power(x: UOp, y: UOp) -> UOp:
    """POW(x, y) -> products of squares of x; a negative power is 0 unless x is 1 or -1."""
    ones = splat_like(x, 1)
    result, square = ones, x
    # The bounds of the exponent often leave a few steps, e.g. two for a square or a cube.
    n_bits = min(max(int(y.vmax), 0).bit_length(), x.dtype.bits)
    for bit in range(n_bits):
        is_set = (y & splat_like(y, 1 << bit)).ne(0)
        result = is_set.where(result * square, result)
        square = square * square
    if y.vmin >= 0:
        return result
    of_minus_one = (y & splat_like(y, 1)).ne(0).where(splat_like(x, -1), ones)
    inverse = x.eq(1).where(ones, x.eq(-1).where(of_minus_one, splat_like(x, 0)))
    return (y < 0).where(inverse, result)


@rule(node(Op.POW, x, y).of(BOOL))
def bool_power(x: UOp, y: UOp) -> UOp:
    """POW(x, y) : bool -> x | ~y."""
    return x | ~y


@rule(node(Op.ROUND, x).of(FLOAT))
def round_half_even(x: UOp) -> UOp:
    """ROUND(x) -> (|x| + 2**m) - 2**m with the sign of x.  m is the mantissa's size; larger x are
    integers.
    """
    anchor = splat_like(x, 2.0**x.dtype.mantissa_bits)
    # Of |x|, since for a negative x the sum would be below the anchor, where floats are half as far
    # apart.
    magnitude = x.alu(Op.ABS)
    # The sum is not simplified away: float addition is never reassociated.
    return _with_sign_of(x, magnitude, (magnitude + anchor) - anchor, anchor)


@rule(node(Op.TRUNC, x).of(FLOAT))
def truncate(x: UOp) -> UOp:
    """TRUNC(x) -> the integer part, through ROUND of |x|, less 1 where that is larger."""
    anchor = splat_like(x, 2.0**x.dtype.mantissa_bits)
    magnitude = x.alu(Op.ABS)
    nearest = (magnitude + anchor) - anchor
    integer = (magnitude < nearest).where(nearest - 1.0, nearest)
    return _with_sign_of(x, magnitude, integer, anchor)


@rule(node(Op.FLOOR, x).of(FLOAT))
def floor(x: UOp) -> UOp:
    """FLOOR(x) -> TRUNC(x), less 1 where that is larger than x."""
    integer = x.alu(Op.TRUNC)
    return (x < integer).where(integer - 1.0, integer)


@rule(node(Op.CEIL, x).of(FLOAT))
def ceil(x: UOp) -> UOp:
    """CEIL(x) -> -FLOOR(-x)."""
    return -((-x).alu(Op.FLOOR))


def _with_sign_of(x: UOp, magnitude: UOp, integer: UOp, anchor: UOp) -> UOp:
    # A comparison does not see the sign of a zero, so zeros are returned as they are.
    signed = (x < 0.0).where(-integer, integer)
    return (magnitude < anchor).where(x.eq(0.0).where(x, signed), x)


@rule(node(Op.THREEFRY, x, y))
def threefry(x: UOp, y: UOp) -> UOp:
    """THREEFRY(counter, key) -> 20 rounds of additions, rotations and XORs on the 32-bit halves.

    The low half of each 64-bit word is the first of its two 32-bit words.

    Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3.
    """
    first, second = _halves(x)
    key0, key1 = _halves(y)
    keys = (key0, key1, key0 ^ key1 ^ splat_like(key0, 0x1BD11BDA))
    first, second = first + keys[0], second + keys[1]
    for round_group in range(5):
        for rotation in _ROTATIONS[round_group % 2]:
            first = first + second
            second = (
                (second << splat_like(second, rotation))
                | (second >> splat_like(second, 32 - rotation))
            ) ^ first
        first = first + keys[(round_group + 1) % 3]
        # Terms of the key only are grouped, so that they are hoisted out of the loop.
        second = second + (keys[(round_group + 2) % 3] + splat_like(second, round_group + 1))
    wide = second.cast(uint64)
    return ((wide << splat_like(wide, 32)) | first.cast(uint64)).cast(x.dtype)


_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))


def _halves(word: UOp) -> tuple[UOp, UOp]:
    unsigned = word.cast(uint64)
    return unsigned.cast(uint32), (unsigned >> splat_like(unsigned, 32)).cast(uint32)


FOR_MISSING: Final[tuple[tuple[Op, Rule], ...]] = (
    (Op.RECIPROCAL, reciprocal),
    (Op.RSQRT, reciprocal_root),
    (Op.SIGN, sign),
    (Op.ABS, absolute_integer),
    (Op.LE, less_or_equal),
    (Op.NE, unequal),
    (Op.MAX, maximum),
    (Op.MIN, minimum),
    (Op.POW, integer_power),
    (Op.POW, bool_power),
    (Op.ROUND, round_half_even),
    (Op.TRUNC, truncate),
    (Op.FLOOR, floor),
    (Op.CEIL, ceil),
    (Op.THREEFRY, threefry),
)
