"""NaN-ignoring reductions and cumulative operations, and replacement of NaN."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from svod_ir import OperandError
from svod_tensor._shapes import Axes
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.reuse import reuse_graph
from svod_tensor.ops.core.rounding import accumulation_dtype, rounds_once
from svod_tensor.ops.statistics.moments import center, take_root

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import DTypeLike
    from svod_tensor.tensor import Tensor

__all__ = [
    "nan_to_num",
    "nanargmax",
    "nanargmin",
    "nancumprod",
    "nancumsum",
    "nanstd",
    "nanvar",
]


@operation(test="test_missing.py::test_moments_without_nans_agree_with_numpy")
@reuse_graph
@rounds_once
def nanvar(
    x: Tensor, /, axis: Axes = None, *, correction: float = 0, keepdims: bool = False
) -> Tensor:
    """Variance along axes, ignoring NaN; NaN if there are at most `correction` elements. Integers
    become float32.

    Args:
        axis: axis or axes to reduce; None reduces all.
        correction: degrees of freedom subtracted from the number of elements.
        keepdims: whether to keep the reduced axes with size 1.

    Raises:
        AxisError: if an axis is out of bounds.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nanvar(sv.Tensor([1.0, float("nan"), 3.0])).item()
        1.0
    """
    _check_real("nanvar", x)
    if not x.dtype.is_float:
        return x.var(axis, correction=correction, keepdims=keepdims)
    is_there = x.isnan().logical_not()
    # Weights of 0 and 1: a missing element adds to neither the mean nor the squares.
    _, _, squares = center(is_there.where(x, 0.0), axis, is_there.cast(x.dtype))
    free = is_there.count_nonzero(axis, keepdims=True).cast(x.dtype).sub(correction)
    # As in numpy, too few elements give NaN, also where the quotient would be infinite or negative.
    value = free.gt(0).where(squares.div(free), math.nan)
    return value if keepdims else value.squeeze(axis)


@operation(test="test_missing.py::test_moments_without_nans_agree_with_numpy")
@reuse_graph
@rounds_once
def nanstd(
    x: Tensor, /, axis: Axes = None, *, correction: float = 0, keepdims: bool = False
) -> Tensor:
    """Standard deviation along axes, ignoring NaN: the square root of `nanvar`. Integers become
    float32.

    Args:
        axis: axis or axes to reduce; None reduces all.
        correction: degrees of freedom subtracted from the number of elements.
        keepdims: whether to keep the reduced axes with size 1.

    Raises:
        AxisError: if an axis is out of bounds.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nanstd(sv.Tensor([1.0, float("nan"), 3.0])).item()
        1.0
    """
    _check_real("nanstd", x)
    if not x.dtype.is_float:
        return x.std(axis, correction=correction, keepdims=keepdims)
    return take_root(x.nanvar(axis, correction=correction, keepdims=keepdims))


@operation(test="test_missing.py::test_nanargmax_agrees_with_numpy")
@reuse_graph
def nanargmax(x: Tensor, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Index (int64) of the first maximum along an axis, ignoring NaN; 0 for all-NaN slices.

    Args:
        axis: the axis; None flattens first.
        keepdims: whether to keep the reduced axis with size 1.

    Raises:
        AxisError: if `axis` is out of bounds.
        EmptyReductionError: if the reduced axis is empty.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nanargmax(sv.Tensor([float("nan"), 1.0, 3.0])).item()
        2
    """
    return _get_extremum(x, axis, -math.inf, keepdims=keepdims)


