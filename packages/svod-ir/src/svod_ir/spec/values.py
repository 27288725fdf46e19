"""The rules of values: constants, elementwise ops and lanes."""

from __future__ import annotations

from typing import Final

from svod_dtype import DType, void
from svod_ir.args import find_grid_index
from svod_ir.ops import BINARY, COMPARISON, TABLE, UNARY, Op, takes
from svod_ir.spec.common import Rule, check_integer, check_no_arg, check_same_as_first
from svod_ir.target import TensorCore
from svod_ir.uop import UOp

__all__ = ["VALUE_RULES"]


def _takes(op: Op, dtype: DType) -> str | None:
    return None if takes(op, dtype) else f"{op.name} takes {_DTYPE_NAMES[TABLE[op].takes]}"


_DTYPE_NAMES: Final = {
    "any": "values",
    "float": "floats",
    "integer": "integers",
    "bits": "bool or integers",
    "uint64": "uint64",
}


def _rule_unary(node: UOp) -> str | None:
    return check_no_arg(node) or check_same_as_first(node) or _takes(node.op, node.dtype)


def _rule_binary(node: UOp) -> str | None:
    x, y = node.src
    if node.op in (Op.SHL, Op.SHR):
        if not y.dtype.is_int or y.dtype.lanes != x.dtype.lanes:
            return f"{node.op.name} shifts by integers, one for each lane"
    elif x.dtype is not y.dtype:
        return f"{node.op.name} has operands of one dtype"
    wrong = _takes(node.op, x.dtype)
    if wrong is not None:
        return wrong
    if node.op in COMPARISON:
        if not node.dtype.is_bool or node.dtype.lanes != x.dtype.lanes:
            return "a comparison is bool, with the lanes of its operands"
        return check_no_arg(node) or _rule_shape(node)
    return check_no_arg(node) or check_same_as_first(node) or _rule_shape(node)


def _rule_shape(node: UOp) -> str | None:
    # Raises if the shapes of the operands differ.
    node.find_shape()
    return None


def _rule_where(node: UOp) -> str | None:
    condition, x, y = node.src
    if not condition.dtype.is_bool or condition.dtype.lanes != x.dtype.lanes:
        return "WHERE has a condition of bool, with the lanes of its values"
    if x.dtype is not y.dtype or node.dtype is not x.dtype:
        return "WHERE and its values have one dtype"
    return _rule_shape(node)


def _rule_mulacc(node: UOp) -> str | None:
    return (
        None if all(s.dtype is node.dtype for s in node.src) else "MULACC has operands of its dtype"
    )


def _rule_cast(node: UOp) -> str | None:
    if node.dtype is void or node.source.dtype is void:
        return "CAST takes and returns values"
    return None if node.dtype.lanes == node.source.dtype.lanes else "CAST keeps the lanes"


def _rule_complex(node: UOp) -> str | None:
    x, y = node.src
    if (
        not node.dtype.is_complex
        or x.dtype is not node.dtype.part
        or y.dtype is not node.dtype.part
    ):
        return "COMPLEX has a complex dtype, and takes the two parts"
    return check_no_arg(node) or _rule_shape(node)


def _rule_part(node: UOp) -> str | None:
    source = node.source.dtype
    if not source.is_complex or node.dtype is not source.part:
        return f"{node.op.name} takes complex numbers, and has the dtype of a part"
    return check_no_arg(node)


def _rule_as_complex(node: UOp) -> str | None:
    if (
        not node.dtype.is_complex
        or node.source.dtype is not node.dtype.part
        or node.source.shape[-1:] != (2,)
    ):
        return "AS_COMPLEX has a complex dtype, and takes the parts along a last axis of 2"
    return check_no_arg(node)


def _rule_bitcast(node: UOp) -> str | None:
    return (
        None if node.dtype.nbytes == node.source.dtype.nbytes else "BITCAST keeps the size in bytes"
    )


def _rule_const(node: UOp) -> str | None:
    dtype = node.dtype
    # Vector constants are VCONST, even with one value in all lanes.
    if dtype.lanes > 1 or dtype is void:
        return "CONST has a scalar dtype"
    return (
        None
        if _fits(dtype, node.arg)
        else f"a constant holds a Python value of its dtype, not {node.arg!r}"
    )


