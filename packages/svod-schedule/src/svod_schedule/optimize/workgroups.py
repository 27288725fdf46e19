"""Heuristics for machines that run the members of a workgroup in step: a good sequence of Opts for a kernel.

What members that are neighbours read and write at once has to lie side by side, since memory is moved by the line. So

- a product of two operands is taken in tiles: a workgroup's members have a small tile each, and read their operands from
  shared memory, to which they copied them together;
- a reduction along memory is shared by members, neighbours taking neighbouring elements, who meet in shared memory;
- a reduction across memory, and whatever is computed element by element, gives neighbouring results to neighbours;
- a transposition is taken in squares, so that both sides are used by whole lines.

Axes that nothing divides are rounded up and masked at their end. A core that runs members one after the other gains nothing
from all this: for such ones, the heuristics are those of other processors.
"""

from __future__ import annotations

from svod_ir.args import Opt, OptOp
from svod_ir.ops import AxisType, Op
from svod_ir.trips import exact_trips, max_trips
from svod_ir.uop import UOp
from svod_schedule.linear_index import find_stride
from svod_schedule.optimize.scheduler import Scheduler

__all__ = ["share_out"]

N_STEPS = 8
"""How many times as many members as run in step a workgroup has, so that some compute while others wait."""

N_GROUPS = 2
"""How many workgroups there should be for each core before members get more to do."""

TILES = ((8, 8), (8, 4), (4, 4), (2, 4), (2, 2), (1, 1))
"""Rows and columns of a product that a member computes."""

DEPTHS = (16, 8, 4)
"""Steps of a product for which tiles are copied at a time."""

MIN_SIDE = 16
"""Products with fewer rows or columns than this are reductions that read one operand again."""

SEGMENT_BYTES = 32
"""What is moved at least where a line of memory is used in part."""


def share_out(scheduler: Scheduler) -> None:
    """Choose Opts for the kernel of `scheduler`, to be run by members in step, and apply them."""
    _Chooser(scheduler).run()


