"""Choice of the operand of a product that is copied panel by panel, and of the axis of the panels.

A panel is read in order, again for each tile of the other operand's rows, so that neither the
strides of the operand nor its size matter any more. The more rows read a panel, the less its copy
costs beside them; results that do not lie along the panel are stored one by one, which a long
reduction makes up for."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, inf
from typing import NamedTuple

from svod_ir import AxisType, Target, UOp, exact_trips, max_trips
from svod_ir.sizes import max_size
from svod_schedule.optimize.cost_model.loop_nest import PAGE_BYTES
from svod_schedule.optimize.heuristics import constants
from svod_schedule.optimize.heuristics.facts import Access, KernelFacts, Nest

__all__ = ["Panel", "count_accumulators", "find_panel", "is_short_and_deep", "max_panel_bytes"]


class Panel(NamedTuple):
    """The copied part of an operand: `n_vectors` of lanes along `axis`, all that is reduced.

    `n_rows` is how often each element is read, and `cost` what copying it, and storing results that
    do not lie along it, adds to the work of the product, as a part of that work."""

    axis: UOp
    operand: Access
    n_vectors: int
    n_rows: int
    cost: float


def find_panel(facts: KernelFacts, reduction: Nest, lane_axis: UOp | None) -> Panel | None:
    """The panel that costs least, if that is less than taking lanes along `lane_axis` without a
    copy.
    """
    operands = reduction.operands
    if len(operands) != 2 or is_short_and_deep(facts, reduction):
        return None
    in_place = _cost_in_place(facts, reduction, lane_axis)
    panels = [panel for panel in _iter_panels(facts, reduction) if panel.cost < in_place]
    # A narrow panel loads more of the other operand for each product.
    return min(
        panels, default=None, key=lambda p: p.cost + constants.LOADS_OF_A_VECTOR / p.n_vectors
    )


def _iter_panels(facts: KernelFacts, reduction: Nest) -> Iterator[Panel]:
    """A panel along each axis that only one operand depends on, those along which results are
    stored first.
    """
    reduced = [r for nest in facts.reductions for r in nest.loops]
    outside = [a for a in facts.accesses if not any(map(a.depends_on, reduced))]
    for axis in sorted(facts.results, key=lambda a: not facts.is_stored_along(a)):
        packed = [a for a in reduction.operands if a.depends_on(axis)]
        size = max_size(exact_trips(axis))
        # A single panel is for all results: worth it where they lie along it, or where loops stand
        # around those that use it.
        n_least = 1 if facts.is_stored_along(axis) or len(reduction.results) > 2 else 2
        if len(packed) != 1 or size < facts.lanes * n_least:
            continue
        # Loops inside of that over panels, along which the operand moves, are part of each panel.
        inner = facts.results[facts.results.index(axis) + 1 :]
        n_inner = max_trips(*(a for a in inner if packed[0].depends_on(a)))
        fitting = max_panel_bytes(facts.target) // (
            _column_bytes(reduction) * n_inner * facts.lanes
        )
        n_rows = reduction.reuse(packed[0])
        if n_rows < constants.MIN_PACKED_ROWS:
            continue
        is_along = packed[0].stride(axis) == 1
        most = min(fitting, count_accumulators(facts.target) // constants.TILED_ROWS)
        if not is_along and _has_conflicts(facts, packed[0], axis, most * facts.lanes):
            # Rows that are copied across are as many streams of memory: fewer of them stay in the
            # cache together.
            most = min(most, 2)
        n_vectors = _count_panel_vectors(
            size, min(most, max(size // (2 * facts.lanes), 1)), facts.lanes
        )
        copying = constants.VECTOR_COPY_COST if is_along else constants.ACROSS_COST * facts.lanes
        storing = sum(_cost_apart(facts, a, axis, n_vectors) for a in outside)
        cost = copying / n_rows + storing * facts.lanes / reduction.n_iterations
        if any(
            _is_far_apart(facts, reduction, a) for a in reduction.operands if a is not packed[0]
        ):
            cost += constants.FAR_ROWS_COST
        # Rows that fit the registers read a panel once: what lies across would be read element by
        # element, and not copied.
        is_read_once = not is_along and n_rows * n_vectors <= count_accumulators(facts.target)
        if n_vectors > 0 and not is_read_once:
            yield Panel(axis, packed[0], n_vectors, n_rows, cost)


def _cost_apart(facts: KernelFacts, access: Access, axis: UOp, n_vectors: int) -> float:
    """Steps of a product in the time of an element of `access`, which is no operand, in the tile of
    a panel along `axis`.
    """
    if access.stride(axis) in (0, 1):
        return 0
    has_conflicts = _has_conflicts(facts, access, axis, n_vectors * facts.lanes)
    return constants.CONFLICT_COST if has_conflicts else constants.APART_COST


def _has_conflicts(facts: KernelFacts, access: Access, axis: UOp, n_rows: int) -> bool:
    """Whether lines of so many rows along `axis` push each other out of the first cache.

    Rows at a distance that is a multiple of a power of two use no more of it than if they lay so
    far apart."""
    stride = access.stride(axis)
    return stride is not None and (
        gcd(stride * access.node.dtype.itemsize, PAGE_BYTES) * n_rows > facts.target.l1_bytes
    )


def _is_far_apart(facts: KernelFacts, reduction: Nest, operand: Access) -> bool:
    """Whether each step of a product reads an operand from another page of memory, of more than the
    second level of the cache holds.

    A tile reads a part of each row, and what else is in its line is gone before the next tile
    comes: nothing is fetched ahead."""
    itemsize = operand.node.dtype.itemsize
    strides = [operand.stride(r) for r in reduction.loops]
    n_bytes = operand.node.memory.unordered.arg.size * itemsize
    return n_bytes > facts.target.l2_bytes and all(
        s is not None and abs(s) * itemsize >= PAGE_BYTES for s in strides
    )


def _count_panel_vectors(size: int, most: int, lanes: int) -> int:
    """How wide panels of an axis are, at most: wide ones load less for a product, narrow ones
    overlap less at the end.
    """
    widths = [1 << i for i in range(most.bit_length())]
    return min(
        reversed(widths),
        default=0,
        key=lambda n: -(-size // (n * lanes)) * n * (1 + constants.LOADS_OF_A_VECTOR / n),
    )


def is_short_and_deep(facts: KernelFacts, reduction: Nest) -> bool:
    """Whether both operands of a product of few rows or columns lie along a reduced axis, whose
    lanes need no copy.

    The lanes of a result are added once, after all that is reduced; so that has to be deep, and the
    axis of whole vectors."""
    operands = reduction.operands
    n_least = constants.MIN_DEEP_VECTORS * facts.lanes
    n_rows = min((reduction.reuse(a) for a in operands), default=0)
    if reduction.n_iterations < n_least or n_rows >= constants.FEW_ROWS:
        return False
    deep = [
        r
        for r in reduction.loops
        if r.arg.kind is AxisType.REDUCE and all(a.stride(r) == 1 for a in operands)
    ]
    evenly = [r for r in deep if _is_of_vectors(r, facts.lanes)]
    long = [r for r in deep if max_trips(r) >= n_least]
    # Lanes that are added often, or a rest that is added one by one, pay for still fewer rows.
    return any(r in long for r in evenly) or (
        n_rows < constants.FEW_ROWS_OF_PARTS and bool(evenly or long)
    )


def _is_of_vectors(axis: UOp, lanes: int) -> bool:
    size = exact_trips(axis)
    return isinstance(size, int) and size % lanes == 0


def _cost_in_place(facts: KernelFacts, reduction: Nest, axis: UOp | None) -> float:
    """What taking lanes along `axis` without a copy adds to the work of a product, as a part of
    that work.
    """
    if axis is None or _column_bytes(reduction) * max_trips(axis) > facts.target.l2_bytes // 2:
        return inf
    # Lanes stay idle where the axis ends.
    size, lanes = int(axis.stop.vmin), facts.lanes
    widths = [lanes >> i for i in range(lanes.bit_length()) if lanes >> i <= size]
    idle = min((-(-size // w) * lanes / size for w in widths), default=lanes) - 1
    n_bytes = _column_bytes(reduction) * lanes * constants.VECTORS_OF_TILES
    fetching = constants.FETCHING_COST if 2 * n_bytes > facts.target.l1_bytes else 0.0
    return (
        idle
        + fetching
        + constants.SINGLE_COST * sum(a.stride(axis) not in (0, 1) for a in reduction.operands)
    )


def _column_bytes(reduction: Nest) -> int:
    return reduction.n_iterations * reduction.node.dtype.itemsize


def max_panel_bytes(target: Target) -> int:
    """A panel stays in the second level of the cache beside what is read once."""
    return min(max(target.l2_bytes // 2, target.l1_bytes), constants.MAX_PANEL_BYTES)


def count_accumulators(target: Target) -> int:
    """Accumulators fill the registers but for the operands of one step."""
    return target.vector_registers - (4 if target.vector_registers <= 16 else 8)
