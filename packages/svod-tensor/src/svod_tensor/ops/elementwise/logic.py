"""Logical operations, and selection by a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_dtype import bool_, promote_types
from svod_ir import Op, OperandError, make_alu
from svod_tensor._shapes import broadcast_node, broadcast_shapes
from svod_tensor.ops.core.operands import (
    apply_op,
    apply_unary,
    as_tensor,
    is_scalar,
    make_result,
    promote,
    promote_to_float,
)
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.reuse import reuse_graph

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import Operand
    from svod_tensor.tensor import Tensor

__all__ = [
    "heaviside",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "where",
]


@operation(test="test_logic.py::test_logic_takes_any_dtype", standard=True)
def logical_and(x1: Tensor, x2: Operand, /) -> Tensor:
    """Logical AND of `x1` and `x2`, element-wise, as bool; nonzero values are True. Shapes
    broadcast.

    Example:
        >>> import svod_tensor as sv
        >>> sv.logical_and(sv.Tensor([0, 1, 2]), [True, True, False]).tolist()
        [False, True, False]
    """
    return _logical(x1, Op.AND, x2)


@operation(test="test_logic.py::test_logic_takes_any_dtype", standard=True)
def logical_or(x1: Tensor, x2: Operand, /) -> Tensor:
    """Logical OR of `x1` and `x2`, element-wise, as bool; nonzero values are True. Shapes
    broadcast.

    Example:
        >>> import svod_tensor as sv
        >>> sv.logical_or(sv.Tensor([0, 0, 2]), [True, False, False]).tolist()
        [True, False, True]
    """
    return _logical(x1, Op.OR, x2)


@operation(test="test_logic.py::test_logic_takes_any_dtype", standard=True)
def logical_xor(x1: Tensor, x2: Operand, /) -> Tensor:
    """Logical XOR of `x1` and `x2`, element-wise, as bool; nonzero values are True. Shapes
    broadcast.

    Example:
        >>> import svod_tensor as sv
        >>> sv.logical_xor(sv.Tensor([0, 1, 2]), 1).tolist()
        [True, False, False]
    """
    return _logical(x1, Op.XOR, x2)


@operation(test="test_logic.py::test_logic_takes_any_dtype", standard=True)
def logical_not(x: Tensor, /) -> Tensor:
    """Logical NOT, element-wise, as bool; True for zeros.

    Example:
        >>> import svod_tensor as sv
        >>> sv.logical_not(sv.Tensor([0.0, 1.5])).tolist()
        [True, False]
    """
    return apply_unary(Op.NOT, x.cast(bool_))


def _logical(x: Tensor, op: Op, other: Operand) -> Tensor:
    return apply_op(op, x.cast(bool_), as_tensor(other, x).cast(bool_))


@operation(test="test_logic.py::test_where_selects_and_promotes", standard=True)
def where(condition: Tensor, /, x1: Operand, x2: Operand) -> Tensor:
    """Select elements of `x1` where `condition` is True, else of `x2`.

    All three shapes broadcast, and the dtypes of `x1` and `x2` promote.

    Raises:
        OperandError: if `condition` is not boolean.

    Example:
        >>> import svod_tensor as sv
        >>> sv.where(sv.Tensor([True, False]), sv.Tensor([1, 2]), 0).tolist()
        [1, 0]
    """
    if not condition.dtype.is_bool:
        raise OperandError(
            operation="where",
            found=condition.dtype,
            expected="a boolean condition",
            hint="compare it, as in (x != 0).where(a, b)",
        )
    left, right = _promote_values(condition, x1, x2)
    shape = broadcast_shapes(condition.shape, left.shape, right.shape)
    nodes = [
        # A 0-d node broadcasts implicitly, which keeps constants single nodes.
        node if not node.shape else broadcast_node(node, shape)
        for node in (condition.uop, left.uop, right.uop)
    ]
    return make_result(broadcast_node(make_alu(Op.WHERE, *nodes), shape), condition, left, right)


def _promote_values(like: Tensor, x: Operand, y: Operand) -> tuple[Tensor, Tensor]:
    """Promote two values to one dtype; either may be a number."""
    if is_scalar(x) and is_scalar(y):
        left, right = as_tensor(x, like), as_tensor(y, like)
        dtype = promote_types(left.dtype, right.dtype)
        return left.cast(dtype), right.cast(dtype)
    if is_scalar(x):
        # A number is weak on either side: the tensor decides the dtype.
        right, left = promote(as_tensor(y, like), x)
        return left, right
    left = as_tensor(x, like)
    return promote(left if is_scalar(y) else as_tensor(x, as_tensor(y, left)), y)


@operation(test="test_comparison.py::test_pairs_of_special_values_agree_with_numpy")
@reuse_graph
def heaviside(x1: Tensor, x2: Operand, /) -> Tensor:
    """Heaviside step function: 0 for negative, 1 for positive, `x2` for zero, NaN for NaN. Integers
    become float32.

    Shapes broadcast and dtypes promote.

    Example:
        >>> import svod_tensor as sv
        >>> sv.heaviside(sv.Tensor([-2.0, 0.0, 3.0]), 0.5).tolist()
        [0.0, 0.5, 1.0]
    """
    x, y = promote_to_float(x1, x2)
    # NaN first: comparisons with it are False, and would give 0.
    return x.isnan().where(x, x.eq(0).where(y, x.gt(0).cast(x.dtype)))