@operation(test="test_missing.py::test_nanargmax_agrees_with_numpy")
@reuse_graph
def nanargmin(x: Tensor, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Index (int64) of the first minimum along an axis, ignoring NaN; 0 for all-NaN slices.

    Args:
        axis: the axis; None flattens first.
        keepdims: whether to keep the reduced axis with size 1.

    Raises:
        AxisError: if `axis` is out of bounds.
        EmptyReductionError: if the reduced axis is empty.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nanargmin(sv.Tensor([float("nan"), 1.0, 3.0])).item()
        1
    """
    return _get_extremum(x, axis, math.inf, keepdims=keepdims)


@operation(test="test_missing.py::test_nancumsum_agrees_with_numpy")
@reuse_graph
def nancumsum(x: Tensor, /, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Tensor:
    """Cumulative sum, treating NaN as 0.

    Args:
        axis: the axis; None flattens first.
        dtype: dtype of the result and of the accumulation; by default as for `sum`.

    Raises:
        AxisError: if `axis` is out of bounds.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nancumsum(sv.Tensor([1.0, float("nan"), 3.0])).tolist()
        [1.0, 1.0, 4.0]
    """
    return _replace_nans(x, 0.0).cumsum(axis, dtype=dtype)


@operation(test="test_missing.py::test_nancumsum_agrees_with_numpy")
@reuse_graph
def nancumprod(x: Tensor, /, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Tensor:
    """Cumulative product, treating NaN as 1.

    Args:
        axis: the axis; None flattens first.
        dtype: dtype of the result and of the accumulation; by default as for `prod`.

    Raises:
        AxisError: if `axis` is out of bounds.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nancumprod(sv.Tensor([2.0, float("nan"), 3.0])).tolist()
        [2.0, 2.0, 6.0]
    """
    return _replace_nans(x, 1.0).cumprod(axis, dtype=dtype)


@operation(test="test_missing.py::test_nan_to_num_replaces_nan_and_infinities")
@reuse_graph
def nan_to_num(
    x: Tensor, /, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """Replace NaN and infinities by finite numbers, in the dtype of `x`.

    Args:
        nan: replacement of NaN.
        posinf: replacement of infinity; by default the largest finite number.
        neginf: replacement of negative infinity; by default the most negative finite number.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nan_to_num(sv.Tensor([1.0, float("nan")]), 5.0).tolist()
        [1.0, 5.0]
    """
    if x.dtype.is_complex:
        return x.as_real().nan_to_num(nan, posinf, neginf).as_complex()
    if not x.dtype.is_float:
        return x.clone()
    # As in numpy, infinities become the extreme finite values of the dtype.
    limit = x.dtype.finfo_max
    # NaN is replaced last: it may be replaced by an infinity, which is kept.
    high = x.eq(math.inf).where(limit if posinf is None else posinf, x)
    low = x.eq(-math.inf).where(-limit if neginf is None else neginf, high)
    return x.isnan().where(nan, low)


def _check_real(name: str, x: Tensor) -> None:
    if x.dtype.is_complex:
        raise OperandError(
            operation=name,
            found=x.dtype,
            expected="a real dtype",
            hint="use x.real, x.imag or x.abs()",
        )


def _replace_nans(x: Tensor, value: float) -> Tensor:
    return x.isnan().where(value, x) if x.dtype.is_inexact else x


def _get_extremum(x: Tensor, axis: int | None, worst: float, *, keepdims: bool) -> Tensor:
    """Index of the extremum; if only `worst` and NaN are left, the index of the first non-NaN."""
    if not x.dtype.is_float:
        return x.argmax(axis, keepdims=keepdims) if worst < 0 else x.argmin(axis, keepdims=keepdims)
    # float8_e4m3 has no infinity: it would become NaN.
    x = x.cast(accumulation_dtype(x.dtype))
    is_there = x.isnan().logical_not()
    filled = is_there.where(x if worst < 0 else x.neg(), -math.inf)
    # An infinity and a replaced NaN are equal, and the NaN may come first.
    is_worst = filled.max(axis, keepdims=keepdims).eq(-math.inf)
    return is_worst.where(
        is_there.argmax(axis, keepdims=keepdims), filled.argmax(axis, keepdims=keepdims)
    )
