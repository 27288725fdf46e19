"""Numerical integrals and derivatives, linear interpolation, and polynomials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from svod_ir import OperandError, ShapeError, format_shape
from svod_tensor._shapes import concrete_shape, normalize_axes, normalize_axis
from svod_tensor.ops.core.operands import (
    as_tensor,
    as_value,
    is_scalar,
    promote,
    slice_axis,
    to_float,
)
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.rounding import rounds_once

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import Operand
    from svod_tensor.tensor import Tensor

__all__ = [
    "central_differences",
    "interp",
    "polyval",
    "trapezoid",
]


@operation(test="test_curves.py::test_integrals_and_slopes_agree_with_numpy")
@rounds_once
def trapezoid(y: Tensor, /, x: Operand | None = None, dx: float = 1.0, axis: int = -1) -> Tensor:
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
    y = to_float(y)
    axis = normalize_axis("trapezoid", axis, y.ndim)
    n = y.shape[axis]
    middle = slice_axis(y, axis, 1, n).add(slice_axis(y, axis, 0, n - 1)).mul(0.5)
    if x is None:
        return middle.sum(axis).mul(dx)
    place = as_tensor(x, y)
    at = 0 if place.ndim == 1 else axis
    step = slice_axis(place, at, 1, n).sub(slice_axis(place, at, 0, n - 1))
    step = (
        step.reshape(*(step.size if a == axis else 1 for a in range(y.ndim)))
        if place.ndim == 1
        else step
    )
    return middle.mul(step).sum(axis)


@operation(test="test_curves.py::test_curves_through_points_agree_with_numpy")
@rounds_once
def interp(
    x: Tensor,
    /,
    xp: Operand,
    fp: Operand,
    left: float | None = None,
    right: float | None = None,
    *,
    period: float | None = None,
) -> Tensor:
    """Values at `x` of the piecewise linear function through the points (`xp`, `fp`). Integers
    become float32.

    Args:
        xp: x-coordinates of the points, increasing; in any order with a period.
        fp: y-coordinates of the points.
        left: value before the first point; by default that of the first point.
        right: value after the last point; by default that of the last point.
        period: period of the function, which continues from the last point to the first.

    Raises:
        ShapeError: if `xp` and `fp` have not one axis of one size, or no elements.
        OperandError: if the period is 0.

    Example:
        >>> import svod_tensor as sv
        >>> sv.interp(Tensor([0.5, 3.0]), [0.0, 1.0], [10.0, 20.0]).tolist()
        [15.0, 20.0]
    """
    places, values = (to_float(as_tensor(y, x)) for y in (xp, fp))
    x = to_float(x)
    if places.ndim != 1 or values.shape != places.shape or places.shape == (0,):
        raise ShapeError(
            operation="interp",
            shape=values.shape,
            problem=(
                f"fp {format_shape(values.shape)} and xp"
                f" {format_shape(places.shape)} must be 1-d, not empty, and of one"
                " length"
            ),
        )
    if period is not None:
        if not period:
            raise OperandError(
                operation="interp", found="period 0", expected="another number, or None"
            )
        size = abs(period)
        x, places = x.remainder(size), places.remainder(size)
        order = places.argsort()
        places, values = places.take(order), values.take(order)
        last = slice(-1, None)
        places = type(x).concat([places[last].sub(size), places, places[:1].add(size)], 0)
        values = type(x).concat([values[last], values, values[:1]], 0)
    (n,) = concrete_shape("interp", places.shape)
    above = places.searchsorted(x, "right").detach()
    low, high = above.sub(1).maximum(0), above.minimum(n - 1)
    begin, value = places.take(low), values.take(low)
    width = places.take(high).sub(begin)
    part = x.sub(begin).div(width.eq(0).where(1.0, width))
    found = width.eq(0).where(value, value.add(values.take(high).sub(value).mul(part)))
    first = values[0] if left is None else left
    final = values[n - 1] if right is None else right
    found = x.lt(places[0]).where(first, x.gt(places[n - 1]).where(final, found))
    return x.isnan().where(x, found)


@operation(test="test_curves.py::test_curves_through_points_agree_with_numpy")
@rounds_once
def polyval(p: Tensor, /, x: Operand) -> Tensor:
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
    if not p.ndim:
        raise ShapeError(
            operation="polyval", shape=(), problem="coefficients must have at least 1 dimension"
        )
    (size,) = concrete_shape("polyval", p.shape[:1])
    at = promote(p, x)[1] if is_scalar(x) else as_tensor(x, p)
    value = at.zeros_like()
    for number in range(size):
        value = value.mul(at).add(p[number]) if number else value.add(p[0])
    return value


@operation(test="test_curves.py::test_integrals_and_slopes_agree_with_numpy")
@rounds_once
def central_differences(
    x: Tensor, /, *spacing: Operand, axis: int | Sequence[int] | None = None, edge_order: int = 1
) -> Tensor | tuple[Tensor, ...]:
    """The slope along an axis from both neighbours of each element, as `numpy.gradient` has it.
    Integers become float32.

    `x.gradient` is the derivative of a graph.

    Args:
        spacing: the distance of neighbours, or the coordinates of all elements; one for each axis,
            or one for all.
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
    axes = normalize_axes("central_differences", axis, x.ndim)
    given = spacing * len(axes) if len(spacing) == 1 else spacing or (1.0,) * len(axes)
    if len(given) != len(axes) or edge_order not in (1, 2):
        found = f"{len(spacing)} spacings, edge order {edge_order}"
        expected = f"one for each of {len(axes)} axes, and 1 or 2"
        raise OperandError(operation="central_differences", found=found, expected=expected)
    x = to_float(x)
    found = tuple(
        _differentiate(x, as_value(s, x) if is_scalar(s) else as_tensor(s, x), a, edge_order)
        for s, a in zip(given, axes, strict=True)
    )
    return found[0] if len(found) == 1 else found


