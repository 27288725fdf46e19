"""Opts for a product that a tensor core takes: which core, which tiles of results at a time, and
what is packed.

The loops become, from outside to inside: panels of the columns, whose part of b is packed; rows;
and, where a is packed as well, the tiles of one panel. Register tiles hold as many accumulators as
the core, or the vector registers, allow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from svod_dtype import DType
from svod_ir import AxisType, Op, Opt, OptOp, Target, TensorCore, UOp, exact_trips, max_trips
from svod_ir.sizes import max_size
from svod_schedule.optimize.heuristics import constants
from svod_schedule.optimize.heuristics.facts import KernelFacts
from svod_schedule.optimize.heuristics.panel import max_panel_bytes
from svod_schedule.optimize.heuristics.proposals import Move, Proposal, Question
from svod_schedule.optimize.heuristics.threads import take_threads
from svod_schedule.optimize.opts.scheduler import Scheduler
from svod_schedule.optimize.opts.tensor_cores import Layout, get_layouts, is_along

__all__ = ["CoreChoice", "find_core_choice", "iter_core_questions"]


@dataclass(frozen=True, slots=True)
class CoreChoice:
    """The way a product is laid over a core: `n_panel` tiles of the core's columns fit a panel of
    b; `gain` is how many times faster than vectors this should be."""

    opt: Opt
    core: TensorCore
    way: Layout
    n_panel: int
    gain: float

    @property
    def proposal(self) -> Proposal:
        return Proposal(f"a tensor core is {self.gain:.1f} times as fast as vectors", (self.opt,))


def find_core_choice(facts: KernelFacts) -> CoreChoice | None:
    """The core and the way that waste the least time, if that is less than what vectors take."""
    target = facts.target
    if target.has_local or not target.tensor_cores or len(facts.reductions) != 1:
        return None
    if any(True for _ in facts.kernel.iter_ops(Op.SCAN, Op.DEFINE_REG)):
        return None
    ways = list(_iter_ways(facts))
    if not ways:
        return None
    best = max(ways, key=lambda way: way.gain)
    return best if best.gain >= constants.MIN_GAIN and best.n_panel > 0 else None


def _iter_ways(facts: KernelFacts) -> Iterator[CoreChoice]:
    target = facts.target
    for number, core in enumerate(target.tensor_cores):
        layouts = get_layouts(facts.kernel, core)
        if isinstance(layouts, str):
            continue
        total = core.dtypes[2]
        # An integer product takes a multiplication and an addition, a float one both at once.
        plain = (1 if total.is_float else 2) / (target.lanes(total) * target.rates.vector)
        for position, way in enumerate(layouts):
            n_panel = _count_panel_tiles(way, core, target)
            yield CoreChoice(
                Opt(OptOp.TC, position, number), core, way, n_panel, plain / _cost(way, core)
            )


def _cost(way: Layout, core: TensorCore) -> float:
    """Cycles for each product that is of use: those of the core, and those of packing the operands
    for it.
    """
    n, m, k = core.dims
    waste = (
        _fill(way.columns, n)
        * _fill(way.depth, k)
        * (_fill(way.rows, m) if way.rows is not None else 1.0)
    )
    packing = _packing_cost(way.b, core.dtypes[1], way.columns, core) / _count_uses(way, way.b)
    if _must_pack_rows(way, core):
        packing += _packing_cost(way.a, core.dtypes[0], way.depth, core) / _count_uses(way, way.a)
    return core.cycles / (n * m * k) * waste + packing


def _packing_cost(operand: UOp, dtype: DType, axis: UOp, core: TensorCore) -> float:
    """Cycles for an element, where vectors are taken along `axis`."""
    if is_along(operand, axis):
        return constants.ROW_COST
    is_widened = operand.dtype is not dtype
    return constants.ELEMENT_COST if is_widened else constants.GROUP_COST / core.group


def _count_uses(way: Layout, operand: UOp) -> int:
    """How many results each element of an operand is used for once it is packed."""
    return max_trips(*(r for r in way.reduce.ranges if r not in operand.ranges))


def _must_pack_rows(way: Layout, core: TensorCore) -> bool:
    """Whether a cannot be read where it lies."""
    is_plain = way.a.op is Op.INDEX and way.a.dtype is core.dtypes[0] and way.a.gate is None
    size = exact_trips(way.depth)
    lies_well = core.dims[1] == 1 and is_plain and is_along(way.a, way.depth)
    return not (lies_well and isinstance(size, int) and size % core.dims[2] == 0)


def _fill(axis: UOp, amount: int) -> float:
    size = max(max_size(exact_trips(axis)), 1)
    return ceil(size / amount) * amount / size


def _count_panel_tiles(way: Layout, core: TensorCore, target: Target) -> int:
    """How many tiles of the core one panel of b may have."""
    n, _, k = core.dims
    depth = (
        max_trips(*(r for r in way.reduce.loops if r is not way.depth))
        * ceil(max_trips(way.depth) / k)
        * k
    )
    return max_panel_bytes(target) // (depth * n * core.dtypes[1].itemsize)


def iter_core_questions(
    facts: KernelFacts, choice: CoreChoice, scheduler: Scheduler
) -> Iterator[Question]:
    """The choices that come after TC, in order."""
    return _CoreTiles(facts, choice, scheduler).iter_questions()


class _CoreTiles:
    """What is left of a loop keeps its `arg`, so that it is found by that in the kernel as
    it is.
    """

    def __init__(self, facts: KernelFacts, choice: CoreChoice, scheduler: Scheduler) -> None:
        self.facts, self.scheduler = facts, scheduler
        self.target, self.core, self.n_panel = facts.target, choice.core, choice.n_panel
        way = choice.way
        self.columns = way.columns
        self.rows = [r for r in way.reduce.ranges if r in way.a.ranges and r not in way.b.ranges]
        self.is_packed = _must_pack_rows(way, choice.core)

    def iter_questions(self) -> Iterator[Question]:
        is_whole = self._count(self.columns) <= self.n_panel
        # A part of a is packed once for all columns, if all of b can be.
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
        yield from take_threads(self.facts, self.scheduler)
        yield from self._pack(has_rows_outside=has_rows_outside)

    def _register_tile(self, n_rows: int) -> tuple[int, int]:
        """How many tiles along the columns and the rows have their accumulators in registers."""
        n_columns = self._count(self.columns)
        if self.core.tiles:
            shapes = [
                (w, h) for w in (2, 1, 3) for h in (2, 1, 3) if w * h + w + h <= self.core.tiles
            ]
        else:
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
        """Cycles for each tile of results that is of use: those of the core, and those of loading
        its operands.
        """
        width, height = shape
        loads = (width + height) / self.target.rates.loads
        # Operands of vector units are loaded beside the arithmetic, but only if there is enough of
        # it.
        cycles = (
            max(width * height * self.core.cycles, loads, self.target.rates.add_latency)
            + constants.LOAD_COST * loads
        )
        return ceil(n_columns / width) * ceil(n_rows / height) * cycles / (n_columns * n_rows)

    def _take(self, axis: UOp, amount: int) -> Iterator[Question]:
        found = self._find(axis)
        if amount < 2 or found is None:
            return
        why = f"accumulators for {amount} tiles along {self.facts.name(axis)} stay in registers"
        ways: list[tuple[Move, ...]] = [
            (Move(OptOp.UPCAST, axis, amount),),
            (Move(OptOp.OVERLAP, axis, amount),),
        ]
        if exact_trips(found) == amount:
            ways = [(Move(OptOp.UPCAST, axis, 0),)]
        if self.target.has_masked_access and not self.core.tiles:
            ways.append((Move(OptOp.PADTO, axis, amount), Move(OptOp.UPCAST, axis, amount)))
        yield [Proposal(why, moves) for moves in ways]

    def _put_columns_outside(self) -> Iterator[Question]:
        """Swap the loop over panels outwards, past those over the rows that use a panel."""
        rows = {r.arg for r in self.rows}
        before: list[UOp] = []
        while before != self.scheduler.axes:
            before = self.scheduler.axes
            position = next((i for i, r in enumerate(before) if r.arg == self.columns.arg), 0)
            outer = before[position - 1]
            if position == 0 or outer.arg not in rows:
                return
            why = (
                f"{self.facts.name(self.columns)} chooses a panel and goes outside of"
                f" {self.facts.name(outer)}"
            )
            yield [Proposal(why, (Move(OptOp.SWAP, outer, other=self.columns),))]

    def _split_panel(self, n_tiles: int) -> Iterator[Question]:
        n_tiles = min(n_tiles, self._count(self.columns))
        if n_tiles > 1:
            why = f"{n_tiles} tiles of columns use the same rows, one after the other"
            yield [Proposal(why, (Move(OptOp.SPLIT, self.columns, n_tiles),))]

    def _pack(self, *, has_rows_outside: bool) -> Iterator[Question]:
        """Pack b outside of the rows that use it, and a in the loop over rows if need be."""
        loops = [r for r in self.scheduler.axes if r.arg.kind is AxisType.LOOP]
        args = {r.arg for r in self.rows}
        rows = [i for i, r in enumerate(loops) if r.arg in args]
        outside = loops[: rows[0]] if rows else loops[:-1]
        if has_rows_outside:
            outside = [r for r in outside if r.arg != self.columns.arg]
        move = Move(OptOp.PACK, outside[-1]) if outside else Opt(OptOp.PACK, None)
        yield [Proposal("columns lie in a panel as the core reads them", (move,))]
        if self.is_packed and rows:
            yield [
                Proposal(
                    "rows are packed as the core reads them", (Move(OptOp.PACK, loops[rows[-1]]),)
                )
            ]

    def _count(self, axis: UOp) -> int:
        """How many tiles of the core are left along an axis."""
        found = self._find(axis)
        return 1 if found is None else max(max_size(exact_trips(found)), 1)

    def _find(self, axis: UOp) -> UOp | None:
        return next((r for r in self.scheduler.axes if r.arg == axis.arg), None)
