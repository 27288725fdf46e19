"""Products of matrices of 8-bit integers, exact in int32, by the units that processors have for them."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from svod_onnx._registry import Value, operator
from svod_onnx._trace import Call
from svod_tensor import Tensor

__all__ = ["ZeroPoint", "is_int8", "matmul_int8", "matmul_integer", "to_zero_point"]

ZeroPoint = int | Tensor
"""A zero point: a number where it is known and the same for all, a tensor otherwise."""


def is_int8(*tensors: Tensor) -> bool:
    """Whether all are of 8-bit integers."""
    return all(tensor.dtype.is_int and tensor.dtype.itemsize == 1 for tensor in tensors)


def to_zero_point(node: Call, value: Value) -> ZeroPoint:
    """A zero point that an operator took as a `Value`."""
    if value is None:
        return 0
    if isinstance(value, np.ndarray | np.generic) and value.size and (value == value.flat[0]).all():
        return int(value.flat[0])
    (zero,) = node.tensors(value)
    return (zero.reshape(()) if zero.size == 1 else zero).cast("int32")


def matmul_int8(node: Call, a: Tensor, b: Tensor, a_zero: ZeroPoint, b_zero: ZeroPoint) -> Tensor:
    """`(a - a_zero) @ (b - b_zero)` in int32, by the processor's product of uint8 with int8.

    Zero points are taken out of the sums afterwards: one of `a` by the sums of `b`, and the other way round.

    Args:
        node: whose weights are arranged once.
        a: 8-bit integers.
        b: likewise.
        a_zero: one, or one for each row: of shape (rows,) or (..., rows, 1).
        b_zero: one, or one for each column.
    """
    left, shift_left = (a, 0) if str(a.dtype) == "uint8" else (node.precompute("unsigned", _to_unsigned, a), 128)
    right, shift_right = (b, 0) if str(b.dtype) == "int8" else (node.precompute("signed", _to_signed, b), -128)
    of_a, of_b = a_zero + shift_left, b_zero + shift_right
    if isinstance(of_a, Tensor) and of_a.ndim == 1 and of_a.size != 1:
        of_a = of_a.unsqueeze(-1)
    is_a_moved, is_b_moved = isinstance(of_a, Tensor) or of_a != 0, isinstance(of_b, Tensor) or of_b != 0
    total = left.matmul(right, dtype="int32")
    if is_a_moved:
        total = total - node.precompute("columns", _sum_columns, right) * of_a
    if is_b_moved:
        total = total - node.precompute("rows", _sum_rows, left) * of_b
    depth: Any = a.shape[-1]
    # A depth that is a variable is an int64.
    return cast("Tensor", total + of_a * of_b * depth).cast("int32") if is_a_moved and is_b_moved else total


def _to_unsigned(x: Tensor) -> Tensor:
    return x.bitcast("uint8").bitwise_xor(128)


def _to_signed(x: Tensor) -> Tensor:
    return x.bitwise_xor(128).bitcast("int8")


def _sum_columns(x: Tensor) -> Tensor:
    return x.cast("int32").sum(-2, keepdims=x.ndim > 1)


def _sum_rows(x: Tensor) -> Tensor:
    return x.cast("int32").sum(-1, keepdims=x.ndim > 1)


@operator("MatMulInteger", precomputes=True)
def matmul_integer(node: Call, a: Tensor, b: Tensor, a_zero_point: Value = None, b_zero_point: Value = None) -> Tensor:
    return matmul_int8(node, a, b, to_zero_point(node, a_zero_point), to_zero_point(node, b_zero_point))
