"""Mapping of the loops over a kernel's results to the launch grid, on targets with a grid.

before → after, for at most 1000 positions in the grid:

    RANGE [7, LOOP]         RANGE [7, GLOBAL]
    RANGE [5000, LOOP]      RANGE [36, LOOP] * 139 + RANGE [139, GLOBAL], masked from 5000 on
"""

from __future__ import annotations

from svod_dtype import index
from svod_ir import AxisType, FreshIds, Op, Target, UOp, exact_trips, max_trips
from svod_ir.uop import to_node
from svod_schedule._launch_grid import AxisGroup, arrange_axes
from svod_schedule._loops import mask_accesses, replace_range

__all__ = ["spread_over_grid"]


def spread_over_grid(sink: UOp, target: Target) -> UOp:
    """Make the loops over results axes of the grid; loops over the elements that exceed the target's
    limit remain inside the kernel.
    """
    if not target.has_local:
        return sink
    # With several effects, their loops would have to be shared; kernels for a grid have one effect.
    nest = _list_loops(sink) if len(sink.src) == 1 else ()
    loops = [r for r in nest if r.arg.kind is AxisType.LOOP]
    sink = sink.substitute({r: r.with_arg(r.arg._replace(kind=AxisType.GLOBAL)) for r in loops})
    while (group := _find_too_large(sink, target)) is not None:
        sink = _take_in_iterations(sink, group, min(target.max_global))
    return sink


def _list_loops(sink: UOp) -> tuple[UOp, ...]:
    """Return the loops of the first effect of a kernel."""
    effect = next(iter(sink.src), None)
    return effect.loops if effect is not None and effect.op is Op.END else ()


def _find_too_large(sink: UOp, target: Target) -> AxisGroup | None:
    axes = [r for r in _list_loops(sink) if r.arg.kind is AxisType.GLOBAL]
    return next((g for g in arrange_axes(axes, target.max_global) if g.exceeds_limit), None)


def _take_in_iterations(sink: UOp, group: AxisGroup, limit: int) -> UOp:
    """Split the group's longest axis into an axis of the grid and a loop in each work-item."""
    axis = max(group.axes, key=lambda r: int(r.vmax))
    n_others = 1
    for r in group.axes:
        n_others *= 1 if r is axis else max_trips(r)
    most = max(limit // n_others, 1)
    size = exact_trips(axis)
    n_iterations = to_node((size + (most - 1)) // most)
    # As even as possible: the last iteration is then nearly full.
    grid_size = -(-size // int(n_iterations.vmax)) if isinstance(size, int) else most
    # The other axes fill the grid, so this one is a loop as a whole.
    if grid_size == 1:
        return sink.substitute({axis: axis.with_arg(axis.arg._replace(kind=AxisType.LOOP))})
    iteration = FreshIds(sink).make_range(n_iterations, AxisType.LOOP)
    inner = axis.with_src((UOp.const(index, grid_size),))
    value = iteration * grid_size + inner
    sink = replace_range(sink, axis, value, (iteration, inner))
    return (
        sink
        if isinstance(size, int) and size % grid_size == 0
        else mask_accesses(sink, iteration, value < to_node(size))
    )
