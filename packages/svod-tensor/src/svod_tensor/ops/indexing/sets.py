"""Set operations on 1-d tensors, as in numpy: results are sorted and unique."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_dtype import promote_types
from svod_tensor.ops.core.operands import to_tensors
from svod_tensor.ops.core.operation import operation
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import Operand

__all__ = ["intersect1d", "setdiff1d", "setxor1d", "union1d"]


@operation(test="test_selecting.py::test_sets_agree_with_numpy")
def intersect1d(x1: Tensor, x2: Operand, /) -> Tensor:
    """Find the sorted unique elements that are in both `x1` and `x2`. Both are realized.

    Raises:
        DataDependentShapeError: in a captured function.

    Example:
        >>> import svod_tensor as sv
        >>> sv.intersect1d([3, 1, 2, 1], [1, 3, 5]).tolist()
        [1, 3]
    """
    x, y = _promote(x1, x2)
    values = x.unique_values()
    return values.masked_select(values.isin(y))


@operation(test="test_selecting.py::test_sets_agree_with_numpy")
def setdiff1d(x1: Tensor, x2: Operand, /) -> Tensor:
    """Find the sorted unique elements of `x1` that are not in `x2`. Both are realized.

    Raises:
        DataDependentShapeError: in a captured function.

    Example:
        >>> import svod_tensor as sv
        >>> sv.setdiff1d([3, 1, 2, 1], [1, 5]).tolist()
        [2, 3]
    """
    x, y = _promote(x1, x2)
    values = x.unique_values()
    return values.masked_select(values.isin(y, invert=True))


@operation(test="test_selecting.py::test_sets_agree_with_numpy")
def setxor1d(x1: Tensor, x2: Operand, /) -> Tensor:
    """Find the sorted unique elements that are in exactly one of `x1` and `x2`. Both are realized.

    Raises:
        DataDependentShapeError: in a captured function.

    Example:
        >>> import svod_tensor as sv
        >>> sv.setxor1d([3, 1, 2, 1], [1, 5]).tolist()
        [2, 3, 5]
    """
    x, y = _promote(x1, x2)
    # The differences are unique and disjoint: only the order of their elements is left.
    return Tensor.concat([x.setdiff1d(y), y.setdiff1d(x)]).sort()


@operation(test="test_selecting.py::test_sets_agree_with_numpy")
def union1d(x1: Tensor, x2: Operand, /) -> Tensor:
    """Find the sorted unique elements of `x1` and `x2`. Both are realized.

    Raises:
        DataDependentShapeError: in a captured function.

    Example:
        >>> import svod_tensor as sv
        >>> sv.union1d([3, 1, 1], [1, 5]).tolist()
        [1, 3, 5]
    """
    return Tensor.concat(list(_promote(x1, x2))).unique_values()


def _promote(x1: Tensor, x2: Operand) -> tuple[Tensor, Tensor]:
    """Flatten and promote both operands."""
    x, y = (x.flatten() for x in to_tensors(x1, x2))
    dtype = promote_types(x.dtype, y.dtype)
    return x.cast(dtype), y.cast(dtype)
