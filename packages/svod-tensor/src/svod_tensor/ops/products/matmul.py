"""Matrix products: matmul, einsum, tensordot, linear.

A product is a broadcast multiplication and a sum over one or more axes; the optimizer, not this
module, recognizes it. float16, bfloat16 and float8 are multiplied and accumulated in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from svod_dtype import promote_types, to_dtype
from svod_ir import ShapeError, SInt, format_shape
from svod_ir.sizes import normalize_size, product
from svod_tensor._shapes import Shape, normalize_axes, normalize_axis
from svod_tensor.ops.core.base import DTypeLike
from svod_tensor.ops.core.operands import as_tensor, promote, to_tensor
from svod_tensor.ops.core.operation import operation, static_operation
from svod_tensor.ops.core.reuse import reuse_graph
from svod_tensor.ops.core.rounding import accumulation_dtype, rounds_once
from svod_tensor.ops.products.einsum import contract

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import Operand
    from svod_tensor.tensor import Tensor

__all__ = [
    "einsum",
    "kron",
    "linear",
    "matmul",
    "outer",
    "tensordot",
    "trace",
    "vecdot",
]


@operation(test="test_products.py::test_matmul_agrees_with_numpy", standard=True, aliases=("dot",))
@reuse_graph
def matmul(x1: Tensor, x2: Operand, /, *, dtype: DTypeLike | None = None) -> Tensor:
    """Matrix product by numpy's rules: a 1-d operand is a row (left) or column (right) vector, and
    batch axes broadcast.

    Args:
        x2: the right operand.
        dtype: dtype of the result; by default the promoted dtype.

    Raises:
        ShapeError: if an operand is 0-d or the inner dimensions differ.

    Example:
        >>> import svod_tensor as sv
        >>> sv.matmul(sv.Tensor([[1, 2], [3, 4]]), sv.Tensor([1, 10])).tolist()
        [21, 43]
    """
    right = as_tensor(x2, x1)
    _check_contracted(x1.shape, right.shape)
    kind = promote_types(x1.dtype, right.dtype) if dtype is None else to_dtype(dtype)
    # Products of narrow floats are exact in float32, and their sum is rounded once.
    inner = accumulation_dtype(kind)
    # (..., m, 1, k) * (..., 1, n, k), summed over k.
    x = x1.cast(inner) if x1.ndim > 1 else x1.cast(inner).unsqueeze(0)
    # A view: both operands have the summed axis last.
    y = right.cast(inner).transpose(-2, -1) if right.ndim > 1 else right.cast(inner).unsqueeze(0)
    total = x.unsqueeze(-2).mul(y.unsqueeze(-3)).sum(-1, dtype=inner).cast(kind)
    if right.ndim == 1:
        total = total.squeeze(-1)
    return total.squeeze(-1 if right.ndim == 1 else -2) if x1.ndim == 1 else total


@operation(test="test_products.py::test_linear_outer_and_vecdot", is_function=False)
@reuse_graph
@rounds_once
def linear(x: Tensor, /, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Linear layer `x @ weight.T + bias`: maps shape (..., inputs) to (..., outputs).

    Args:
        weight: weights of shape (outputs, inputs).
        bias: bias of shape (outputs,).

    Raises:
        ShapeError: if the inner dimensions differ.

    Example:
        >>> from svod_tensor import Tensor
        >>> Tensor([1.0, 2.0]).linear(Tensor([[1.0, 1.0], [0.0, 3.0]]), Tensor([0.5, 0.0])).tolist()
        [3.5, 6.0]
    """
    result = x.matmul(weight.transpose(0, 1) if weight.ndim == 2 else weight)
    return result if bias is None else result.add(bias)


