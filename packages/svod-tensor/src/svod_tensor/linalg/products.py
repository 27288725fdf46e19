"""Products of vectors and matrices, diagonals, traces and transposes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from svod_dtype import promote_types
from svod_ir import ShapeError, format_shape
from svod_ir.sizes import max_size
from svod_tensor._shapes import normalize_axis
from svod_tensor.linalg._operands import names_itself, round_to
from svod_tensor.ops.core.operands import first_operand, to_tensor, to_tensors
from svod_tensor.ops.core.rounding import accumulation_dtype
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import DTypeLike, Operand

__all__ = [
    "cross",
    "diagonal",
    "matmul",
    "matrix_transpose",
    "multi_dot",
    "outer",
    "tensordot",
    "trace",
    "vecdot",
]


def cross(x1: Operand, x2: Operand, /, *, axis: int = -1) -> Tensor:
    """Cross products of vectors of three elements. Dtypes promote, and other axes broadcast.

    Args:
        x1: the left vectors.
        x2: the right vectors.
        axis: the axis of the three elements, in the broadcast shape.

    Raises:
        AxisError: if there is no such axis.
        ShapeError: if the axis has a size other than 3 in an operand.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.cross(sv.Tensor([1, 0, 0]), sv.Tensor([0, 1, 0])).tolist()
        [0, 0, 1]
    """
    x, y = to_tensors(x1, x2)
    ndim = max(x.ndim, y.ndim)
    # Counted from the end, since the operands may have different numbers of axes.
    axis = normalize_axis("cross", axis, ndim) - ndim
    for operand in (x, y):
        if operand.ndim < -axis or operand.shape[axis] != 3:
            raise ShapeError(
                operation="cross",
                shape=operand.shape,
                problem=f"axis {axis} must have size 3: {format_shape(operand.shape)}",
            )
    kind = promote_types(x.dtype, y.dtype)
    # The differences of products cancel.
    wide = accumulation_dtype(kind)
    (a, b, c), (d, e, f) = x.cast(wide).unstack(axis=axis), y.cast(wide).unstack(axis=axis)
    return round_to(kind, Tensor.stack([b * f - c * e, c * d - a * f, a * e - b * d], axis=axis))[0]


def diagonal(x: Operand, /, *, offset: int = 0) -> Tensor:
    """The diagonals `[..., i, i + offset]` of matrices of shape (..., m, n), as a copy of shape
    (..., k).

    Args:
        x: the matrices.
        offset: the offset from the main diagonal; positive above it.

    Raises:
        AxisError: if there are fewer than two axes.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.diagonal(sv.Tensor([[1, 2, 3], [4, 5, 6]]), offset=1).tolist()
        [2, 6]
    """
    return to_tensor(x).diagonal(offset)


def matmul(x1: Operand, x2: Operand, /) -> Tensor:
    """The matrix product: 1-d operands are a row (left) or a column (right), and leading axes
    broadcast.

    Args:
        x1: the left operand.
        x2: the right operand.

    Raises:
        ShapeError: if an operand is 0-d or the contracted sizes differ.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.matmul(sv.Tensor([[1, 2], [3, 4]]), sv.Tensor([1, 10])).tolist()
        [21, 43]
    """
    return first_operand(x1, x2).matmul(x2)


def matrix_transpose(x: Operand, /) -> Tensor:
    """`x` with the last two axes swapped: a view.

    Args:
        x: the matrices.

    Raises:
        AxisError: if there are fewer than two axes.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.matrix_transpose(sv.Tensor.zeros(2, 3, 4)).shape
        (2, 4, 3)
    """
    return to_tensor(x).matrix_transpose()


@names_itself
def multi_dot(arrays: Sequence[Operand], /) -> Tensor:
    """The product of a chain of matrices, in the order of the fewest multiplications.

    Args:
        arrays: at least two matrices; the first and the last may be vectors. Symbolic sizes count
            as their upper bounds.

    Raises:
        ShapeError: if there are fewer than two operands, or the sizes do not match.

    Source:
        T. Cormen et al., Introduction to Algorithms, section 15.2.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.multi_dot([sv.Tensor.ones(2, 3), sv.Tensor.ones(3, 50), sv.Tensor.ones(50)]).tolist()
        [150.0, 150.0]
    """
    operands = to_tensors(*arrays)
    if len(operands) < 2:
        raise ShapeError(
            operation="multi_dot",
            shape=(len(operands),),
            problem=f"expected at least two arrays, got {len(operands)}",
        )
    for position, x in enumerate(operands):
        if x.ndim != 2 and not (x.ndim == 1 and position in (0, len(operands) - 1)):
            problem = f"expected matrices, got an array of shape {format_shape(x.shape)}"
            raise ShapeError(operation="multi_dot", shape=x.shape, problem=problem)
    is_row, is_column = operands[0].ndim == 1, operands[-1].ndim == 1
    matrices = list(operands)
    matrices[0] = matrices[0].unsqueeze(0) if is_row else matrices[0]
    matrices[-1] = matrices[-1].unsqueeze(1) if is_column else matrices[-1]
    # The order must not depend on the values of variables: one plan serves them all.
    sizes = [max_size(x.shape[0]) for x in matrices] + [max_size(matrices[-1].shape[1])]
    result = _multiply(matrices, _choose_splits(sizes), 0, len(matrices) - 1)
    return result.squeeze(tuple([0] * is_row + [1] * is_column)) if is_row or is_column else result


def _choose_splits(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """The last matrix of the left factor in the best split of each range of matrices.

    Matrix n has the shape (sizes[n], sizes[n + 1]).
    """
    n = len(sizes) - 1
    costs = {(i, i): 0 for i in range(n)}
    splits: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for first in range(n - length):
            last = first + length
            edges = sizes[first] * sizes[last + 1]
            # Ranges of matrices from short to long, so that the costs of both halves are known.
            candidates = [
                (costs[first, k] + costs[k + 1, last] + edges * sizes[k + 1], k)
                for k in range(first, last)
            ]
            costs[first, last], splits[first, last] = min(candidates)
    return splits


def _multiply(
    matrices: Sequence[Tensor], splits: dict[tuple[int, int], int], first: int, last: int
) -> Tensor:
    if first == last:
        return matrices[first]
    split = splits[first, last]
    return _multiply(matrices, splits, first, split).matmul(
        _multiply(matrices, splits, split + 1, last)
    )


def outer(x1: Operand, x2: Operand, /) -> Tensor:
    """The outer product of two vectors, of shape (n, m). Dtypes promote.

    Args:
        x1: of shape (n,).
        x2: of shape (m,).

    Raises:
        ShapeError: if an operand is not a vector.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.outer(sv.Tensor([1, 2]), sv.Tensor([3, 4, 5])).tolist()
        [[3, 4, 5], [6, 8, 10]]
    """
    x, y = to_tensors(x1, x2)
    for operand in (x, y):
        if operand.ndim != 1:
            raise ShapeError(
                operation="outer",
                shape=operand.shape,
                problem=f"expected a vector, got shape {format_shape(operand.shape)}",
                hint="write x.flatten()",
            )
    return x.outer(y)


def tensordot(
    x1: Operand, x2: Operand, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Tensor:
    """The tensor contraction over axes of both operands.

    The result has the remaining axes of `x1`, then the remaining axes of `x2`.

    Args:
        x1: the left operand.
        x2: the right operand.
        axes: the number of trailing axes of `x1` and leading axes of `x2`, or a list of axes for
            each operand.

    Raises:
        AxisError: if an axis is out of bounds.
        ShapeError: if the contracted sizes differ, or there are fewer than `axes` axes.

    Example:
        >>> import svod_tensor as sv
        >>> x = sv.Tensor([[1, 2], [3, 4]])
        >>> sv.linalg.tensordot(x, x, axes=([0], [1])).tolist()
        [[7, 15], [10, 22]]
    """
    x, y = to_tensors(x1, x2)
    return x.tensordot(y, axes)


def trace(x: Operand, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Tensor:
    """The sums of the diagonals of matrices of shape (..., m, n): shape (...).

    Args:
        x: the matrices.
        offset: the offset from the main diagonal; positive above it.
        dtype: the dtype of the result; by default as for `sum`.

    Raises:
        AxisError: if there are fewer than two axes.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.trace(sv.Tensor([[1, 2], [3, 4]])).item()
        5
    """
    return to_tensor(x).trace(offset, dtype=dtype)


def vecdot(x1: Operand, x2: Operand, /, *, axis: int = -1) -> Tensor:
    """The dot products `sum(conj(x1) * x2)` along one axis; the other axes broadcast. Dtypes
    promote, and narrow floats are added in float32.

    Args:
        x1: the left vectors.
        x2: the right vectors.
        axis: the contracted axis, of the same size in both.

    Raises:
        AxisError: if `axis` is out of bounds.
        ShapeError: if the sizes differ.

    Example:
        >>> import svod_tensor as sv
        >>> sv.linalg.vecdot(sv.Tensor([[1, 2], [3, 4]]), sv.Tensor([1, 10])).tolist()
        [21, 43]
    """
    x, y = to_tensors(x1, x2)
    return x.vecdot(y, axis)