class _Chooser:
    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler, self.target = scheduler, scheduler.target
        order = scheduler.sink.toposort()
        self.results = _get_results(scheduler.sink)
        self.stores = [n.src[0] for n in order if n.op is Op.STORE]
        self.accesses = [n for n in order if n.op is Op.INDEX]
        self.reduces = [n for n in order if n.op is Op.REDUCE]
        widest = max((n.dtype.itemsize for n in self.accesses), default=4)
        self.lanes = max(self.target.vector_bits // (8 * widest), 1)
        self.itemsize = widest
        self.n_results = max_trips(*self.results)
        # Few results are spread over all cores before a workgroup gets more members than run in step.
        wanted = min(N_STEPS * self.target.lockstep, self.n_results // self.target.cores)
        self.n_members = min(1 << max(wanted, self.target.lockstep).bit_length() - 1, self.target.max_local)

    def run(self) -> None:
        """The first of these that fits the kernel."""
        if not self.reduces:
            _ = self._take_squares() or self._take_elements()
        elif not any(self._take_product(r) for r in self.reduces):
            reduce = self.reduces[0]
            _ = self._share_reduction(reduce) or self._take_columns(reduce)

    # --- products

    def _take_product(self, reduce: UOp) -> bool:
        sides = self._find_sides(reduce)
        if sides is None or not self.target.has_shared:
            return False
        rows, columns = sides
        side = 1 << (min(N_STEPS * self.target.lockstep, self.target.max_local).bit_length() - 1) // 2
        n_rows, n_columns = self._choose_tile(rows, columns, side)
        self._take_tile(rows, side, n_rows, n_rows)
        self._take_tile(columns, side, n_columns, min(n_columns, self.lanes))
        self._share_tiles(reduce)
        return True

    def _choose_tile(self, rows: UOp, columns: UOp, side: int) -> tuple[int, int]:
        """The largest tile of a member for which there are enough workgroups of `side` x `side` members."""
        n_others = self.n_results // (max_trips(rows) * max_trips(columns))
        for n_rows, n_columns in TILES:
            n_tiles = -(-max_trips(rows) // (side * n_rows)) * -(-max_trips(columns) // (side * n_columns))
            if n_tiles * n_others >= N_GROUPS * self.target.cores:
                return n_rows, n_columns
        return TILES[-1]

    def _find_sides(self, reduce: UOp) -> tuple[UOp, UOp] | None:
        """The longest results' axes that only one and only the other operand of a product depends on; columns are stored in rows."""
        loads = [n for n in reduce.src[0].toposort() if n.op is Op.INDEX and n.ranges & set(reduce.src[1:])]
        if len(loads) != 2 or max_trips(*reduce.src[1:]) < MIN_SIDE:
            return None
        sides: list[UOp] = []
        for own, other in (loads, loads[::-1]):
            axes = [r for r in self.results if r in own.ranges and r not in other.ranges and max_trips(r) >= MIN_SIDE]
            stored = [r for r in axes if self._is_stored_along(r)]
            if not axes:
                return None
            sides.append((stored or sorted(axes, key=max_trips))[-1])
        first, second = sides
        return (second, first) if self._is_stored_along(first) else (first, second)

    def _take_tile(self, axis: UOp, n_members: int, amount: int, n_neighbours: int) -> None:
        """Give each of `n_members` as many results along `axis`, `n_neighbours` of them side by side."""
        if not self._divides(axis, n_members * amount):
            self._try(OptOp.PADTO, axis, n_members * amount)
        if n_neighbours > 1:
            self._try(OptOp.UPCAST, axis, n_neighbours)
        self._try(OptOp.LOCAL, axis, n_members)
        if amount > n_neighbours:
            self._try(OptOp.UPCAST, axis, amount // n_neighbours)

    def _share_tiles(self, reduce: UOp) -> None:
        """Take several steps of the longest reduced axis at a time, as many as shared memory has room for."""
        numbers = {r.arg.id for r in reduce.src[1:]}
        longest = max(reduce.src[1:], key=max_trips)
        before = self.scheduler.copy()
        for depth in DEPTHS:
            if depth <= max_trips(longest) and self._try_reduced(OptOp.UNROLL, longest, depth):
                for position, r in enumerate(self.scheduler.axes):
                    is_own = r.arg.kind is AxisType.REDUCE and r.arg.id in numbers
                    if is_own and self.scheduler.try_opt(Opt(OptOp.PACK, position)):
                        return
            self.scheduler.restore(before)

    # --- reductions

    def _share_reduction(self, reduce: UOp) -> bool:
        """Give neighbouring elements of a reduction along memory to neighbours, as vectors where rows are of whole ones."""
        loads = [n for n in reduce.src[0].toposort() if n.op is Op.INDEX]
        along = [r for r in reduce.src[1:] if isinstance(exact_trips(r), int) and _moves_along(loads, r)]
        if not along or not self.target.has_shared:
            return False
        axis, before = max(along, key=max_trips), self.scheduler.copy()
        lanes = self.lanes
        while lanes > 1 and max_trips(axis) % (lanes * min(self.target.lockstep, max(max_trips(axis) // lanes, 1))):
            lanes //= 2
        n_steps = max_trips(axis) // lanes
        # Members have two steps at least, so that not all they do is to meet.
        most = min(N_STEPS * self.target.lockstep, self.target.max_local, max(n_steps // 2, 1))
        amount = _power_of_two_in(n_steps, most)
        is_done = True
        if amount < min(self.target.lockstep, most // 2):
            lanes, amount = 1, 1 << most.bit_length() - 1
            is_done = self._try(OptOp.PADTO, axis, amount)
        if is_done and lanes > 1:
            is_done = self._try_reduced(OptOp.UNROLL, axis, lanes)
        if is_done and amount > 1 and self._try_reduced(OptOp.GROUP, axis, amount):
            self._take_members(self.n_members // amount)
            return True
        self.scheduler.restore(before)
        return False

    def _take_columns(self, reduce: UOp) -> None:
        """Give neighbouring results to members; where these are few, to those in step, and parts of the reduction to others."""
        wanted = self.target.lockstep * self.target.cores * N_GROUPS * N_STEPS // max(self.n_results, 1)
        before = self.scheduler.copy()
        if wanted > 1:
            self._take_members(self.target.lockstep)
            for axis in sorted(reduce.src[1:], key=max_trips, reverse=True):
                size = exact_trips(axis)
                amount = _power_of_two_in(size, min(wanted, N_STEPS)) if isinstance(size, int) else 1
                if amount > 1 and self._try_reduced(OptOp.GROUP, axis, amount):
                    return
        self.scheduler.restore(before)
        self._take_members(self.n_members)

    # --- elementwise

    def _take_squares(self) -> bool:
        """Take squares of a transposition, whose sides are what memory moves at least."""
        written = next((a for a in self.results if self._is_stored_along(a)), None)
        if written is None:
            return False
        loads = [n for n in self.accesses if n not in self.stores]
        turned = [
            a
            for a in self.results
            if a is not written
            and any(find_stride(n.src[1], a) == 1 and find_stride(n.src[1], written) not in (0, 1) for n in loads)
        ]
        if not turned:
            return False
        amount = min(SEGMENT_BYTES // self.itemsize, 8)
        if not all(self._divides(a, amount) for a in (turned[0], written)):
            return False
        for axis in (turned[0], written):
            self._try(OptOp.UPCAST, axis, amount)
        for axis in (turned[0], written):
            n_members = _power_of_two_in(max_trips(axis) // amount, 1 << (self.n_members.bit_length() - 1) // 2)
            if n_members > 1:
                self._try(OptOp.LOCAL, axis, n_members)
        return True

    def _take_elements(self) -> None:
        axis = next((a for a in reversed(self.results) if self._is_stored_along(a)), None)
        if axis is not None and self._divides(axis, self.lanes) and self.lanes > 1:
            strides = [find_stride(n.src[1], axis) for n in self.accesses]
            if all(s in (0, 1) for s in strides) and self.n_results >= self.lanes * self.n_members:
                self._try(OptOp.UPCAST, axis, self.lanes)
        self._take_members(self.n_members)

    # --- parts of them

    def _take_members(self, left: int) -> None:
        """Give up to `left` neighbouring results to members, along the innermost loops; a long one that nothing divides is masked."""
        for loop in reversed(_get_results(self.scheduler.sink)):
            size = exact_trips(loop)
            if left < 2:
                return
            if isinstance(size, int) and size <= left:
                amount = size
            else:
                amount = _power_of_two_in(size, left) if isinstance(size, int) else 1
                if amount < min(left, self.target.lockstep) and self._try(OptOp.PADTO, loop, left):
                    amount = left
            if amount > 1 and self._try(OptOp.LOCAL, loop, amount):
                left //= amount

    def _is_stored_along(self, axis: UOp) -> bool:
        return any(find_stride(n.src[1], axis) == 1 for n in self.stores)

    def _divides(self, axis: UOp, amount: int) -> bool:
        size = exact_trips(axis)
        return isinstance(size, int) and size % amount == 0

    def _try(self, op: OptOp, axis: UOp, amount: int) -> bool:
        """Apply an Opt to the loop that carries on `axis`."""
        position = next((i for i, r in enumerate(self.scheduler.axes) if r.arg == axis.arg), None)
        return position is not None and self.scheduler.try_opt(Opt(op, position, amount))

    def _try_reduced(self, op: OptOp, axis: UOp, amount: int) -> bool:
        position = next((i for i, r in enumerate(self.scheduler.reduced_axes) if r.arg == axis.arg), None)
        return position is not None and self.scheduler.try_opt(Opt(op, position, amount))


def _get_results(sink: UOp) -> list[UOp]:
    """The loops over results, from outer to inner."""
    nests = [node.src[1:] for node in sink.src if node.op is Op.END]
    return [r for nest in nests for r in nest if r.arg.kind is AxisType.LOOP]


def _moves_along(loads: list[UOp], axis: UOp) -> bool:
    """Whether loads that depend on `axis` walk through memory along it."""
    strides = [find_stride(n.src[1], axis) for n in loads if axis in n.ranges]
    return bool(strides) and all(s in (1, -1) for s in strides)


def _power_of_two_in(size: int, most: int) -> int:
    """The largest power of two that divides `size` and is at most `most`."""
    amount = 1 << max(most, 1).bit_length() - 1
    while size % amount:
        amount //= 2
    return amount
