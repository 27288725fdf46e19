"""Elementwise ops on scalars as C expressions.

Operands are names, constants or lanes, so they may be repeated. No expression has undefined
behavior for any operand: signed arithmetic that may overflow is done in an unsigned type, and
shifts and casts of floats that are out of range have the results that `svod_ir.ops` defines.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from svod_codegen.errors import RenderError
from svod_dtype import DType, float16, float32, float64, int32, int64, uint32, uint64
from svod_ir import Op, UOp
from svod_ir.ops import COMPARISON

__all__ = ["constant_expression", "float_function", "scalar_expression"]

TypeName = Callable[[DType], str]

_OPERATORS: Final = {
    Op.ADD: "+",
    Op.SUB: "-",
    Op.MUL: "*",
    Op.FDIV: "/",
    Op.CDIV: "/",
    Op.CMOD: "%",
    Op.AND: "&",
    Op.OR: "|",
    Op.XOR: "^",
    Op.LT: "<",
    Op.LE: "<=",
    Op.EQ: "==",
    Op.NE: "!=",
}
_BOOL_OPERATORS: Final = {
    Op.ADD: "|",
    Op.SUB: "^",
    Op.MUL: "&",
    Op.MAX: "|",
    Op.MIN: "&",
    Op.AND: "&",
    Op.OR: "|",
    Op.XOR: "^",
    Op.LT: "<",
    Op.LE: "<=",
    Op.EQ: "==",
    Op.NE: "!=",
}
_FUNCTIONS: Final = {
    Op.SQRT: "sqrt",
    Op.EXP: "exp",
    Op.EXP2: "exp2",
    Op.LOG: "log",
    Op.LOG2: "log2",
    Op.SIN: "sin",
    Op.COS: "cos",
    Op.TAN: "tan",
    Op.TANH: "tanh",
    Op.ERF: "erf",
    Op.POW: "pow",
    Op.TRUNC: "trunc",
    Op.FLOOR: "floor",
    Op.CEIL: "ceil",
    Op.ROUND: "rint",
    Op.ABS: "fabs",
    Op.MULACC: "fma",
    Op.EXPM1: "expm1",
    Op.LOG1P: "log1p",
    Op.SINH: "sinh",
    Op.COSH: "cosh",
}
# Ops that leave integers and bools as they are.
_ROUNDING: Final = frozenset({Op.TRUNC, Op.FLOOR, Op.CEIL, Op.ROUND})
_WRAPPING: Final = frozenset({Op.ADD, Op.SUB, Op.MUL})


def constant_expression(dtype: DType, value: bool | int | float) -> str:
    """Format a scalar constant exactly."""
    if dtype.is_bool:
        return "true" if value else "false"
    if not dtype.is_float:
        return _integer_constant(dtype, int(value))
    as_float = float(value)
    if math.isnan(as_float):
        text = "-NAN" if math.copysign(1.0, as_float) < 0 else "NAN"
    elif math.isinf(as_float):
        text = "-INFINITY" if as_float < 0 else "INFINITY"
    else:
        # Hexadecimal, since a decimal number may be read as a neighboring float.
        text = as_float.hex() + ("f" if dtype is not float64 else "")
    if dtype is float16:
        return f"((_Float16){text})"
    return f"({text})" if text.startswith("-") else text


def _integer_constant(dtype: DType, value: int) -> str:
    if value < 0 and value in (int32.min, int64.min):
        # The magnitude of the minimum is not representable in the type.
        return f"(-{-(value + 1)}{_suffix(dtype)} - 1)"
    text = f"{value}{_suffix(dtype)}"
    return f"({text})" if value < 0 else text


def _suffix(dtype: DType) -> str:
    return {uint32: "u", uint64: "ull"}.get(dtype, "ll" if dtype.bits == 64 else "")


def float_function(op: Op, dtype: DType, operands: list[str]) -> str:
    """Format a call of the math library's function for `op`; half is computed in float."""
    name = _FUNCTIONS[op]
    if dtype is float64:
        return f"{name}({', '.join(operands)})"
    if dtype is float32:
        return f"{name}f({', '.join(operands)})"
    return f"(_Float16){name}f({', '.join(f'(float){o}' for o in operands)})"


def scalar_expression(node: UOp, operands: list[str], type_name: TypeName) -> str:
    """Format an elementwise node as a C expression on one lane, with operands as text.

    Raises:
        RenderError: if the op has no C expression for the dtype.
    """
    op, result = node.op, node.dtype.scalar
    source = node.operand_dtype.scalar
    if op is Op.WHERE:
        return f"{operands[0]} ? {operands[1]} : {operands[2]}"
    if op is Op.BITCAST:
        return _bitcast(operands[0], source, result, type_name)
    if op is Op.CAST:
        return _cast(operands[0], source, result, type_name)
    if source.is_bool:
        expression = _bool_expression(op, operands)
    elif source.is_float:
        expression = _float_expression(op, source, operands)
    else:
        expression = _integer_expression(node, op, source, operands, type_name)
    if expression is None:
        raise RenderError(problem=f"has no C expression for {source}", node=node)
    return expression


def _bool_expression(op: Op, operands: list[str]) -> str | None:
    if op in _BOOL_OPERATORS:
        return f"{operands[0]} {_BOOL_OPERATORS[op]} {operands[1]}"
    if op is Op.NOT:
        # Not ~, which promotes true to int and gives -2, which is true as well.
        return f"!{operands[0]}"
    if op is Op.MULACC:
        return f"({operands[0]} & {operands[1]}) | {operands[2]}"
    return operands[0] if op in (Op.NEG, Op.ABS) or op in _ROUNDING else None


