"""Heuristics: a good sequence of Opts for a kernel, from its accesses and the target's description.

A product that a tensor core takes faster is given to it (`core_tiles.py`). Otherwise, in order: which operand of a product is
copied panel by panel; which output axis becomes vector lanes; which reduced axis does where no output axis can; how many outputs
share what they load (register tiles); which loop is outermost; which is split over threads. Each choice is applied as an Opt,
so it can be printed, replayed and searched around.
"""

from __future__ import annotations

from math import inf, prod
from typing import NamedTuple

from svod_ir.args import Opt, OptOp
from svod_ir.ops import AxisType, Op
from svod_ir.sizes import max_size
from svod_ir.trips import exact_trips, max_trips
from svod_ir.uop import UOp
from svod_schedule.linear_index import access_cost, find_stride
from svod_schedule.optimize.core_tiles import MAX_PANEL_BYTES, take_tensor_core
from svod_schedule.optimize.scheduler import Scheduler
from svod_schedule.optimize.workgroups import share_out

__all__ = ["apply_heuristics"]

_SLOW = frozenset({
    Op.EXP, Op.EXP2, Op.LOG, Op.LOG2, Op.SIN, Op.COS, Op.TAN, Op.TANH, Op.EXPM1, Op.LOG1P, Op.SINH, Op.COSH, Op.ERF, Op.POW,
    Op.FDIV, Op.SQRT, Op.IDIV, Op.MOD, Op.THREEFRY,
})  # fmt: skip
TRANSPOSED_TILE = 8
"""Rows and columns of a transposition that are taken at a time."""

MIN_PACKED_ROWS = 16
"""So many rows have to use a packed panel for the copy to pay."""

TILED_ROWS = 6
"""Rows that a tile of a packed product takes at least; its vectors are the wider for it, and other rows are read less often."""

LOADS_OF_A_VECTOR = 1 / 3
"""What loading the other operand adds to the time of a tile that is one vector wide, as a part of it."""

FEW_ROWS = 64
"""A product with fewer rows, or columns, reads two operands that lie along a long reduction where they are."""

MIN_DEEP_VECTORS = 16
"""A reduction of so many vectors makes up for adding the lanes of each result."""

LONG_AXIS = 32
"""From this many tiles on, one that overlaps its neighbour does not count."""

VECTOR_COPY_COST = 8
SINGLE_COST = 2
"""Steps of a product in the time of copying a vector to a panel, and of copying or storing one element."""

MIN_GATHERED_BYTES = 4
"""The narrowest element that processors gather."""

MIN_THREADED_WORK = 1 << 15
"""Below this many steps, waking threads costs more than they save."""


def apply_heuristics(scheduler: Scheduler) -> None:
    """Choose Opts for the kernel of `scheduler` and apply them."""
    if scheduler.target.has_local and scheduler.target.lockstep > 1:
        share_out(scheduler)
    else:
        _Heuristics(scheduler).run()


class _Panel(NamedTuple):
    """The copied part of an operand: `n_vectors` of lanes along `axis`, all that is reduced."""

    axis: UOp
    n_vectors: int


