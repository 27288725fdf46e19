"""Sums, products, extrema and their indices.

In all functions `axis` is one axis, several, or None for all; `keepdims` keeps reduced axes with
size 1.

Sums and products of integers have the default integer dtype, int32 (uint32 for unsigned integers),
or int64 (uint64) for 64-bit integers; `sum(dtype="int64")` accumulates in a wider dtype. float16,
bfloat16 and float8 accumulate in float32 and are rounded once, at the end. argmax and argmin give
the int64 index of the first occurrence, and treat NaN as the extremum."""

from __future__ import annotations

import builtins
import math
from typing import TYPE_CHECKING, Literal

from svod_dtype import DType, bool_, int32, int64, to_dtype, uint32
from svod_ir import Op, UOp, make_alu, make_broadcasted_iota, make_reduce_axis, make_reshape
from svod_tensor._shapes import Axes, broadcast_node, normalize_axes, normalize_axis
from svod_tensor.errors import EmptyReductionError
from svod_tensor.ops.core.base import DTypeLike
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.reuse import reuse_graph
from svod_tensor.ops.core.rounding import accumulation_dtype
from svod_tensor.ops.elementwise.complex_functions import multiply_all

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "max",
    "min",
    "nanmax",
    "nanmin",
    "nanprod",
    "nansum",
    "prod",
    "sum",
    "sum_dtype",
]


@operation(test="test_reduction.py::test_reductions_agree_with_numpy", standard=True)
def sum(
    x: Tensor, /, axis: Axes = None, *, keepdims: bool = False, dtype: DTypeLike | None = None
) -> Tensor:
    """Sum over axes; 0 for an empty axis. Narrow floats accumulate in float32 and are rounded once.

    Args:
        axis: axis or axes to reduce; None reduces all.
        keepdims: whether to keep the reduced axes with size 1.
        dtype: dtype of the result and of the accumulation; by default the dtype of `x`, or int32
            (uint32) for booleans and narrower integers.

    Raises:
        AxisError: if an axis is out of bounds.

    Example:
        >>> import svod_tensor as sv
        >>> sv.sum(sv.Tensor([[1, 2], [3, 4]]), axis=0).tolist()
        [4, 6]
    """
    return _accumulate(x, "sum", Op.ADD, axis, keepdims, dtype)


@operation(test="test_reduction.py::test_reductions_agree_with_numpy", standard=True)
def prod(
    x: Tensor, /, axis: Axes = None, *, keepdims: bool = False, dtype: DTypeLike | None = None
) -> Tensor:
    """Product over axes; 1 for an empty axis. Narrow floats accumulate in float32 and round once.

    Args:
        axis: axis or axes to reduce; None reduces all.
        keepdims: whether to keep the reduced axes with size 1.
        dtype: dtype of the result and of the accumulation; by default as for `sum`.

    Raises:
        AxisError: if an axis is out of bounds.

    Example:
        >>> import svod_tensor as sv
        >>> sv.prod(sv.Tensor([[1, 2], [3, 4]]), axis=1).tolist()
        [2, 12]
    """
    return _accumulate(x, "prod", Op.MUL, axis, keepdims, dtype)