def _float_expression(op: Op, dtype: DType, operands: list[str]) -> str | None:
    x = operands[0]
    if op in (Op.MAX, Op.MIN):
        y = operands[1]
        # A NaN y fails all comparisons, a NaN x is tested for; of two zeros, the sign decides.
        # Without a branch, so that the compiler can vectorize the lanes.
        is_negative = f"(signbit((float){y if op is Op.MAX else x}) != 0)"
        first = (
            f"({x} {'>' if op is Op.MAX else '<'} {y}) | ({x} != {x}) | (({x} == {y}) &"
            f" {is_negative})"
        )
        return f"({first}) ? {x} : {y}"
    if op is Op.NEG:
        return f"-{x}"
    if op is Op.RECIPROCAL:
        return f"{constant_expression(dtype, 1.0)} / {x}"
    if op is Op.RSQRT:
        return f"{constant_expression(dtype, 1.0)} / {float_function(Op.SQRT, dtype, [x])}"
    if op in _FUNCTIONS:
        return float_function(op, dtype, operands)
    if op in _OPERATORS and op not in (Op.AND, Op.OR, Op.XOR, Op.CDIV, Op.CMOD):
        return f"{x} {_OPERATORS[op]} {operands[1]}"
    return None


def _integer_expression(
    node: UOp, op: Op, dtype: DType, operands: list[str], type_name: TypeName
) -> str | None:
    x = operands[0]
    name = type_name(dtype)
    if op in _WRAPPING:
        return _wrapping(
            node,
            dtype,
            f"{x} {_OPERATORS[op]} {operands[1]}",
            operands,
            _OPERATORS[op],
            name,
            type_name,
        )
    if op in COMPARISON:
        return f"{x} {_OPERATORS[op]} {operands[1]}"
    if op in _OPERATORS:
        return f"({name})({x} {_OPERATORS[op]} {operands[1]})"
    wide = type_name(_unsigned(dtype))
    match op:
        case Op.MAX | Op.MIN:
            return f"{x} {'>' if op is Op.MAX else '<'} {operands[1]} ? {x} : {operands[1]}"
        case Op.NEG:
            return f"({name})(0 - ({wide}){x})"
        case Op.NOT:
            return f"({name})~{x}"
        case Op.ABS:
            return f"{x} < 0 ? ({name})(0 - ({wide}){x}) : {x}" if dtype.is_signed else x
        case Op.SHL | Op.SHR:
            return _shift(node, dtype, operands, type_name)
        case Op.MULACC:
            return f"({name})(({wide}){x} * ({wide}){operands[1]} + ({wide}){operands[2]})"
        case _:
            return x if op in _ROUNDING else None


def _unsigned(dtype: DType) -> DType:
    """Return the unsigned type for wrapping arithmetic, wide enough that C does not promote it to
    int.
    """
    return uint64 if dtype.bits == 64 else uint32


def _wrapping(
    node: UOp,
    dtype: DType,
    plain: str,
    operands: list[str],
    operator: str,
    name: str,
    type_name: TypeName,
) -> str:
    if dtype.bits >= 32:
        low, high = node.bounds
        # Bounds prove that the sum does not overflow: signed arithmetic lets the compiler widen
        # indices once, outside of a loop.
        if dtype.is_unsigned or low > dtype.min or high < dtype.max:
            return plain
    wide = type_name(_unsigned(dtype))
    return f"({name})(({wide}){operands[0]} {operator} ({wide}){operands[1]})"


def _shift(node: UOp, dtype: DType, operands: list[str], type_name: TypeName) -> str:
    x, amount = operands
    name, count = type_name(dtype), node.right
    wide = type_name(_unsigned(dtype))
    shifted = f"({wide}){x} << {amount}" if node.op is Op.SHL else f"{x} >> {amount}"
    values = count.arg if count.op is Op.VCONST else (count.arg,) if count.op is Op.CONST else ()
    if values and all(0 <= v < dtype.bits for v in values):
        return f"({name})({shifted})"
    # In C, a shift by the width or more is undefined.
    too_much = f"{x} < 0 ? -1 : 0" if node.op is Op.SHR and dtype.is_signed else "0"
    return f"(uint64_t){amount} < {dtype.bits} ? ({name})({shifted}) : ({name})({too_much})"


def _cast(x: str, source: DType, target: DType, type_name: TypeName) -> str:
    name = type_name(target)
    if source is float16:
        x, source = f"(float){x}", float32
    if target.is_bool:
        return f"{x} != 0"
    if not source.is_float or target.is_float:
        return f"({name}){x}"
    # NaN fails both comparisons, and gives 0.
    low, high = float(target.min), float(int(target.max) + 1)
    limit = float64 if source is float64 else float32
    largest, smallest = (constant_expression(target, v) for v in (int(target.max), int(target.min)))
    top, bottom = constant_expression(limit, high), constant_expression(limit, low)
    return (
        f"{x} >= {top} ? {largest} : {x} > {bottom} ? ({name}){x} : {x} <= {bottom} ?"
        f" {smallest} : 0"
    )


def _bitcast(x: str, source: DType, target: DType, type_name: TypeName) -> str:
    source_type, target_type = type_name(source), type_name(target)
    if source_type == target_type or source.is_bool:
        return f"({target_type}){x}"
    if target.is_bool:
        return f"{x} != 0"
    # A union, since a cast of pointers breaks the aliasing rules.
    return f"((union {{ {source_type} from; {target_type} to; }}){{ .from = {x} }}).to"
