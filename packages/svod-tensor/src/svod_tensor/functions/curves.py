"""Functions that call the methods of `Tensor` in `svod_tensor.ops.curves`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from svod_tensor.functions._operands import first_operand, to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = [
    "central_differences",
    "interp",
    "polyval",
    "trapezoid",
]


@explained
def central_differences(
    x: Operand, /, *, axis: int | Sequence[int] | None = None, edge_order: int = 1
) -> Tensor | tuple[Tensor, ...]:
    """The slope along an axis from both neighbours of each element, as `numpy.gradient` has it. Integers become float32.

    `x.gradient` is the derivative of a graph.

    Args:
        axis: one axis, several, or None for all.
        edge_order: 1 for straight lines at both ends, 2 for parabolas.

    Returns:
        The slope along the axis; a tuple of those along each, if there are several.

    Raises:
        ShapeError: if there are too few elements along an axis, or a spacing has not its size.
        OperandError: if there is not a spacing for each axis, or another order.

    Example:
        >>> import svod_tensor as sv
        >>> sv.central_differences(Tensor([1.0, 2.0, 4.0, 7.0])).tolist()
        [1.0, 1.5, 2.5, 3.0]
    """
    return to_tensor(x).central_differences(axis=axis, edge_order=edge_order)


@explained
def interp(
    x: Operand,
    /,
    xp: Operand,
    fp: Operand,
    left: float | None = None,
    right: float | None = None,
    *,
    period: float | None = None,
) -> Tensor:
    """Linear interpolation between the points (`xp`, `fp`) at these places. Integers become
    float32.

    Args:
        xp: where the points are, in rising order; in any order with a period.
        fp: their values.
        left: what is before the first point; by default its value.
        right: what is behind the last one; by default its value.
        period: that of the curve, which goes on from the last point to the first.

    Raises:
        ShapeError: if `xp` and `fp` have not one axis of one size, or no elements.
        OperandError: if the period is 0.

    Example:
        >>> import svod_tensor as sv
        >>> sv.interp(Tensor([0.5, 3.0]), [0.0, 1.0], [10.0, 20.0]).tolist()
        [15.0, 20.0]
    """
    return first_operand(x, xp, fp).interp(xp, fp, left, right, period=period)


@explained
def polyval(p: Operand, x: Operand, /) -> Tensor:
    """The polynomial with these coefficients, the highest power first, at `x`. Dtypes promote.

    Args:
        x: where; coefficients behind the first axis broadcast against it.

    Raises:
        ShapeError: if there are no axes.

    Example:
        >>> import svod_tensor as sv
        >>> sv.polyval(Tensor([1, 0, 2]), [1, 2, 3]).tolist()
        [3, 6, 11]
    """
    return first_operand(p, x).polyval(x)


@explained
def trapezoid(y: Operand, /, x: Operand | None = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    """The integral along an axis, by the trapezoidal rule. Integers become float32.

    Args:
        x: where the points are: of one axis, or with as many axes as `y`.
        dx: the distance of neighbours, where `x` is not given.
        axis: along which.

    Raises:
        AxisError: if there is no such axis.

    Example:
        >>> import svod_tensor as sv
        >>> (sv.trapezoid(Tensor([1.0, 2.0, 3.0])).item(), sv.trapezoid(Tensor([1.0, 2.0, 3.0]), [0.0, 1.0, 3.0]).item())
        (4.0, 6.5)
    """
    return first_operand(y, x).trapezoid(x, dx, axis)
