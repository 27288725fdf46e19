"""Functions that call the methods of `Tensor` in `svod_tensor.ops.samples`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from svod_tensor.functions._operands import first_operand, to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = [
    "convolve",
    "corrcoef",
    "correlate",
    "cov",
    "digitize",
    "histogram",
]


@explained
def convolve(x: Operand, v: Operand, /, mode: Literal["full", "same", "valid"] = "full") -> Tensor:
    """The discrete convolution of two tensors of one axis: `sum(x[k] * v[i - k])`. Dtypes promote.

    Args:
        v: the other one.
        mode: `"full"` for every overlap, `"same"` for as many as the longer one has elements, `"valid"` for those
            without an edge.

    Raises:
        ShapeError: if one has not one axis, or no elements.
        OperandError: if the mode is not known.

    Example:
        >>> import svod_tensor as sv
        >>> sv.convolve(Tensor([1, 2, 3]), [0, 1]).tolist()
        [0, 1, 2, 3]
    """
    return first_operand(x, v).convolve(v, mode)


@explained
def corrcoef(x: Operand, /, y: Operand | None = None, *, rowvar: bool = True) -> Tensor:
    """The correlation coefficients of the rows, from -1 to 1: `cov` divided by both deviations.

    Args:
        y: more rows of as many observations.
        rowvar: whether each row is a variable and each column an observation, or the other way round.

    Raises:
        ShapeError: if there are more than two axes, or the observations are not equally many.

    Example:
        >>> import svod_tensor as sv
        >>> sv.corrcoef(Tensor([[0.0, 1.0, 2.0], [4.0, 2.0, 0.0]])).tolist()
        [[1.0, -1.0], [-1.0, 1.0]]
    """
    return first_operand(x, y).corrcoef(y, rowvar=rowvar)


@explained
def correlate(x: Operand, v: Operand, /, mode: Literal["full", "same", "valid"] = "valid") -> Tensor:
    """The cross-correlation of two tensors of one axis: `sum(x[i + k] * v[k])`. Dtypes promote.

    Args:
        v: the other one.
        mode: as `convolve` takes it.

    Raises:
        ShapeError: if one has not one axis, or no elements.
        OperandError: if the mode is not known.

    Example:
        >>> import svod_tensor as sv
        >>> sv.correlate(Tensor([1, 2, 3]), [0, 1]).tolist()
        [2, 3]
    """
    return first_operand(x, v).correlate(v, mode)


@explained
def cov(
    x: Operand,
    /,
    y: Operand | None = None,
    *,
    rowvar: bool = True,
    correction: float = 1,
    fweights: Operand | None = None,
    aweights: Operand | None = None,
) -> Tensor:
    """The covariances of the rows, as numpy has them: shape (rows, rows), of one axis a single variance. Integers become
    float32.

    Args:
        y: more rows of as many observations.
        rowvar: whether each row is a variable and each column an observation, or the other way round.
        correction: what the number of observations is reduced by.
        fweights: how often each observation counts.
        aweights: how much each of them weighs.

    Raises:
        ShapeError: if there are more than two axes, the observations are not equally many, or weights are not one for
            each observation.

    Example:
        >>> import svod_tensor as sv
        >>> sv.cov(Tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])).tolist()
        [[1.0, -1.0], [-1.0, 1.0]]
    """
    return first_operand(x, y).cov(y, rowvar=rowvar, correction=correction, fweights=fweights, aweights=aweights)


@explained
def digitize(x: Operand, /, bins: Operand, right: bool = False) -> Tensor:
    """The number of the bin (int64) that each element falls into: `i` where `bins[i - 1] <= x < bins[i]`.

    Args:
        bins: the edges, in rising or in falling order.
        right: whether a bin has its upper edge in place of the lower one.

    Raises:
        ShapeError: if the edges have not one axis.

    Example:
        >>> import svod_tensor as sv
        >>> sv.digitize(Tensor([0.5, 1.0, 3.0]), [1.0, 2.0]).tolist()
        [0, 1, 2]
    """
    return first_operand(x, bins).digitize(bins, right)


@explained
def histogram(
    x: Operand,
    /,
    bins: int | Operand = 10,
    range: tuple[float, float] | None = None,
    *,
    weights: Operand | None = None,
    density: bool = False,
) -> tuple[Tensor, Tensor]:
    """How many elements fall into each bin, and the edges of the bins, in order: shapes (bins,) and (bins + 1,).

    A bin has its lower edge, and the last one both. What is outside, and NaN, is not counted.

    Args:
        bins: how many of one width, or their edges in order.
        range: from where to where the bins are; by default from the smallest element to the largest.
        weights: what each element counts; in the shape of `x`. Counts are int64, sums have its dtype.
        density: whether the result is a density, whose integral is 1: float32, or the dtype of floats.

    Raises:
        OperandError: if there are no bins, or the range is none.
        ShapeError: if the edges have not one axis with two or more of them.

    Example:
        >>> import svod_tensor as sv
        >>> counts, edges = sv.histogram(Tensor([1.0, 2.0, 2.5, 4.0]), 3)
        >>> (counts.tolist(), edges.tolist())
        ([1, 2, 1], [1.0, 2.0, 3.0, 4.0])
    """
    return to_tensor(x).histogram(bins, range, weights=weights, density=density)
