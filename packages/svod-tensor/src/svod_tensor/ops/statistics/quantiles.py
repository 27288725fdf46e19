"""Medians, quantiles and percentiles, with numpy's names and methods.

In all functions `axis` is one axis, several, or None for all; `keepdims` keeps reduced axes with
size 1. Integers become float32. The implementation sorts, so that gradients flow to the selected
elements.

Source: R. J. Hyndman, Y. Fan, Sample quantiles in statistical packages, The American Statistician
50 (1996), for the methods."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from svod_dtype import default_float, float64, int64
from svod_ir import OperandError, UOp
from svod_ir.sizes import product
from svod_tensor._shapes import Axes, check_within, normalize_axes
from svod_tensor.errors import EmptyReductionError
from svod_tensor.ops.core.base import TensorBase
from svod_tensor.ops.core.operands import slice_axis
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.rounding import rounds_once

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import Operand
    from svod_tensor.tensor import Tensor

__all__ = [
    "QuantileMethod",
    "median",
    "nanmedian",
    "nanpercentile",
    "nanquantile",
    "percentile",
    "quantile",
]


QuantileMethod: TypeAlias = Literal[
    "linear",
    "lower",
    "higher",
    "midpoint",
    "nearest",
    "inverted_cdf",
    "averaged_inverted_cdf",
    "closest_observation",
    "interpolated_inverted_cdf",
    "hazen",
    "weibull",
    "median_unbiased",
    "normal_unbiased",
]
"""Methods of estimating a quantile, by numpy's names: a value between two elements is interpolated
(`"linear"`), one of them (`"lower"`, `"higher"`, `"nearest"`) or their mean (`"midpoint"`). The
other methods are the estimators of Hyndman and Fan."""


class _Method(NamedTuple):
    """Parameters of the virtual index of a quantile: n q + alpha + q (1 - alpha - beta) - 1."""

    alpha: float
    beta: float


_CONTINUOUS: Final[dict[str, _Method]] = {
    **dict.fromkeys(("linear", "lower", "higher", "midpoint", "nearest"), _Method(1, 1)),
    "interpolated_inverted_cdf": _Method(0, 1),
    "hazen": _Method(0.5, 0.5),
    "weibull": _Method(0, 0),
    "median_unbiased": _Method(1 / 3, 1 / 3),
    "normal_unbiased": _Method(3 / 8, 3 / 8),
}
_STEPS: Final = ("inverted_cdf", "averaged_inverted_cdf", "closest_observation")


@operation(test="test_quantiles.py::test_quantiles_of_every_method_agree_with_numpy")
@rounds_once
def quantile(
    x: Tensor,
    /,
    q: Operand,
    axis: Axes = None,
    *,
    method: QuantileMethod = "linear",
    keepdims: bool = False,
) -> Tensor:
    """Compute the `q`-th quantiles over axes: shape (*q.shape, *remaining axes). NaN propagates.
    Integers become float32.

    Args:
        q: probability or probabilities in [0, 1], of any shape. Values of a tensor outside of it
            give NaN.
        axis: axis or axes to reduce; None reduces all.
        method: method of estimating the quantile; by default linear interpolation.
        keepdims: whether to keep the reduced axes with size 1.

    Raises:
        AxisError: if an axis is out of bounds.
        EmptyReductionError: if a reduced axis is empty.
        OperandError: if a known `q` is not in [0, 1], or the method is unknown.

    Example:
        >>> import svod_tensor as sv
        >>> sv.quantile(sv.Tensor([1.0, 2.0, 3.0, 10.0]), [0.5, 1.0]).tolist()
        [2.5, 10.0]
    """
    return _compute("quantile", x, q, 1, axis, method, keepdims=keepdims, skips_nan=False)


@operation(test="test_quantiles.py::test_quantiles_of_every_method_agree_with_numpy")
@rounds_once
def percentile(
    x: Tensor,
    /,
    q: Operand,
    axis: Axes = None,
    *,
    method: QuantileMethod = "linear",
    keepdims: bool = False,
) -> Tensor:
    """Compute the `q`-th percentiles over axes: shape (*q.shape, *remaining axes). NaN propagates.
    Integers become float32.

    Args:
        q: percentage or percentages in [0, 100], of any shape. Values of a tensor outside of it
            give NaN.
        axis: axis or axes to reduce; None reduces all.
        method: method of estimating the quantile, as in `quantile`; by default linear
            interpolation.
        keepdims: whether to keep the reduced axes with size 1.

    Raises:
        AxisError: if an axis is out of bounds.
        EmptyReductionError: if a reduced axis is empty.
        OperandError: if a known `q` is not in [0, 100], or the method is unknown.

    Example:
        >>> import svod_tensor as sv
        >>> sv.percentile(sv.Tensor([1.0, 2.0, 3.0, 10.0]), 50).item()
        2.5
    """
    return _compute("percentile", x, q, 100, axis, method, keepdims=keepdims, skips_nan=False)


@operation(test="test_quantiles.py::test_medians_agree_with_numpy")
@rounds_once
def median(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Median over axes, the mean of the two middle elements for an even number. NaN propagates.
    Integers become float32.

    Args:
        axis: axis or axes to reduce; None reduces all.
        keepdims: whether to keep the reduced axes with size 1.

    Raises:
        AxisError: if an axis is out of bounds.
        EmptyReductionError: if a reduced axis is empty.

    Example:
        >>> import svod_tensor as sv
        >>> (sv.median(sv.Tensor([3, 1, 2])).item(), sv.median(sv.Tensor([3, 1, 2, 10])).item())
        (2.0, 2.5)
    """
    return _compute("median", x, 0.5, 1, axis, "linear", keepdims=keepdims, skips_nan=False)


