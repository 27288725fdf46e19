"""`Scheduler`: one kernel, and the transformations (`Opt`s) that may be applied to it.

An `Opt` refers to an axis by its index in `Scheduler.axes` (UPCAST, LOCAL, THREAD, PADTO, OVERLAP,
ALIGN, SWAP, SPLIT, PACK) or among the reduced axes (UNROLL, GROUP, GROUPTOP). An amount of 0 means the
whole axis. An Opt whose precondition does not hold raises `OptError` and leaves the kernel
unchanged; `applied_opts` replays to the same kernel.

    UPCAST(a, n)    compute n results along axis a per iteration, as vector lanes or as a register tile
    OVERLAP(a, n)   the same for an axis that n does not divide: the last tile is shifted back to end at
                    the end of the axis, so a few results are computed twice
    ALIGN(a, n)     the same for rows that do not begin at a multiple of a vector in memory: all tiles but the first
                    and the last are stored at one
    UNROLL(a, n)    reduce n elements per iteration, with a tail loop for the remainder
    PACK(a), PACK() copy the operands that the inner loops read repeatedly in one iteration of loop a, or in the whole
                    work of a thread, to private memory (panel packing). With work-items, copy the tiles that they
                    have in common in one iteration of the reduced loop a to shared memory
    SPLIT(a, n)     block loop a: n of its iterations become the innermost loop of the nest, for locality
    PADTO(a, n)     pad the axis to a multiple of n and mask the accesses beyond its end
    THREAD(a, n)    split the axis into n parts for CPU threads
    LOCAL(a, n)     n work-items along axis a
    GROUP(a, n), GROUPTOP(a, n)   n work-items share a reduction (inner or outer part of the axis)
    SWAP(a, b)      interchange two loops
    TC(a, n)        compute a product on tensor core n of the target, in its a-th layout, the best first
                    (`tensor_cores.py`)
    NOLOCALS        forbid workgroups from here on
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from svod_ir import (
    AxisType,
    FreshIds,
    KernelInfo,
    Op,
    Opt,
    OptOp,
    SInt,
    Target,
    TensorCore,
    UOp,
    exact_trips,
    format_size,
)
from svod_ir.sizes import divide_size, max_size, normalize_size
from svod_ir.uop import to_node
from svod_schedule._loops import mask_accesses, replace_range
from svod_schedule.errors import OptError
from svod_schedule.lower.vectors.products import is_tiled
from svod_schedule.optimize.opts.axes import (
    exchange_loops,
    find_misalignment,
    list_axes,
    split_off_tail,
)
from svod_schedule.optimize.opts.grid import spread_over_grid
from svod_schedule.optimize.opts.pack import NO_NEST, pack_operands
from svod_schedule.optimize.opts.shared_tiles import share_tiles
from svod_schedule.optimize.opts.tensor_cores import Layout, get_layouts, take_depth, take_tile
from svod_schedule.optimize.opts.workgroup_limits import describe_excess

__all__ = ["Scheduler"]

# Bounds on the code size of an unrolled loop, and on an amount of SPLIT.
MAX_UNROLL = 256
MAX_SPLIT = 1 << 20

_OUTPUT = (AxisType.GLOBAL, AxisType.LOOP, AxisType.LOCAL)
_REDUCED = (AxisType.REDUCE, AxisType.GROUP_REDUCE)


class Scheduler:
    """A kernel under optimization: `sink`, the `target`, and the `applied_opts` so far."""

    def __init__(self, sink: UOp, target: Target) -> None:
        self.sink = sink
        self.target = target
        self.applied_opts: list[Opt] = []
        self.has_locals_forbidden = False
        # The kernel with its nodes and axes: a cache, since opts replace `sink` as a whole.
        self._known: tuple[UOp, list[UOp], list[UOp]] = sink, [], []

    def copy(self) -> Scheduler:
        """Return an independent scheduler in the same state (graphs are shared)."""
        copied = Scheduler(self.sink, self.target)
        copied.applied_opts = list(self.applied_opts)
        copied.has_locals_forbidden, copied._known = self.has_locals_forbidden, self._known
        return copied

    def restore(self, earlier: Scheduler) -> None:
        """Restore the state of an earlier copy."""
        self.sink, self.applied_opts = earlier.sink, list(earlier.applied_opts)
        self.has_locals_forbidden = earlier.has_locals_forbidden

    @property
    def axes(self) -> list[UOp]:
        """All RANGEs: by rank of their kind, then from outer to inner loop."""
        return self._know()[2]

    @property
    def _order(self) -> list[UOp]:
        """All nodes, operands first."""
        return self._know()[1]

    def _know(self) -> tuple[UOp, list[UOp], list[UOp]]:
        if self._known[0] is not self.sink or not self._known[1]:
            order = self.sink.toposort()
            self._known = self.sink, order, list_axes(order)
        return self._known

    @property
    def reduced_axes(self) -> list[UOp]:
        """The axes of reductions, in the order of `axes`."""
        return [r for r in self.axes if r.arg.kind in _REDUCED]

    @property
    def shape(self) -> list[SInt]:
        """The trip count of each axis, symbolic ones as nodes."""
        return [exact_trips(r) for r in self.axes]

    def kernel_name(self) -> str:
        """Return the name: `r_` for a reduction or `E_`, then a letter and the size of each axis (`v`
        if it is symbolic).
        """
        prefix = (
            "r"
            if any(
                r.arg.kind in (*_REDUCED, AxisType.UNROLL, AxisType.TILE_K, AxisType.SCAN)
                for r in self.axes
            )
            else "E"
        )
        parts = [
            f"{r.arg.kind.letter}{size if isinstance(size := exact_trips(r), int) else 'v'}"
            for r in self.axes
        ]
        return "_".join([prefix, *parts])

    def finish(self) -> UOp:
        """Return the kernel, mapped to the target's grid if it has one, with its name and opts in
        the SINK.
        """
        # The mapping to the grid is no Opt: further Opts still find the loops as they were.
        spread = self.copy()
        spread.sink = spread_over_grid(self.sink, self.target)
        return spread.sink.with_arg(KernelInfo(spread.kernel_name(), tuple(self.applied_opts)))

    def apply_opt(self, opt: Opt) -> None:
        """Transform the kernel.

        Raises:
            OptError: if the kernel or the target does not allow it; the kernel is then unchanged.
        """
        apply = self._table()[opt.op]
        sink = apply(opt)
        # Any Opt may add work-items or shared memory, so the limits are checked here once for all.
        # The state is changed only after the last check.
        excess = describe_excess(sink, self.target) if self.target.has_local else ""
        if excess:
            raise OptError(opt=opt, reason=excess)
        self.sink = sink
        self.applied_opts.append(opt)

    def try_opt(self, opt: Opt) -> bool:
        """Apply `opt` if it is allowed; return whether it was."""
        try:
            self.apply_opt(opt)
        except OptError:
            return False
        return True

    def _table(self) -> dict[OptOp, Callable[[Opt], UOp]]:
        return {
            OptOp.UPCAST: self._upcast,
            OptOp.OVERLAP: self._overlap,
            OptOp.ALIGN: self._align,
            OptOp.UNROLL: self._unroll,
            OptOp.PACK: self._pack,
            OptOp.SPLIT: self._split_loop,
            OptOp.PADTO: self._pad_to,
            OptOp.THREAD: self._thread,
            OptOp.LOCAL: self._local,
            OptOp.GROUP: lambda opt: self._group(opt, is_top=False),
            OptOp.GROUPTOP: lambda opt: self._group(opt, is_top=True),
            OptOp.SWAP: self._swap,
            OptOp.TC: self._tensor_core,
            OptOp.NOLOCALS: self._forbid_locals,
        }

    def _axis(
        self, opt: Opt, axes: list[UOp], kinds: Iterable[AxisType], index: int | None = None
    ) -> UOp:
        """Return the axis that `opt` refers to, or the axis `index`."""
        index = opt.axis if index is None else index
        if index is None:
            raise OptError(opt=opt, reason="it needs an axis")
        if not 0 <= index < len(axes):
            raise OptError(
                opt=opt, reason=f"axis {index} is out of bounds for {len(axes)} such axes"
            )
        axis = axes[index]
        if axis.arg.kind not in kinds:
            expected = " or ".join(sorted(kind.name for kind in kinds))
            reason = f"axis {index} is {axis.arg.kind.name}, expected {expected}"
            raise OptError(opt=opt, reason=reason)
        return axis

    def _amount(self, opt: Opt, axis: UOp, limit: int) -> int:
        size = exact_trips(axis)
        amount = size if opt.amount == 0 else opt.amount
        if not isinstance(amount, int):
            raise OptError(
                opt=opt, reason="it needs an amount, since the axis has no constant size"
            )
        if not 1 < amount <= limit:
            raise OptError(opt=opt, reason=f"the amount {amount} is not between 2 and {limit}")
        return amount

    def _divided(self, opt: Opt, axis: UOp, limit: int) -> int:
        amount, size = self._amount(opt, axis, limit), exact_trips(axis)
        if divide_size(size, amount) is None:
            raise OptError(
                opt=opt, reason=f"{amount} does not divide the axis of {format_size(size)}"
            )
        return amount

    def _upcast(self, opt: Opt) -> UOp:
        axis = self._axis(opt, self.axes, _OUTPUT)
        amount = self._divided(opt, axis, self.target.max_upcast)
        self._check_no_row(opt, axis)
        return self._split(axis, amount, AxisType.UPCAST)

    def _overlap(self, opt: Opt) -> UOp:
        axis, amount = self._check_overlap(opt)
        # A single tile overlaps nothing: its index stays affine, without a MIN.
        if exact_trips(axis) == amount:
            return self._split(axis, amount, AxisType.UPCAST)
        return self._tile_with_overlap(axis, amount, AxisType.UPCAST)

    def _check_overlap(self, opt: Opt) -> tuple[UOp, int]:
        """Return the axis and the amount of an Opt whose tiles overlap."""
        axis = self._axis(opt, self.axes, _OUTPUT)
        amount = self._amount(opt, axis, self.target.max_upcast)
        self._check_repeatable(opt, axis)
        self._check_no_row(opt, axis)
        if int(axis.stop.vmin) < amount:
            raise OptError(opt=opt, reason=f"the axis may be shorter than {amount}")
        return axis, amount

    def _align(self, opt: Opt) -> UOp:
        axis, amount = self._check_overlap(opt)
        stores = [n.location for n in self._order if n.op is Op.STORE]
        misalignment = find_misalignment(stores, axis, self.target)
        if misalignment is None:
            raise OptError(opt=opt, reason="all its results are stored at whole vectors, or none")
        nests = (n.ranges.union(n.loops) for n in self._order if n.op is Op.END)
        if any(axis in nest and not misalignment.ranges <= nest for nest in nests):
            raise OptError(opt=opt, reason="it is shared by loops over other rows")
        return self._tile_with_overlap(axis, amount, AxisType.UPCAST, misalignment)

    def _check_no_row(self, opt: Opt, axis: UOp) -> None:
        """Refuse an axis whose iterations reuse private or shared memory, which holds one row or tile
        at a time.
        """
        filled = {n.source.op for n in self._order if n.op is Op.AFTER and axis in n.ranges}
        if Op.DEFINE_REG in filled:
            raise OptError(opt=opt, reason="private memory holds one row at a time")
        if Op.DEFINE_LOCAL in filled:
            raise OptError(opt=opt, reason="shared memory holds one tile at a time")

    def _check_repeatable(self, opt: Opt, axis: UOp) -> None:
        """Refuse to compute results twice if that would change them."""
        if not self._is_repeatable(axis):
            raise OptError(opt=opt, reason="the kernel reads what it writes")

    def _is_repeatable(self, axis: UOp) -> bool:
        """Whether an iteration of `axis` may run twice: it reads nothing that it writes, except for
        private memory that it fills anew.
        """
        stores = [n for n in self._order if n.op is Op.STORE and axis in n.ranges]
        written = {n.location.memory.unordered for n in stores}
        return not any(
            n.op is Op.INDEX
            and n.memory.unordered in written
            and not _is_filled_anew(n.memory, axis)
            for node in UOp.sink(*stores).toposort()
            for n in (node.src[1:] if node.op is Op.STORE else node.src)
        )

    def _tile_with_overlap(
        self, axis: UOp, amount: int, kind: AxisType, shift: UOp | None = None
    ) -> UOp:
        """Tile an axis. Each tile begins `shift` elements before a multiple of `amount`, except for
        the first one.
        """
        size = axis.stop
        most = amount - 1 if shift is None else amount - 1 + int(shift.vmax)
        outer = axis.with_src(((size + most) // amount,))
        inner = FreshIds(self.sink).make_range(amount, kind)
        # The last tile is moved back; all tiles are whole, and need neither a mask nor a tail loop.
        start = outer * amount if shift is None else (outer * amount - shift).maximum(0)
        start = start.minimum(size - amount)
        return replace_range(self.sink, axis, start + inner, (outer, inner))

    def _unroll(self, opt: Opt) -> UOp:
        axis = self._axis(opt, self.reduced_axes, _REDUCED)
        self._check_no_row(opt, axis)
        amount, size = self._amount(opt, axis, MAX_UNROLL), exact_trips(axis)
        if max_size(size) < amount:
            raise OptError(
                opt=opt, reason=f"the axis of {format_size(size)} is shorter than {amount}"
            )
        rounds, tail = normalize_size(size // amount), normalize_size(size % amount)
        sink = self.sink
        # The tail becomes a loop of its own, so that the main loop has no mask.
        if not (isinstance(tail, int) and tail == 0):
            sink, axis = split_off_tail(sink, axis, normalize_size(rounds * amount), tail)
        inner = FreshIds(sink).make_range(amount, AxisType.UNROLL)
        if isinstance(rounds, int) and rounds == 1:
            return replace_range(sink, axis, inner, (inner,))
        outer = axis.with_src((to_node(rounds),))
        return replace_range(sink, axis, outer * amount + inner, (outer, inner))

    def _split_loop(self, opt: Opt) -> UOp:
        axis = self._axis(opt, self.axes, (AxisType.LOOP,))
        self._check_result_loop(opt, axis)
        self._check_no_row(opt, axis)
        amount, size = self._amount(opt, axis, MAX_SPLIT), axis.stop
        is_even = divide_size(exact_trips(axis), amount) is not None
        if not is_even:
            self._check_repeatable(opt, axis)
        if int(size.vmin) <= amount:
            raise OptError(opt=opt, reason=f"the axis may have a size of {amount} or less")
        outer = axis.with_src(((size + (amount - 1)) // amount,))
        inner = FreshIds(self.sink).make_range(amount, AxisType.LOOP)
        start = outer * amount if is_even else (outer * amount).minimum(size - amount)
        sink = replace_range(self.sink, axis, start + inner, (outer,))
        # A scan carries values from iteration to iteration, so its loop stays innermost.
        nests = (n for n in sink.src if n.op is Op.END and outer in n.loops)
        ends = {
            n: (n.body, *sorted((*n.loops, inner), key=lambda r: r.arg.kind is AxisType.SCAN))
            for n in nests
        }
        return sink.substitute({n: n.with_src(src) for n, src in ends.items()})

    def _pad_to(self, opt: Opt) -> UOp:
        axis = self._axis(opt, self.axes, (*_OUTPUT, *_REDUCED))
        amount = opt.amount
        if amount is None or amount < 2:
            raise OptError(opt=opt, reason="the amount is not at least 2")
        if any(axis in n.loops and is_tiled(n) for n in self.sink.iter_ops(Op.REDUCE)):
            raise OptError(opt=opt, reason="a tensor core takes the axis in whole steps")
        size = axis.stop
        padded = axis.with_src(((size + (amount - 1)) // amount * amount,))
        return mask_accesses(
            replace_range(self.sink, axis, padded, (padded,)), padded, padded < size
        )

    def _pack(self, opt: Opt) -> UOp:
        kinds = (AxisType.LOOP, AxisType.THREAD, AxisType.REDUCE)
        axis = None if opt.axis is None else self._axis(opt, self.axes, kinds)
        if axis is not None and axis.arg.kind is AxisType.REDUCE:
            packed = share_tiles(self.sink, axis, self.target)
        elif self.target.has_local:
            packed = NO_NEST
        else:
            packed = pack_operands(self.sink, axis, self.target.tensor_cores)
        if isinstance(packed, str):
            raise OptError(opt=opt, reason=packed)
        return packed

    def _thread(self, opt: Opt) -> UOp:
        axis = self._axis(opt, self.axes, (AxisType.LOOP,))
        if self.target.has_local or self.target.cores < 2:
            raise OptError(opt=opt, reason="THREAD needs a CPU target with at least two cores")
        self._check_result_loop(opt, axis)
        if any(r.arg.kind is AxisType.THREAD for r in self.axes):
            raise OptError(opt=opt, reason="the kernel has a THREAD axis already")
        amount, size = self._amount(opt, axis, self.target.max_parts), exact_trips(axis)
        if isinstance(size, int) and size % amount == 0:
            # A contiguous part for each thread: interleaved ones would share cache lines.
            return self._split(axis, amount, AxisType.THREAD, is_top=True)
        self._check_repeatable(opt, axis)
        if int(axis.stop.vmin) < amount:
            raise OptError(opt=opt, reason=f"the axis may be shorter than {amount}")
        # The last part is shifted back as an overlapping tile is. Two threads then write the same
        # elements, but equal values.
        part_size = (axis.stop + (amount - 1)) // amount
        outer = FreshIds(self.sink).make_range(amount, AxisType.THREAD)
        inner = axis.with_src((part_size,))
        return replace_range(
            self.sink,
            axis,
            (outer * part_size).minimum(axis.stop - part_size) + inner,
            (outer, inner),
        )

    def _local(self, opt: Opt) -> UOp:
        axis = self._axis(opt, self.axes, (AxisType.GLOBAL, AxisType.LOOP))
        self._check_locals(opt)
        self._check_result_loop(opt, axis)
        amount = self._divided(opt, axis, self.target.max_local)
        return self._split(axis, amount, AxisType.LOCAL)

    def _group(self, opt: Opt, *, is_top: bool) -> UOp:
        axis = self._axis(opt, self.reduced_axes, (AxisType.REDUCE,))
        self._check_locals(opt)
        if not self.target.has_shared:
            raise OptError(opt=opt, reason="the target has no shared memory")
        if any(o.op is OptOp.TC for o in self.applied_opts):
            raise OptError(opt=opt, reason="it does not follow TC")
        amount = self._divided(opt, axis, self.target.max_local)
        reduce = next(n for n in self.sink.iter_ops(Op.REDUCE) if axis in n.loops)
        if any(n.op is Op.REDUCE for n in reduce.source.toposort()):
            raise OptError(opt=opt, reason="the reduction contains another one")
        return self._split(axis, amount, AxisType.GROUP_REDUCE, is_top=is_top)

    def _check_result_loop(self, opt: Opt, axis: UOp) -> None:
        """Refuse a loop that does not enclose all effects, which each thread would run as a whole: it
        fills private memory, or is one of the parts that split-loops made.
        """
        if not all(n.op is Op.END and axis in n.loops for n in self.sink.src):
            raise OptError(opt=opt, reason=f"axis {opt.axis} is not a loop over all results")

    def _check_locals(self, opt: Opt) -> None:
        if not self.target.has_local:
            raise OptError(opt=opt, reason="the target has no workgroups")
        if self.has_locals_forbidden:
            raise OptError(opt=opt, reason="NOLOCALS was applied")
        if any(True for _ in self.sink.iter_ops(Op.DEFINE_LOCAL)):
            raise OptError(opt=opt, reason="PACK has distributed the tiles already")

    def _swap(self, opt: Opt) -> UOp:
        axes = self.axes
        first = self._axis(opt, axes, (AxisType.LOOP, AxisType.GLOBAL, AxisType.REDUCE))
        second = self._axis(opt, axes, (first.arg.kind,), opt.amount)
        if first is second:
            raise OptError(opt=opt, reason="both axes are the same")
        sink = exchange_loops(self.sink, first, second)
        if sink is self.sink:
            raise OptError(opt=opt, reason="the two axes are not loops of one nest")
        return sink

    def _tensor_core(self, opt: Opt) -> UOp:
        cores = self.target.tensor_cores
        if self.applied_opts:
            # Layouts are numbered for the kernel without Opts, so only there is the index of one
            # meaningful.
            raise OptError(opt=opt, reason="it must come first")
        core_index = opt.amount or 0
        if not 0 <= core_index < len(cores):
            raise OptError(
                opt=opt, reason=f"core {core_index} is out of bounds for {len(cores)} tensor cores"
            )
        layouts = get_layouts(self.sink, cores[core_index])
        if isinstance(layouts, str):
            raise OptError(opt=opt, reason=layouts)
        if opt.axis is None:
            raise OptError(opt=opt, reason="it needs a layout")
        if not 0 <= opt.axis < len(layouts):
            raise OptError(
                opt=opt, reason=f"layout {opt.axis} is out of bounds for {len(layouts)} layouts"
            )
        return self._lay_out(opt, layouts[opt.axis], cores[core_index])

    def _lay_out(self, opt: Opt, layout: Layout, core: TensorCore) -> UOp:
        n, m, _ = core.dims
        tiles = [
            (layout.columns, n, AxisType.TILE_N),
            *([(layout.rows, m, AxisType.TILE_M)] if layout.rows is not None else []),
        ]
        for axis, _, _ in tiles:
            self._check_no_row(opt, axis)
        # The depth first: the layout names the reduction as a node, which tiling an axis replaces.
        sink = take_depth(self.sink, layout, core)
        for axis, amount, kind in tiles:
            sink = take_tile(sink, axis, amount, kind, is_repeatable=self._is_repeatable(axis))
        return sink

    def _forbid_locals(self, opt: Opt) -> UOp:
        if any(
            r.arg.kind in (AxisType.LOCAL, AxisType.WARP, AxisType.GROUP_REDUCE) for r in self.axes
        ):
            raise OptError(opt=opt, reason="the kernel uses workgroups already")
        self.has_locals_forbidden = True
        return self.sink

    def _split(self, axis: UOp, amount: int, kind: AxisType, *, is_top: bool = False) -> UOp:
        n_parts = divide_size(exact_trips(axis), amount)
        assert n_parts is not None, axis
        inner = FreshIds(self.sink).make_range(amount, kind)
        if n_parts == 1:
            return replace_range(self.sink, axis, inner, (inner,))
        outer = axis.with_src((to_node(n_parts),))
        if is_top:
            return replace_range(self.sink, axis, inner * to_node(n_parts) + outer, (inner, outer))
        return replace_range(self.sink, axis, outer * amount + inner, (outer, inner))


def _is_filled_anew(memory: UOp, axis: UOp) -> bool:
    """Whether private memory is filled in each iteration of `axis`, before it is read."""
    return memory.op is Op.AFTER and memory.unordered.op is Op.DEFINE_REG and axis in memory.ranges
