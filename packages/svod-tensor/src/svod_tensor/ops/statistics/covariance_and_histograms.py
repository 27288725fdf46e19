"""Covariance, histograms, and one-dimensional convolution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from svod_dtype import float64, promote_types
from svod_ir import OperandError, ShapeError, format_shape
from svod_tensor._shapes import concrete_shape
from svod_tensor.ops.core.operands import as_tensor, promote, slice_axis, to_float
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.reuse import reuse_graph
from svod_tensor.ops.core.rounding import rounds_once
from svod_tensor.ops.neural.convolution import Geometry, convolve as convolve_windows
from svod_tensor.ops.statistics.moments import center, count_elements

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import Operand
    from svod_tensor.tensor import Tensor

__all__ = [
    "convolve",
    "corrcoef",
    "correlate",
    "cov",
    "digitize",
    "histogram",
]


@operation(test="test_samples.py::test_covariances_agree_with_numpy")
@reuse_graph
@rounds_once
def cov(
    x: Tensor,
    /,
    y: Operand | None = None,
    *,
    rowvar: bool = True,
    correction: float = 1,
    fweights: Operand | None = None,
    aweights: Operand | None = None,
) -> Tensor:
    """Estimate a covariance matrix, as numpy: shape (rows, rows), or a 0-d variance for a 1-d tensor.
    Integers become float32.

    Args:
        y: additional variables with the same number of observations.
        rowvar: whether each row is a variable and each column an observation, or vice versa.
        correction: degrees of freedom subtracted from the number of observations.
        fweights: frequency weights of the observations.
        aweights: importance weights of the observations.

    Raises:
        ShapeError: if there are more than two axes, or the numbers of observations or weights
            differ.

    Example:
        >>> import svod_tensor as sv
        >>> sv.cov(sv.Tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])).tolist()
        [[1.0, -1.0], [-1.0, 1.0]]
    """
    kind = to_float(x).dtype
    x = _to_rows("cov", x, rowvar=rowvar)
    if y is not None:
        y_tensor = as_tensor(y, x)
        kind = promote_types(kind, to_float(y_tensor).dtype)
        x = type(x).concat([x, _to_rows("cov", y_tensor, rowvar=rowvar)], 0)
    for weights_operand in (fweights, aweights):
        _check_weights(
            weights_operand if weights_operand is None else as_tensor(weights_operand, x), x
        )
    weights = _multiply(
        *(None if w is None else as_tensor(w, x).cast(x.dtype) for w in (fweights, aweights))
    )
    if weights is None:
        divisor = count_elements(x, 1, x.dtype).sub(correction)
    else:
        total = weights.sum()
        spread = (
            total
            if aweights is None
            else weights.mul(as_tensor(aweights, x).cast(x.dtype)).sum().div(total)
        )
        divisor = total.sub(correction if aweights is None else spread.mul(correction))
    difference, error, _ = center(x, 1, None if weights is None else weights.unsqueeze(0))
    centered = difference.sub(error)
    weighted = centered if weights is None else centered.mul(weights)
    # As in numpy, too few observations are a division by 0.
    value = centered.matmul(weighted.transpose(0, 1)).div(divisor.maximum(0.0))
    return value.squeeze().cast(kind) if value.shape == (1, 1) else value.cast(kind)


@operation(test="test_samples.py::test_covariances_agree_with_numpy")
@reuse_graph
@rounds_once
def corrcoef(x: Tensor, /, y: Operand | None = None, *, rowvar: bool = True) -> Tensor:
    """Pearson correlation coefficients, in [-1, 1]: `cov` divided by both standard deviations.
    Integers become float32.

    Args:
        y: additional variables with the same number of observations.
        rowvar: whether each row is a variable and each column an observation, or vice versa.

    Raises:
        ShapeError: if there are more than two axes, or the numbers of observations differ.

    Example:
        >>> import svod_tensor as sv
        >>> sv.corrcoef(sv.Tensor([[0.0, 1.0, 2.0], [4.0, 2.0, 0.0]])).tolist()
        [[1.0, -1.0], [-1.0, 1.0]]
    """
    covariance = x.cov(y, rowvar=rowvar)
    if not covariance.ndim:
        return covariance.div(covariance)
    deviation = covariance.diagonal().sqrt()
    # Rounding may exceed 1, so numpy clips, too.
    return covariance.div(deviation.unsqueeze(1)).div(deviation).clip(-1.0, 1.0)


@operation(test="test_samples.py::test_histograms_agree_with_numpy")
def histogram(
    x: Tensor,
    /,
    bins: int | Operand = 10,
    range: tuple[float, float] | None = None,
    *,
    weights: Operand | None = None,
    density: bool = False,
) -> tuple[Tensor, Tensor]:
    """Compute a histogram and its bin edges: shapes (bins,) and (bins + 1,).

    Bins are half-open [lower, upper), and the last one closed. NaN and outliers are not counted.

    Args:
        bins: number of bins of equal width, or their increasing edges.
        range: lower and upper range of the bins; by default the minimum and maximum of `x`.
        weights: weights in the shape of `x`. Counts are int64; weighted sums have the dtype of the
            weights.
        density: whether to normalize to a probability density: float32, or the dtype of a
            floating-point `x`.

    Raises:
        OperandError: if `bins` is less than 1, or `range` is not a finite pair.
        ShapeError: if the edges are not 1-d with at least two elements.

    Example:
        >>> import svod_tensor as sv
        >>> counts, edges = sv.histogram(sv.Tensor([1.0, 2.0, 2.5, 4.0]), 3)
        >>> (counts.tolist(), edges.tolist())
        ([1, 2, 1], [1.0, 2.0, 3.0, 4.0])
    """
    kind = to_float(x).dtype
    elements = x.flatten() if x.dtype.is_float else x.flatten().cast(float64)
    edges = _list_edges(elements, bins, range) if isinstance(bins, int) else as_tensor(bins, x)
    if edges.ndim != 1 or concrete_shape("histogram", edges.shape)[0] < 2:
        raise ShapeError(
            operation="histogram",
            shape=edges.shape,
            problem=f"bins must be 1-d with at least 2 edges: {format_shape(edges.shape)}",
        )
    n_bins = concrete_shape("histogram", edges.shape)[0] - 1
    first, last = edges[0], edges[n_bins]
    index = edges.searchsorted(elements, "right").sub(1)
    # As in numpy, the last bin includes its upper edge.
    index = elements.eq(last).where(n_bins - 1, index)
    # `bincount` ignores -1. NaN fails both comparisons.
    index = elements.ge(first).logical_and(elements.le(last)).where(index, -1)
    flat_weights = (
        None if weights is None else as_tensor(weights, x).broadcast_to(x.shape).flatten()
    )
    counts = index.bincount(flat_weights, n_bins=n_bins)
    if density:
        counts = counts.cast(kind)
        counts = counts.div(
            slice_axis(edges, 0, 1, n_bins + 1).sub(slice_axis(edges, 0, 0, n_bins))
        ).div(counts.sum())
        counts = counts.cast(kind)
    return counts, edges if edges.dtype is not float64 or not isinstance(bins, int) else edges.cast(
        kind
    )


@operation(test="test_samples.py::test_digitize_handles_increasing_and_decreasing_edges")
def digitize(x: Tensor, /, bins: Operand, right: bool = False) -> Tensor:
    """Return the indices (int64) of the bins that contain the elements of `x`, in the shape of `x`.

    With n edges, an index is in [0, n]:

        increasing edges:  bins[i - 1] <= x < bins[i];  0 below bins[0], n from bins[-1] and for NaN
        decreasing edges:  bins[i - 1] > x >= bins[i];  n below bins[-1], 0 from bins[0] and for NaN

    Args:
        bins: 1-d edges of the bins, increasing or decreasing; the order is not checked.
        right: whether `<` and `<=`, and `>` and `>=`, swap: bins then include their upper edge.

    Raises:
        ShapeError: if the edges are not 1-d.

    Example:
        >>> import svod_tensor as sv
        >>> sv.digitize(sv.Tensor([0.5, 1.0, 3.0]), [1.0, 2.0]).tolist()
        [0, 1, 2]
        >>> sv.digitize(sv.Tensor([0.5, 1.0, 3.0]), [2.0, 1.0]).tolist()
        [2, 1, 0]
    """
    edges = as_tensor(bins, x)
    if edges.ndim != 1:
        raise ShapeError(
            operation="digitize",
            shape=edges.shape,
            problem=f"bins must be 1-d: {format_shape(edges.shape)}",
        )
    (size,) = concrete_shape("digitize", edges.shape)
    side = "left" if right else "right"
    increasing = edges.searchsorted(x, side)
    if size < 2:
        return increasing
    # The direction of the edges is known only when they are computed, so both searches are in the
    # graph.
    decreasing = edges.flip(0).searchsorted(x, side).neg().add(size)
    return edges[0].le(edges[size - 1]).where(increasing, decreasing)


@operation(test="test_samples.py::test_convolutions_of_every_length_agree_with_numpy")
@reuse_graph
@rounds_once
def convolve(x: Tensor, /, v: Operand, mode: Literal["full", "same", "valid"] = "full") -> Tensor:
    """Discrete convolution of two 1-d tensors, `sum(x[k] * v[i - k])`. Dtypes promote.

    Args:
        v: the other tensor.
        mode: `"full"` for every overlap, `"same"` for the length of the longer tensor, `"valid"` for
            complete overlaps only.

    Raises:
        ShapeError: if a tensor is not 1-d or empty.
        OperandError: if the mode is unknown.

    Example:
        >>> import svod_tensor as sv
        >>> sv.convolve(sv.Tensor([1, 2, 3]), [0, 1]).tolist()
        [0, 1, 2, 3]
    """
    x, y = _check_lines("convolve", *promote(x, v), mode)
    (n,), (m,) = concrete_shape("convolve", x.shape), concrete_shape("convolve", y.shape)
    # The product commutes; the shorter operand is the filter.
    if m > n:
        x, y, n, m = y, x, m, n
    return _slide(
        x,
        y.flip(0),
        n,
        m,
        {"full": (m - 1, m - 1), "same": (m // 2, (m - 1) // 2), "valid": (0, 0)}[mode],
    )


@operation(test="test_samples.py::test_convolutions_of_every_length_agree_with_numpy")
@reuse_graph
@rounds_once
def correlate(x: Tensor, /, v: Operand, mode: Literal["full", "same", "valid"] = "valid") -> Tensor:
    """Cross-correlation of two 1-d tensors, `sum(x[i + k] * v[k])`. Dtypes promote.

    Args:
        v: the other tensor.
        mode: as in `convolve`.

    Raises:
        ShapeError: if a tensor is not 1-d or empty.
        OperandError: if the mode is unknown.

    Example:
        >>> import svod_tensor as sv
        >>> sv.correlate(sv.Tensor([1, 2, 3]), [0, 1]).tolist()
        [2, 3]
    """
    x, y = _check_lines("correlate", *promote(x, v), mode)
    (n,), (m,) = concrete_shape("correlate", x.shape), concrete_shape("correlate", y.shape)
    short = min(n, m)
    pads = {
        "full": (short - 1, short - 1),
        "same": (short // 2, (short - 1) // 2),
        "valid": (0, 0),
    }[mode]
    return _slide(x, y, n, m, pads) if n >= m else _slide(y, x, m, n, pads).flip(0)


def _to_rows(name: str, x: Tensor, *, rowvar: bool) -> Tensor:
    if x.ndim > 2:
        raise ShapeError(
            operation=name,
            shape=x.shape,
            problem=f"input must have at most 2 dimensions: {format_shape(x.shape)}",
        )
    # float32 does not hold all sums of integers exactly.
    wide = x if x.dtype.is_float else x.cast(float64)
    rows = wide.reshape(1, -1) if wide.ndim < 2 else wide
    return rows if rowvar or x.ndim < 2 else rows.transpose(0, 1)


def _check_weights(weights: Tensor | None, rows: Tensor) -> None:
    if weights is not None and weights.shape != rows.shape[1:]:
        problem = (
            f"expected {rows.shape[1]} weights, one per observation, got shape"
            f" {format_shape(weights.shape)}"
        )
        raise ShapeError(operation="cov", shape=weights.shape, problem=problem)


def _multiply(x: Tensor | None, y: Tensor | None) -> Tensor | None:
    if x is None or y is None:
        return y if x is None else x
    return x.mul(y)


def _list_edges(x: Tensor, bins: int, range: tuple[float, float] | None) -> Tensor:
    """Edges of bins of equal width, in the dtype of `x`."""
    if bins < 1:
        raise OperandError(operation="histogram", found=bins, expected="at least 1 bin")
    index = x.arange(bins + 1)
    if range is not None:
        low, high = (float(r) for r in range)
        if not (low <= high and math.isfinite(high - low)):
            raise OperandError(
                operation="histogram",
                found=range,
                expected="a pair of finite numbers (lowest, highest)",
            )
        if low == high:
            # As in numpy: the bins of a single value have the total width 1.
            low, high = low - 0.5, high + 0.5
        edges = index.cast(float64).mul((high - low) / bins).add(low)
    elif x.size == 0:
        low, high = 0.0, 1.0
        edges = index.cast(float64).div(bins)
    else:
        low, high = x.min().cast(float64), x.max().cast(float64)
        is_single_value = low.eq(high)
        low, high = (
            is_single_value.where(low.sub(0.5), low),
            is_single_value.where(high.add(0.5), high),
        )
        edges = index.cast(float64).mul(high.sub(low).div(bins)).add(low)
    # The last edge is exact: a rounded one might exclude the largest element.
    return index.eq(bins).where(high, edges).cast(x.dtype)


def _check_lines(name: str, x: Tensor, y: Tensor, mode: str) -> tuple[Tensor, Tensor]:
    if mode not in ("full", "same", "valid"):
        raise OperandError(
            operation=name, found=f"mode={mode!r}", expected='mode "full", "same" or "valid"'
        )
    for tensor in (x, y):
        if tensor.ndim != 1 or tensor.shape == (0,):
            raise ShapeError(
                operation=name,
                shape=tensor.shape,
                problem=f"input must be 1-d and not empty: {format_shape(tensor.shape)}",
            )
    return x, y


def _slide(x: Tensor, y: Tensor, n: int, m: int, pads: tuple[int, int]) -> Tensor:
    """Sliding dot products of `y` with padded `x`."""
    # A sum of bools is their logical or.
    if x.dtype.is_bool:
        windows = x.pad(pads).windows((m,), (1,), (1,))
        return windows.logical_and(y).any(-1)
    return convolve_windows(
        x.pad(pads).reshape(1, 1, n + sum(pads)), y.reshape(1, 1, m), Geometry((1,), (0,), (1,))
    ).flatten()
