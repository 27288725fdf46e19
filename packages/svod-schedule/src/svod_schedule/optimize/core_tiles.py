"""Opts for a product that a tensor core takes: which core, which tiles of results at a time, and what is packed.

The loops become, from outside to inside: panels of the columns, whose part of b is packed; rows; and, where a is packed as well,
the tiles of one panel. Register tiles hold as many accumulators as the core, or the vector registers, allow.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf

from svod_dtype import DType
from svod_ir.args import Opt, OptOp
from svod_ir.ops import AxisType, Op
from svod_ir.sizes import max_size
from svod_ir.target import Target, TensorCore
from svod_ir.trips import exact_trips, max_trips
from svod_ir.uop import UOp
from svod_schedule.optimize.scheduler import Scheduler
from svod_schedule.optimize.tensor_cores import Layout, get_layouts, is_along

__all__ = ["MAX_PANEL_BYTES", "take_tensor_core"]

MAX_PANEL_BYTES = 1 << 19
"""A panel lies on the stack of a thread, which has a few mebibytes."""

MIN_GAIN = 1.25
"""So many times faster than vectors a core has to be, idle lanes counted."""

ROW_COST, GROUP_COST, ELEMENT_COST = 0.06, 0.5, 1.5
"""Cycles for packing an element where whole vectors lie together; for packing a group that does; for other elements, and small
groups that are widened as well."""

PANEL_TILES = 8
"""Register tiles that use a packed part of a."""


def take_tensor_core(scheduler: Scheduler, work: int, min_threaded_work: int) -> bool:
    """Give the kernel's product to a tensor core if that pays; say whether it was."""
    if scheduler.target.has_local or not scheduler.target.tensor_cores:
        return False
    choice = _choose(scheduler)
    if choice is None:
        return False
    trial = scheduler.copy()
    if not trial.try_opt(choice.opt):
        return False
    plan = _CoreTiles(trial, choice)
    if not plan.take(n_threads=scheduler.target.cores if work >= min_threaded_work else 1):
        return False
    for opt in trial.applied_opts:
        scheduler.apply_opt(opt)
    return True


@dataclass(frozen=True, slots=True)
class _Choice:
    opt: Opt
    core: TensorCore
    way: Layout


def _choose(scheduler: Scheduler) -> _Choice | None:
    """The core and the way that waste the least time, if that is less than what vectors take."""
    sink, target = scheduler.sink, scheduler.target
    reduces = list(sink.iter_ops(Op.REDUCE))
    if len(reduces) != 1 or any(True for _ in sink.iter_ops(Op.SCAN, Op.DEFINE_REG)):
        return None
    best: _Choice | None = None
    least = inf
    for number, core in enumerate(target.tensor_cores):
        layouts = get_layouts(sink, core)
        if isinstance(layouts, str):
            continue
        for position, way in enumerate(layouts):
            cost = _cost(way, core)
            if cost < least:
                best, least = _Choice(Opt(OptOp.TC, position, number), core, way), cost
    if best is None:
        return None
    total = best.core.dtypes[2]
    # An integer product takes a multiplication and an addition, a float one both at once.
    plain = (1 if total.is_float else 2) / (target.lanes(total) * target.rates.vector)
    return best if least * MIN_GAIN <= plain else None


def _cost(way: Layout, core: TensorCore) -> float:
    """Cycles for each product that is of use: those of the core, and those of packing the operands for it."""
    n, m, k = core.dims
    waste = _fill(way.columns, n) * _fill(way.depth, k) * (_fill(way.rows, m) if way.rows is not None else 1.0)
    packing = _packing_cost(way.b, core.dtypes[1], way.columns, core) / _count_uses(way, way.b)
    if _must_pack_rows(way, core):
        packing += _packing_cost(way.a, core.dtypes[0], way.depth, core) / _count_uses(way, way.a)
    return core.cycles / (n * m * k) * waste + packing


def _packing_cost(operand: UOp, dtype: DType, axis: UOp, core: TensorCore) -> float:
    """Cycles for an element, where vectors are taken along `axis`."""
    if is_along(operand, axis):
        return ROW_COST
    is_widened = operand.dtype is not dtype
    return ELEMENT_COST if is_widened else GROUP_COST / core.group


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


