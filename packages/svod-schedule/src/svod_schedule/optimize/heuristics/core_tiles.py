"""Opts for a product on a tensor core: the core, the register tile, and the packed operands.

The loops become, from outer to inner: panels of the columns, for which a block of b is packed;
rows; and, if a is packed as well, the tiles of one panel. Register tiles hold as many accumulators
as the core, or the vector registers, allow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, prod

from svod_dtype import DType
from svod_ir import AxisType, Op, Opt, OptOp, Target, TensorCore, UOp, exact_trips, max_trips
from svod_ir.sizes import max_size
from svod_schedule.optimize.heuristics import constants
from svod_schedule.optimize.heuristics.facts import KernelFacts
from svod_schedule.optimize.heuristics.panel import is_streamed, max_panel_bytes
from svod_schedule.optimize.heuristics.proposals import Move, Proposal, Question
from svod_schedule.optimize.heuristics.threads import take_threads
from svod_schedule.optimize.opts.scheduler import Scheduler
from svod_schedule.optimize.opts.tensor_cores import Layout, get_layouts, is_along

__all__ = ["CoreChoice", "find_core_choice", "iter_core_questions"]


@dataclass(frozen=True, slots=True)
class CoreChoice:
    """Layout of a product on a core. `n_panel` is the number of the core's column tiles that fit a
    panel of b; `gain` is the predicted speedup over vectors."""

    opt: Opt
    core: TensorCore
    layout: Layout
    n_panel: int
    gain: float

    @property
    def proposal(self) -> Proposal:
        """Proposal to use the core."""
        return Proposal(f"a tensor core is {self.gain:.1f} times as fast as vectors", (self.opt,))


def find_core_choice(facts: KernelFacts) -> CoreChoice | None:
    """Find the fastest core and layout; None if vectors are about as fast."""
    target = facts.target
    if target.has_local or not target.tensor_cores or len(facts.reductions) != 1:
        return None
    if any(True for _ in facts.kernel.iter_ops(Op.SCAN, Op.DEFINE_REG)):
        return None
    choices = list(_iter_choices(facts))
    if not choices:
        return None
    best = max(choices, key=lambda choice: choice.gain)
    # A panel without room for one tile cannot be packed, and unpacked operands are assembled
    # element by element, which is slower than vectors.
    return best if best.gain >= constants.MIN_GAIN and best.n_panel > 0 else None


def _iter_choices(facts: KernelFacts) -> Iterator[CoreChoice]:
    target = facts.target
    for core_index, core in enumerate(target.tensor_cores):
        layouts = get_layouts(facts.kernel, core)
        if isinstance(layouts, str):
            continue
        total = core.dtypes[2]
        lanes = target.lanes(total) * target.rates.vector
        for layout_index, layout in enumerate(layouts):
            if total.is_float and _is_streamed(facts, layout):
                continue
            n_panel = _count_panel_tiles(layout, core, target)
            opt = Opt(OptOp.TC, layout_index, core_index)
            gain = _count_plain_ops(layout) / lanes / _cost(layout, core)
            yield CoreChoice(opt, core, layout, n_panel, gain)


def _is_streamed(facts: KernelFacts, layout: Layout) -> bool:
    """Whether vectors read b once, in the order of memory, for all rows (`lower.stream_rows`)."""
    if _count_uses(layout, layout.b) > constants.STREAMED_TILE:
        return False
    nest = next((nest for nest in facts.reductions if nest.node is layout.reduce), None)
    return nest is not None and is_streamed(facts, nest, layout.columns)


def _count_plain_ops(layout: Layout) -> float:
    """Number of vector ops per multiplication of a product without the core."""
    total = layout.reduce.dtype
    # An integer product takes a multiplication and an addition, a float one a single FMA.
    n_ops = 1 if total.is_float else 2
    # Vectors along the columns are widened first, once for all results that use them.
    is_widened = layout.b.dtype.itemsize < total.itemsize
    return n_ops + (1 / _count_uses(layout, layout.b) if is_widened else 0)


def _cost(layout: Layout, core: TensorCore) -> float:
    """Cycles per useful multiplication: of the core, and of packing its operands."""
    n, m, k = core.dims
    # Lanes beyond the end of an axis are computed as well, so a short axis wastes a part of each
    # step.
    waste = (
        _fill(layout.columns, n)
        * _fill(layout.depth, k)
        * (_fill(layout.rows, m) if layout.rows is not None else 1.0)
    )
    packing = _packing_cost(layout.b, core.dtypes[1], layout.columns, core) / _count_uses(
        layout, layout.b
    )
    if _must_pack_rows(layout, core):
        packing += _packing_cost(layout.a, core.dtypes[0], layout.depth, core) / _count_uses(
            layout, layout.a
        )
    # A packed element is used once for each result along the other operand's axes: packing is free
    # for large products, and decides for those of few rows.
    return core.cycles / (n * m * k) * waste + packing


def _packing_cost(operand: UOp, dtype: DType, axis: UOp, core: TensorCore) -> float:
    """Cycles for packing an element in vectors along `axis`."""
    if is_along(operand, axis):
        return constants.ROW_COST
    # Contiguous groups are copied as one element of 32 bits each; widening takes them apart again.
    is_widened = operand.dtype is not dtype
    return constants.ELEMENT_COST if is_widened else constants.GROUP_COST / core.group


def _count_uses(layout: Layout, operand: UOp) -> int:
    """Number of results that use each packed element of an operand."""
    return max_trips(*(r for r in layout.reduce.ranges if r not in operand.ranges))


def _must_pack_rows(layout: Layout, core: TensorCore) -> bool:
    """Whether a cannot be read in place."""
    return not _is_read_in_vectors(layout, core, layout.a, core.dtypes[0], layout.depth)


def _can_interleave(layout: Layout, core: TensorCore) -> bool:
    """Whether vectors of b's columns, interleaved in registers, are whole operands of the core."""
    return _is_read_in_vectors(layout, core, layout.b, core.dtypes[1], layout.columns)