class _Heuristics:
    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.target = scheduler.target
        order = scheduler.sink.toposort()
        self.accesses = [n for n in order if n.op is Op.INDEX]
        self.written = {n.src[0] for n in order if n.op is Op.STORE}
        self.reduces = [n for n in order if n.op is Op.REDUCE]
        self.n_slow = sum(n.op in _SLOW and n.dtype.kind != "index" for n in order)
        axes = scheduler.axes
        results, self.private = _get_nests(scheduler.sink)
        self.outputs = [r for r in axes if r in results]
        self.work = _count_steps(scheduler.sink) * (1 + 8 * min(self.n_slow, 8))
        widest = max((n.dtype.itemsize for n in order if n.dtype.kind in ("int", "uint", "float")), default=1)
        self.lanes = max(self.target.vector_bits // (8 * widest), 1)

    def run(self) -> None:
        if not take_tensor_core(self.scheduler, self.work, MIN_THREADED_WORK):
            self._take_vectors()

    def _take_vectors(self) -> None:
        lane_axis = self._best_lane_axis(self.outputs, self.accesses)
        tiled = next((r for r in self.reduces if self._tile_axes(r, lane_axis)), None)
        panel = self._find_panel(tiled, lane_axis) if tiled is not None else None
        if panel is not None:
            lane_axis = panel.axis
            self._put_outside_rows(panel.axis, tiled)
        elif tiled is not None:
            self._order_loops(tiled)
        if lane_axis is not None:
            n_vectors = self._count_vectors(lane_axis, is_tiled=tiled is not None) if panel is None else panel.n_vectors
            self._take_outputs(lane_axis, self.lanes * n_vectors)
        elif not self.reduces:
            self._take_squares()
        for nest in self.private:
            axis = self._best_lane_axis(list(nest.src[1:]), [n for n in nest.src[0].toposort() if n.op is Op.INDEX])
            if axis is not None and not (lane_axis is not None and lane_axis in nest.ranges):
                self._take_outputs(axis, self.lanes * self._count_vectors(axis, is_tiled=False))
        self._take_reduced_lanes(lane_axis, tiled)
        if tiled is not None:
            self._take_tiles(tiled, lane_axis, 2 if panel is None else panel.n_vectors)
        if not self.target.has_local:
            self._take_threads()
        if panel is not None:
            self._pack(panel.axis)

    def _find_panel(self, reduce: UOp, lane_axis: UOp | None) -> _Panel | None:
        """The output axis of a large product along which to copy one operand, panel by panel, to private memory.

        A panel is read in order, again for each tile of the other operand's rows, so that neither the
        strides of the operand nor its size matter any more. Copying costs the less, the more such rows
        there are; results that do not lie along the panel are stored one by one, which a long reduction
        makes up for.
        """
        loads = [n for n in self._loads(reduce) if n.ranges & set(reduce.src[1:])]
        if len(loads) != 2 or self._is_short_and_deep(reduce, loads):
            return None
        n_reduced = max_trips(*reduce.src[1:])
        column_bytes = n_reduced * reduce.dtype.itemsize
        limit = min(max(self.target.l2_bytes // 2, self.target.l1_bytes), MAX_PANEL_BYTES)
        fitting = limit // (column_bytes * self.lanes)
        outside = [n for n in self.accesses if not n.ranges & set(reduce.src[1:])]
        best, least = None, self._cost_in_place(lane_axis, loads, column_bytes)
        for axis in sorted(self.outputs, key=lambda a: not self._is_stored_along(a)):
            packed = [n for n in loads if axis in n.ranges]
            n_rows = prod(
                max_trips(a) for a in self.outputs if a in reduce.ranges and not any(a in n.ranges for n in packed)
            )
            size = max_size(exact_trips(axis))
            if len(packed) != 1 or n_rows < MIN_PACKED_ROWS or size < self.lanes * self._count_least_panels(reduce):
                continue
            is_along = find_stride(packed[0].src[1], axis) == 1
            # Rows that are copied across are as many streams of memory: fewer of them stay in the cache together.
            n_vectors = min(fitting, self._count_accumulators() // TILED_ROWS if is_along else 2)
            panel = _Panel(axis, self._count_panel_vectors(size, min(n_vectors, max(size // (2 * self.lanes), 1))))
            n_single = sum(find_stride(n.src[1], axis) not in (0, 1) for n in outside)
            copying = VECTOR_COPY_COST if is_along else SINGLE_COST * self.lanes
            cost = copying / n_rows + SINGLE_COST * n_single * self.lanes / n_reduced
            if panel.n_vectors > 0 and cost < least:
                best, least = panel, cost
        return best

    def _count_panel_vectors(self, size: int, most: int) -> int:
        """How wide panels of an axis are, at most: wide ones load less for a product, narrow ones overlap less at the end."""
        widths = [1 << i for i in range(most.bit_length())]
        return min(
            reversed(widths), default=0, key=lambda n: -(-size // (n * self.lanes)) * n * (1 + LOADS_OF_A_VECTOR / n)
        )

    def _is_short_and_deep(self, reduce: UOp, loads: list[UOp]) -> bool:
        """Whether both operands of a product of few rows or columns lie along a long reduced axis, whose lanes need no copy."""
        used = [a for a in self.outputs if a in reduce.ranges]
        is_short = any(max_trips(*(a for a in used if a not in n.ranges)) < FEW_ROWS for n in loads)
        return is_short and any(
            r.arg.kind is AxisType.REDUCE
            and max_trips(r) >= MIN_DEEP_VECTORS * self.lanes
            and all(find_stride(n.src[1], r) == 1 for n in loads)
            for r in reduce.src[1:]
        )

    def _count_least_panels(self, reduce: UOp) -> int:
        """A single panel is for all results: it can be copied only if there is a loop around those that use it."""
        return 1 if sum(a in reduce.ranges for a in self.outputs) > 2 else 2

    def _cost_in_place(self, axis: UOp | None, loads: list[UOp], column_bytes: int) -> float:
        """What taking lanes along `axis` without a copy adds to the work of a product, as a part of that work."""
        if axis is None or column_bytes * max_trips(axis) > self.target.l2_bytes // 2:
            return inf
        # Lanes stay idle where the axis ends.
        size = int(axis.src[0].vmin)
        widths = [self.lanes >> i for i in range(self.lanes.bit_length()) if self.lanes >> i <= size]
        idle = min((-(-size // w) * self.lanes / size for w in widths), default=self.lanes) - 1
        n_apart = sum(find_stride(n.src[1], axis) not in (0, 1) for n in loads)
        return idle + SINGLE_COST * n_apart

    def _pack(self, axis: UOp) -> None:
        """Pack in the loop over the panels; where there is one panel for all, or for each thread, in the outermost loop."""
        axes = self.scheduler.axes
        position = next((i for i, r in enumerate(axes) if r.arg == axis.arg), None)
        if position is None:
            position = next((i for i, r in enumerate(axes) if r.arg.kind in (AxisType.THREAD, AxisType.LOOP)), None)
        if position is not None:
            self.scheduler.try_opt(Opt(OptOp.PACK, position))

    def _put_outside_rows(self, axis: UOp, reduce: UOp | None) -> None:
        """Swap the loops that choose a panel outwards, past those over the rows that use it."""
        assert reduce is not None
        panel = next(n for n in self._loads(reduce) if axis in n.ranges)
        has_moved = True
        while has_moved:
            has_moved = False
            for position in range(self._position(axis)):
                outer, inner = self.scheduler.axes[position : position + 2]
                if outer not in panel.ranges and inner in panel.ranges:
                    has_moved |= self.scheduler.try_opt(Opt(OptOp.SWAP, position, position + 1))

    def _best_lane_axis(self, axes: list[UOp], accesses: list[UOp]) -> UOp | None:
        """The axis along which all accesses that depend on it are near each other, with the most to gain."""
        best: UOp | None = None
        most = 0.0
        for axis in axes:
            costs = [
                access_cost(n, axis, self.lanes, is_read=n not in self.written) for n in accesses if axis in n.ranges
            ]
            gain = len(costs) - sum(costs)
            if (
                int(axis.vmax) > 0
                and max(costs, default=2) <= 1
                and gain >= most
                and gain > 0
                and all(self._can_gather(n) for n in accesses if find_stride(n.src[1], axis) is None)
            ):
                best, most = axis, gain
        return best

    def _can_gather(self, access: UOp) -> bool:
        return self.target.has_gather and access.dtype.itemsize >= MIN_GATHERED_BYTES

    def _count_vectors(self, axis: UOp, *, is_tiled: bool) -> int:
        """How many vectors of outputs to compute at a time, so that their latencies overlap."""
        if is_tiled:
            return 2
        if any(axis in r.ranges for r in self.reduces):
            return 8
        return 1 if self.n_slow > 2 else 2 if self.n_slow else 4

    def _take_outputs(self, axis: UOp, amount: int) -> None:
        """Take `amount` outputs along `axis` at a time, or as many (a power of two) as it has."""
        shortest = max(int(axis.src[0].vmin), 1)
        if shortest < self.lanes and not isinstance(exact_trips(axis), int) and self._take_masked(axis, amount):
            return
        while amount > shortest:
            amount //= 2
        while amount > 1:
            position = self._position(axis)
            if any(self.scheduler.try_opt(Opt(op, position, amount)) for op in (OptOp.UPCAST, OptOp.OVERLAP)):
                return
            amount //= 2

    def _take_masked(self, axis: UOp, amount: int) -> bool:
        """Take `amount` outputs at a time along an axis that may be shorter than a vector; the last ones are masked."""
        while amount > self.lanes and amount * 4 > max_trips(axis):
            amount //= 2
        return amount <= max_trips(axis) and self._mask_and_take(axis, amount)

    def _mask_and_take(self, axis: UOp, amount: int) -> bool:
        opts = [Opt(op, self._position(axis), amount) for op in (OptOp.PADTO, OptOp.UPCAST)]
        return self.target.has_masked_access and all(self.scheduler.try_opt(opt) for opt in opts)

    def _take_reduced_lanes(self, lane_axis: UOp | None, tiled: UOp | None) -> None:
        done: set[UOp] = set()
        for reduce in self.reduces:
            if lane_axis is not None and lane_axis in reduce.ranges:
                continue
            accesses = [n for n in reduce.src[0].toposort() if n.op is Op.INDEX]
            candidates = [r for r in reduce.src[1:] if r.arg.kind is AxisType.REDUCE and r not in done]
            axis = self._best_lane_axis(candidates, accesses)
            if axis is None:
                continue
            done.add(axis)
            n_vectors = 1 if tiled is reduce else 2 if self.n_slow else 4
            amount = self.lanes * n_vectors
            # Two rounds at least, so that what is left over is no longer than what is taken; one vector if need be.
            while amount > self.lanes and amount * 2 > max_trips(axis):
                amount //= 2
            while amount > max_trips(axis):
                amount //= 2
            if amount > 1:
                self.scheduler.try_opt(Opt(OptOp.UNROLL, self._reduced_position(axis), amount))

    def _take_squares(self) -> None:
        """Tile a transposition: each cache line of both sides is then used as a whole while it is near."""
        stores = [n.src[0] for n in self.scheduler.sink.iter_ops(Op.STORE)]
        written = next((a for a in self.outputs if any(find_stride(n.src[1], a) == 1 for n in stores)), None)
        read = next(
            (a for a in self.outputs if a is not written and any(find_stride(n.src[1], a) == 1 for n in self.accesses)),
            None,
        )
        if written is not None and read is not None:
            self._take_outputs(read, TRANSPOSED_TILE)
            self._take_outputs(written, TRANSPOSED_TILE)

    def _tile_axes(self, reduce: UOp, lane_axis: UOp | None) -> list[UOp]:
        """Output axes along which some load of the reduction is the same: taking several shares that load."""
        loads = [n for n in reduce.src[0].toposort() if n.op is Op.INDEX]
        ranges = set(reduce.src[1:])
        loads = [n for n in loads if n.ranges & ranges]
        if len(loads) < 2:
            return []
        shared = [
            a
            for a in self.outputs
            if a is not lane_axis and a in reduce.ranges and any(a not in n.ranges for n in loads)
        ]
        # First the axis along which results are stored consecutively: its tile can become lanes after the reduction.
        # Then those whose tile shares a load in vectors rather than one of a single element.
        vectors = [n for n in loads if lane_axis in n.ranges]
        return sorted(
            shared,
            key=lambda a: (not self._is_stored_along(a), any(a in n.ranges for n in vectors), -int(a.vmax)),
        )[:2]

    def _is_stored_along(self, axis: UOp) -> bool:
        return any(find_stride(n.src[0].src[1], axis) == 1 for n in self.scheduler.sink.iter_ops(Op.STORE))

    def _order_loops(self, reduce: UOp) -> None:
        """Put the longer of two tiled loops outside: the smaller operand is the one to walk through again and again."""
        inside = [a for a in self.outputs if a in reduce.ranges and any(a not in n.ranges for n in self._loads(reduce))]
        if len(inside) < 2:
            return
        first, second = inside[-2:]
        if int(second.vmax) > int(first.vmax):
            self.scheduler.try_opt(Opt(OptOp.SWAP, self._position(first), self._position(second)))

    def _loads(self, reduce: UOp) -> list[UOp]:
        return [n for n in reduce.src[0].toposort() if n.op is Op.INDEX]

    def _take_tiles(self, reduce: UOp, lane_axis: UOp | None, n_vectors: int) -> None:
        n_accumulators = self._count_accumulators()
        axes = self._tile_axes(reduce, lane_axis)
        if lane_axis is not None and lane_axis in reduce.ranges:
            axes = axes[:1]
            wanted = [n_accumulators // n_vectors]
        elif len(axes) == 1:
            wanted = [4]
        else:
            wanted = [4, n_accumulators // 4]
        for axis, amount in zip(axes, wanted, strict=False):
            self._take_tile(axis, amount)

    def _count_accumulators(self) -> int:
        """Accumulators fill the registers but for the operands of one step."""
        return self.target.vector_registers - (4 if self.target.vector_registers <= 16 else 8)

    def _take_tile(self, axis: UOp, amount: int) -> None:
        """Take `amount` outputs along `axis`, or the largest part of it that divides a short axis."""
        size = exact_trips(axis)
        position = self._position(axis)
        choices = [Opt(OptOp.OVERLAP, position, amount)]
        if isinstance(size, int):
            divisors = [n for n in range(amount, max(amount // 2, 2), -1) if size % n == 0]
            exact = [Opt(OptOp.UPCAST, position, n) for n in divisors[:1]]
            # On a long axis, a few outputs computed twice cost less than a tile that fills fewer registers.
            choices = (
                [*choices, *exact] if size >= LONG_AXIS * amount and amount not in divisors else [*exact, *choices]
            )
            if size <= amount:
                choices = [Opt(OptOp.UPCAST, position, 0)]
        for opt in choices:
            if self.scheduler.try_opt(opt):
                return
        if not isinstance(size, int) and max_size(size) >= amount:
            self._mask_and_take(axis, amount)

    def _take_threads(self) -> None:
        n_threads = self.target.cores
        if n_threads < 2 or self.work < MIN_THREADED_WORK:
            return
        results, _ = _get_nests(self.scheduler.sink)
        loops = [r for r in self.scheduler.axes if r in results and int(r.src[0].vmin) >= n_threads]
        # The outermost loop that can be split evenly, or is so long that a part more or less does not matter.
        for axis in sorted(loops, key=lambda r: not _splits_well(r, n_threads)):
            if self.scheduler.try_opt(Opt(OptOp.THREAD, self._position(axis), n_threads)):
                return

    def _position(self, axis: UOp) -> int:
        """Where the loop that carries on `axis` stands now."""
        return next(i for i, r in enumerate(self.scheduler.axes) if r.arg == axis.arg)

    def _reduced_position(self, axis: UOp) -> int:
        return next(i for i, r in enumerate(self.scheduler.reduced_axes) if r.arg == axis.arg)


def _get_nests(sink: UOp) -> tuple[set[UOp], list[UOp]]:
    """The loops over results, and the ENDs of the loops that fill the thread's own memory."""
    results: set[UOp] = set()
    own: list[UOp] = []
    outer = set(sink.src)
    for node in sink.iter_ops(Op.END):
        if node in outer:
            results.update(r for r in node.src[1:] if r.arg.kind is AxisType.LOOP)
        else:
            own.append(node)
    return results, own


def _count_steps(sink: UOp) -> int:
    """How often the bodies of all loops run; loops that stand side by side add up."""
    nests = (node.ranges.union(node.src[1:]) for node in sink.iter_ops(Op.END, Op.REDUCE))
    return sum(max_trips(*nest) for nest in nests)


def _splits_well(r: UOp, n_parts: int) -> bool:
    size = exact_trips(r)
    return isinstance(size, int) and (size % n_parts == 0 or size >= 4 * n_parts)
