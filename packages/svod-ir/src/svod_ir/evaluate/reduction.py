"""Reductions and scans, over axes and over loops.

Narrow floats accumulate in float64 and are rounded once.
"""

# Numpy arrays of any dtype and shape leave lambdas without declared types.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from svod_dtype import DType, float64, int64
from svod_ir._arithmetic import Values, combine, convert, identity_value
from svod_ir.evaluate.memory import checked
from svod_ir.evaluate.movement import scatter_add
from svod_ir.ops import Op
from svod_ir.target import TensorCore
from svod_ir.uop import UOp

__all__ = [
    "accumulator_dtype",
    "all_reduce",
    "make_accumulate",
    "make_finish",
    "make_keep",
    "make_resume",
    "multiply_tiles",
    "reduce_axes",
    "scan_axis",
    "scan_key",
    "scatter_sums",
]


def accumulator_dtype(dtype: DType) -> np.dtype[np.generic]:
    if dtype.is_complex:
        return np.dtype(np.complex128)
    return np.dtype(np.float64) if dtype.is_float else dtype.numpy


def _round(total: Values, dtype: DType) -> Values:
    """Round a total from the accumulator's dtype to `dtype`."""
    if dtype.is_complex:
        return total.astype(dtype.numpy)
    return convert(total, float64, dtype) if dtype.is_float else total


def make_accumulate(op: Op, wide: np.dtype[np.generic]) -> Callable[..., Any]:
    return lambda total, x: combine(op, total, checked(x).astype(wide))


def make_finish(node: UOp) -> Callable[..., Any]:
    """Reduce the lanes of the operand to the lanes of the result, and round."""
    source, result, op = node.source.dtype, node.dtype, node.arg

    def run(total: Any) -> Any:
        total = checked(total)
        if source.lanes > result.lanes:
            lanes = total.astype(accumulator_dtype(source)).reshape(-1, result.lanes)
            total = lanes[0]
            for lane in lanes[1:]:
                total = combine(op, total, lane)
            total = total if result.lanes > 1 else total[0]
        return convert(total, float64, result) if result.is_float else total

    return run


def multiply_tiles(core: TensorCore, a: Values, b: Values, accumulator: Values) -> Values:
    """`accumulator` + a * b, rounded once; integers wrap."""
    (n, m, k), group = core.dims, core.group
    dtype_a, dtype_b, dtype = core.dtypes
    wide = float64 if dtype.is_float else int64
    rows = convert(a, dtype_a, wide).reshape(m, k)
    columns = (
        convert(b, dtype_b, wide).reshape(k // group, n, group).transpose(0, 2, 1).reshape(k, n)
    )
    total = convert(accumulator, dtype, wide).reshape(m, n) + rows @ columns
    return convert(total.reshape(-1), wide, dtype)


def scan_key(*indices: Any) -> tuple[int, ...]:
    return tuple(int(o) for o in indices)


def make_resume(node: UOp, state: dict[tuple[int, ...], tuple[int, Any]]) -> Callable[..., Any]:
    start = identity_value(node.arg, node.source.dtype).astype(accumulator_dtype(node.dtype))

    def run(current: Any, *indices: Any) -> int:
        last, _ = state.get(scan_key(*indices), (-1, None))
        # A scan resumes only if the loop runs in order; otherwise it starts again from 0.
        if (last != current and last + 1 != current) or current == 0:
            state[scan_key(*indices)] = (-1, start)
            return 0
        return last + 1

    return run


def make_keep(state: dict[tuple[int, ...], tuple[int, Any]]) -> Callable[..., Any]:
    def run(total: Any, current: Any, *indices: Any) -> None:
        state[scan_key(*indices)] = (int(current), total)

    return run


def reduce_axes(x: Values, node: UOp) -> Values:
    op, axes = node.arg
    wide = x.astype(accumulator_dtype(node.dtype))
    # numpy raises for the maximum of no elements; here it is the identity.
    if op in (Op.MAX, Op.MIN) and x.size == 0:
        shape = tuple(1 if a in axes else s for a, s in enumerate(x.shape))
        return np.full(shape, identity_value(op, node.dtype))
    total = _UFUNCS[op, wide.dtype.kind == "b"].reduce(
        wide, axis=axes, keepdims=True, dtype=wide.dtype
    )
    return _round(total, node.dtype)


def scan_axis(x: Values, node: UOp) -> Values:
    op, axis = node.arg
    wide = x.astype(accumulator_dtype(node.dtype))
    totals = _UFUNCS[op, wide.dtype.kind == "b"].accumulate(wide, axis=axis, dtype=wide.dtype)
    return _round(totals, node.dtype)


def scatter_sums(x: Values, indices: Values, base: Values, node: UOp) -> Values:
    wide, wide_base = (s.astype(accumulator_dtype(node.dtype)) for s in (x, base))
    return _round(scatter_add(wide, indices, wide_base, node.arg.axis), node.dtype)


def all_reduce(shards: Any, node: UOp) -> Values:
    addends = shards if isinstance(shards, tuple) else (shards,)
    total = addends[0].astype(accumulator_dtype(node.dtype))
    for addend in addends[1:]:
        total = combine(node.arg.op, total, addend.astype(total.dtype))
    return _round(total, node.dtype)


_UFUNCS: Final = {
    (Op.ADD, False): np.add,
    (Op.MUL, False): np.multiply,
    (Op.MAX, False): np.maximum,
    (Op.MIN, False): np.minimum,
    (Op.ADD, True): np.logical_or,
    (Op.MUL, True): np.logical_and,
    (Op.MAX, True): np.logical_or,
    (Op.MIN, True): np.logical_and,
}
