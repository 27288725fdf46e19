"""Semantics of integer and bool ops on bit-vectors of the dtype's width: exact for every op, slow for
wide products.

Dtype index has 64 bits, and its sums, differences and products are assumed not to overflow them.
"""

# z3 declares no types: its terms are of unknown type to the checker.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import z3

from svod_dtype import DType
from svod_ir import Op
from svod_schedule.prove.terms import Term, Untranslated, apply_bool

__all__ = ["TRANSLATED", "Bits"]


_MAX_PRODUCTS: Final = 256
_MAX_CHOICES: Final = 64
"""Maximum number of bits of all products of a power that is translated, with a constant exponent and
with a variable one. Larger powers would exhaust z3's budget.
"""


class Bits:
    """Semantics with bit-vectors as terms, and z3's bools. While `is_assuming`, `assumed` collects
    the conditions that dtype index does not overflow.
    """

    def __init__(self) -> None:
        self.assumed: list[Any] = []
        self.is_assuming = True

    def sort(self, dtype: DType) -> Any:
        return z3.BoolSort() if dtype.is_bool else z3.BitVecSort(dtype.bits)

    def lift(self, raw: Term, dtype: DType) -> Term:
        """Convert a variable or an element of memory to a value."""
        del dtype
        return raw

    def constant(self, value: bool | int, dtype: DType) -> Term:
        return z3.BoolVal(bool(value)) if dtype.is_bool else z3.BitVecVal(int(value), dtype.bits)

    def between(self, value: Term, low: int, high: int, dtype: DType) -> Any:
        if dtype.is_bool:
            return z3.And(z3.Or(not low, value), z3.Or(bool(high), z3.Not(value)))
        a, b = self.constant(low, dtype), self.constant(high, dtype)
        return (
            z3.And(a <= value, value <= b)
            if dtype.is_signed
            else z3.And(z3.ULE(a, value), z3.ULE(value, b))
        )

    def raw(self, value: Term) -> Any:
        return value

    def apply(self, op: Op, source: DType, result: DType, operands: tuple[Term, ...]) -> Term:
        """Apply `op` to operands of dtype `source` (for a WHERE, of its branches), with dtype
        `result`.
        """
        if op is Op.WHERE:
            return z3.If(*operands)
        if op is Op.CAST or op is Op.BITCAST:
            return _convert(operands[0], source, result)
        if source.is_bool:
            return apply_bool(op, operands)
        if source.kind == "index" and self.is_assuming:
            self._assume_no_overflow(op, operands)
        kind = _SIGNED if source.is_signed else _UNSIGNED
        function = kind.get(op) or _COMMON.get(op)
        if function is None:
            raise Untranslated(op)
        return function(*operands)

    def _assume_no_overflow(self, op: Op, operands: tuple[Term, ...]) -> None:
        match op:
            case Op.ADD:
                x, y = operands
                self.assumed += [z3.BVAddNoOverflow(x, y, True), z3.BVAddNoUnderflow(x, y)]
            case Op.SUB:
                x, y = operands
                self.assumed += [z3.BVSubNoOverflow(x, y), z3.BVSubNoUnderflow(x, y, True)]
            case Op.MUL:
                x, y = operands
                self.assumed += [z3.BVMulNoOverflow(x, y, True), z3.BVMulNoUnderflow(x, y)]
            case Op.NEG | Op.ABS:
                self.assumed.append(z3.BVSNegNoOverflow(operands[0]))
            case Op.IDIV | Op.CDIV:
                self.assumed.append(z3.BVSDivNoOverflow(*operands))
            case Op.SHL:
                x, y = operands
                self.assumed.append((x << y) >> y == x)
            case Op.MULACC | Op.POW:
                raise Untranslated(op)
            case _:
                pass


def _convert(x: Term, source: DType, target: DType) -> Term:
    if source.is_bool:
        if target.is_bool:
            return x
        return z3.If(x, z3.BitVecVal(1, target.bits), z3.BitVecVal(0, target.bits))
    if target.is_bool:
        return x != 0
    if target.bits <= source.bits:
        return z3.Extract(target.bits - 1, 0, x) if target.bits < source.bits else x
    n_extra_bits = target.bits - source.bits
    return z3.SignExt(n_extra_bits, x) if source.is_signed else z3.ZeroExt(n_extra_bits, x)


def _floor_divide(x: Term, y: Term) -> Term:
    remainder = z3.SRem(x, y)
    is_off = z3.And(remainder != 0, (remainder ^ y) < 0)
    return _unless_zero(
        y, x / y - z3.If(is_off, z3.BitVecVal(1, x.size()), z3.BitVecVal(0, x.size()))
    )


def _unless_zero(divisor: Term, quotient: Term) -> Term:
    return z3.If(divisor == 0, z3.BitVecVal(0, divisor.size()), quotient)


