"""Functions that call the methods of `Tensor` in `svod_tensor.ops.quantiles`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_tensor.functions._operands import to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor._shapes import Axes
    from svod_tensor.ops.base import Operand
    from svod_tensor.ops.quantiles import QuantileMethod

__all__ = [
    "median",
    "nanmedian",
    "nanpercentile",
    "nanquantile",
    "percentile",
    "quantile",
]


@explained
def median(x: Operand, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The middle element in order, or the mean of both where there are two. NaN where there is a NaN.

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
    return to_tensor(x).median(axis, keepdims=keepdims)


@explained
def nanmedian(x: Operand, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """`median` of the elements that are not NaN; NaN where there is nothing else.

    Args:
        axis: one axis, several, or None for all.
        keepdims: whether the axes stay, with size 1.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nanmedian(Tensor([1.0, float('nan'), 4.0])).item()
        2.5
    """
    return to_tensor(x).nanmedian(axis, keepdims=keepdims)


@explained
def nanpercentile(
    x: Operand, /, q: Operand, axis: Axes = None, *, method: QuantileMethod = "linear", keepdims: bool = False
) -> Tensor:
    """`nanquantile` of `q` in percent.

    Args:
        q: from 0 to 100.
        axis: one axis, several, or None for all.
        method: as `quantile` takes it.
        keepdims: whether the axes stay, with size 1.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nanpercentile(Tensor([1.0, float('nan'), 3.0]), 100).item()
        3.0
    """
    return to_tensor(x).nanpercentile(q, axis, method=method, keepdims=keepdims)


@explained
def nanquantile(
    x: Operand, /, q: Operand, axis: Axes = None, *, method: QuantileMethod = "linear", keepdims: bool = False
) -> Tensor:
    """`quantile` of the elements that are not NaN; NaN where there is nothing else.

    Args:
        q: from 0 to 1: a number, or several in any shape.
        axis: one axis, several, or None for all.
        method: as `quantile` takes it.
        keepdims: whether the axes stay, with size 1.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nanquantile(Tensor([1.0, float('nan'), 3.0]), 0.5).item()
        2.0
    """
    return to_tensor(x).nanquantile(q, axis, method=method, keepdims=keepdims)


@explained
def percentile(
    x: Operand, /, q: Operand, axis: Axes = None, *, method: QuantileMethod = "linear", keepdims: bool = False
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
    return to_tensor(x).percentile(q, axis, method=method, keepdims=keepdims)


@explained
def quantile(
    x: Operand, /, q: Operand, axis: Axes = None, *, method: QuantileMethod = "linear", keepdims: bool = False
) -> Tensor:
    """The value that a fraction `q` of the elements does not exceed: shape (*shape of `q`, *axes left). NaN where there is a NaN.

    Args:
        q: from 0 to 1: a number, or several in any shape. A tensor whose values are outside gives NaN there.
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
    return to_tensor(x).quantile(q, axis, method=method, keepdims=keepdims)