class _CoreTiles:
    """Chooses what comes after TC. Axes keep their `arg` while they are split, so that they are found by it."""

    def __init__(self, scheduler: Scheduler, choice: _Choice) -> None:
        self.scheduler = scheduler
        self.target: Target = scheduler.target
        self.core, self.way = choice.core, choice.way
        self.columns = choice.way.columns.arg
        self.rows = [
            r.arg for r in choice.way.reduce.ranges if r in choice.way.a.ranges and r not in choice.way.b.ranges
        ]

    def take(self, *, n_threads: int) -> bool:
        """Apply the Opts; False if b does not fit a panel."""
        panel = self._panel_tiles()
        if panel == 0:
            return False
        is_packed, is_whole = _must_pack_rows(self.way, self.core), self._count(self.columns) <= panel
        # A part of a is packed once for all columns, if all of b can be.
        has_rows_outside = is_packed and is_whole
        if not has_rows_outside:
            self._put_columns_outside()
        width, height = self._register_tile(panel)
        self._take(self.columns, width)
        rows = self._longest_row()
        if rows is not None:
            self._take(rows, height)
        if is_packed and not is_whole:
            self._split_panel(max(min(PANEL_TILES, panel // width), 1))
        if n_threads > 1:
            self._take_threads(n_threads)
        self._pack(is_packed=is_packed, has_rows_outside=has_rows_outside)
        return True

    def _panel_tiles(self) -> int:
        """How many tiles of the core one panel of b may have."""
        n, _, k = self.core.dims
        depth = max_trips(*(r for r in self.way.reduce.src[1:] if r is not self.way.depth))
        depth *= ceil(max_trips(self.way.depth) / k) * k
        limit = min(max(self.target.l2_bytes // 2, self.target.l1_bytes), MAX_PANEL_BYTES)
        return limit // (depth * n * self.core.dtypes[1].itemsize)

    def _register_tile(self, panel: int) -> tuple[int, int]:
        """How many tiles along the columns and the rows have their accumulators in registers."""
        n_columns, n_rows = self._count(self.columns), self._count(self._longest_row())
        if self.core.tiles:
            most = self.core.tiles
            shapes = [(w, h) for w in (2, 1, 3) for h in (2, 1, 3) if w * h + w + h <= most]
        else:
            most = self.target.vector_registers - (3 if self.target.vector_registers <= 16 else 4)
            shapes = [(w, h) for w in (4, 3, 2, 1) for h in range(1, 13) if w * h + w + 1 <= most]
        return min(
            ((w, h) for w, h in shapes if w <= max(min(panel, n_columns), 1) and h <= max(n_rows, 1)),
            key=lambda shape: self._step_cost(shape, n_columns, n_rows),
        )

    def _step_cost(self, shape: tuple[int, int], n_columns: int, n_rows: int) -> float:
        """Cycles for each tile of results that is of use: those of the core, and those of loading its operands."""
        width, height = shape
        loads = (width + height) / self.target.rates.loads
        # Operands of vector units are loaded beside the arithmetic, but only if there is enough of it.
        cycles = max(width * height * self.core.cycles, loads, self.target.rates.add_latency) + 0.25 * loads
        turns = ceil(n_columns / width) * ceil(n_rows / height)
        return turns * cycles / (n_columns * n_rows)

    def _count(self, axis: tuple[int, AxisType] | None) -> int:
        found = self._find(axis) if axis is not None else None
        return 1 if found is None else max(max_size(exact_trips(found)), 1)

    def _longest_row(self) -> tuple[int, AxisType] | None:
        rows = [r for r in self.rows if self._find(r) is not None]
        return max(rows, key=lambda r: self._count(r), default=None)

    def _take(self, axis: tuple[int, AxisType], amount: int) -> None:
        found = self._find(axis)
        if amount < 2 or found is None:
            return
        position, size = self._position(axis), exact_trips(found)
        opts = [Opt(OptOp.UPCAST, position, amount), Opt(OptOp.OVERLAP, position, amount)]
        if isinstance(size, int) and size == amount:
            opts = [Opt(OptOp.UPCAST, position, 0)]
        if (
            not any(self.scheduler.try_opt(opt) for opt in opts)
            and self.target.has_masked_access
            and not self.core.tiles
        ):
            padded = self.scheduler.copy()
            if all(padded.try_opt(Opt(op, position, amount)) for op in (OptOp.PADTO, OptOp.UPCAST)):
                for opt in padded.applied_opts[len(self.scheduler.applied_opts) :]:
                    self.scheduler.apply_opt(opt)

    def _put_columns_outside(self) -> None:
        """Swap the loop over panels outwards, past those over the rows that use a panel."""
        while True:
            position = self._position(self.columns)
            outer = self.scheduler.axes[position - 1] if position > 0 else None
            if outer is None or outer.arg not in self.rows:
                return
            if not self.scheduler.try_opt(Opt(OptOp.SWAP, position - 1, position)):
                return

    def _split_panel(self, n_tiles: int) -> None:
        count = self._count(self.columns)
        n_tiles = min(n_tiles, count)
        if n_tiles > 1:
            self.scheduler.try_opt(Opt(OptOp.SPLIT, self._position(self.columns), n_tiles))

    def _take_threads(self, n_threads: int) -> None:
        loops = [r for r in self.scheduler.axes if r.arg.kind is AxisType.LOOP and int(r.src[0].vmin) >= n_threads]
        for r in sorted(loops, key=lambda r: not _splits_well(r, n_threads)):
            if self.scheduler.try_opt(Opt(OptOp.THREAD, self._position(r.arg), n_threads)):
                return

    def _pack(self, *, is_packed: bool, has_rows_outside: bool) -> None:
        """Pack b outside of the rows that use it, and a in the loop over rows if need be."""
        loops = [r for r in self.scheduler.axes if r.arg.kind is AxisType.LOOP]
        rows = [i for i, r in enumerate(loops) if r.arg in self.rows]
        outside = loops[: rows[0]] if rows else loops[:-1]
        if has_rows_outside:
            outside = [r for r in outside if r.arg != self.columns]
        self.scheduler.try_opt(Opt(OptOp.PACK, self._position(outside[-1].arg) if outside else None))
        if is_packed and rows:
            self.scheduler.try_opt(Opt(OptOp.PACK, self._position(loops[rows[-1]].arg)))

    def _find(self, axis: tuple[int, AxisType]) -> UOp | None:
        return next((r for r in self.scheduler.axes if r.arg == axis), None)

    def _position(self, axis: tuple[int, AxisType]) -> int:
        return next((i for i, r in enumerate(self.scheduler.axes) if r.arg == axis), -1)


def _splits_well(r: UOp, n_parts: int) -> bool:
    size = exact_trips(r)
    return isinstance(size, int) and (size % n_parts == 0 or size >= 4 * n_parts)
