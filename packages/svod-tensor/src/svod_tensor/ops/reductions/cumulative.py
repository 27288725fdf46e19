"""Cumulative sums, products and extrema along an axis, and discrete differences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_dtype import int64, to_dtype
from svod_ir import Op, OperandError, ShapeError, make_scan_axis
from svod_tensor._shapes import concrete_shape, normalize_axis
from svod_tensor.ops.core.base import DTypeLike
from svod_tensor.ops.core.operands import move_beside, slice_axis
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.reuse import reuse_graph
from svod_tensor.ops.core.rounding import accumulation_dtype, rounds_once
from svod_tensor.ops.elementwise.complex_functions import multiply_running
from svod_tensor.ops.reductions.sums_and_extrema import sum_dtype

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = [
    "cumargmax",
    "cumargmin",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
]


@operation(test="test_reduction.py::test_cumulative_reductions_agree_with_numpy")
def cumsum(x: Tensor, /, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Tensor:
    """Cumulative sum along an axis, in the shape of `x`.

    Args:
        axis: the axis to accumulate along; None flattens first.
        dtype: dtype of the result and of the accumulation; by default as for `sum`.

    Raises:
        AxisError: if `axis` is out of bounds.

    Example:
        >>> import svod_tensor as sv
        >>> sv.cumsum(sv.Tensor([[1, 2], [3, 4]]), 0).tolist()
        [[1, 2], [4, 6]]
    """
    return _scan(x, "cumsum", Op.ADD, axis, dtype)


@operation(test="test_reduction.py::test_cumulative_reductions_agree_with_numpy")
def cumprod(x: Tensor, /, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Tensor:
    """Cumulative product along an axis, in the shape of `x`.

    Args:
        axis: the axis to accumulate along; None flattens first.
        dtype: dtype of the result and of the accumulation; by default as for `prod`.

    Raises:
        AxisError: if `axis` is out of bounds.

    Example:
        >>> import svod_tensor as sv
        >>> sv.cumprod(sv.Tensor([[1, 2], [3, 4]])).tolist()
        [1, 2, 6, 24]
    """
    return _scan(x, "cumprod", Op.MUL, axis, dtype)


@operation(test="test_operations.py::test_the_cumulative_maximum_agrees_with_numpy")
@reuse_graph
def cummax(x: Tensor, /, axis: int) -> Tensor:
    """Cumulative maximum along `axis`, in the shape and dtype of `x`; NaN propagates.

    Raises:
        AxisError: if `axis` is out of bounds.

    Example:
        >>> import svod_tensor as sv
        >>> sv.cummax(sv.Tensor([1, 3, 2]), 0).tolist()
        [1, 3, 3]
    """
    return _scan(x, "cummax", Op.MAX, axis, x.dtype)


@operation(test="test_reduction.py::test_cumulative_reductions_agree_with_numpy")
@reuse_graph
def cummin(x: Tensor, /, axis: int) -> Tensor:
    """Cumulative minimum along `axis`, in the shape and dtype of `x`; NaN propagates.

    Raises:
        AxisError: if `axis` is out of bounds.

    Example:
        >>> import svod_tensor as sv
        >>> sv.cummin(sv.Tensor([3, 1, 2]), 0).tolist()
        [3, 1, 1]
    """
    return _scan(x, "cummin", Op.MIN, axis, x.dtype)


@operation(test="test_cumulative.py::test_cumargmax_agrees_with_argmax_of_each_prefix")
@reuse_graph
def cumargmax(x: Tensor, /, axis: int) -> Tensor:
    """Index (int64) of the cumulative maximum along `axis`: its first occurrence, or the first NaN.

    Raises:
        AxisError: if `axis` is out of bounds.

    Example:
        >>> import svod_tensor as sv
        >>> sv.cumargmax(sv.Tensor([1, 3, 2, 3, 4]), 0).tolist()
        [0, 1, 1, 1, 4]
    """
    return _scan_extrema(x, x.cummax(axis), normalize_axis("cumargmax", axis, x.ndim))


@operation(test="test_cumulative.py::test_cumargmax_agrees_with_argmax_of_each_prefix")
@reuse_graph
def cumargmin(x: Tensor, /, axis: int) -> Tensor:
    """Index (int64) of the cumulative minimum along `axis`: its first occurrence, or the first NaN.

    Raises:
        AxisError: if `axis` is out of bounds.

    Example:
        >>> import svod_tensor as sv
        >>> sv.cumargmin(sv.Tensor([3, 1, 2, 1]), 0).tolist()
        [0, 1, 1, 1]
    """
    return _scan_extrema(x, x.cummin(axis), normalize_axis("cumargmin", axis, x.ndim))


def _scan_extrema(x: Tensor, extrema: Tensor, axis: int) -> Tensor:
    """Indices of cumulative extrema: a new extremum differs from the previous one, where the first
    NaN counts and later NaNs do not.
    """
    n = x.shape[axis]
    # The only element has index 0.
    if x.size == 0 or n == 1:
        return x.zeros_like(dtype=int64)
    current, previous = slice_axis(extrema, axis, 1, n), slice_axis(extrema, axis, 0, n - 1)
    # NaN differs from itself: after the first NaN, which stays the extremum, no element is new.
    is_new = current.ne(previous).logical_and(previous.ne(previous).logical_not())
    column = (1,) * (x.ndim - 1 - axis)
    indices = move_beside(type(x).arange(1, n, dtype=int64), x).reshape(-1, *column)
    first = (1, 0)
    new_indices = is_new.where(indices, 0).pad(
        *(first if a == axis else (0, 0) for a in range(x.ndim))
    )
    # Indices ascend, so that the largest belongs to the last new extremum.
    return new_indices.cummax(axis)


def _scan(x: Tensor, operation: str, op: Op, axis: int | None, dtype: DTypeLike | None) -> Tensor:
    if axis is None:
        return _scan(x.flatten(), operation, op, 0, dtype)
    axis = normalize_axis(operation, axis, x.ndim)
    result = sum_dtype(x.dtype) if dtype is None else to_dtype(dtype)
    # Extrema are elements, and need no wider dtype.
    wide = x.cast(accumulation_dtype(result) if op in (Op.ADD, Op.MUL) else result)
    if x.size == 0 or x.shape[axis] == 1:
        return wide.cast(result)
    if result.is_complex and op is Op.MUL:
        # A complex product needs both parts of its operands, and is no scan of separate parts.
        return multiply_running(wide, axis)
    return x.from_uop(make_scan_axis(wide.uop, op, axis).cast(result))


@operation(
    test="test_cumulative.py::test_cumulative_sums_may_include_the_initial_element", standard=True
)
def cumulative_sum(
    x: Tensor,
    /,
    axis: int | None = None,
    *,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Tensor:
    """Cumulative sum, as the array API standard specifies it.

    Args:
        axis: the axis to accumulate along; optional for a 1-d tensor.
        dtype: dtype of the result and of the accumulation; by default as for `sum`.
        include_initial: whether to prepend a 0, which makes the axis longer by one.

    Raises:
        AxisError: if `axis` is out of bounds.
        ShapeError: if `axis` is None and the tensor is not 1-d.

    Example:
        >>> import svod_tensor as sv
        >>> sv.cumulative_sum(sv.Tensor([1, 2, 3]), include_initial=True).tolist()
        [0, 1, 3, 6]
    """
    return _with_initial(
        x, x.cumsum(_only_axis(x, "cumulative_sum", axis), dtype=dtype), axis, 0, include_initial
    )


@operation(
    test="test_cumulative.py::test_cumulative_sums_may_include_the_initial_element", standard=True
)
def cumulative_prod(
    x: Tensor,
    /,
    axis: int | None = None,
    *,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Tensor:
    """Cumulative product, as the array API standard specifies it.

    Args:
        axis: the axis to accumulate along; optional for a 1-d tensor.
        dtype: dtype of the result and of the accumulation; by default as for `prod`.
        include_initial: whether to prepend a 1, which makes the axis longer by one.

    Raises:
        AxisError: if `axis` is out of bounds.
        ShapeError: if `axis` is None and the tensor is not 1-d.

    Example:
        >>> import svod_tensor as sv
        >>> sv.cumulative_prod(sv.Tensor([2, 3, 4]), include_initial=True).tolist()
        [1, 2, 6, 24]
    """
    return _with_initial(
        x, x.cumprod(_only_axis(x, "cumulative_prod", axis), dtype=dtype), axis, 1, include_initial
    )


def _only_axis(x: Tensor, operation: str, axis: int | None) -> int:
    if axis is None and x.ndim != 1:
        raise ShapeError(
            operation=operation,
            shape=x.shape,
            problem=f"axis is required for a tensor of dimension {x.ndim}",
        )
    return normalize_axis(operation, 0 if axis is None else axis, x.ndim)


def _with_initial(
    owner: Tensor, x: Tensor, axis: int | None, value: int, is_wanted: bool
) -> Tensor:
    if not is_wanted:
        return x
    padded_axis = normalize_axis("cumulative", 0 if axis is None else axis, x.ndim)
    return x.pad(
        *((1, 0) if a == padded_axis else (0, 0) for a in range(x.ndim)), constant_values=value
    )


@operation(test="test_cumulative.py::test_diff_agrees_with_numpy", standard=True)
@reuse_graph
@rounds_once
def diff(
    x: Tensor,
    /,
    n: int = 1,
    axis: int = -1,
    *,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """Calculate the `n`-th discrete difference along an axis, which becomes shorter by `n`; for
    booleans, the logical xor of neighbors.

    Args:
        n: number of times that differences are taken.
        axis: the axis of the differences.
        prepend: values to prepend along `axis`.
        append: values to append along `axis`.

    Raises:
        AxisError: if `axis` is out of bounds.
        OperandError: if `n` is negative.

    Example:
        >>> import svod_tensor as sv
        >>> sv.diff(sv.Tensor([1, 4, 9, 16])).tolist()
        [3, 5, 7]
        >>> sv.diff(sv.Tensor([1, 4, 9, 16]), n=2).tolist()
        [2, 2]
    """
    axis = normalize_axis("diff", axis, x.ndim)
    if n < 0:
        raise OperandError(operation="diff", found=n, expected="a non-negative order n")
    if n == 0:
        return x.clone()
    tensors = [tensor for tensor in (prepend, x, append) if tensor is not None]
    result = type(x).concat(tensors, axis) if len(tensors) > 1 else x
    (size,) = concrete_shape("diff", (result.shape[axis],))
    for length in range(size, max(size - n, 0), -1):
        last, first = slice_axis(result, axis, 1, length), slice_axis(result, axis, 0, length - 1)
        # As in numpy, which has no difference of booleans.
        result = last.ne(first) if result.dtype.is_bool else last.sub(first)
    return result.clone() if result is x else result
