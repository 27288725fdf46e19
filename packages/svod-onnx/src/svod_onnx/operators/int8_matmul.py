"""Matrix products of 8-bit integers, exact in int32, by the processor's dot-product
instructions.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from svod_onnx._registry import Value, operator
from svod_onnx._trace import Call
from svod_tensor import Tensor

__all__ = ["ZeroPoint", "is_int8", "matmul_int8", "matmul_integer", "to_zero_point"]

ZeroPoint = int | Tensor
"""A zero point: an integer if it is known and equal for all elements, otherwise a tensor."""


def is_int8(*tensors: Tensor) -> bool:
    """Whether all tensors have an 8-bit integer dtype."""
    return all(tensor.dtype.is_int and tensor.dtype.itemsize == 1 for tensor in tensors)


def to_zero_point(node: Call, value: Value) -> ZeroPoint:
    """Zero point of an operand that the function receives as `Value`."""
    if value is None:
        return 0
    # A known scalar folds into the kernel, and 0 needs no correction at all.
    if isinstance(value, np.ndarray | np.generic) and value.size and (value == value.flat[0]).all():
        return int(value.flat[0])
    (zero,) = node.tensors(value)
    return (zero.reshape(()) if zero.size == 1 else zero).cast("int32")


def matmul_int8(node: Call, a: Tensor, b: Tensor, a_zero: ZeroPoint, b_zero: ZeroPoint) -> Tensor:
    """`(a - a_zero) @ (b - b_zero)` in int32, by the processor's product of uint8 with int8.

    Row and column sums of the operands correct the product for the zero points afterwards.

    Args:
        node: node whose weights are prepared once.
        a: 8-bit integers.
        b: 8-bit integers.
        a_zero: a scalar, or one per row: of shape (rows,) or (..., rows, 1).
        b_zero: a scalar, or one per column.
    """
    # The instructions multiply uint8 by int8. Flipping the sign bit converts between them, and
    # shifts the zero point by 128.
    left, shift_a = (
        (a, 0) if str(a.dtype) == "uint8" else (node.precompute("unsigned", _to_unsigned, a), 128)
    )
    right, shift_b = (
        (b, 0) if str(b.dtype) == "int8" else (node.precompute("signed", _to_signed, b), -128)
    )
    zero_a, zero_b = a_zero + shift_a, b_zero + shift_b
    if isinstance(zero_a, Tensor) and zero_a.ndim == 1 and zero_a.size != 1:
        zero_a = zero_a.unsqueeze(-1)
    has_zero_a, has_zero_b = (
        isinstance(zero_a, Tensor) or zero_a != 0,
        isinstance(zero_b, Tensor) or zero_b != 0,
    )
    sums = left.matmul(right, dtype="int32")
    if has_zero_a:
        sums = sums - node.precompute("columns", _sum_columns, right) * zero_a
    if has_zero_b:
        sums = sums - node.precompute("rows", _sum_rows, left) * zero_b
    depth: Any = a.shape[-1]
    # A symbolic depth has dtype int64.
    return (
        cast("Tensor", sums + zero_a * zero_b * depth).cast("int32")
        if has_zero_a and has_zero_b
        else sums
    )


def _to_unsigned(x: Tensor) -> Tensor:
    return x.bitcast("uint8").bitwise_xor(128)


def _to_signed(x: Tensor) -> Tensor:
    return x.bitwise_xor(128).bitcast("int8")


def _sum_columns(x: Tensor) -> Tensor:
    return x.cast("int32").sum(-2, keepdims=x.ndim > 1)


def _sum_rows(x: Tensor) -> Tensor:
    return x.cast("int32").sum(-1, keepdims=x.ndim > 1)


@operator("MatMulInteger", precomputes=True)
def matmul_integer(
    node: Call, a: Tensor, b: Tensor, a_zero_point: Value = None, b_zero_point: Value = None
) -> Tensor:
    """Product of 8-bit integer matrices in int32."""
    return matmul_int8(
        node, a, b, to_zero_point(node, a_zero_point), to_zero_point(node, b_zero_point)
    )