@operation(
    test="test_reduction.py::test_reductions_agree_with_numpy", standard=True, aliases=("amax",)
)
def max(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Maximum over axes, in the dtype of `x`; NaN propagates.

    Args:
        axis: axis or axes to reduce; None reduces all.
        keepdims: whether to keep the reduced axes with size 1.

    Raises:
        AxisError: if an axis is out of bounds.
        EmptyReductionError: if a reduced axis is empty.

    Example:
        >>> import svod_tensor as sv
        >>> sv.max(sv.Tensor([[1, 5], [3, 4]]), axis=1).tolist()
        [5, 4]
    """
    return _extremum(x, "max", Op.MAX, axis, keepdims)


@operation(
    test="test_reduction.py::test_reductions_agree_with_numpy", standard=True, aliases=("amin",)
)
def min(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Minimum over axes, in the dtype of `x`; NaN propagates.

    Args:
        axis: axis or axes to reduce; None reduces all.
        keepdims: whether to keep the reduced axes with size 1.

    Raises:
        AxisError: if an axis is out of bounds.
        EmptyReductionError: if a reduced axis is empty.

    Example:
        >>> import svod_tensor as sv
        >>> sv.min(sv.Tensor([[1, 5], [3, 4]]), axis=1, keepdims=True).tolist()
        [[1], [3]]
    """
    return _extremum(x, "min", Op.MIN, axis, keepdims)


@operation(test="test_reduction.py::test_reductions_agree_with_numpy", standard=True)
def any(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Test whether any element over axes is nonzero, as bool; False for an empty axis.

    Args:
        axis: axis or axes to reduce; None reduces all.
        keepdims: whether to keep the reduced axes with size 1.

    Raises:
        AxisError: if an axis is out of bounds.

    Example:
        >>> import svod_tensor as sv
        >>> sv.any(sv.Tensor([[0, 1], [0, 0]]), axis=1).tolist()
        [True, False]
    """
    axes = normalize_axes("any", axis, x.ndim)
    # MAX of booleans is their "or", and MIN in `all` their "and".
    return x.from_uop(_reduce(x.uop.cast(bool_), Op.MAX, axes, keepdims, empty=False))


@operation(test="test_reduction.py::test_reductions_agree_with_numpy", standard=True)
def all(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Test whether all elements over axes are nonzero, as bool; True for an empty axis.

    Args:
        axis: axis or axes to reduce; None reduces all.
        keepdims: whether to keep the reduced axes with size 1.

    Raises:
        AxisError: if an axis is out of bounds.

    Example:
        >>> import svod_tensor as sv
        >>> sv.all(sv.Tensor([[2, 1], [0, 1]]), axis=1).tolist()
        [True, False]
    """
    axes = normalize_axes("all", axis, x.ndim)
    return x.from_uop(_reduce(x.uop.cast(bool_), Op.MIN, axes, keepdims, empty=True))


@operation(test="test_reduction.py::test_reductions_agree_with_numpy", standard=True)
def count_nonzero(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Count the nonzero elements over axes (int64).

    Args:
        axis: axis or axes to reduce; None reduces all.
        keepdims: whether to keep the reduced axes with size 1.

    Raises:
        AxisError: if an axis is out of bounds.

    Example:
        >>> import svod_tensor as sv
        >>> sv.count_nonzero(sv.Tensor([[0, 5], [3, 4]]), axis=1).tolist()
        [1, 2]
    """
    return x.cast(bool_).sum(axis, keepdims=keepdims, dtype=int64)


@operation(test="test_reduction.py::test_argmax_gives_the_first_occurrence", standard=True)
@reuse_graph
def argmax(x: Tensor, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Index (int64) of the first maximum along an axis; NaN is treated as the maximum.

    Args:
        axis: the axis; None for the index into the flattened tensor.
        keepdims: whether to keep the reduced axes with size 1.

    Raises:
        AxisError: if an axis is out of bounds.
        EmptyReductionError: if a reduced axis is empty.

    Example:
        >>> import svod_tensor as sv
        >>> sv.argmax(sv.Tensor([[1, 5], [7, 4]]), axis=1).tolist()
        [1, 0]
    """
    return _arg_extremum(x, "argmax", Op.MAX, axis, keepdims)


@operation(test="test_reduction.py::test_argmax_gives_the_first_occurrence", standard=True)
@reuse_graph
def argmin(x: Tensor, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Index (int64) of the first minimum along an axis; NaN is treated as the minimum.

    Args:
        axis: the axis; None for the index into the flattened tensor.
        keepdims: whether to keep the reduced axes with size 1.

    Raises:
        AxisError: if an axis is out of bounds.
        EmptyReductionError: if a reduced axis is empty.

    Example:
        >>> import svod_tensor as sv
        >>> sv.argmin(sv.Tensor([[1, 5], [7, 4]])).item()
        0
    """
    return _arg_extremum(x, "argmin", Op.MIN, axis, keepdims)


@operation(test="test_reduction.py::test_reductions_without_nans")
@reuse_graph
def nansum(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Sum over axes, treating NaN as 0, in the dtype of `sum`.

    Args:
        axis: axis or axes to reduce; None reduces all.
        keepdims: whether to keep the reduced axes with size 1.

    Raises:
        AxisError: if an axis is out of bounds.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nansum(sv.Tensor([1.0, float("nan"), 2.0])).item()
        3.0
    """
    # WHERE and not a product with a mask: NaN * 0 is NaN.
    return x.isnan().where(0, x).sum(axis, keepdims=keepdims)


@operation(test="test_reduction.py::test_reductions_without_nans")
@reuse_graph
def nanprod(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Product over axes, treating NaN as 1, in the dtype of `prod`.

    Args:
        axis: axis or axes to reduce; None reduces all.
        keepdims: whether to keep the reduced axes with size 1.

    Raises:
        AxisError: if an axis is out of bounds.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nanprod(sv.Tensor([3.0, float("nan"), 2.0])).item()
        6.0
    """
    return x.isnan().where(1, x).prod(axis, keepdims=keepdims)


@operation(test="test_reduction.py::test_reductions_without_nans")
@reuse_graph
def nanmax(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Maximum over axes, ignoring NaN, in the dtype of `x`; NaN for all-NaN slices.

    Args:
        axis: axis or axes to reduce; None reduces all.
        keepdims: whether to keep the reduced axes with size 1.

    Raises:
        AxisError: if an axis is out of bounds.
        EmptyReductionError: if a reduced axis is empty.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nanmax(sv.Tensor([1.0, float("nan"), 2.0])).item()
        2.0
    """
    return _get_extremum_without_nans(x, "max", x.dtype.min, axis, keepdims)


@operation(test="test_reduction.py::test_reductions_without_nans")
@reuse_graph
def nanmin(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Minimum over axes, ignoring NaN, in the dtype of `x`; NaN for all-NaN slices.

    Args:
        axis: axis or axes to reduce; None reduces all.
        keepdims: whether to keep the reduced axes with size 1.

    Raises:
        AxisError: if an axis is out of bounds.
        EmptyReductionError: if a reduced axis is empty.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nanmin(sv.Tensor([1.0, float("nan"), 2.0])).item()
        1.0
    """
    return _get_extremum_without_nans(x, "min", x.dtype.max, axis, keepdims)


def _get_extremum_without_nans(
    x: Tensor, operation: Literal["max", "min"], neutral: float, axis: Axes, keepdims: bool
) -> Tensor:
    if not x.dtype.is_float:
        return getattr(x, operation)(axis, keepdims=keepdims)
    # `neutral` is infinite except for float8_e4m3, which has no infinities: any element is at least
    # as good.
    extremum: Tensor = getattr(x.isnan().where(neutral, x), operation)(axis, keepdims=keepdims)
    return x.isnan().all(axis, keepdims=keepdims).where(math.nan, extremum)


def _accumulate(
    x: Tensor, operation: str, op: Op, axis: Axes, keepdims: bool, dtype: DTypeLike | None
) -> Tensor:
    result = sum_dtype(x.dtype) if dtype is None else to_dtype(dtype)
    axes = normalize_axes(operation, axis, x.ndim)
    if result.is_complex and op is Op.MUL:
        # A complex product needs both parts of its operands; a sum adds the parts separately.
        return multiply_all(x.cast(result), axes, keepdims)
    wide = x.uop.cast(accumulation_dtype(result))
    return x.from_uop(_reduce(wide, op, axes, keepdims, empty=int(op is Op.MUL)).cast(result))


def _extremum(x: Tensor, operation: str, op: Op, axis: Axes, keepdims: bool) -> Tensor:
    axes = normalize_axes(operation, axis, x.ndim)
    # As in numpy: an extremum has no neutral element, unlike a sum.
    for a in axes:
        if x.shape[a] == 0:
            raise EmptyReductionError(operation=operation, shape=x.shape, axis=a)
    return x.from_uop(_reduce(x.uop, op, axes, keepdims, empty=0))


def _reduce(x: UOp, op: Op, axes: tuple[int, ...], keepdims: bool, *, empty: int) -> UOp:
    """Build a reduction; `empty` is the result if `x` has no elements."""
    # One node for all steps: a tensor for each of them would triple the cost of a call.
    shape = x.shape
    if builtins.any(isinstance(s, int) and s == 0 for s in shape):
        kept = tuple(1 if a in axes else s for a, s in enumerate(shape))
        reduced = broadcast_node(UOp.const(x.dtype, empty), kept)
    else:
        reduced = make_reduce_axis(x, op, axes)
    if keepdims:
        return reduced
    return make_reshape(reduced, tuple(s for a, s in enumerate(shape) if a not in axes))


def _arg_extremum(x: Tensor, operation: str, op: Op, axis: int | None, keepdims: bool) -> Tensor:
    if axis is None:
        result = _arg_extremum(x.flatten(), operation, op, 0, False)
        return result.reshape((1,) * x.ndim) if keepdims else result
    axis = normalize_axis(operation, axis, x.ndim)
    peak = _extremum(x, operation, op, axis, True)
    size = x.shape[axis]
    # With a NaN, the peak is NaN and equals no element; without, isnan is False everywhere.
    is_peak = x.eq(peak).logical_or(x.isnan()) if x.dtype.is_float else x.eq(peak)
    # The first peak has the smallest index; other elements count as the last index, which is never
    # smaller.
    index = make_broadcasted_iota(x.shape, axis)
    last_index = (
        (size - 1).cast(index.dtype) if isinstance(size, UOp) else UOp.const(index.dtype, size - 1)
    )
    first = make_reduce_axis(make_alu(Op.WHERE, is_peak.uop, index, last_index), Op.MIN, (axis,))
    result = x.from_uop(first.cast(int64))
    return result if keepdims else result.squeeze(axis)


def sum_dtype(dtype: DType) -> DType:
    """Default dtype of sums. Source: the array API standard, `sum`."""
    if dtype.is_inexact or dtype.itemsize == 8:
        return dtype
    return uint32 if dtype.is_unsigned else int32
