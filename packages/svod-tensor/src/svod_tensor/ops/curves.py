"""Curves that are given by points: their values, integrals and slopes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self, TypeVar

from svod_ir import OperandError, ShapeError
from svod_tensor._shapes import concrete_shape, normalize_axes, normalize_axis
from svod_tensor.ops.naming import operations
from svod_tensor.ops.rounding import rounds_once
from svod_tensor.ops.theme import Theme, is_scalar, take_digits, take_part

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = ["Curves"]

T = TypeVar("T", bound=Theme)


@operations
class Curves(Theme):
    """Numerical integrals and derivatives, linear interpolation, and polynomials."""

    __slots__ = ()

    @rounds_once
    def trapezoid(self, x: Operand | None = None, dx: float = 1.0, axis: int = -1) -> Self:
        """The integral along an axis, by the trapezoidal rule. Integers become float32.

        Args:
            x: where the points are: of one axis, or with as many axes as this tensor.
            dx: the distance of neighbours, where `x` is not given.
            axis: along which.

        Raises:
            AxisError: if there is no such axis.

        Example:
            >>> Tensor([1.0, 2.0, 3.0]).trapezoid().item(), Tensor([1.0, 2.0, 3.0]).trapezoid([0.0, 1.0, 3.0]).item()
            (4.0, 6.5)
        """
        y = self._to_float()
        axis = normalize_axis("trapezoid", axis, y.ndim)
        n = y.shape[axis]
        middle = take_part(y, axis, 1, n).add(take_part(y, axis, 0, n - 1)).mul(0.5)
        if x is None:
            return middle.sum(axis).mul(dx)
        place = self._wrap(x)
        at = 0 if place.ndim == 1 else axis
        step = take_part(place, at, 1, n).sub(take_part(place, at, 0, n - 1))
        step = step.reshape(*(step.size if a == axis else 1 for a in range(y.ndim))) if place.ndim == 1 else step
        return middle.mul(step).sum(axis)

    @rounds_once
    def interp(
        self, xp: Operand, fp: Operand, left: float | None = None, right: float | None = None, *, period: float | None = None
    ) -> Self:  # fmt: skip
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
            >>> Tensor([0.5, 3.0]).interp([0.0, 1.0], [10.0, 20.0]).tolist()
            [15.0, 20.0]
        """
        x = self._to_float()
        places = self._wrap(xp)
        values = self._wrap(take_digits(places._wrap(fp), fp, self.dtype))._to_float()
        places = take_digits(places, xp, values.dtype)._to_float()
        if places.ndim != 1 or values.shape != places.shape or places.shape == (0,):
            raise ShapeError(
                operation="interp", shape=values.shape, problem=f"are not the values of {places.shape} points"
            )
        if period is not None:
            if not period:
                raise OperandError(operation="interp", found="period 0", expected="another number, or None")
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

    @rounds_once
    def polyval(self, x: Operand) -> Self:
        """The polynomial with these coefficients, the highest power first, at `x`. Dtypes promote.

        Args:
            x: where; coefficients behind the first axis broadcast against it.

        Raises:
            ShapeError: if there are no axes.

        Example:
            >>> Tensor([1, 0, 2]).polyval([1, 2, 3]).tolist()
            [3, 6, 11]
        """
        if not self.ndim:
            raise ShapeError(operation="polyval", shape=(), problem="has no axis of coefficients")
        (size,) = concrete_shape("polyval", self.shape[:1])
        place = self._pair(x)[1] if is_scalar(x) else self._wrap(x)
        value = place.zeros_like()
        for number in range(size):
            value = value.mul(place).add(self[number]) if number else value.add(self[0])
        return value

    @rounds_once
    def central_differences(
        self, *spacing: Operand, axis: int | Sequence[int] | None = None, edge_order: int = 1
    ) -> Self | tuple[Self, ...]:
        """The slope along an axis from both neighbours of each element, as `numpy.gradient` has it. Integers become float32.

        `x.gradient` is the derivative of a graph.

        Args:
            spacing: the distance of neighbours, or the places of all along the axis; one for each axis, or one for all.
            axis: one axis, several, or None for all.
            edge_order: 1 for straight lines at both ends, 2 for parabolas.

        Returns:
            The slope along the axis; a tuple of those along each, if there are several.

        Raises:
            ShapeError: if there are too few elements along an axis, or a spacing has not its size.
            OperandError: if there is not a spacing for each axis, or another order.

        Example:
            >>> Tensor([1.0, 2.0, 4.0, 7.0]).central_differences().tolist()
            [1.0, 1.5, 2.5, 3.0]
        """
        axes = normalize_axes("central_differences", axis, self.ndim)
        given = spacing * len(axes) if len(spacing) == 1 else spacing or (1.0,) * len(axes)
        if len(given) != len(axes) or edge_order not in (1, 2):
            found = f"{len(spacing)} spacings, edge order {edge_order}"
            expected = f"one for each of {len(axes)} axes, and 1 or 2"
            raise OperandError(operation="central_differences", found=found, expected=expected)
        x = self._to_float()
        found = tuple(
            _differentiate(x, x._to_value(s) if is_scalar(s) else self._wrap(s), a, edge_order)
            for s, a in zip(given, axes, strict=True)
        )
        return found[0] if len(found) == 1 else found


def _differentiate(x: T, spacing: T, axis: int, edge_order: int) -> T:
    (n,) = concrete_shape("central_differences", (x.shape[axis],))
    if n < edge_order + 1:
        raise ShapeError(
            operation="central_differences", shape=x.shape, problem=f"needs {edge_order + 1} elements on axis {axis}"
        )
    if spacing.ndim > 1 or spacing.shape not in ((), (n,)):
        raise ShapeError(operation="central_differences", shape=spacing.shape, problem=f"is no spacing of {n} places")
    spacing = spacing.cast(x.dtype)
    line = (n - 1, *(1,) * (x.ndim - axis - 1))
    steps = spacing.diff().reshape(line) if spacing.ndim else spacing.broadcast_to((n - 1,)).reshape(line)
    slope = take_part(x, axis, 1, n).sub(take_part(x, axis, 0, n - 1)).div(steps)
    inner = []
    if n > 2:
        before, behind = take_part(steps, 0, 0, n - 2), take_part(steps, 0, 1, n - 1)
        total = before.add(behind)
        left, right = take_part(slope, axis, 0, n - 2), take_part(slope, axis, 1, n - 1)
        inner = [left.mul(behind.div(total)).add(right.mul(before.div(total)))]
    first, last = take_part(slope, axis, 0, 1), take_part(slope, axis, n - 2, n - 1)
    if edge_order == 2:
        first, last = (
            near.add(near.sub(far).mul(h.div(h.add(g))))
            for near, far, h, g in (
                (first, take_part(slope, axis, 1, 2), take_part(steps, 0, 0, 1), take_part(steps, 0, 1, 2)),
                (last, take_part(slope, axis, n - 3, n - 2), take_part(steps, 0, n - 2, n - 1), take_part(steps, 0, n - 3, n - 2)),
            )
        )  # fmt: skip
    return type(x).concat([first, *inner, last], axis)
