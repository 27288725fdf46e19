"""Mapping of parallel axes to the up to three dimensions of a launch grid.

The innermost axis is dimension 0, whose neighboring work-items run in the same subgroup. With more
than three axes, neighboring axes share a dimension. An axis that exceeds the limit of its
dimension is split over a free one:

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
"""Dimensions of a grid in CUDA, Metal and OpenCL."""


@dataclass(frozen=True, slots=True)
class AxisGroup:
    """Axes that share one linear index, which is split over consecutive dimensions of the grid.

    Attributes:
        axes: RANGEs, outer to inner.
        first: the first dimension of the group.
        sizes: the sizes of its dimensions, inner to outer.
        exceeds_limit: whether a size exceeds the limit of its dimension.
    """

    axes: tuple[UOp, ...]
    first: int
    sizes: tuple[UOp, ...]
    exceeds_limit: bool

    def values(self, prefix: str) -> dict[UOp, UOp]:
        """Return the value of each axis as an expression of the grid indices `prefix`0, `prefix`1,
        ...
        """
        linear: UOp | None = None
        for dim in reversed(range(len(self.sizes))):
            special = UOp(Op.SPECIAL, index, (self.sizes[dim],), f"{prefix}{self.first + dim}")
            linear = special if linear is None else linear * self.sizes[dim] + special
        assert linear is not None
        values: dict[UOp, UOp] = {}
        for i, axis in enumerate(reversed(self.axes)):
            is_outermost = i == len(self.axes) - 1
            # The outermost axis needs no remainder: the grid has no index beyond its end.
            values[axis] = linear if is_outermost else linear % axis.stop
            linear = linear // axis.stop
        return values


def arrange_axes(axes: Sequence[UOp], limits: Sequence[int] = ()) -> list[AxisGroup]:
    """Map parallel axes to the dimensions of a launch grid.

    Args:
        axes: RANGEs, outer to inner.
        limits: the maximum size of each dimension; empty if the launch has no limits.
    """
    limits = tuple(limits) or (_largest(axes),) * N_DIMENSIONS
    groups = [(axis,) for axis in reversed(axes)]
    while len(groups) > len(limits):
        groups = _join_smallest(groups)
    # One dimension for all axes is the last resort: their divisions cost, but the first limit is
    # often the largest (2^31 - 1 in CUDA, where the others are 65535).
    if (
        any(_largest(g) > limit for g, limit in zip(groups, limits, strict=False))
        and _largest(axes) <= limits[0]
    ):
        groups = [tuple(axes)]
    n_free = len(limits) - len(groups)
    arranged: list[AxisGroup] = []
    first = 0
    for group in groups:
        axis_group = _make_group(group, first, limits, n_free)
        n_free -= len(axis_group.sizes) - 1
        first += len(axis_group.sizes)
        arranged.append(axis_group)
    return arranged


def _join_smallest(groups: list[tuple[UOp, ...]]) -> list[tuple[UOp, ...]]:
    """Join the two neighbors of `groups` (inner to outer) whose product of sizes is the smallest."""
    sizes = [_largest(g) for g in groups]
    first = min(range(len(groups) - 1), key=lambda i: sizes[i] * sizes[i + 1])
    return [*groups[:first], groups[first + 1] + groups[first], *groups[first + 2 :]]


def _make_group(
    group: tuple[UOp, ...], first: int, limits: Sequence[int], n_free: int
) -> AxisGroup:
    size = group[0].stop
    for axis in group[1:]:
        size = size * axis.stop
    largest = _largest(group)
    if largest <= limits[first]:
        return AxisGroup(group, first, (size,), exceeds_limit=False)
    if n_free and all(isinstance(exact_trips(axis), int) for axis in group):
        most = min(limits[first + 1], largest)
        fewest = -(-largest // limits[first])
        # Only exact divisors: a rounded split would need a mask. The fewest parts keep the inner
        # dimension, which is coalesced, longest.
        outer = next((n for n in range(fewest, most + 1) if largest % n == 0), None)
        if outer is not None:
            sizes = UOp.const(index, largest // outer), UOp.const(index, outer)
            return AxisGroup(group, first, sizes, exceeds_limit=False)
    return AxisGroup(group, first, (size,), exceeds_limit=True)


def _largest(axes: Sequence[UOp]) -> int:
    return max_trips(*axes)