@operation(test="test_quantiles.py::test_quantiles_without_nans_agree_with_numpy")
@rounds_once
def nanquantile(
    x: Tensor,
    /,
    q: Operand,
    axis: Axes = None,
    *,
    method: QuantileMethod = "linear",
    keepdims: bool = False,
) -> Tensor:
    """Compute the `q`-th quantiles over axes, ignoring NaN: shape (*q.shape, *remaining axes). NaN
    for all-NaN slices. Integers become float32.

    Args:
        q: probability or probabilities in [0, 1], of any shape. Values of a tensor outside of it
            give NaN.
        axis: axis or axes to reduce; None reduces all.
        method: method of estimating the quantile, as in `quantile`; by default linear
            interpolation.
        keepdims: whether to keep the reduced axes with size 1.

    Raises:
        AxisError: if an axis is out of bounds.
        EmptyReductionError: if a reduced axis is empty.
        OperandError: if a known `q` is not in [0, 1], or the method is unknown.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nanquantile(sv.Tensor([1.0, float("nan"), 3.0]), 0.5).item()
        2.0
    """
    return _compute("nanquantile", x, q, 1, axis, method, keepdims=keepdims, skips_nan=True)


@operation(test="test_quantiles.py::test_quantiles_without_nans_agree_with_numpy")
@rounds_once
def nanpercentile(
    x: Tensor,
    /,
    q: Operand,
    axis: Axes = None,
    *,
    method: QuantileMethod = "linear",
    keepdims: bool = False,
) -> Tensor:
    """Compute the `q`-th percentiles over axes, ignoring NaN: shape (*q.shape, *remaining axes).
    NaN for all-NaN slices. Integers become float32.

    Args:
        q: percentage or percentages in [0, 100], of any shape. Values of a tensor outside of it
            give NaN.
        axis: axis or axes to reduce; None reduces all.
        method: method of estimating the quantile, as in `quantile`; by default linear
            interpolation.
        keepdims: whether to keep the reduced axes with size 1.

    Raises:
        AxisError: if an axis is out of bounds.
        EmptyReductionError: if a reduced axis is empty.
        OperandError: if a known `q` is not in [0, 100], or the method is unknown.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nanpercentile(sv.Tensor([1.0, float("nan"), 3.0]), 100).item()
        3.0
    """
    return _compute("nanpercentile", x, q, 100, axis, method, keepdims=keepdims, skips_nan=True)