def _fits(dtype: DType, value: object) -> bool:
    match dtype.kind:
        case "bool":
            return isinstance(value, bool)
        case "float":
            return isinstance(value, float)
        case _:
            return (
                isinstance(value, int)
                # True is an int in Python, but another constant in a graph.
                and not isinstance(value, bool)
                and dtype.min <= value <= dtype.max
            )


def _rule_vconst(node: UOp) -> str | None:
    values: tuple[object, ...] = node.arg
    if not isinstance(node.arg, tuple) or len(values) != node.dtype.lanes or node.dtype.lanes < 2:
        return "VCONST holds one value for each lane"
    return (
        None
        if all(_fits(node.dtype.scalar, v) for v in values)
        else "VCONST holds values of its dtype"
    )


def _rule_variable(node: UOp) -> str | None:
    name, low, high = node.arg
    if not isinstance(name, str) or not low <= high:
        return "DEFINE_VAR holds a name and bounds"
    return check_integer(node)


def _rule_bind(node: UOp) -> str | None:
    return None if node.symbol.op is Op.DEFINE_VAR else "BIND binds a DEFINE_VAR"


def _rule_vectorize(node: UOp) -> str | None:
    is_invalid = (
        any(s.dtype is not node.dtype.scalar for s in node.src) or len(node.src) != node.dtype.lanes
    )
    return "VECTORIZE takes one scalar for each lane" if is_invalid else None


def _rule_broadcast(node: UOp) -> str | None:
    source = node.source.dtype
    fits = source.scalar is node.dtype.scalar and node.dtype.lanes % source.lanes == 0
    return None if fits else "BROADCAST repeats its operand in each lane"


def _rule_gep(node: UOp) -> str | None:
    source = node.source.dtype
    if any(not 0 <= lane < source.lanes for lane in node.arg) or not node.arg:
        return "GEP takes lanes of its operand"
    return (
        None
        if node.dtype is source.vec(len(node.arg))
        else "GEP has one lane for each selected lane"
    )


def _rule_cat(node: UOp) -> str | None:
    fits = (
        all(s.dtype.scalar is node.dtype.scalar for s in node.src)
        and sum(s.dtype.lanes for s in node.src) == node.dtype.lanes
    )
    return None if fits else "CAT joins the lanes of its operands"


def _rule_special(node: UOp) -> str | None:
    if find_grid_index(node.arg) is None:
        return "SPECIAL is gidx, lidx or idx with axis 0, 1 or 2"
    return check_integer(node)


def _rule_wmma(node: UOp) -> str | None:
    if not isinstance(node.arg, TensorCore):
        return "WMMA holds a tensor core"
    expected = node.arg.operand_dtypes
    if tuple(s.dtype for s in node.src) != expected or node.dtype is not expected[2]:
        return (
            "WMMA takes and returns the tiles of its tensor core:"
            f" {', '.join(d.short for d in expected)}"
        )
    return None


VALUE_RULES: Final[dict[Op, Rule]] = {
    **dict.fromkeys(UNARY, _rule_unary),
    **dict.fromkeys(BINARY, _rule_binary),
    Op.COMPLEX: _rule_complex,
    **dict.fromkeys((Op.REAL, Op.IMAG, Op.AS_REAL), _rule_part),
    Op.AS_COMPLEX: _rule_as_complex,
    Op.WHERE: _rule_where,
    Op.MULACC: _rule_mulacc,
    Op.CAST: _rule_cast,
    Op.BITCAST: _rule_bitcast,
    Op.CONST: _rule_const,
    Op.VCONST: _rule_vconst,
    Op.DEFINE_VAR: _rule_variable,
    Op.SPECIAL: _rule_special,
    Op.BIND: _rule_bind,
    Op.VECTORIZE: _rule_vectorize,
    Op.BROADCAST: _rule_broadcast,
    Op.GEP: _rule_gep,
    Op.CAT: _rule_cat,
    Op.WMMA: _rule_wmma,
}