@operation(test="test_products.py::test_linear_outer_and_vecdot", standard="linalg.outer")
@reuse_graph
def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Outer product of `x1` and `x2`, flattened first: shape (n, m). Dtypes promote.

    Example:
        >>> import svod_tensor as sv
        >>> sv.outer(sv.Tensor([1, 2]), sv.Tensor([3, 4, 5])).tolist()
        [[3, 4, 5], [6, 8, 10]]
    """
    return x1.flatten().unsqueeze(1).mul(x2.flatten().unsqueeze(0))


@operation(test="test_products.py::test_linear_outer_and_vecdot", standard=True)
@reuse_graph
def vecdot(x1: Tensor, x2: Tensor, /, axis: int = -1) -> Tensor:
    """Vector dot product `sum(conj(x1) * x2)` along one axis; the other axes broadcast. Dtypes
    promote, and narrow floats accumulate in float32.

    Args:
        x2: the other operand.
        axis: the axis of the vectors, of equal size in both tensors.

    Raises:
        AxisError: if `axis` is out of bounds.
        ShapeError: if the sizes differ.

    Example:
        >>> import svod_tensor as sv
        >>> sv.vecdot(sv.Tensor([[1, 2], [3, 4]]), sv.Tensor([1, 10])).tolist()
        [21, 43]
    """
    ndim = max(x1.ndim, x2.ndim)
    # Counted from the end, where the axes of operands that broadcast are aligned.
    axis = normalize_axis("vecdot", axis, ndim) - ndim
    if -axis > min(x1.ndim, x2.ndim) or x1.shape[axis] != x2.shape[axis]:
        raise ShapeError(
            operation="vecdot",
            shape=x1.shape,
            problem=(
                f"sizes along axis {axis} differ: {format_shape(x1.shape)} and"
                f" {format_shape(x2.shape)}"
            ),
        )
    kind = promote_types(x1.dtype, x2.dtype)
    inner = accumulation_dtype(kind)
    # The array API standard conjugates the first operand; `matmul` conjugates none.
    left = x1.conj() if x1.dtype.is_complex else x1
    return left.cast(inner).mul(x2.cast(inner)).sum(axis, dtype=inner).cast(kind)


@operation(test="test_products.py::test_products_are_summed_over_shared_axes", standard=True)
@reuse_graph
def tensordot(
    x1: Tensor, x2: Tensor, /, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Tensor:
    """Tensor contraction over axes of both operands.

    The result has the remaining axes of `x1`, then the remaining axes of `x2`.

    Args:
        x2: the other operand.
        axes: number of trailing axes of `x1` and leading axes of `x2`, or a list of axes for each
            operand.

    Raises:
        AxisError: if an axis is out of bounds.
        ShapeError: if the contracted sizes differ, or there are fewer than `axes` axes.

    Example:
        >>> import svod_tensor as sv
        >>> x = sv.Tensor([[1, 2], [3, 4]])
        >>> sv.tensordot(x, x, axes=([0], [1])).tolist()
        [[7, 15], [10, 22]]
    """
    if isinstance(axes, int):
        if not 0 <= axes <= min(x1.ndim, x2.ndim):
            raise ShapeError(
                operation="tensordot",
                shape=x1.shape,
                problem=(
                    f"axes={axes} is out of range for shapes {format_shape(x1.shape)}"
                    f" and {format_shape(x2.shape)}"
                ),
            )
        axes = tuple(range(x1.ndim - axes, x1.ndim)), tuple(range(axes))
    left, right = (
        normalize_axes("tensordot", axes[0], x1.ndim),
        normalize_axes("tensordot", axes[1], x2.ndim),
    )
    rows, columns = (
        [a for a in range(t.ndim) if a not in used] for t, used in ((x1, left), (x2, right))
    )
    shape = (*(x1.shape[a] for a in rows), *(x2.shape[a] for a in columns))
    if tuple(x1.shape[a] for a in left) != tuple(x2.shape[a] for a in right):
        raise ShapeError(
            operation="tensordot",
            shape=x1.shape,
            problem=(
                f"sizes along axes {axes} differ: {format_shape(x1.shape)} and"
                f" {format_shape(x2.shape)}"
            ),
        )
    # One matrix product, so that it has the kernels of `matmul`.
    x = x1.permute(*rows, *left).reshape(_count(x1, rows), _count(x1, left))
    y = x2.permute(*right, *columns).reshape(_count(x2, right), _count(x2, columns))
    return x.matmul(y).reshape(shape)


@static_operation(test="test_products.py::test_einsum_agrees_with_numpy")
@reuse_graph
def einsum(formula: str, *operands: Operand) -> Tensor:
    """Evaluate the Einstein summation convention. Dtypes promote, and narrow floats are multiplied
    and accumulated in float32. Three or more operands are contracted pairwise, in the order with the
    fewest multiplications.

    Args:
        formula: subscripts of the operands and the result: `"ij,jk->ik"`; `...` and repeated letters
            as in numpy.
        operands: one tensor for each term.

    Raises:
        EinsumError: if the formula does not match the operands.

    Example:
        >>> import svod_tensor as sv
        >>> sv.einsum("ij,j->i", sv.Tensor([[1, 2], [3, 4]]), sv.Tensor([1, 10])).tolist()
        [21, 43]
    """
    tensors = [to_tensor(operand) for operand in operands]
    kind = reduce(promote_types, (tensor.dtype for tensor in tensors))
    inner = accumulation_dtype(kind)
    return contract(formula, [tensor.cast(inner) for tensor in tensors], inner).cast(kind)


@operation(test="test_products.py::test_kronecker_products_agree_with_numpy")
@reuse_graph
def kron(x1: Tensor, x2: Operand, /) -> Tensor:
    """Kronecker product: blocks of `x2` scaled by the elements of `x1`. Dtypes promote.

    The size of each axis of the result is the product of its sizes in `x1` and `x2`.

    Args:
        x2: the other operand; the one with fewer axes gets leading axes of size 1.

    Example:
        >>> import svod_tensor as sv
        >>> sv.kron(sv.Tensor([1, 10]), [1, 2]).tolist()
        [1, 2, 10, 20]
        >>> sv.kron(sv.ones((2, 3)), sv.ones(4)).shape
        (2, 12)
    """
    x, y = promote(x1, x2)
    n = max(x.ndim, y.ndim)
    left, right = ((1,) * (n - z.ndim) + z.shape for z in (x, y))
    # Each axis of `x1` is followed by that of `x2`, with which it is merged.
    wide = x.reshape([s for size in left for s in (size, 1)]).mul(
        y.reshape([s for size in right for s in (1, size)])
    )
    return wide.reshape([normalize_size(a * b) for a, b in zip(left, right, strict=True)])


@operation(test="test_products.py::test_traces_and_transposes", standard="linalg.trace")
@reuse_graph
def trace(x: Tensor, /, offset: int = 0, *, dtype: DTypeLike | None = None) -> Tensor:
    """Sum along a diagonal of the last two axes: `sum(x[..., i, i + offset])`, of shape
    `x.shape[:-2]`.

    Args:
        offset: index of the diagonal: 0 is the main diagonal, positive values are above it.
        dtype: dtype of the result and of the accumulation; by default as for `sum`.

    Raises:
        AxisError: if there are fewer than two axes.

    Example:
        >>> import svod_tensor as sv
        >>> sv.trace(sv.Tensor([[1, 2], [3, 4]])).item()
        5
    """
    return x.diagonal(offset).sum(-1, dtype=dtype)


def _check_contracted(left: Shape, right: Shape) -> None:
    if not left or not right:
        raise ShapeError(
            operation="matmul",
            shape=(),
            problem=(
                "operands must have at least 1 dimension:"
                f" {format_shape(left)} @ {format_shape(right)}"
            ),
            hint="multiply with * instead",
        )
    axis = max(len(right) - 2, 0)
    inner = right[axis]
    if left[-1] != inner:
        raise ShapeError(
            operation="matmul",
            shape=left,
            problem=f"inner dimensions differ: {format_shape(left)} @ {format_shape(right)}",
            hint="the last axes have equal sizes: write x @ y.mT"
            if len(right) > 1 and left[-1] == right[-1]
            else None,
        )


def _count(x: Tensor, axes: Sequence[int]) -> SInt:
    return product(tuple(x.shape[a] for a in axes))
