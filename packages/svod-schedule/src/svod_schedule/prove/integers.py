"""Semantics of integer ops on unbounded integers, wrapped if a result may exceed its dtype.

Division by constants of any width is linear arithmetic here, which z3 decides where bit-vectors of
64 bits are too slow. Bit operations are supported only where they are arithmetic: shifts by
constants, masks of low bits, and operations with all ones or all zeros."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any, NamedTuple

import z3

from svod_dtype import DType
from svod_ir import Op
from svod_ir.ops import COMPARISON
from svod_schedule.prove.terms import Term, Untranslated, apply_bool

__all__ = ["BoundedInt", "Integers"]

_MAX_POWER = 8


class BoundedInt(NamedTuple):
    """An integer term with an interval of its values. The interval is derived here, independently of
    `svod_ir._bounds`, which the rules under test rely on.
    """

    term: Any
    low: int
    high: int

    @property
    def is_constant(self) -> bool:
        return self.low == self.high


class Integers:
    """Semantics with `BoundedInt` as terms, and z3's bools. While `is_assuming`, `assumed` collects
    the conditions that dtype index does not overflow.
    """

    def __init__(self) -> None:
        self.assumed: list[Any] = []
        self.is_assuming = True

    def sort(self, dtype: DType) -> Any:
        return z3.BoolSort() if dtype.is_bool else z3.IntSort()

    def lift(self, raw: Term, dtype: DType) -> Term:
        """Convert a variable or an element of memory to a value."""
        return raw if dtype.is_bool else BoundedInt(raw, int(dtype.min), int(dtype.max))

    def raw(self, value: Term) -> Any:
        return value.term if isinstance(value, BoundedInt) else value

    def constant(self, value: bool | int, dtype: DType) -> Term:
        return (
            z3.BoolVal(bool(value))
            if dtype.is_bool
            else BoundedInt(z3.IntVal(int(value)), int(value), int(value))
        )

    def between(self, value: Term, low: int, high: int, dtype: DType) -> Any:
        if dtype.is_bool:
            return z3.And(z3.Or(not low, value), z3.Or(bool(high), z3.Not(value)))
        return z3.And(low <= value.term, value.term <= high)

    def apply(self, op: Op, source: DType, result: DType, operands: tuple[Term, ...]) -> Term:
        """Apply `op` to operands of dtype `source` (for a WHERE, of its branches), with dtype
        `result`.
        """
        if op is Op.WHERE:
            condition, x, y = operands
            return z3.If(condition, x, y) if source.is_bool else _choose(condition, x, y)
        if op is Op.CAST or op is Op.BITCAST:
            return _convert(operands[0], source, result)
        if source.is_bool:
            return apply_bool(op, operands)
        if op in COMPARISON:
            return _compare(op, operands[0].term, operands[1].term)
        if op in (Op.AND, Op.OR, Op.XOR, Op.NOT):
            return _combine_bits(op, operands, result)
        value = _compute(op, operands, result)
        if result.kind == "index" and self.is_assuming:
            self._assume_fit(value, result)
            return value
        return _wrap(value, result)

    def _assume_fit(self, value: BoundedInt, dtype: DType) -> None:
        if value.low < dtype.min or value.high > dtype.max:
            self.assumed.append(self.between(value, int(dtype.min), int(dtype.max), dtype))


def _wrap(value: BoundedInt, dtype: DType) -> BoundedInt:
    low, high = int(dtype.min), int(dtype.max)
    if low <= value.low and value.high <= high:
        return value
    return BoundedInt((value.term - low) % (1 << dtype.bits) + low, low, high)


def _convert(x: Term, source: DType, target: DType) -> Term:
    if source.is_bool:
        return x if target.is_bool else BoundedInt(z3.If(x, 1, 0), 0, 1)
    return x.term != 0 if target.is_bool else _wrap(x, target)


def _compare(op: Op, x: Any, y: Any) -> Any:
    match op:
        case Op.LT:
            return x < y
        case Op.LE:
            return x <= y
        case Op.EQ:
            return x == y
        case _:
            return x != y


def _choose(condition: Any, x: BoundedInt, y: BoundedInt) -> BoundedInt:
    return BoundedInt(z3.If(condition, x.term, y.term), min(x.low, y.low), max(x.high, y.high))


def _compute(op: Op, operands: tuple[BoundedInt, ...], dtype: DType) -> BoundedInt:
    x, y = operands[0], operands[-1]
    match op:
        case Op.ADD:
            return _add(x, y)
        case Op.SUB:
            return _subtract(x, y)
        case Op.MUL:
            return _multiply(x, y)
        case Op.MULACC:
            return _add(_multiply(x, operands[1]), y)
        case Op.NEG:
            return BoundedInt(-x.term, -x.high, -x.low)
        case Op.IDIV:
            return _floor_divide(x, y)
        case Op.MOD:
            return _floor_remainder(x, y)
        case Op.CDIV:
            return _truncate(x, y)
        case Op.CMOD:
            return _choose(
                x.term < 0, _negate(_remainder_of_sizes(x, y)), _remainder_of_sizes(x, y)
            )
        case Op.MAX:
            return BoundedInt(
                z3.If(x.term >= y.term, x.term, y.term), max(x.low, y.low), max(x.high, y.high)
            )
        case Op.MIN:
            return BoundedInt(
                z3.If(x.term <= y.term, x.term, y.term), min(x.low, y.low), min(x.high, y.high)
            )
        case Op.ABS:
            return _size(x)
        case Op.SIGN:
            return BoundedInt(z3.If(x.term > 0, 1, z3.If(x.term < 0, -1, 0)), -1, 1)
        case Op.SHL | Op.SHR:
            return _shift(op, x, y, dtype)
        case Op.POW:
            return _power(x, y)
        case Op.TRUNC | Op.FLOOR | Op.CEIL | Op.ROUND:
            return x
        case _:
            raise Untranslated(op)


def _add(x: BoundedInt, y: BoundedInt) -> BoundedInt:
    return BoundedInt(x.term + y.term, x.low + y.low, x.high + y.high)


def _subtract(x: BoundedInt, y: BoundedInt) -> BoundedInt:
    return BoundedInt(x.term - y.term, x.low - y.high, x.high - y.low)


def _multiply(x: BoundedInt, y: BoundedInt) -> BoundedInt:
    corners = (x.low * y.low, x.low * y.high, x.high * y.low, x.high * y.high)
    return BoundedInt(x.term * y.term, min(corners), max(corners))


def _negate(x: BoundedInt) -> BoundedInt:
    return BoundedInt(-x.term, -x.high, -x.low)


def _size(x: BoundedInt) -> BoundedInt:
    return BoundedInt(z3.If(x.term < 0, -x.term, x.term), 0, max(abs(x.low), abs(x.high)))


def _by_sign(y: BoundedInt, positive: Any, negative: Any) -> Any:
    """Select the result of a division by the sign of the divisor; 0 for a divisor of 0."""
    if y.low > 0:
        return positive
    if y.high < 0:
        return negative
    return z3.If(y.term > 0, positive, z3.If(y.term < 0, negative, 0))


def _floor_divide(x: BoundedInt, y: BoundedInt) -> BoundedInt:
    # z3's division rounds down where the divisor is positive.
    largest = max(abs(x.low), abs(x.high))
    low, high = -largest, largest
    if y.low > 0:
        low, high = min(x.low // y.low, x.low // y.high), max(x.high // y.low, x.high // y.high)
    return BoundedInt(_by_sign(y, x.term / y.term, (-x.term) / (-y.term)), low, high)


def _floor_remainder(x: BoundedInt, y: BoundedInt) -> BoundedInt:
    return BoundedInt(
        _by_sign(y, x.term % y.term, -((-x.term) % (-y.term))),
        min(y.low + 1, 0),
        max(y.high - 1, 0),
    )


def _truncate(x: BoundedInt, y: BoundedInt) -> BoundedInt:
    size, divisor = _size(x).term, _size(y).term
    quotient: Any = z3.If(y.term == 0, 0, size / divisor)
    largest = max(abs(x.low), abs(x.high))
    return BoundedInt(z3.If((x.term < 0) == (y.term < 0), quotient, -quotient), -largest, largest)


def _remainder_of_sizes(x: BoundedInt, y: BoundedInt) -> BoundedInt:
    size, divisor = _size(x), _size(y)
    return BoundedInt(z3.If(y.term == 0, 0, size.term % divisor.term), 0, size.high)


def _shift(op: Op, x: BoundedInt, y: BoundedInt, dtype: DType) -> BoundedInt:
    if not y.is_constant:
        raise Untranslated(op)
    if op is Op.SHL:
        factor = 1 << y.low if 0 <= y.low < dtype.bits else 0
        return _multiply(x, BoundedInt(z3.IntVal(factor), factor, factor))
    # A shift distance out of range shifts out every bit except the sign.
    distance = y.low if 0 <= y.low < dtype.bits else dtype.bits
    return BoundedInt(x.term / (1 << distance), x.low >> distance, x.high >> distance)


def _power(x: BoundedInt, y: BoundedInt) -> BoundedInt:
    if not y.is_constant or not 0 <= y.low <= _MAX_POWER:
        raise Untranslated(Op.POW)
    result = BoundedInt(z3.IntVal(1), 1, 1)
    for _ in range(y.low):
        result = _multiply(result, x)
    return result


def _combine_bits(op: Op, operands: tuple[BoundedInt, ...], dtype: DType) -> BoundedInt:
    x, y = operands[0], operands[-1]
    ones = int(dtype.max) if dtype.is_unsigned else -1
    if op is Op.NOT:
        return BoundedInt(ones - x.term, ones - x.high, ones - x.low)
    for a, b in ((x, y), (y, x)):
        combined = _with_constant(op, a, b.low, ones) if b.is_constant else None
        if combined is None and op is Op.XOR and ones == -1 and b.low >= -1 and b.high <= 0:
            combined = _choose(b.term == 0, a, BoundedInt(-1 - a.term, -1 - a.high, -1 - a.low))
        if combined is not None:
            return combined
    raise Untranslated(op)


def _with_constant(op: Op, x: BoundedInt, c: int, ones: int) -> BoundedInt | None:
    zero, all_ones = BoundedInt(z3.IntVal(0), 0, 0), BoundedInt(z3.IntVal(ones), ones, ones)
    if c == 0:
        return zero if op is Op.AND else x
    if c == ones:
        if op is Op.XOR:
            return BoundedInt(ones - x.term, ones - x.high, ones - x.low)
        return x if op is Op.AND else all_ones
    if op is Op.AND and c > 0 and c & (c + 1) == 0:
        return BoundedInt(x.term % (c + 1), 0, c)
    return None
