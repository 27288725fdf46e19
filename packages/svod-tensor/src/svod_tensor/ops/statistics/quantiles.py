"""Medians, quantiles and percentiles, with numpy's names and methods.

In every function `axis` is one axis, several, or None for all; `keepdims` keeps reduced axes with
size 1. Integers become float32. Elements are sorted, so that the derivative goes to the elements
that are selected.

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
"""How a quantile is found that lies between two elements, by numpy's names."""


class _Method(NamedTuple):
    """Where the quantile q of n elements is: at n q + alpha + q (1 - alpha - beta) - 1."""

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
    """The value that a fraction `q` of the elements does not exceed: shape (*shape of `q`, *axes
    left). NaN where there is a NaN.

    Args:
        q: from 0 to 1: a number, or several in any shape. A tensor whose values are outside gives
            NaN there.
        axis: one axis, several, or None for all.
        method: what counts where that is between two elements: by default a straight line.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.
        EmptyReductionError: if there are no elements.
        OperandError: if `q` is no such number, or the method is not known.

    Example:
        >>> import svod_tensor as sv
        >>> sv.quantile(Tensor([1.0, 2.0, 3.0, 10.0]), [0.5, 1.0]).tolist()
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
    """`quantile` of `q` in percent.

    Args:
        q: from 0 to 100.
        axis: one axis, several, or None for all.
        method: as `quantile` takes it.
        keepdims: whether the axes stay, with size 1.

    Example:
        >>> import svod_tensor as sv
        >>> sv.percentile(Tensor([1.0, 2.0, 3.0, 10.0]), 50).item()
        2.5
    """
    return _compute("percentile", x, q, 100, axis, method, keepdims=keepdims, skips_nan=False)


@operation(test="test_quantiles.py::test_medians_agree_with_numpy")
@rounds_once
def median(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The middle element in order, or the mean of both where there are two. NaN where there is a
    NaN.

    Args:
        axis: one axis, several, or None for all.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.
        EmptyReductionError: if there are no elements.

    Example:
        >>> import svod_tensor as sv
        >>> (sv.median(Tensor([3, 1, 2])).item(), sv.median(Tensor([3, 1, 2, 10])).item())
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
    """`quantile` of the elements that are not NaN; NaN where there is nothing else.

    Args:
        q: from 0 to 1: a number, or several in any shape.
        axis: one axis, several, or None for all.
        method: as `quantile` takes it.
        keepdims: whether the axes stay, with size 1.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nanquantile(Tensor([1.0, float("nan"), 3.0]), 0.5).item()
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
    """`nanquantile` of `q` in percent.

    Args:
        q: from 0 to 100.
        axis: one axis, several, or None for all.
        method: as `quantile` takes it.
        keepdims: whether the axes stay, with size 1.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nanpercentile(Tensor([1.0, float("nan"), 3.0]), 100).item()
        3.0
    """
    return _compute("nanpercentile", x, q, 100, axis, method, keepdims=keepdims, skips_nan=True)