def _power(x: Term, y: Term) -> Term:
    """Compute a power by squaring, for a non-negative exponent; `_signed_power` handles negative
    ones.
    """
    result, square = z3.BitVecVal(1, x.size()), x
    # Bits above the highest set bit of a constant exponent have no effect.
    exponent: Any = z3.simplify(y)
    is_known = z3.is_bv_value(exponent)
    n_bits = exponent.as_long().bit_length() if is_known else x.size()
    if n_bits * x.size() > (_MAX_PRODUCTS if is_known else _MAX_CHOICES):
        raise Untranslated(Op.POW)
    for bit in range(n_bits):
        result = z3.If(y & (1 << bit) != 0, result * square, result)
        square = square * square
    return result


def _signed_power(x: Term, y: Term) -> Term:
    unit = z3.BitVecVal(1, x.size())
    of_minus_one = z3.If(y & 1 != 0, -unit, unit)
    inverse = z3.If(x == 1, unit, z3.If(x == -1, of_minus_one, z3.BitVecVal(0, x.size())))
    return z3.If(y < 0, inverse, _power(x, y))


def _sign(x: Term) -> Term:
    unit = z3.BitVecVal(1, x.size())
    return z3.If(x > 0, unit, z3.If(x < 0, -unit, z3.BitVecVal(0, x.size())))


def _threefry(x: Term, key: Term) -> Term:
    if x.size() != 64:
        raise Untranslated(Op.THREEFRY)
    keys: list[Any] = [z3.Extract(31, 0, key), z3.Extract(63, 32, key)]
    keys.append(keys[0] ^ keys[1] ^ 0x1BD11BDA)
    a, b = z3.Extract(31, 0, x) + keys[0], z3.Extract(63, 32, x) + keys[1]
    for round_group in range(5):
        for rotation in (13, 15, 26, 6) if round_group % 2 == 0 else (17, 29, 16, 24):
            a = a + b
            b = z3.RotateLeft(b, rotation) ^ a
        a = a + keys[(round_group + 1) % 3]
        b = b + keys[(round_group + 2) % 3] + (round_group + 1)
    return z3.Concat(b, a)


_Table = dict[Op, Callable[..., Term]]

_COMMON: Final[_Table] = {
    Op.ADD: lambda x, y: x + y,
    Op.SUB: lambda x, y: x - y,
    Op.MUL: lambda x, y: x * y,
    Op.NEG: lambda x: -x,
    Op.MULACC: lambda x, y, z: x * y + z,
    Op.AND: lambda x, y: x & y,
    Op.OR: lambda x, y: x | y,
    Op.XOR: lambda x, y: x ^ y,
    Op.NOT: lambda x: ~x,
    Op.SHL: lambda x, y: x << y,
    Op.EQ: lambda x, y: x == y,
    Op.NE: lambda x, y: x != y,
    Op.THREEFRY: _threefry,
    Op.TRUNC: lambda x: x,
    Op.FLOOR: lambda x: x,
    Op.CEIL: lambda x: x,
    Op.ROUND: lambda x: x,
}

_SIGNED: Final[_Table] = {
    Op.IDIV: _floor_divide,
    Op.MOD: lambda x, y: _unless_zero(y, x % y),
    Op.CDIV: lambda x, y: _unless_zero(y, x / y),
    Op.CMOD: lambda x, y: _unless_zero(y, z3.SRem(x, y)),
    Op.MAX: lambda x, y: z3.If(x >= y, x, y),
    Op.MIN: lambda x, y: z3.If(x <= y, x, y),
    Op.LT: lambda x, y: x < y,
    Op.LE: lambda x, y: x <= y,
    Op.SHR: lambda x, y: x >> y,
    Op.ABS: lambda x: z3.If(x < 0, -x, x),
    Op.SIGN: _sign,
    Op.POW: _signed_power,
}

_UNSIGNED: Final[_Table] = {
    Op.IDIV: lambda x, y: _unless_zero(y, z3.UDiv(x, y)),
    Op.MOD: lambda x, y: _unless_zero(y, z3.URem(x, y)),
    Op.CDIV: lambda x, y: _unless_zero(y, z3.UDiv(x, y)),
    Op.CMOD: lambda x, y: _unless_zero(y, z3.URem(x, y)),
    Op.MAX: lambda x, y: z3.If(z3.UGE(x, y), x, y),
    Op.MIN: lambda x, y: z3.If(z3.ULE(x, y), x, y),
    Op.LT: z3.ULT,
    Op.LE: z3.ULE,
    Op.SHR: z3.LShR,
    Op.ABS: lambda x: x,
    Op.POW: _power,
    Op.SIGN: lambda x: z3.If(x == 0, z3.BitVecVal(0, x.size()), z3.BitVecVal(1, x.size())),
}

TRANSLATED: Final = frozenset({*_COMMON, *_SIGNED, *_UNSIGNED})
"""Ops that have a translation here."""