def _is_read_in_vectors(
    layout: Layout, core: TensorCore, operand: UOp, dtype: DType, axis: UOp
) -> bool:
    """Whether each step of a core of one row reads whole vectors of an operand along `axis`."""
    is_plain = operand.op is Op.INDEX and operand.dtype is dtype and operand.gate is None
    size = exact_trips(layout.depth)
    is_whole = isinstance(size, int) and size % core.dims[2] == 0
    return core.dims[1] == 1 and is_plain and is_whole and is_along(operand, axis)


def _expect_trips(axis: UOp) -> int:
    """Trip count of a loop; half of the maximum if it varies between runs."""
    size = exact_trips(axis)
    return size if isinstance(size, int) else ceil(max_size(size) / 2)


def _fill(axis: UOp, amount: int) -> float:
    size = max(max_size(exact_trips(axis)), 1)
    return ceil(size / amount) * amount / size


def _count_panel_tiles(layout: Layout, core: TensorCore, target: Target) -> int:
    """Maximum number of tiles of the core in a panel of b."""
    n, _, k = core.dims
    depth = (
        max_trips(*(r for r in layout.reduce.loops if r is not layout.depth))
        * ceil(max_trips(layout.depth) / k)
        * k
    )
    return max_panel_bytes(target) // (depth * n * core.dtypes[1].itemsize)


def iter_core_questions(
    facts: KernelFacts, choice: CoreChoice, scheduler: Scheduler
) -> Iterator[Question]:
    """Questions that follow TC, in order."""
    return _CoreTiles(facts, choice, scheduler).iter_questions()


