"""Numerical integration and differentiation, linear interpolation, and polynomials."""

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
from svod_tensor.ops.core.reuse import reuse_graph
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
@reuse_graph
@rounds_once
def trapezoid(y: Tensor, /, x: Operand | None = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    """Integrate `y` along an axis by the trapezoidal rule: `sum((y[i + 1] + y[i]) * dx / 2)`.
    Integers become float32.

    Args:
        x: coordinates of the points: 1-d, or with the number of axes of `y`.
        dx: spacing of the points, if `x` is None.
        axis: the axis to integrate along.

    Returns:
        The integrals, in the shape of `y` without the axis.

    Raises:
        AxisError: if the axis is out of bounds.

    Example:
        >>> import svod_tensor as sv
        >>> (sv.trapezoid(sv.Tensor([1.0, 2.0, 3.0])).item(), sv.trapezoid(sv.Tensor([1.0, 2.0, 3.0]), [0.0, 1.0, 3.0]).item())
        (4.0, 6.5)
    """
    y = to_float(y)
    axis = normalize_axis("trapezoid", axis, y.ndim)
    n = y.shape[axis]
    middle = slice_axis(y, axis, 1, n).add(slice_axis(y, axis, 0, n - 1)).mul(0.5)
    if x is None:
        return middle.sum(axis).mul(dx)
    coordinates = as_tensor(x, y)
    coordinate_axis = 0 if coordinates.ndim == 1 else axis
    step = slice_axis(coordinates, coordinate_axis, 1, n).sub(
        slice_axis(coordinates, coordinate_axis, 0, n - 1)
    )
    step = (
        step.reshape(*(step.size if a == axis else 1 for a in range(y.ndim)))
        if coordinates.ndim == 1
        else step
    )
    return middle.mul(step).sum(axis)


@operation(test="test_curves.py::test_curves_through_points_agree_with_numpy")
@reuse_graph
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
    """Interpolate linearly: values at `x` of the piecewise linear function through (`xp`, `fp`).
    Integers become float32.

    Args:
        xp: x-coordinates of the points, increasing; in any order with a period.
        fp: y-coordinates of the points.
        left: value before the first point; by default the value of the first point.
        right: value after the last point; by default the value of the last point.
        period: period of the function, which continues from the last point to the first.

    Raises:
        ShapeError: if `xp` and `fp` are not 1-d, of equal size and not empty.
        OperandError: if the period is 0.

    Example:
        >>> import svod_tensor as sv
        >>> sv.interp(sv.Tensor([0.5, 3.0]), [0.0, 1.0], [10.0, 20.0]).tolist()
        [15.0, 20.0]
    """
    points, values = (to_float(as_tensor(y, x)) for y in (xp, fp))
    x = to_float(x)
    if points.ndim != 1 or values.shape != points.shape or points.shape == (0,):
        raise ShapeError(
            operation="interp",
            shape=values.shape,
            problem=(
                f"fp {format_shape(values.shape)} and xp"
                f" {format_shape(points.shape)} must be 1-d, not empty, and of one"
                " length"
            ),
        )
    if period is not None:
        if not period:
            raise OperandError(
                operation="interp", found="period=0", expected="a nonzero period or None"
            )
        size = abs(period)
        x, points = x.remainder(size), points.remainder(size)
        order = points.argsort()
        points, values = points.take(order), values.take(order)
        last = slice(-1, None)
        # A point of the neighboring period on each side, between which all x lie.
        points = type(x).concat([points[last].sub(size), points, points[:1].add(size)], 0)
        values = type(x).concat([values[last], values, values[:1]], 0)
    (n,) = concrete_shape("interp", points.shape)
    above = points.searchsorted(x, "right").detach()
    low, high = above.sub(1).maximum(0), above.minimum(n - 1)
    begin, value = points.take(low), values.take(low)
    width = points.take(high).sub(begin)
    # Points with equal coordinates are a jump, and x outside has the same point on both sides.
    fraction = x.sub(begin).div(width.eq(0).where(1.0, width))
    interpolated = width.eq(0).where(value, value.add(values.take(high).sub(value).mul(fraction)))
    first = values[0] if left is None else left
    final = values[n - 1] if right is None else right
    interpolated = x.lt(points[0]).where(first, x.gt(points[n - 1]).where(final, interpolated))
    # The search has put NaN after the last point.
    return x.isnan().where(x, interpolated)


@operation(test="test_curves.py::test_curves_through_points_agree_with_numpy")
@reuse_graph
@rounds_once
def polyval(p: Tensor, /, x: Operand) -> Tensor:
    """Evaluate a polynomial at `x`, with coefficients from the highest power. Dtypes promote.

    Args:
        x: points of evaluation; they broadcast with the trailing axes of the coefficients.

    Raises:
        ShapeError: if `p` is 0-d.

    Example:
        >>> import svod_tensor as sv
        >>> sv.polyval(sv.Tensor([1, 0, 2]), [1, 2, 3]).tolist()
        [3, 6, 11]
    """
    if not p.ndim:
        raise ShapeError(
            operation="polyval", shape=(), problem="coefficients must have at least 1 dimension"
        )
    (size,) = concrete_shape("polyval", p.shape[:1])
    points = promote(p, x)[1] if is_scalar(x) else as_tensor(x, p)
    value = points.zeros_like()
    for i in range(size):
        # Horner's scheme: a multiplication for each coefficient.
        value = value.mul(points).add(p[i]) if i else value.add(p[0])
    return value


@operation(test="test_curves.py::test_integrals_and_slopes_agree_with_numpy")
@reuse_graph
@rounds_once
def central_differences(
    x: Tensor, /, *spacing: Operand, axis: int | Sequence[int] | None = None, edge_order: int = 1
) -> Tensor | tuple[Tensor, ...]:
    """Numerical gradient by central differences, as `numpy.gradient`. Integers become float32.

    `x.gradient` is the derivative of a graph.

    Args:
        spacing: spacing of the elements, or their coordinates; one for each axis, or one for all.
        axis: axis or axes of the gradient; None for all.
        edge_order: accuracy at the boundaries: 1 or 2.

    Returns:
        The gradient along the axis, or a tuple of gradients for several axes.

    Raises:
        AxisError: if an axis is out of bounds.
        ShapeError: if an axis is too short, or a spacing and its axis differ in size.
        OperandError: if the number of spacings differs from the number of axes, or `edge_order` is
            neither 1 nor 2.

    Example:
        >>> import svod_tensor as sv
        >>> sv.central_differences(sv.Tensor([1.0, 2.0, 4.0, 7.0])).tolist()
        [1.0, 1.5, 2.5, 3.0]
    """
    axes = normalize_axes("central_differences", axis, x.ndim)
    spacings = spacing * len(axes) if len(spacing) == 1 else spacing or (1.0,) * len(axes)
    if len(spacings) != len(axes) or edge_order not in (1, 2):
        arguments = f"{len(spacing)} spacings, edge_order={edge_order}"
        expected = f"0, 1 or {len(axes)} spacings and edge_order 1 or 2"
        raise OperandError(operation="central_differences", found=arguments, expected=expected)
    x = to_float(x)
    gradients = tuple(
        _differentiate(x, as_value(s, x) if is_scalar(s) else as_tensor(s, x), a, edge_order)
        for s, a in zip(spacings, axes, strict=True)
    )
    return gradients[0] if len(gradients) == 1 else gradients


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
        # As in numpy: each slope has the weight of the other step, which is second-order accurate
        # for uneven steps.
        inner = [left.mul(behind.div(total)).add(right.mul(before.div(total)))]
    first, last = slice_axis(slope, axis, 0, 1), slice_axis(slope, axis, n - 2, n - 1)
    if edge_order == 2:
        first, last = (
            # The slope extrapolated linearly from the midpoints of the two outer steps.
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
