"""How parallel axes lie in the at most three dimensions of a launch.

The innermost axis is dimension 0, in which neighbours run together. Axes beyond the third share a
dimension with a neighbour, and an axis that exceeds the limit of its dimension takes a free one
too:

    axes 7, 5, 4, 3             dimensions 3, 4, 35
    axis 100000, limits 65535   dimensions 50000, 2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from svod_dtype import index
from svod_ir import Op, UOp, exact_trips, max_trips

__all__ = ["AxisGroup", "arrange_axes"]

N_DIMENSIONS = 3


@dataclass(frozen=True, slots=True)
class AxisGroup:
    """Axes (RANGEs, outer to inner) that are numbered together, by the launch's dimensions from
    `first` on.

    `sizes` are those of the dimensions, inner to outer. `is_over` says that one exceeds its limit.
    """

    axes: tuple[UOp, ...]
    first: int
    sizes: tuple[UOp, ...]
    is_over: bool

    def values(self, prefix: str) -> dict[UOp, UOp]:
        """The value of each axis, from the launch's numbers `prefix`0, `prefix`1, ..."""
        number: UOp | None = None
        for place in reversed(range(len(self.sizes))):
            special = UOp(Op.SPECIAL, index, (self.sizes[place],), f"{prefix}{self.first + place}")
            number = special if number is None else number * self.sizes[place] + special
        assert number is not None
        found: dict[UOp, UOp] = {}
        for position, axis in enumerate(reversed(self.axes)):
            is_outermost = position == len(self.axes) - 1
            found[axis] = number if is_outermost else number % axis.stop
            number = number // axis.stop
        return found


def arrange_axes(axes: Sequence[UOp], limits: Sequence[int] = ()) -> list[AxisGroup]:
    """The dimensions of a launch for parallel `axes`, which stand from outer to inner loop.

    Args:
        axes: RANGEs.
        limits: the largest size of each dimension; none where the launch has no limits.
    """
    limits = tuple(limits) or (_largest(axes),) * N_DIMENSIONS
    groups = [(axis,) for axis in reversed(axes)]
    while len(groups) > len(limits):
        groups = _join_smallest(groups)
    if (
        any(_largest(g) > limit for g, limit in zip(groups, limits, strict=False))
        and _largest(axes) <= limits[0]
    ):
        groups = [tuple(axes)]
    n_free = len(limits) - len(groups)
    arranged: list[AxisGroup] = []
    first = 0
    for group in groups:
        made = _place(group, first, limits, n_free)
        n_free -= len(made.sizes) - 1
        first += len(made.sizes)
        arranged.append(made)
    return arranged


def _join_smallest(groups: list[tuple[UOp, ...]]) -> list[tuple[UOp, ...]]:
    """`groups` (inner to outer) with those two neighbours as one that make the smallest."""
    sizes = [_largest(g) for g in groups]
    place = min(range(len(groups) - 1), key=lambda i: sizes[i] * sizes[i + 1])
    return [*groups[:place], groups[place + 1] + groups[place], *groups[place + 2 :]]


def _place(group: tuple[UOp, ...], first: int, limits: Sequence[int], n_free: int) -> AxisGroup:
    size = group[0].stop
    for axis in group[1:]:
        size = size * axis.stop
    largest = _largest(group)
    if largest <= limits[first]:
        return AxisGroup(group, first, (size,), is_over=False)
    if n_free and all(isinstance(exact_trips(axis), int) for axis in group):
        most = min(limits[first + 1], largest)
        fewest = -(-largest // limits[first])
        parts = next((n for n in range(fewest, most + 1) if largest % n == 0), None)
        if parts is not None:
            sizes = UOp.const(index, largest // parts), UOp.const(index, parts)
            return AxisGroup(group, first, sizes, is_over=False)
    return AxisGroup(group, first, (size,), is_over=True)


def _largest(axes: Sequence[UOp]) -> int:
    return max_trips(*axes)