class _CoreTiles:
    """Questions about the register tile, the panels and the threads of a product on a core.

    The outer loop that remains of a split axis keeps the axis's `arg`, by which it is found in the
    scheduler's present kernel.
    """

    def __init__(self, facts: KernelFacts, choice: CoreChoice, scheduler: Scheduler) -> None:
        self.facts, self.scheduler = facts, scheduler
        self.target, self.core, self.n_panel = facts.target, choice.core, choice.n_panel
        layout = choice.layout
        self.columns = layout.columns
        self.rows = [
            r for r in layout.reduce.ranges if r in layout.a.ranges and r not in layout.b.ranges
        ]
        self.is_packed = _must_pack_rows(layout, choice.core)
        self.is_interleaved = _can_interleave(layout, choice.core)

    def iter_questions(self) -> Iterator[Question]:
        # Swaps come first: a tiled axis, and then threads, fix the order of the loops. Packing
        # comes last, since it needs the loops that remain.
        is_whole = self._count(self.columns) <= self.n_panel
        # If all of b fits one panel, each block of a is packed once for all columns.
        has_rows_outside = self.is_packed and is_whole
        if not has_rows_outside:
            yield from self._put_columns_outside()
        row = max(
            (r for r in self.rows if self._find(r) is not None), key=self._count, default=None
        )
        width, height = self._register_tile(1 if row is None else self._count(row))
        yield from self._take(self.columns, width)
        if row is not None:
            yield from self._take(row, height)
        if self.is_packed and not is_whole:
            yield from self._split_panel(max(min(constants.PANEL_TILES, self.n_panel // width), 1))
        # Each part packs its operands.
        yield from take_threads(self.facts, self.scheduler, most=self.target.cores)
        yield from self._pack(has_rows_outside=has_rows_outside)

    def _register_tile(self, n_rows: int) -> tuple[int, int]:
        """Number of tiles along the columns and the rows whose accumulators are in registers."""
        n_columns = self._count(self.columns)
        if self.core.tiles:
            shapes = [
                (w, h) for w in (2, 1, 3) for h in (2, 1, 3) if w * h + w + h <= self.core.tiles
            ]
        else:
            # Some registers remain for the operands of one step.
            most = self.target.vector_registers - (3 if self.target.vector_registers <= 16 else 4)
            shapes = [(w, h) for w in (4, 3, 2, 1) for h in range(1, 13) if w * h + w + 1 <= most]
        return min(
            (
                (w, h)
                for w, h in shapes
                if w <= max(min(self.n_panel, n_columns), 1) and h <= max(n_rows, 1)
            ),
            key=lambda shape: self._step_cost(shape, n_columns, n_rows),
        )

    def _step_cost(self, shape: tuple[int, int], n_columns: int, n_rows: int) -> float:
        """Cycles per useful tile of results: of the core, and of loading its operands."""
        width, height = shape
        loads = (width + height) / self.target.rates.loads
        # Loads run in parallel with the arithmetic, but only if there is enough of it.
        cycles = (
            max(width * height * self.core.cycles, loads, self.target.rates.add_latency)
            + constants.LOAD_COST * loads
        )
        return ceil(n_columns / width) * ceil(n_rows / height) * cycles / (n_columns * n_rows)

    def _take(self, axis: UOp, amount: int) -> Iterator[Question]:
        loop = self._find(axis)
        if amount < 2 or loop is None:
            return
        why = f"accumulators for {amount} tiles along {self.facts.name(axis)} stay in registers"
        candidates: list[tuple[Move, ...]] = [
            (Move(OptOp.UPCAST, axis, amount),),
            (Move(OptOp.OVERLAP, axis, amount),),
        ]
        if exact_trips(loop) == amount:
            candidates = [(Move(OptOp.UPCAST, axis, 0),)]
        if self.target.has_masked_access and not self.core.tiles:
            candidates.append((Move(OptOp.PADTO, axis, amount), Move(OptOp.UPCAST, axis, amount)))
        yield [Proposal(why, moves) for moves in candidates]

    def _put_columns_outside(self) -> Iterator[Question]:
        """Swap the loop over panels outwards, past the loops over the rows that use a panel."""
        rows = {r.arg for r in self.rows}
        axes: list[UOp] = []
        while axes != self.scheduler.axes:
            axes = self.scheduler.axes
            index = next((i for i, r in enumerate(axes) if r.arg == self.columns.arg), 0)
            outer = axes[index - 1]
            if index == 0 or outer.arg not in rows:
                return
            why = (
                f"{self.facts.name(self.columns)} chooses a panel and goes outside of"
                f" {self.facts.name(outer)}"
            )
            yield [Proposal(why, (Move(OptOp.SWAP, outer, other=self.columns),))]

    def _split_panel(self, n_tiles: int) -> Iterator[Question]:
        n_tiles = min(n_tiles, self._count(self.columns))
        if n_tiles > 1:
            why = f"{n_tiles} tiles of columns use the same rows sequentially"
            yield [Proposal(why, (Move(OptOp.SPLIT, self.columns, n_tiles),))]

    def _pack(self, *, has_rows_outside: bool) -> Iterator[Question]:
        """Pack b outside the loops over rows that use it, and a inside them if need be."""
        loops = [r for r in self.scheduler.axes if r.arg.kind is AxisType.LOOP]
        args = {r.arg for r in self.rows}
        rows = [i for i, r in enumerate(loops) if r.arg in args]
        n_uses = prod(_expect_trips(loops[i]) for i in rows)
        if rows and self.is_interleaved and not self.is_packed and n_uses <= constants.FEW_TILES:
            return
        outside = loops[: rows[0]] if rows else loops[:-1]
        if has_rows_outside:
            outside = [r for r in outside if r.arg != self.columns.arg]
        move = Move(OptOp.PACK, outside[-1]) if outside else Opt(OptOp.PACK, None)
        yield [Proposal("columns are packed into a panel in the core's layout", (move,))]
        if self.is_packed and rows:
            yield [
                Proposal(
                    "rows are packed in the core's layout", (Move(OptOp.PACK, loops[rows[-1]]),)
                )
            ]

    def _count(self, axis: UOp) -> int:
        """Number of tiles of the core that remain along an axis."""
        loop = self._find(axis)
        return 1 if loop is None else max(max_size(exact_trips(loop)), 1)

    def _find(self, axis: UOp) -> UOp | None:
        return next((r for r in self.scheduler.axes if r.arg == axis.arg), None)
