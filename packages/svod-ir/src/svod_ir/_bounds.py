"""Bounds of the values of nodes (interval analysis).

`UOp.bounds` calls `infer_bounds` once for each node, after its operands. The interval is sound: no
execution yields a value outside it. The interval of a vector contains every lane, the interval of
a tensor every element.

- An integer result that may wrap has the whole range of its dtype.
- Arithmetic of dtype `index` is assumed not to overflow 64 bits: it counts elements of memory.
- A float has (-inf, inf), NaN included, unless it is a constant, or is chosen among constants; any
  other interval of floats excludes NaN. A complex number, which has no order, has (-inf, inf).
- An effect (dtype void) has (-inf, inf), which nothing reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from svod_dtype import DType
from svod_ir.loops import get_bodies
from svod_ir.ops import MARKS, Op
from svod_ir.sizes import max_size
from svod_ir.uop import UOp, defines

__all__ = ["Bounds", "dtype_bounds", "infer_bounds"]

Number = bool | int | float
Bounds = tuple[Number, Number]

_FLOATING: Final = ("float", "complex")
_UNKNOWN_FLOAT: Final = (-math.inf, math.inf)
_UNKNOWN_BOOL: Final = (False, True)
_full: dict[DType, Bounds] = {}


@defines("_bounds")
def infer_bounds(node: UOp) -> Bounds:
    """The interval of `node`, from the intervals of its operands."""
    rule = _RULES.get(node.op)
    return dtype_bounds(node.dtype) if rule is None else rule(node)


def dtype_bounds(dtype: DType) -> Bounds:
    """The interval of all values of `dtype`."""
    bounds = _full.get(dtype)
    if bounds is None:
        bounds = (
            _UNKNOWN_FLOAT if dtype.kind in ("float", "complex", "void") else (dtype.min, dtype.max)
        )
        _full[dtype] = bounds
    return bounds


def _fit(dtype: DType, low: int, high: int) -> Bounds:
    """The interval of an integer result whose value before wrapping is between low and high."""
    full = dtype_bounds(dtype)
    if full[0] <= low and high <= full[1]:
        return low, high
    # Index arithmetic does not overflow, so the part outside of 64 bits is impossible.
    if dtype.kind == "index" and low <= full[1] and high >= full[0]:
        return max(low, full[0]), min(high, full[1])
    return full


def _union(first: Bounds, second: Bounds) -> Bounds:
    return (
        first[0] if first[0] <= second[0] else second[0],
        first[1] if first[1] >= second[1] else second[1],
    )


def _const(node: UOp) -> Bounds:
    return (
        dtype_bounds(node.dtype) if node.arg != node.arg else (node.arg, node.arg)
    )  # only NaN differs from itself


def _vconst(node: UOp) -> Bounds:
    if any(lane != lane for lane in node.arg):  # only NaN differs from itself
        return _UNKNOWN_FLOAT
    return min(node.arg), max(node.arg)


def _variable(node: UOp) -> Bounds:
    return node.arg.low, node.arg.high


def _counter(node: UOp) -> Bounds:
    # A loop without iterations has no values, so any interval is sound; a nonempty one spares
    # callers a special case.
    return 0, max(0, node.src[0].bounds[1] - 1)


def _iota(node: UOp) -> Bounds:
    size = node.src[0].bounds[1] if node.src else node.arg
    return _fit(node.dtype, 0, max(0, size - 1))


def _first(node: UOp) -> Bounds:
    return node.src[0].bounds


def _first_or_zero(node: UOp) -> Bounds:
    bounds = node.src[0].bounds
    return (
        bounds
        if bounds == _UNKNOWN_FLOAT
        else _union(bounds, (False, False) if node.dtype.kind == "bool" else (0, 0))
    )


def _any_operand(node: UOp) -> Bounds:
    bounds = node.src[0].bounds
    for operand in node.src[1:]:
        bounds = _union(bounds, operand.bounds)
    return bounds


def _add(node: UOp) -> Bounds:
    dtype = node.dtype
    if dtype.kind in _FLOATING:
        return _UNKNOWN_FLOAT
    (a, b), (c, d) = node.src[0].bounds, node.src[1].bounds
    return (a or c, b or d) if dtype.kind == "bool" else _fit(dtype, a + c, b + d)


def _sub(node: UOp) -> Bounds:
    dtype = node.dtype
    if not dtype.is_int:
        return dtype_bounds(dtype)
    (a, b), (c, d) = node.src[0].bounds, node.src[1].bounds
    return _fit(dtype, a - d, b - c)


def _mul(node: UOp) -> Bounds:
    dtype = node.dtype
    if dtype.kind in _FLOATING:
        return _UNKNOWN_FLOAT
    (a, b), (c, d) = node.src[0].bounds, node.src[1].bounds
    if dtype.kind == "bool":
        return a and c, b and d
    return _fit(dtype, *_multiply(int(a), int(b), int(c), int(d)))


def _multiply(a: int, b: int, c: int, d: int) -> tuple[int, int]:
    corners = (a * c, a * d, b * c, b * d)
    return min(corners), max(corners)


def _mulacc(node: UOp) -> Bounds:
    if not node.dtype.is_int:
        return dtype_bounds(node.dtype)
    x, y, z = (s.bounds for s in node.src)
    low, high = _multiply(x[0], x[1], y[0], y[1])  # pyright: ignore[reportArgumentType]
    return _fit(node.dtype, low + z[0], high + z[1])


def _signed_parts(low: int, high: int) -> list[tuple[int, int]]:
    """The negative and the positive subinterval of an interval of divisors."""
    intervals = [(low, min(high, -1))] if low < 0 else []
    return [*intervals, (max(low, 1), high)] if high > 0 else intervals


def _divide(node: UOp, quotient: Callable[[int, int], int]) -> Bounds:
    # A quotient is monotonic in each operand while the divisor keeps its sign. Division by zero
    # gives 0.
    (a, b), (c, d) = node.src[0].bounds, node.src[1].bounds
    corners = [quotient(x, y) for interval in _signed_parts(c, d) for y in interval for x in (a, b)]
    if c <= 0 <= d:
        corners.append(0)
    return _fit(node.dtype, min(corners), max(corners))


def _truncated(x: int, y: int) -> int:
    return -(-x // y) if (x < 0) != (y < 0) else x // y


def _floor_divide(node: UOp) -> Bounds:
    return _divide(node, int.__floordiv__)


def _truncated_divide(node: UOp) -> Bounds:
    return _divide(node, _truncated)


def _floor_mod(node: UOp) -> Bounds:
    (a, b), (c, d) = node.src[0].bounds, node.src[1].bounds
    # All dividends have one quotient, so the remainder is monotonic.
    if c == d and c != 0 and a // c == b // c:
        return a % c, b % c
    # Every dividend is smaller than every divisor: the remainder is the dividend.
    if a >= 0 and b < c:
        return a, b
    bounds: Bounds = (0, 0)
    if d > 0:
        bounds = 0, min(b, d - 1) if a >= 0 else d - 1
    if c < 0:
        bounds = max(a, c + 1) if b <= 0 else c + 1, bounds[1]
    return bounds


def _truncated_mod(node: UOp) -> Bounds:
    (a, b), (c, d) = node.src[0].bounds, node.src[1].bounds
    largest = max(abs(c), abs(d)) - 1
    if largest < 0:
        return 0, 0
    return (max(a, -largest) if a < 0 else 0), (min(b, largest) if b > 0 else 0)


def _neg(node: UOp) -> Bounds:
    if not node.dtype.is_int:
        return dtype_bounds(node.dtype)
    low, high = node.src[0].bounds
    return _fit(node.dtype, -high, -low)


def _abs(node: UOp) -> Bounds:
    if not node.dtype.is_int:
        return dtype_bounds(node.dtype)
    low, high = node.src[0].bounds
    return _fit(
        node.dtype, 0 if low <= 0 <= high else min(abs(low), abs(high)), max(abs(low), abs(high))
    )


def _sign(node: UOp) -> Bounds:
    low, high = node.src[0].bounds
    return (
        ((low > 0) - (low < 0), (high > 0) - (high < 0))
        if node.dtype.is_int
        else dtype_bounds(node.dtype)
    )


def _pow(node: UOp) -> Bounds:
    (a, b), (c, d) = node.src[0].bounds, node.src[1].bounds
    # Larger exponents would compute huge integers only to find that they wrap.
    if not node.dtype.is_int or a < 0 or c < 0 or d > 64:
        return dtype_bounds(node.dtype)
    return _fit(node.dtype, a**c if c > 0 or a > 0 else 0, max(b**d, 1))


def _max(node: UOp) -> Bounds:
    x, y = node.src[0].bounds, node.src[1].bounds
    if _UNKNOWN_FLOAT in (x, y):
        return _UNKNOWN_FLOAT
    return max(x[0], y[0]), max(x[1], y[1])


def _min(node: UOp) -> Bounds:
    x, y = node.src[0].bounds, node.src[1].bounds
    if _UNKNOWN_FLOAT in (x, y):
        return _UNKNOWN_FLOAT
    return min(x[0], y[0]), min(x[1], y[1])


def _lt(node: UOp) -> Bounds:
    (a, b), (c, d) = node.src[0].bounds, node.src[1].bounds
    return b < c, a < d


def _le(node: UOp) -> Bounds:
    x, y = node.src[0].bounds, node.src[1].bounds
    is_number = _UNKNOWN_FLOAT not in (x, y)
    return is_number and x[1] <= y[0], x[0] <= y[1]


def _eq(node: UOp) -> Bounds:
    (a, b), (c, d) = node.src[0].bounds, node.src[1].bounds
    return a == b == c == d or (
        node.src[0] is node.src[1] and node.src[0].dtype.kind not in _FLOATING
    ), a <= d and c <= b


def _ne(node: UOp) -> Bounds:
    is_equal = _eq(node)
    return not is_equal[1], not is_equal[0]


def _where(node: UOp) -> Bounds:
    condition, x, y = node.src
    low, high = condition.bounds
    return x.bounds if low else _union(x.bounds, y.bounds) if high else y.bounds


def _span(*numbers: int) -> int:
    """The smallest n such that each number is in -(2**n)..2**n - 1."""
    return max((n if n >= 0 else ~n).bit_length() for n in numbers)


def _bitwise(node: UOp) -> Bounds:
    (a, b), (c, d) = node.src[0].bounds, node.src[1].bounds
    if node.dtype.kind == "bool":
        return (a != c, a != c) if a == b and c == d else _UNKNOWN_BOOL
    # Bitwise results need no more bits than the operands, and a sign bit only if one is negative.
    n = _span(a, b, c, d)
    return 0 if a >= 0 and c >= 0 else -(1 << n), (1 << n) - 1


def _and(node: UOp) -> Bounds:
    (a, b), (c, d) = node.src[0].bounds, node.src[1].bounds
    if node.dtype.kind == "bool":
        return a and c, b and d
    # A nonnegative operand clears the sign and limits the result.
    if a >= 0 or c >= 0:
        return 0, min(b, d) if a >= 0 and c >= 0 else b if a >= 0 else d
    return -(1 << _span(a, c)), max(
        b, d
    ) if b >= 0 and d >= 0 else d if b < 0 <= d else b if d < 0 <= b else min(b, d)


def _or(node: UOp) -> Bounds:
    (a, b), (c, d) = node.src[0].bounds, node.src[1].bounds
    if node.dtype.kind == "bool":
        return a or c, b or d
    low, high = _bitwise(node)
    return max(a, c) if a >= 0 and c >= 0 else low, high


def _not(node: UOp) -> Bounds:
    low, high = node.src[0].bounds
    if node.dtype.kind == "bool":
        return not high, not low
    return (
        (node.dtype.max - high, node.dtype.max - low)
        if node.dtype.kind == "uint"
        else (~high, ~low)
    )


def _shift(node: UOp, shift: Callable[[int, int], int]) -> Bounds:
    (a, b), (c, d) = node.src[0].bounds, node.src[1].bounds
    if c < 0 or d >= node.dtype.bits:
        return dtype_bounds(node.dtype)
    corners = (shift(a, c), shift(a, d), shift(b, c), shift(b, d))
    return _fit(node.dtype, min(corners), max(corners))


def _shl(node: UOp) -> Bounds:
    return _shift(node, int.__lshift__)


def _shr(node: UOp) -> Bounds:
    return _shift(node, int.__rshift__)


def _cast(node: UOp) -> Bounds:
    low, high = node.src[0].bounds
    match node.dtype.kind:
        case "bool":
            return not low <= 0 <= high, not low == high == 0
        case "int" | "uint" | "index":
            if not math.isfinite(low) or not math.isfinite(high):
                return dtype_bounds(node.dtype)
            full = dtype_bounds(node.dtype)
            low, high = int(low), int(high)
            return (low, high) if full[0] <= low and high <= full[1] else full
        case _:
            return dtype_bounds(node.dtype)


def _reduce(node: UOp) -> Bounds:
    low, high = node.src[0].bounds
    if node.dtype.kind in _FLOATING:
        return _UNKNOWN_FLOAT
    least, most = _trip_counts(node)
    # An empty reduction returns the identity, which may be outside of the operand's interval.
    if least < 1:
        return dtype_bounds(node.dtype)
    if node.arg in (Op.MAX, Op.MIN) or node.dtype.kind == "bool":
        return low, high
    if node.arg is not Op.ADD:
        return dtype_bounds(node.dtype)
    return _fit(node.dtype, min(low * least, low * most), max(high * least, high * most))


def _scattered(node: UOp) -> Bounds:
    (low, high), least = node.src[0].bounds, node.src[2].bounds
    if node.dtype.kind in _FLOATING:
        return _UNKNOWN_FLOAT
    if node.arg.op is None or node.dtype.kind == "bool":
        return _union((low, high), least)
    most = math.prod(map(max_size, node.src[1].shape))
    return _fit(node.dtype, least[0] + min(low * most, 0), least[1] + max(high * most, 0))


def _result(node: UOp) -> Bounds:
    owner = node.src[0]
    position: int = node.arg
    first, *remaining = (body.src[position].bounds for body in get_bodies(owner))
    if owner.op is Op.LOOP and position < owner.arg.n_carried:
        remaining.append(owner.src[1 + position].bounds)
    for bounds in remaining:
        first = _union(first, bounds)
    return first


def _trip_counts(node: UOp) -> tuple[int, int]:
    if len(node.src) == 1:
        lanes = node.src[0].dtype.lanes // node.dtype.lanes
        return lanes, lanes
    least = most = 1
    for r in node.src[1:]:
        low, high = r.src[0].bounds if r.op is Op.RANGE else (1, 1)
        least, most = least * max(low, 0), most * max(high, 0)
    return least, most


_RULES: Final[dict[Op, Callable[[UOp], Bounds]]] = {
    Op.CONST: _const,
    Op.VCONST: _vconst,
    Op.IOTA: _iota,
    Op.DEFINE_VAR: _variable,
    Op.RANGE: _counter,
    Op.SPECIAL: _counter,
    # The bound value of a variable is not its interval: a kernel is compiled for every value.
    Op.BIND: _first,
    Op.RESHAPE: _first,
    Op.PERMUTE: _first,
    Op.EXPAND: _first,
    Op.SHRINK: _first,
    Op.FLIP: _first,
    Op.PAD: _first_or_zero,
    Op.GATHER: _first_or_zero,
    Op.COPY: _first,
    **dict.fromkeys(MARKS, _first),
    Op.CHECK: _first,
    Op.CONTIGUOUS: _first,
    Op.MULTI: _first,
    Op.RESHARD: _first,
    Op.MSELECT: _first,
    Op.MSTACK: _any_operand,
    Op.AFTER: _first,
    Op.CONTROL_DEPENDENCY: _first,
    Op.VECTORIZE: _any_operand,
    Op.CAT: _any_operand,
    Op.BROADCAST: _first,
    Op.GEP: _first,
    Op.ADD: _add,
    Op.SUB: _sub,
    Op.MUL: _mul,
    Op.MULACC: _mulacc,
    Op.IDIV: _floor_divide,
    Op.MOD: _floor_mod,
    Op.CDIV: _truncated_divide,
    Op.CMOD: _truncated_mod,
    Op.NEG: _neg,
    Op.ABS: _abs,
    Op.SIGN: _sign,
    Op.POW: _pow,
    Op.MAX: _max,
    Op.MIN: _min,
    Op.LT: _lt,
    Op.LE: _le,
    Op.EQ: _eq,
    Op.NE: _ne,
    Op.WHERE: _where,
    Op.AND: _and,
    Op.OR: _or,
    Op.XOR: _bitwise,
    Op.NOT: _not,
    Op.SHL: _shl,
    Op.SHR: _shr,
    Op.CAST: _cast,
    Op.REDUCE: _reduce,
    Op.SCATTER: _scattered,
    Op.RESULT: _result,
}
