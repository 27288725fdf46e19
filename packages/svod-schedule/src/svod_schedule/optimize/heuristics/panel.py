"""Panel packing: the choice of the operand of a product that is copied in panels, and of the axis of
the panels.

A panel is read contiguously, once for each register tile of the other operand's rows, so that
neither the operand's strides nor its size matter any more. The cost of the copy is amortized over
the rows that read the panel. Results that are not contiguous along the panel are stored as scalars,
which a long reduction makes up for."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, inf, log2
from typing import NamedTuple

from svod_ir import AxisType, Op, Target, UOp, exact_trips, max_trips
from svod_ir.ops import ELEMENTWISE, TABLE
from svod_ir.sizes import max_size
from svod_schedule.optimize.cost_model.loop_nest import PAGE_BYTES
from svod_schedule.optimize.heuristics import constants
from svod_schedule.optimize.heuristics.facts import Access, KernelFacts, Nest
from svod_schedule.optimize.opts.pack import SQUARE, is_widened

__all__ = [
    "Panel",
    "count_accumulators",
    "count_rows_in_cache",
    "count_tile_rows",
    "find_panel",
    "has_conflicts",
    "is_short_and_deep",
    "is_streamed",
    "max_panel_bytes",
]


class Panel(NamedTuple):
    """The packed block of an operand: `n_vectors` vectors along `axis`, and the whole reduction.

    `n_rows` is the number of times that each element is read. `cost` is the overhead relative to the
    work of the product: packing, results that are not contiguous along the panel or computed twice,
    and computing the other operand; `copying` is that of packing alone."""

    axis: UOp
    operand: Access
    n_vectors: int
    n_rows: int
    cost: float
    copying: float

    @property
    def is_packed(self) -> bool:
        """Whether the operand is stored in the order of the panel, so that nothing is copied."""
        return self.copying == 0


def find_panel(facts: KernelFacts, reduction: Nest, lane_axis: UOp | None) -> Panel | None:
    """Find the panel of the least cost; None if vectorizing `lane_axis` without a copy costs no
    more.
    """
    operands = reduction.operands
    if len(operands) != 2 or is_short_and_deep(facts, reduction):
        return None
    if lane_axis is not None and is_streamed(facts, reduction, lane_axis):
        return None
    # A narrow panel loads more of the other operand for each product.
    loads = _cost_of_loads(reduction)
    panels = {p: p.cost + loads / p.n_vectors for p in _iter_panels(facts, reduction, lane_axis)}
    best = min(panels, default=None, key=lambda p: panels[p])
    if best is None or panels[best] >= _cost_without(facts, reduction, lane_axis, best):
        return None
    return best


def _iter_panels(facts: KernelFacts, reduction: Nest, lane_axis: UOp | None) -> Iterator[Panel]:
    """Yield a panel along each axis that only one operand depends on, axes of contiguous stores
    first.
    """
    # A block that is transposed in registers is cheaper than lanes along the reduction even for few
    # rows.
    is_square = lane_axis is None and reduction.n_iterations >= SQUARE
    factors = _list_factors(reduction)
    n_least_rows = 2 if is_square else constants.MIN_PACKED_ROWS
    for axis in sorted(facts.results, key=lambda a: not facts.is_stored_along(a)):
        packed = [a for a in reduction.operands if a.depends_on(axis)]
        size, is_stored = max_size(exact_trips(axis)), facts.is_stored_along(axis)
        # A single panel serves all results: it pays if they are contiguous along it, or if further
        # loops enclose the loops that read it.
        n_least = 1 if is_stored or len(reduction.results) > 2 else 2
        least = SQUARE if is_square and is_stored else facts.lanes * n_least
        if len(packed) != 1 or size < least:
            continue
        # Inner loops that the operand depends on are part of each panel.
        inner = facts.results[facts.results.index(axis) + 1 :]
        n_inner = max_trips(*(a for a in inner if packed[0].depends_on(a)))
        fitting = max_panel_bytes(facts.target) // (
            _column_bytes(reduction) * n_inner * facts.lanes
        )
        n_rows = reduction.reuse(packed[0])
        if n_rows < n_least_rows:
            continue
        is_along = packed[0].stride(axis) == 1
        most = count_accumulators(facts.target) // constants.TILED_ROWS
        is_packed = (
            size <= most * facts.lanes
            and packed[0].node in factors
            and _is_packed(reduction, packed[0], axis)
        )
        if is_packed:
            fitting = most
        most = min(fitting, most)
        if not is_along and has_conflicts(facts, packed[0], axis, most * facts.lanes):
            # Copying across rows reads as many streams of memory as there are rows: a narrow panel
            # has few enough to stay in the cache together.
            most = min(most, 2)
        n_vectors = _count_panel_vectors(
            size,
            min(most, max(size // (facts.lanes * (1 if is_packed else 2)), 1)),
            facts.lanes,
            _cost_of_loads(reduction),
        )
        if n_vectors == 0:
            continue
        step = constants.VECTOR_COPY_COST if is_along else constants.ACROSS_COST * facts.lanes
        copying = 0 if is_packed else step / n_rows
        cost = copying + _cost_outside(facts, reduction, axis, n_vectors)
        cost += sum(
            _count_computed(n) / n_vectors
            for n in factors
            # Rows of narrow numbers are packed after their conversion.
            if axis not in n.ranges and not is_widened(n)
        )
        cost += _count_excess(size, facts.lanes, n_vectors)
        if any(
            _is_far_apart(facts, reduction, a) for a in reduction.operands if a is not packed[0]
        ):
            cost += constants.FAR_ROWS_COST
        # If the accumulators of all rows fit the registers, the panel is read only once: scalar
        # loads in place are then as good as the copy.
        is_read_once = (
            not (is_square and is_stored)
            and not is_along
            and n_rows * n_vectors <= count_accumulators(facts.target)
        )
        if not is_read_once:
            yield Panel(axis, packed[0], n_vectors, n_rows, cost, copying)


def _list_factors(reduction: Nest) -> tuple[UOp, ...]:
    """List the factors of a sum of products, which may be masked or widened; otherwise the summed value."""
    product = reduction.node.source
    while product.op is Op.WHERE or (product.op is Op.CAST and product.source.op is Op.MUL):
        product = product.if_true if product.op is Op.WHERE else product.source
    return product.src if product.op is Op.MUL else (product,)


def _count_computed(factor: UOp) -> int:
    """Count the instructions that compute an element of a factor of a product from loaded elements."""
    loads = set(factor.iter_ops(Op.INDEX))
    return sum(
        TABLE[n.op].instructions
        for n in factor.toposort(loads)
        if n.op in ELEMENTWISE and n.op is not Op.CAST and n.dtype.kind != "index"
    )


def _is_packed(reduction: Nest, operand: Access, axis: UOp) -> bool:
    """Whether an operand is stored in the order of a panel along the whole `axis`."""
    step = 1
    for loop in (axis, *sorted(reduction.loops, key=lambda r: operand.stride(r) or 0)):
        if operand.stride(loop) != step:
            return False
        step *= max_trips(loop)
    return True


def _cost_outside(facts: KernelFacts, reduction: Nest, axis: UOp, n_vectors: int) -> float:
    """Cost of the accesses outside of reductions where `axis` has lanes, such as storing the results,
    relative to the work of the product.
    """
    reduced = [r for nest in facts.reductions for r in nest.loops]
    outside = [a for a in facts.accesses if not any(map(a.depends_on, reduced))]
    cost = sum(_cost_apart(facts, a, axis, n_vectors) for a in outside)
    return cost * facts.lanes / reduction.n_iterations


def _cost_apart(facts: KernelFacts, access: Access, axis: UOp, n_vectors: int) -> float:
    """Cost of an element of `access`, which is no operand, in a tile of a panel along `axis`, in
    steps of the product.
    """
    if access.stride(axis) in (0, 1):
        return 0
    if has_conflicts(facts, access, axis, n_vectors * facts.lanes):
        return constants.CONFLICT_COST
    # A tile is transposed in registers if it is contiguous along another axis.
    is_transposed = any(access.stride(a) == 1 and max_trips(a) >= SQUARE for a in facts.results)
    return constants.TRANSPOSED_COST if is_transposed else constants.APART_COST


def has_conflicts(facts: KernelFacts, access: Access, axis: UOp, n_rows: int) -> bool:
    """Whether the lines of `n_rows` rows along `axis` conflict in the L1 cache.

    Rows whose distance is a multiple of a power of two map to few sets: they occupy as much of the
    cache as rows of that power of two."""
    stride = access.stride(axis)
    return stride is not None and (
        gcd(stride * access.node.dtype.itemsize, PAGE_BYTES) * n_rows > facts.target.l1_bytes
    )


def count_rows_in_cache(facts: KernelFacts, reduction: Nest, axis: UOp, most: int) -> int:
    """Number of rows along `axis`, `most` or the next powers of two below, that a reduction reads side
    by side without evicting their lines from the L1 cache.

    Rows a multiple of 4 KB apart map to few sets: of 2,048 rows of 8 KB, twelve at a time took 1.8
    times as long as eight.
    """
    rows = [
        a
        for a in reduction.operands
        if a.depends_on(axis) and any(a.stride(r) == 1 for r in reduction.loops)
    ]
    while most > 1 and any(has_conflicts(facts, a, axis, most) for a in rows):
        most = 1 << (most - 1).bit_length() - 1
    return most


def _is_far_apart(facts: KernelFacts, reduction: Nest, operand: Access) -> bool:
    """Whether each step of a product reads an operand from another page, and the operand exceeds the
    L2 cache.

    A tile reads a part of each row, and the remainder of its cache lines is evicted before the next
    tile needs it; the hardware prefetcher does not cross pages."""
    itemsize = operand.node.dtype.itemsize
    strides = [operand.stride(r) for r in reduction.loops]
    return operand.memory_bytes > facts.target.l2_bytes and all(
        s is not None and abs(s) * itemsize >= PAGE_BYTES for s in strides
    )


def is_streamed(facts: KernelFacts, reduction: Nest, lane_axis: UOp) -> bool:
    """Whether the operand along `lane_axis` is read from beginning to end for a few rows of the other
    one (`lower.stream_rows`).

    Copying it would take as long as reading it again for each tile of rows."""
    along = [a for a in reduction.operands if a.stride(lane_axis) == 1]
    return (
        len(along) == 1
        and len(reduction.loops) == 1
        and reduction.node.arg is Op.ADD
        and reduction.reuse(along[0]) <= constants.STREAMED_ROWS
        and _is_far_apart(facts, reduction, along[0])
    )


def _cost_of_loads(reduction: Nest) -> float:
    """Relative cost of loading the operand that is not packed, for a tile that is one vector wide."""
    factors = _list_factors(reduction)
    return constants.LOADS_OF_A_VECTOR * (
        constants.WIDENED_LOADS if any(map(is_widened, factors)) else 1
    )


def _count_panel_vectors(size: int, most: int, lanes: int, loads: float) -> int:
    """Choose the number of vectors of a panel, up to `most`: a wide panel needs fewer loads per
    product, a narrow one overlaps less at the end of the axis.
    """
    widths = [1 << i for i in range(most.bit_length())]
    return min(
        reversed(widths),
        default=0,
        key=lambda n: -(-size // (n * lanes)) * n * (1 + loads / n),
    )


def is_short_and_deep(facts: KernelFacts, reduction: Nest) -> bool:
    """Whether a product of few rows or columns has both operands contiguous along a long reduced
    axis, which is vectorized without a copy.

    The lanes of a result are added up once, after the reduction. So the reduction has to be deep,
    and the axis a multiple of the vector width."""
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
    divisible = [r for r in deep if _is_of_vectors(r, facts.lanes)]
    long = [r for r in deep if max_trips(r) >= n_least]
    # Frequent horizontal sums, or a scalar tail, pay only for fewer rows.
    return any(r in long for r in divisible) or (
        n_rows < constants.FEW_ROWS_OF_PARTS and bool(divisible or long)
    )


def _is_of_vectors(axis: UOp, lanes: int) -> bool:
    size = exact_trips(axis)
    return isinstance(size, int) and size % lanes == 0


def _cost_without(
    facts: KernelFacts, reduction: Nest, lane_axis: UOp | None, panel: Panel
) -> float:
    """Overhead of the product without a panel, relative to its work."""
    if lane_axis is not None:
        return _cost_in_place(facts, reduction, lane_axis)
    # Lanes along the reduction read both operands from the L2 cache again and again.
    is_few = panel.n_rows < constants.MIN_PACKED_ROWS
    loads = _cost_of_loads(reduction) / panel.n_vectors
    return _cost_in_lanes(facts, reduction) + loads if is_few else inf


def _cost_in_lanes(facts: KernelFacts, reduction: Nest) -> float:
    """Overhead of vectorizing the reduction, relative to the work of the product: the horizontal sum
    of each result, and its tail.
    """
    sizes = [
        max_trips(r)
        for r in reduction.loops
        if r.arg.kind is AxisType.REDUCE
        and all(a.cost(r, facts.lanes) < 1 for a in reduction.operands)
    ]
    tail = min((size % facts.lanes for size in sizes), default=inf)
    n_sums = reduction.n_iterations / max(sizes, default=1)
    added = constants.HORIZONTAL_COST * log2(facts.lanes) + constants.TAIL_COST * tail * n_sums
    return added * facts.lanes / reduction.n_iterations


def _cost_in_place(facts: KernelFacts, reduction: Nest, axis: UOp) -> float:
    """Overhead of vectorizing `axis` without a copy, relative to the work of the product."""
    if _column_bytes(reduction) * max_trips(axis) > facts.target.l2_bytes // 2:
        return inf
    lanes, size = facts.lanes, int(axis.stop.vmin)
    n_vectors = min(constants.VECTORS_OF_TILES, 1 << max(size // lanes, 1).bit_length() - 1)
    n_bytes = _column_bytes(reduction) * lanes * constants.VECTORS_OF_TILES
    fetching = constants.FETCHING_COST if 2 * n_bytes > facts.target.l1_bytes else 0.0
    is_split = any(
        a.stride(axis) == 1
        and any(
            (s or 0) * a.node.dtype.itemsize % (facts.target.vector_bits // 8)
            for r, s in a.strides.items()
            if r is not axis
        )
        for a in reduction.operands
    )
    # Other products of the kernel have the same lanes.
    single = [
        nest.n_iterations
        for nest in facts.reductions
        for a in nest.operands
        if a.stride(axis) not in (0, 1)
    ]
    return (
        _count_excess(size, lanes, n_vectors)
        + fetching
        + (constants.SPLIT_COST if is_split else 0.0)
        + _cost_of_loads(reduction) / n_vectors
        + sum(
            (_count_computed(n) + is_widened(n))
            / (constants.TILED_ROWS if axis in n.ranges else n_vectors)
            for n in _list_factors(reduction)
        )
        + _cost_outside(facts, reduction, axis, constants.VECTORS_OF_TILES)
        + constants.SINGLE_COST * sum(single) / reduction.n_iterations
    )


def _count_excess(size: int, lanes: int, n_vectors: int) -> float:
    """Count the idle lanes of a partial vector, or the results along an axis that overlapping tiles of
    vectors compute twice, relative to all results along it.
    """
    if size < lanes:
        widths = [lanes >> i for i in range(lanes.bit_length()) if lanes >> i <= size]
        return min((-(-size // w) * lanes / size for w in widths), default=lanes) - 1
    amount = n_vectors * lanes
    return -(-size // amount) * amount / size - 1


def _column_bytes(reduction: Nest) -> int:
    return reduction.n_iterations * reduction.node.dtype.itemsize


def max_panel_bytes(target: Target) -> int:
    """Maximum size of a panel: half of the L2 cache, which data that is read once shares."""
    return min(max(target.l2_bytes // 2, target.l1_bytes), constants.MAX_PANEL_BYTES)


def count_accumulators(target: Target) -> int:
    """Number of vector registers for accumulators; the others hold the operands of one step."""
    return target.vector_registers - (4 if target.vector_registers <= 16 else 8)


def count_tile_rows(target: Target, n_vectors: int) -> int:
    """Maximum number of rows of a register tile of a packed product: a step needs registers for the
    vectors of the panel, and for one element of the other operand.
    """
    n_free = max(count_accumulators(target), target.vector_registers - n_vectors - 1)
    return n_free // n_vectors
