"""Functions that call the methods of `Tensor` in `svod_tensor.ops.creation`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_tensor.functions._operands import to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import DTypeLike, Operand

__all__ = [
    "empty_like",
    "full_like",
    "ones_like",
    "zeros_like",
]


@explained
def empty_like(x: Operand, /, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """A tensor of this one's shape with memory of its own and no defined content.

    Args:
        dtype: by default that of `x`.
        device: where it is; by default where this one is.

    Example:
        >>> import svod_tensor as sv
        >>> sv.empty_like(Tensor([[1, 2], [3, 4]])).shape
        (2, 2)
    """
    return to_tensor(x).empty_like(dtype=dtype, device=device)


@explained
def full_like(
    x: Operand, /, fill_value: complex, *, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """A tensor with `fill_value` at every element, in the shape of this one and where it is.

    Args:
        fill_value: a number.
        dtype: by default that of `x`.
        device: where it is instead.

    Raises:
        IntegerOverflowError: if the dtype does not hold the value.

    Example:
        >>> import svod_tensor as sv
        >>> sv.full_like(Tensor([1, 2]), 9).tolist()
        [9, 9]
    """
    return to_tensor(x).full_like(fill_value, dtype=dtype, device=device)


@explained
def ones_like(x: Operand, /, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """A tensor with 1 at every element, in the shape of this one; `dtype` is by default that of this one, and
    `device` where it is.

    Example:
        >>> import svod_tensor as sv
        >>> sv.ones_like(Tensor([1, 2]), dtype='float32').tolist()
        [1.0, 1.0]
    """
    return to_tensor(x).ones_like(dtype=dtype, device=device)


@explained
def zeros_like(x: Operand, /, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """A tensor with 0 at every element, in the shape of this one; `dtype` is by default that of this one, and
    `device` where it is.

    Example:
        >>> import svod_tensor as sv
        >>> sv.zeros_like(Tensor([1, 2])).tolist()
        [0, 0]
    """
    return to_tensor(x).zeros_like(dtype=dtype, device=device)
