"""Functions that call the methods of `Tensor` in `svod_tensor.ops.statistics`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_tensor.functions._operands import to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor._shapes import Axes
    from svod_tensor.ops.base import Operand

__all__ = [
    "logsumexp",
    "mean",
    "nanmean",
    "std",
    "var",
]


@explained
def logsumexp(x: Operand, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """`log(sum(exp(x)))` without overflow. Integers become float32.

    Args:
        axis: one axis, several, or None for all.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.
        EmptyReductionError: if there are no elements.

    Example:
        >>> import svod_tensor as sv
        >>> sv.logsumexp(Tensor([1000.0, 1000.0])).round(4).numpy()
        array(1000.6932, dtype=float32)
    """
    return to_tensor(x).logsumexp(axis, keepdims=keepdims)


@explained
def mean(x: Operand, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The mean; NaN over no elements. Integers are added as float64, and their mean is float32.

    Args:
        axis: one axis, several, or None for all.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.

    Example:
        >>> import svod_tensor as sv
        >>> sv.mean(Tensor([[1, 2], [3, 5]]), axis=1).tolist()
        [1.5, 4.0]
    """
    return to_tensor(x).mean(axis=axis, keepdims=keepdims)


@explained
def nanmean(x: Operand, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The mean without NaNs; NaN where there is nothing else. That of integers is float32.

    Args:
        axis: one axis, several, or None for all.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nanmean(Tensor([1.0, float('nan'), 2.0])).item()
        1.5
    """
    return to_tensor(x).nanmean(axis, keepdims=keepdims)


@explained
def std(x: Operand, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The standard deviation, which is the square root of the variance. That of integers is float32.

    Args:
        axis: one axis, several, or None for all.
        correction: what the number of elements is reduced by in the variance.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.

    Example:
        >>> import svod_tensor as sv
        >>> sv.std(Tensor([1.0, 3.0])).item()
        1.0
    """
    return to_tensor(x).std(axis=axis, correction=correction, keepdims=keepdims)


@explained
def var(x: Operand, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance: squared distances from the mean, summed and divided by the number of elements minus `correction`.

    Integers are added as float64, and their variance is float32. Of complex numbers it is that of the distances, and real.

    Args:
        axis: one axis, several, or None for all.
        correction: 1 for an estimate without bias from a sample.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.

    Example:
        >>> import svod_tensor as sv
        >>> (sv.var(Tensor([1.0, 3.0])).item(), sv.var(Tensor([1.0, 3.0]), correction=1).item())
        (1.0, 2.0)
    """
    return to_tensor(x).var(axis=axis, correction=correction, keepdims=keepdims)