def _differentiate(x: Tensor, spacing: Tensor, axis: int, edge_order: int) -> Tensor:
    (n,) = concrete_shape("central_differences", (x.shape[axis],))
    if n < edge_order + 1:
        raise ShapeError(
            operation="central_differences",
            shape=x.shape,
            problem=(
                f"axis {axis} is too short: at least {edge_order + 1} elements are"
                f" required, got {n}"
            ),
        )
    if spacing.ndim > 1 or spacing.shape not in ((), (n,)):
        raise ShapeError(
            operation="central_differences",
            shape=spacing.shape,
            problem=f"spacing must be a scalar or have {n} elements: {format_shape(spacing.shape)}",
        )
    spacing = spacing.cast(x.dtype)
    line = (n - 1, *(1,) * (x.ndim - axis - 1))
    steps = (
        spacing.diff().reshape(line)
        if spacing.ndim
        else spacing.broadcast_to((n - 1,)).reshape(line)
    )
    slope = slice_axis(x, axis, 1, n).sub(slice_axis(x, axis, 0, n - 1)).div(steps)
    inner = []
    if n > 2:
        before, behind = slice_axis(steps, 0, 0, n - 2), slice_axis(steps, 0, 1, n - 1)
        total = before.add(behind)
        left, right = slice_axis(slope, axis, 0, n - 2), slice_axis(slope, axis, 1, n - 1)
        inner = [left.mul(behind.div(total)).add(right.mul(before.div(total)))]
    first, last = slice_axis(slope, axis, 0, 1), slice_axis(slope, axis, n - 2, n - 1)
    if edge_order == 2:
        first, last = (
            near.add(near.sub(far).mul(h.div(h.add(g))))
            for near, far, h, g in (
                (
                    first,
                    slice_axis(slope, axis, 1, 2),
                    slice_axis(steps, 0, 0, 1),
                    slice_axis(steps, 0, 1, 2),
                ),
                (
                    last,
                    slice_axis(slope, axis, n - 3, n - 2),
                    slice_axis(steps, 0, n - 2, n - 1),
                    slice_axis(steps, 0, n - 3, n - 2),
                ),
            )
        )
    return type(x).concat([first, *inner, last], axis)
