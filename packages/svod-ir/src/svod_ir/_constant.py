"""The semantics of each elementwise op on Python scalars, for constant folding, and constants in
graphs.

`evaluate_scalar` returns None if the result is not defined to the last bit (transcendental
functions round as the target does), so that folding never changes the result of a kernel.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from svod_dtype import DType, cast_value
from svod_ir.ops import Op

if TYPE_CHECKING:
    from svod_ir.uop import UOp

__all__ = ["Value", "evaluate_scalar", "is_zero"]

Value = bool | int | float


def evaluate_scalar(op: Op, dtype: DType, operands: tuple[Value, ...]) -> Value | None:
    """The value of `op` with result type `dtype` on constants of their own types.

    Example:
        >>> from svod_dtype import float32, int8
        >>> from svod_ir import Op, evaluate_scalar
        >>> evaluate_scalar(Op.ADD, int8, (100, 100)), evaluate_scalar(Op.EXP, float32, (1.0,)) is None
        (-56, True)
    """
    match op:
        case Op.WHERE:
            return cast_value(operands[1] if operands[0] else operands[2], dtype)
        case Op.LT:
            return operands[0] < operands[1]
        case Op.LE:
            return operands[0] <= operands[1]
        case Op.EQ:
            return operands[0] == operands[1]
        case Op.NE:
            return operands[0] != operands[1]
        case Op.CAST:
            return cast_value(operands[0], dtype)
        case _:
            result = _float(op, operands) if dtype.is_float else _integer(op, dtype, operands)
            return None if result is None else cast_value(result, dtype)


def is_zero(node: UOp) -> bool:
    """Tell whether `node` is the constant 0, reshaped, expanded or cast.

    Example:
        >>> from svod_dtype import float32
        >>> from svod_ir import UOp, is_zero, make_iota
        >>> is_zero(UOp.const(float32, 0)), is_zero(make_iota(1, float32))
        (True, False)
    """
    while node.op in (Op.EXPAND, Op.RESHAPE, Op.CAST):
        node = node.source
    return node.op is Op.CONST and node.arg == 0


def _integer(op: Op, dtype: DType, operands: tuple[Value, ...]) -> Value | None:
    x, *remaining = operands
    y = remaining[0] if remaining else 0
    assert not isinstance(x, float) and not isinstance(y, float)
    match op:
        case Op.ADD:
            return x or y if dtype.is_bool else x + y
        case Op.SUB:
            return x - y
        case Op.MUL:
            return x and y if dtype.is_bool else x * y
        case Op.IDIV:
            # Division by zero gives 0, as in numpy; the bounds of divisions assume it.
            return x // y if y else 0
        case Op.MOD:
            return x % y if y else 0
        case Op.CDIV:
            return (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1) if y else 0
        case Op.CMOD:
            return (abs(x) % abs(y)) * (-1 if x < 0 else 1) if y else 0
        case Op.MAX:
            return max(x, y)
        case Op.MIN:
            return min(x, y)
        case Op.AND:
            return x & y
        case Op.OR:
            return x | y
        case Op.XOR:
            return x ^ y
        case Op.SHL:
            # Shifts by more than the width differ between targets: LLVM leaves them undefined.
            return x << y if 0 <= y < dtype.bits else None
        case Op.SHR:
            return x >> y if 0 <= y < dtype.bits else None
        case Op.NEG:
            return -x
        case Op.NOT:
            return not x if dtype.is_bool else ~int(x)
        case Op.ABS:
            return abs(x)
        case Op.SIGN:
            return (x > 0) - (x < 0)
        case Op.MULACC:
            return x * y + remaining[1]
        case Op.POW:
            # Modulo the width: the result wraps anyway, and a large power would take long.
            return pow(x, y, 1 << dtype.bits) if y >= 0 else None
        case _:
            return None


def _float(op: Op, operands: tuple[Value, ...]) -> float | None:
    # Python computes in float64; rounding its +, -, *, / and sqrt again to a narrower type gives
    # the correctly rounded result (Figueroa 1995, "When is double rounding innocuous?").
    x = float(operands[0])
    y = float(operands[1]) if len(operands) > 1 else 0.0
    match op:
        case Op.ADD:
            return x + y
        case Op.SUB:
            return x - y
        case Op.MUL:
            return x * y
        case Op.FMOD:
            # `math.fmod` raises where C's returns NaN.
            return math.nan if math.isinf(x) or y == 0.0 else math.fmod(x, y)
        case Op.FDIV | Op.RECIPROCAL:
            numerator, denominator = (x, y) if op is Op.FDIV else (1.0, x)
            if denominator != 0.0:
                return numerator / denominator
            if math.isnan(numerator) or math.isnan(denominator) or numerator == 0.0:
                return math.nan
            return math.copysign(math.inf, numerator) * math.copysign(1.0, denominator)
        case Op.MAX | Op.MIN:
            if math.isnan(x) or math.isnan(y):
                return math.nan
            # Python returns the first of equal operands; here 0.0 is larger than -0.0.
            if x == y == 0.0:
                is_negative = math.copysign(1.0, x) < 0 or math.copysign(1.0, y) < 0
                are_negative = math.copysign(1.0, x) < 0 and math.copysign(1.0, y) < 0
                return -0.0 if (are_negative if op is Op.MAX else is_negative) else 0.0
            return max(x, y) if op is Op.MAX else min(x, y)
        case Op.NEG:
            return -x
        case Op.ABS:
            return abs(x)
        case Op.SQRT:
            return math.sqrt(x) if x >= 0.0 else (x if x == 0.0 else math.nan)
        case Op.TRUNC | Op.FLOOR | Op.CEIL | Op.ROUND:
            if not math.isfinite(x):
                return x
            step = {
                Op.TRUNC: math.trunc,
                Op.FLOOR: math.floor,
                Op.CEIL: math.ceil,
                Op.ROUND: round,
            }[op]
            # Integers have no sign of zero: the ceiling of -0.5 is -0.0.
            return math.copysign(float(step(x)), x)
        case _:
            return None
