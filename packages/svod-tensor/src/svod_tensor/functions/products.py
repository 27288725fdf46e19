"""Functions that call the methods of `Tensor` in `svod_tensor.ops.products`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from svod_tensor.functions._operands import first_operand, to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import DTypeLike, Operand

__all__ = [
    "dot",
    "kron",
    "matmul",
    "outer",
    "tensordot",
    "trace",
    "vecdot",
]


@explained
def dot(x1: Operand, x2: Operand, /, *, dtype: DTypeLike | None = None) -> Tensor:
    """The matrix product by numpy's rules: 1-d operands are a row (left) or column (right), leading axes broadcast.

    Args:
        x2: the right operand.
        dtype: of the products, the additions and the result; by default the promoted dtype, where
            narrow floats are multiplied and added in float32 and rounded once.

    Raises:
        ShapeError: if an operand is 0-d or the contracted sizes differ.

    Example:
        >>> import svod_tensor as sv
        >>> sv.dot(Tensor([[1, 2], [3, 4]]), Tensor([1, 10])).tolist()
        [21, 43]
    """
    return first_operand(x1, x2).dot(x2, dtype=dtype)


@explained
def kron(x1: Operand, x2: Operand, /) -> Tensor:
    """The Kronecker product: each element times the whole `x2`, side by side. Dtypes promote.

    Args:
        x2: the one with fewer axes gets axes of size 1 before its own.

    Example:
        >>> import svod_tensor as sv
        >>> sv.kron(Tensor([1, 10]), [1, 2]).tolist()
        [1, 2, 10, 20]
    """
    return first_operand(x1, x2).kron(x2)


@explained
def matmul(x1: Operand, x2: Operand, /) -> Tensor:
    """The matrix product by numpy's rules: 1-d operands are a row (left) or column (right), leading axes broadcast.

    Args:
        x2: the right operand.

    Raises:
        ShapeError: if an operand is 0-d or the contracted sizes differ.

    Example:
        >>> import svod_tensor as sv
        >>> sv.matmul(Tensor([[1, 2], [3, 4]]), Tensor([1, 10])).tolist()
        [21, 43]
    """
    return first_operand(x1, x2).matmul(x2)


@explained
def outer(x1: Operand, x2: Tensor, /) -> Tensor:
    """The product of each element with each element of `x2`, both flattened: shape (n, m). Dtypes promote.

    Example:
        >>> import svod_tensor as sv
        >>> sv.outer(Tensor([1, 2]), Tensor([3, 4, 5])).tolist()
        [[3, 4, 5], [6, 8, 10]]
    """
    return first_operand(x1, x2).outer(x2)


@explained
def tensordot(x1: Operand, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """The sum of products with `x2` over axes of both: the shape is that of the other axes, first of `x1`,
    then of `x2`.

    Args:
        x2: the other operand.
        axes: how many, the last ones of `x1` and the first of `x2`; or those of two lists.

    Raises:
        ShapeError: if the sizes differ.

    Example:
        >>> import svod_tensor as sv
        >>> x = Tensor([[1, 2], [3, 4]])
        >>> sv.tensordot(x, x, axes=([0], [1])).tolist()
        [[7, 15], [10, 22]]
    """
    return first_operand(x1, x2).tensordot(x2, axes=axes)


@explained
def trace(x: Operand, /, offset: int = 0, *, dtype: DTypeLike | None = None) -> Tensor:
    """The sum of the diagonal of the last two axes that is `offset` above the main one; `dtype` is that of the result,
    by default as for `sum`.

    Raises:
        AxisError: if there are less than two axes.

    Example:
        >>> import svod_tensor as sv
        >>> sv.trace(Tensor([[1, 2], [3, 4]])).item()
        5
    """
    return to_tensor(x).trace(offset, dtype=dtype)


@explained
def vecdot(x1: Operand, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The dot products with `x2` along one axis; the others broadcast. Dtypes promote, and narrow floats are added
    in float32. Of complex numbers, those of `x1` are conjugated.

    Args:
        x2: the other operand.
        axis: along which; it has the same size in both tensors.

    Raises:
        ShapeError: if the sizes differ.

    Example:
        >>> import svod_tensor as sv
        >>> sv.vecdot(Tensor([[1, 2], [3, 4]]), Tensor([1, 10])).tolist()
        [21, 43]
    """
    return first_operand(x1, x2).vecdot(x2, axis=axis)