@operation(test="test_quantiles.py::test_quantiles_without_nans_agree_with_numpy")
@rounds_once
def nanmedian(x: Tensor, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """`median` of the elements that are not NaN; NaN where there is nothing else.

    Args:
        axis: one axis, several, or None for all.
        keepdims: whether the axes stay, with size 1.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nanmedian(Tensor([1.0, float("nan"), 4.0])).item()
        2.5
    """
    return _compute("nanmedian", x, 0.5, 1, axis, "linear", keepdims=keepdims, skips_nan=True)


def _compute(
    name: str,
    x: Tensor,
    q: Operand,
    whole: float,
    axis: Axes,
    method: str,
    *,
    keepdims: bool,
    skips_nan: bool,
) -> Tensor:
    known = (*_CONTINUOUS, *_STEPS)
    if not isinstance(method, str) or method not in known:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise OperandError(operation=name, found=f"{method!r} as method", expected=", ".join(known))
    axes = normalize_axes(name, axis, x.ndim)
    n = product(tuple(x.shape[a] for a in axes))
    if isinstance(n, int) and not n:
        raise EmptyReductionError(
            operation=name, shape=x.shape, axis=next(a for a in axes if x.shape[a] == 0)
        )
    check_within(name, axes[0] if axes else 0, n, 1, None)
    part = _to_part(name, x, q, whole)
    kept = [a for a in range(x.ndim) if a not in axes]
    given = x if x.dtype.is_float else x.cast(float64)
    # The rows in order, with a row for each quantile behind them.
    lines = given.permute(*kept, *axes).reshape(*(x.shape[a] for a in kept), n).sort(-1)
    size = lines.from_uop(n.cast(int64) if isinstance(n, UOp) else UOp.const(int64, n))
    last = slice_axis(lines, lines.ndim - 1, n - 1, n)
    if skips_nan:
        size = lines.isnan().logical_not().count_nonzero(-1, keepdims=True)
    place, weight = _locate(size.cast(float64), part.flatten(), method)
    top = size.sub(1).maximum(0)
    below, above = (
        _take(lines, p.cast(int64).maximum(0).minimum(top)) for p in (place, place.add(1))
    )
    weight = weight.cast(given.dtype)
    step = above.sub(below)
    # From the nearer end, so that a weight of 1 gives what is above, and equal infinities stay.
    found = weight.lt(0.5).where(
        below.add(step.mul(weight)), above.sub(step.mul(weight.neg().add(1)))
    )
    # Equal infinities have no difference. Of equal numbers each has its share of the derivative.
    is_same = below.eq(above).logical_and(below.isinf())
    found = is_same.where(below, weight.eq(0).where(below, weight.eq(1).where(above, found)))
    inside = part.flatten().ge(0).logical_and(part.flatten().le(1))
    found = inside.where(found, float("nan"))
    if not skips_nan and x.dtype.is_float:
        found = last.isnan().where(float("nan"), found)
    sizes = (
        [1 if a in axes else x.shape[a] for a in range(x.ndim)]
        if keepdims
        else [x.shape[a] for a in kept]
    )
    value = found.moveaxis(-1, 0).reshape(*part.shape, *sizes)
    return value if x.dtype.is_float else value.cast(default_float())


def _to_part(name: str, x: Tensor, q: Operand, whole: float) -> Tensor:
    """`q` as a tensor of float64, as a part of 1."""
    if not isinstance(q, (TensorBase, UOp)):
        import numpy as np

        try:
            numbers = np.asarray(q, np.float64)
        except (TypeError, ValueError) as error:
            raise OperandError(operation=name, found=f"{q!r} as q", expected="numbers") from error
        if not ((numbers >= 0) & (numbers <= whole)).all():
            raise OperandError(
                operation=name, found=f"{q!r} as q", expected=f"numbers from 0 to {whole:g}"
            )
        q = numbers
    part = type(x)(q, dtype=float64)
    return part if whole == 1 else part.div(whole)


def _locate(size: Tensor, part: Tensor, method: str) -> tuple[Tensor, Tensor]:
    """The position below each quantile, and the weight of the element above it."""
    is_linear = _CONTINUOUS.get(method) == (1, 1)
    # What is chosen is no product any more that a sum could be fused with: a whole number must come
    # out as one.
    product = part.isnan().where(math.nan, (size.sub(1) if is_linear else size).mul(part))
    if method in _STEPS:
        exact = product.sub(1).sub(0.5 if method == "closest_observation" else 0)
        below = exact.floor()
        is_there = exact.eq(below)
        if method == "closest_observation":
            is_there = is_there.logical_and(below.remainder(2).ne(0))
        weight = is_there.where(0.5 if method == "averaged_inverted_cdf" else 0.0, 1.0)
    else:
        alpha, beta = _CONTINUOUS[method]
        exact = product if is_linear else product.add(part.mul(1 - alpha - beta).add(alpha)).sub(1)
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
        return exact.round(), weight.mul(0)
    return below, weight


def _take(lines: Tensor, positions: Tensor) -> Tensor:
    """What stands at `positions`, of shape (quantiles,) or (*rows, quantiles), in each of the rows
    in order.
    """
    if positions.ndim == 1:
        return lines.take(positions, -1)
    return lines.take_along_axis(
        positions.broadcast_to((*lines.shape[:-1], positions.shape[-1])), -1
    )
