"""place-launch-axes: replace parallel axes by the thread, workgroup and work-item ids of the launch.

before → after:

    RANGE [4, THREAD]           DEFINE_VAR core_id [0, 3]
    RANGE [128, GLOBAL]         SPECIAL gidx0, in a grid of workgroups
    RANGE [16, LOCAL]           SPECIAL lidx0
    RANGE [128, GLOBAL]         SPECIAL idx0, where there are no workgroups

A store to a buffer whose index does not depend on some axis of work-items is done only by work-item 0
of that axis."""

from __future__ import annotations

from svod_ir import AxisType, Op, Target, UOp, max_trips
from svod_schedule._launch_grid import arrange_axes
from svod_schedule._linear_index import find_stride
from svod_schedule.lower.expand import widen

__all__ = ["get_work_items", "place_launch_axes"]

FAR = 32
"""Maximum stride that counts: elements this far apart are in different cache lines."""

_WORK_ITEM_AXES = frozenset({AxisType.LOCAL, AxisType.WARP, AxisType.GROUP_REDUCE})


def place_launch_axes(sink: UOp, target: Target) -> UOp:
    """Replace THREAD, GLOBAL, LOCAL, WARP and GROUP_REDUCE ranges by ids."""
    axes = _get_axes(sink)
    work_items = get_work_items(sink)
    grid = [r for r in axes if r.arg.kind is AxisType.GLOBAL]
    replaced = {
        r: UOp.variable("core_id", 0, int(r.vmax)) for r in axes if r.arg.kind is AxisType.THREAD
    }
    replaced |= _make_ids(work_items, target.max_local_dims, "lidx")
    replaced |= _make_ids(grid, target.max_global, "gidx" if work_items else "idx")
    return _substitute(sink, replaced, work_items) if replaced else sink


def get_work_items(sink: UOp) -> list[UOp]:
    """Return the RANGEs over the work-items of a workgroup, the fastest varying one last.

    The last one is the axis along which memory accesses are closest to contiguous.
    """
    work_items = [r for r in _get_axes(sink) if r.arg.kind in _WORK_ITEM_AXES]
    # Private and shared memory do not count: only the global accesses of a subgroup are coalesced.
    if len(work_items) > 1:
        accesses = [n for n in sink.iter_ops(Op.INDEX) if n.memory.op is Op.PARAM]
        work_items.sort(key=lambda r: -sum(_distance(n, r) for n in accesses))
    return work_items


def _distance(access: UOp, work_item: UOp) -> float:
    """Total distance in memory of neighboring work-items along an axis, over all executions of an
    access.
    """
    stride = find_stride(access.position, work_item)
    loops = (r for r in access.ranges if r.arg.kind in (AxisType.LOOP, AxisType.REDUCE))
    return min(abs(stride or 0), FAR) * max_trips(*loops)


def _get_axes(sink: UOp) -> list[UOp]:
    """Return the RANGEs from outer to inner loop, then the RANGEs of reductions."""
    nodes = list(sink.iter_ops(Op.END, Op.RANGE))
    depth = {r: i for end in nodes if end.op is Op.END for i, r in enumerate(end.loops)}
    return sorted(
        (n for n in nodes if n.op is Op.RANGE),
        key=lambda r: (r not in depth, depth.get(r, 0), r.arg.id),
    )


def _make_ids(axes: list[UOp], limits: tuple[int, ...], prefix: str) -> dict[UOp, UOp]:
    groups = arrange_axes(axes, limits) if axes else []
    return {axis: value for group in groups for axis, value in group.values(prefix).items()}


def _substitute(sink: UOp, replaced: dict[UOp, UOp], work_items: list[UOp]) -> UOp:
    done: dict[UOp, UOp] = dict(replaced)
    for node in sink.toposort():
        if node in done:
            continue
        operands = node.src
        if node.op in (Op.END, Op.REDUCE):
            operands = (operands[0], *(r for r in operands[1:] if r not in replaced))
        operands = tuple(done[s] for s in operands)
        new = operands[0] if node.op is Op.END and len(operands) == 1 else node.with_src(operands)
        # Every work-item holds the result of a shared reduction, but one of them stores it. Stores
        # to shared memory differ by work-item.
        if node.op is Op.STORE and _memory_of(node).op is Op.PARAM:
            ranges = node.location.position.ranges
            new = _store_once(new, [replaced[r] for r in work_items if r not in ranges])
        done[node] = new
    return done[sink]


def _memory_of(store: UOp) -> UOp:
    return store.location.memory


def _store_once(store: UOp, absent: list[UOp]) -> UOp:
    """Gate `store` to the work-items whose ids along the axes `absent` are 0."""
    location = store.location
    gate = location.gate
    for work_item in absent:
        is_first = work_item.eq(0)
        gate = is_first if gate is None else gate & widen(is_first, gate.dtype.lanes)
    if gate is None or gate is location.gate:
        return store
    gated = UOp(Op.INDEX, location.dtype, (location.memory, location.position, gate))
    return store.with_src((gated, store.value))