@operation(test="test_quantiles.py::test_quantiles_without_nans_agree_with_numpy")
@rounds_once
def nanmedian(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Median over axes, ignoring NaN; NaN for all-NaN slices. Integers become float32.

    Args:
        axis: axis or axes to reduce; None reduces all.
        keepdims: whether to keep the reduced axes with size 1.

    Raises:
        AxisError: if an axis is out of bounds.
        EmptyReductionError: if a reduced axis is empty.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nanmedian(sv.Tensor([1.0, float("nan"), 4.0])).item()
        2.5
    """
    return _compute("nanmedian", x, 0.5, 1, axis, "linear", keepdims=keepdims, skips_nan=True)


def _compute(
    name: str,
    x: Tensor,
    q: Operand,
    scale: float,
    axis: Axes,
    method: str,
    *,
    keepdims: bool,
    skips_nan: bool,
) -> Tensor:
    known = (*_CONTINUOUS, *_STEPS)
    if not isinstance(method, str) or method not in known:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise OperandError(
            operation=name,
            found=f"method={method!r}",
            expected=f"one of the methods {', '.join(known)}",
        )
    axes = normalize_axes(name, axis, x.ndim)
    n = product(tuple(x.shape[a] for a in axes))
    if isinstance(n, int) and not n:
        raise EmptyReductionError(
            operation=name, shape=x.shape, axis=next(a for a in axes if x.shape[a] == 0)
        )
    check_within(name, axes[0] if axes else 0, n, 1, None)
    probabilities = _to_probabilities(name, x, q, scale)
    kept = [a for a in range(x.ndim) if a not in axes]
    floats = x if x.dtype.is_float else x.cast(float64)
    # Sorted rows: the reduced axes are flattened to the last one.
    lines = floats.permute(*kept, *axes).reshape(*(x.shape[a] for a in kept), n).sort(-1)
    size = lines.from_uop(n.cast(int64) if isinstance(n, UOp) else UOp.const(int64, n))
    last = slice_axis(lines, lines.ndim - 1, n - 1, n)
    if skips_nan:
        # NaN sorts last, so the other elements come first.
        size = lines.isnan().logical_not().count_nonzero(-1, keepdims=True)
    lower_index, weight = _virtual_index(size.cast(float64), probabilities.flatten(), method)
    # A row of NaN only has size 0, and reads its first NaN.
    top = size.sub(1).maximum(0)
    below, above = (
        _take(lines, p.cast(int64).maximum(0).minimum(top))
        for p in (lower_index, lower_index.add(1))
    )
    weight = weight.cast(floats.dtype)
    step = above.sub(below)
    # Interpolated from the nearer end, so that a weight of 1 gives the upper element exactly.
    result = weight.lt(0.5).where(
        below.add(step.mul(weight)), above.sub(step.mul(weight.neg().add(1)))
    )
    # inf - inf is NaN. Equal finite numbers are interpolated, so that both get a share of the gradient.
    is_same = below.eq(above).logical_and(below.isinf())
    result = is_same.where(below, weight.eq(0).where(below, weight.eq(1).where(above, result)))
    is_valid = probabilities.flatten().ge(0).logical_and(probabilities.flatten().le(1))
    result = is_valid.where(result, float("nan"))
    if not skips_nan and x.dtype.is_float:
        # If there is a NaN, it is the last element.
        result = last.isnan().where(float("nan"), result)
    sizes = (
        [1 if a in axes else x.shape[a] for a in range(x.ndim)]
        if keepdims
        else [x.shape[a] for a in kept]
    )
    value = result.moveaxis(-1, 0).reshape(*probabilities.shape, *sizes)
    return value if x.dtype.is_float else value.cast(default_float())


def _to_probabilities(name: str, x: Tensor, q: Operand, scale: float) -> Tensor:
    """Convert `q` to probabilities in float64, and check known values."""
    if not isinstance(q, (TensorBase, UOp)):
        import numpy as np

        try:
            numbers = np.asarray(q, np.float64)
        except (TypeError, ValueError) as error:
            raise OperandError(operation=name, found=f"q={q!r}", expected="numbers as q") from error
        if not ((numbers >= 0) & (numbers <= scale)).all():
            raise OperandError(
                operation=name, found=f"q={q!r}", expected=f"q in the range [0, {scale:g}]"
            )
        q = numbers
    probabilities = type(x)(q, dtype=float64)
    return probabilities if scale == 1 else probabilities.div(scale)


def _virtual_index(size: Tensor, probabilities: Tensor, method: str) -> tuple[Tensor, Tensor]:
    """Index of the element below each quantile, and weight of the element above it."""
    is_linear = _CONTINUOUS.get(method) == (1, 1)
    # The `where` keeps compilers from contracting the product and a later sum to a fused
    # multiply-add, which would not round an integral product to an integer.
    product = probabilities.isnan().where(
        math.nan, (size.sub(1) if is_linear else size).mul(probabilities)
    )
    if method in _STEPS:
        exact = product.sub(1).sub(0.5 if method == "closest_observation" else 0)
        below = exact.floor()
        is_exact = exact.eq(below)
        if method == "closest_observation":
            is_exact = is_exact.logical_and(below.remainder(2).ne(0))
        weight = is_exact.where(0.5 if method == "averaged_inverted_cdf" else 0.0, 1.0)
    else:
        alpha, beta = _CONTINUOUS[method]
        exact = (
            product
            if is_linear
            else product.add(probabilities.mul(1 - alpha - beta).add(alpha)).sub(1)
        )
        exact = exact.maximum(0.0).minimum(size.sub(1))
        below = exact.floor()
        weight = exact.sub(below)
    if method == "lower":
        weight = weight.mul(0)
    elif method == "higher":
        weight = weight.gt(0).where(1.0, weight)
    elif method == "midpoint":
        weight = weight.gt(0).where(0.5, weight)
    elif method == "nearest":
        # Ties to even, as in numpy.
        return exact.round(), weight.mul(0)
    return below, weight


def _take(lines: Tensor, indices: Tensor) -> Tensor:
    """Gather sorted elements of each row at indices of shape (quantiles,) or (*rows, quantiles)."""
    if indices.ndim == 1:
        return lines.take(indices, -1)
    return lines.take_along_axis(indices.broadcast_to((*lines.shape[:-1], indices.shape[-1])), -1)
