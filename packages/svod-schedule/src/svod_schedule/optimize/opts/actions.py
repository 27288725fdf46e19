"""Candidate Opts of a search, from a kernel's axes and the features of the target.

`iter_actions` yields single Opts, `iter_neighbours` the sequences of Opts that are one change away
from a given one. Only `Scheduler.apply_opt` knows whether an Opt is allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

from svod_ir import AxisType, Op, Opt, OptOp, Target, UOp, exact_trips
from svod_schedule.optimize.opts.scheduler import Scheduler
from svod_schedule.optimize.opts.tensor_cores import get_layouts

__all__ = ["iter_actions", "iter_neighbours"]

# All small amounts, so that short axes find a divisor; 6 and 12 rows of two vectors fill the
# accumulators of machines with 16 and 32 vector registers.
_TILES = (2, 3, 4, 5, 6, 7, 8, 12)
_VECTORS = (1, 2, 4, 8)
_BLOCKS = (2, 4, 8)
_MAX_LAYOUTS = 3
"""Maximum number of layouts of a product on a core that are tried, the best ones."""
_WORK_ITEMS = (2, 4, 8, 16, 32, 64, 128, 256)
_TILINGS = (OptOp.UPCAST, OptOp.OVERLAP, OptOp.ALIGN)
_LAST = (OptOp.THREAD, OptOp.PACK)
"""Opts that are applied after the axes have been tiled."""


def iter_actions(scheduler: Scheduler, *, can_pad: bool = False) -> Iterator[Opt]:
    """Yield the Opts to try on a kernel in its present state, most of which are allowed."""
    lanes = sorted({scheduler.target.lanes(n.dtype) for n in scheduler.sink.iter_ops(Op.INDEX)})
    amounts = sorted({*_TILES, *(n * v for n in lanes for v in _VECTORS)} - {1})
    axes = scheduler.axes
    for position, axis in enumerate(axes):
        kind = axis.arg.kind
        if kind in (AxisType.LOOP, AxisType.GLOBAL):
            yield from _iter_tiles(position, axis, amounts, scheduler.target)
        yield from _iter_shares(position, axis, scheduler.target)
        if can_pad and kind in (AxisType.LOOP, AxisType.GLOBAL, AxisType.REDUCE):
            size = exact_trips(axis)
            unaligned = (n for n in sorted({4, *lanes} - {1}) if isinstance(size, int) and size % n)
            yield from (Opt(OptOp.PADTO, position, n) for n in unaligned)
    # Opts on reductions count only the reduced axes, see `Scheduler`.
    for position, axis in enumerate(scheduler.reduced_axes):
        if axis.arg.kind is AxisType.REDUCE:
            yield from _iter_reduced(position, axis, amounts, scheduler.target)
    for first, second in combinations(range(len(axes)), 2):
        if axes[first].arg.kind is axes[second].arg.kind and axes[first].arg.kind in (
            AxisType.LOOP,
            AxisType.REDUCE,
        ):
            yield Opt(OptOp.SWAP, first, second)
    # TC has to come first.
    if not scheduler.applied_opts:
        yield from _iter_cores(scheduler)


def _iter_cores(scheduler: Scheduler) -> Iterator[Opt]:
    """Layouts of a product on a tensor core."""
    for index, core in enumerate(scheduler.target.tensor_cores):
        layouts = get_layouts(scheduler.sink, core)
        if not isinstance(layouts, str):
            yield from (
                Opt(OptOp.TC, layout, index) for layout in range(min(len(layouts), _MAX_LAYOUTS))
            )


def _iter_tiles(position: int, axis: UOp, amounts: list[int], target: Target) -> Iterator[Opt]:
    """Register tiles along an axis of results; the last tile overlaps if the amount does not divide
    the size, and the first one as well if tiles are aligned.
    """
    size = exact_trips(axis)
    for amount in amounts:
        if not isinstance(size, int) or amount < size:
            is_even = isinstance(size, int) and size % amount == 0
            yield Opt(OptOp.UPCAST if is_even else OptOp.OVERLAP, position, amount)
            if not target.has_local:
                yield Opt(OptOp.ALIGN, position, amount)
    if isinstance(size, int) and size <= target.max_upcast:
        yield Opt(OptOp.UPCAST, position, 0)


def _iter_shares(position: int, axis: UOp, target: Target) -> Iterator[Opt]:
    """Distributions of an axis over threads or work-items, and packing of repeated loads."""
    kind = axis.arg.kind
    if kind in (AxisType.LOOP, AxisType.GLOBAL):
        yield from (Opt(OptOp.THREAD, position, n) for n in _thread_counts(target))
        if target.has_local:
            yield from (Opt(OptOp.LOCAL, position, n) for n in _WORK_ITEMS if n <= target.max_local)
    if kind is AxisType.REDUCE and target.has_shared:
        yield Opt(OptOp.PACK, position)
    if kind in (AxisType.LOOP, AxisType.THREAD) and not target.has_local:
        yield Opt(OptOp.PACK, position)
    if kind is AxisType.LOOP and not target.has_local and target.tensor_cores:
        yield from (Opt(OptOp.SPLIT, position, n) for n in _BLOCKS)


def _iter_reduced(position: int, axis: UOp, amounts: list[int], target: Target) -> Iterator[Opt]:
    """Unrollings of a reduced axis, and its distribution over work-items."""
    size = exact_trips(axis)
    if isinstance(size, int):
        yield from (Opt(OptOp.UNROLL, position, n) for n in amounts if n < size)
        yield Opt(OptOp.UNROLL, position, 0)
        if target.has_shared:
            yield from (
                Opt(op, position, n)
                for op in (OptOp.GROUP, OptOp.GROUPTOP)
                for n in _WORK_ITEMS
                if n <= size
            )


def _thread_counts(target: Target) -> list[int]:
    if target.has_local:
        return []
    counts = (target.max_parts, target.cores, target.cores // 2, target.cores // 4)
    return sorted({n for n in counts if n > 1}, reverse=True)


def iter_neighbours(
    opts: tuple[Opt, ...],
    apply: Callable[[tuple[Opt, ...]], Scheduler | None],
    *,
    can_pad: bool = False,
) -> Iterator[tuple[Opt, ...]]:
    """Yield the sequences that are one change away: one more Opt, at the end or before THREAD and
    PACK; one Opt less; another amount. `apply` returns the kernel with some Opts."""
    end = next((i for i, opt in enumerate(opts) if opt.op in _LAST), len(opts))
    # A tile after THREAD or PACK would split the loops that these refer to, so new Opts also go
    # before them.
    for at in sorted({len(opts), end}, reverse=True):
        scheduler = apply(opts[:at])
        if scheduler is not None:
            yield from (
                (*opts[:at], opt, *opts[at:]) for opt in iter_actions(scheduler, can_pad=can_pad)
            )
    if opts and (bare := apply(())) is not None:
        # TC has to come first, so another core replaces the head of the sequence.
        tail = opts[1:] if opts[0].op is OptOp.TC else ()
        yield from ((core, *tail) for core in _iter_cores(bare) if core != opts[0])
    for i, opt in enumerate(opts):
        yield (*opts[:i], *opts[i + 1 :])
        scheduler = apply(opts[:i])
        if scheduler is not None:
            yield from (
                (*opts[:i], variant, *opts[i + 1 :]) for variant in _iter_variants(opt, scheduler)
            )


def _iter_variants(opt: Opt, scheduler: Scheduler) -> Iterator[Opt]:
    """`opt` with a larger or smaller amount."""
    if opt.op in (OptOp.SWAP, OptOp.PACK, OptOp.NOLOCALS, OptOp.TC, OptOp.PADTO) or not opt.amount:
        return
    if opt.op is OptOp.THREAD:
        amounts = set(_thread_counts(scheduler.target))
    else:
        amounts = {
            opt.amount * 2,
            opt.amount // 2,
            opt.amount + 1,
            opt.amount - 1,
            *(t for t in _TILES if t < opt.amount * 2),
        }
    kinds = _TILINGS if opt.op in _TILINGS else (opt.op,)
    for amount in sorted(amounts - {0, 1}):
        for kind in kinds:
            if (kind, amount) != (opt.op, opt.amount):
                yield Opt(kind, opt.axis, amount)
