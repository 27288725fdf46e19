"""The Opts that are worth trying on a kernel, from its axes and from what the target has.

`iter_actions` lists them one by one, `iter_neighbours` the sequences of Opts that are one change
away from a given one. Whether an Opt is allowed only `Scheduler.apply_opt` knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

from svod_ir import AxisType, Op, Opt, OptOp, Target, UOp, exact_trips
from svod_schedule.optimize.opts.scheduler import Scheduler
from svod_schedule.optimize.opts.tensor_cores import get_layouts

__all__ = ["iter_actions", "iter_neighbours"]

_TILES = (2, 3, 4, 5, 6, 7, 8, 12)
_VECTORS = (1, 2, 4, 8)
_BLOCKS = (2, 4, 8)
_WAYS = 3
"""So many ways to lay a product over a core are tried, the best ones."""
_WORK_ITEMS = (2, 4, 8, 16, 32, 64, 128, 256)
_LAST = (OptOp.THREAD, OptOp.PACK)
"""What is applied after the axes have been tiled."""


def iter_actions(scheduler: Scheduler, *, can_pad: bool = False) -> Iterator[Opt]:
    """The Opts to try on a kernel in its present state, most of them allowed."""
    lanes = sorted({scheduler.target.lanes(n.dtype) for n in scheduler.sink.iter_ops(Op.INDEX)})
    amounts = sorted({*_TILES, *(n * v for n in lanes for v in _VECTORS)} - {1})
    axes = scheduler.axes
    for position, axis in enumerate(axes):
        kind = axis.arg.kind
        if kind in (AxisType.LOOP, AxisType.GLOBAL):
            yield from _iter_tiles(position, axis, amounts, scheduler.target.max_upcast)
        yield from _iter_shares(position, axis, scheduler.target)
        if can_pad and kind in (AxisType.LOOP, AxisType.GLOBAL, AxisType.REDUCE):
            size = exact_trips(axis)
            unaligned = (n for n in sorted({4, *lanes} - {1}) if isinstance(size, int) and size % n)
            yield from (Opt(OptOp.PADTO, position, n) for n in unaligned)
    for position, axis in enumerate(scheduler.reduced_axes):
        if axis.arg.kind is AxisType.REDUCE:
            yield from _iter_reduced(position, axis, amounts, scheduler.target)
    for first, second in combinations(range(len(axes)), 2):
        if axes[first].arg.kind is axes[second].arg.kind and axes[first].arg.kind in (
            AxisType.LOOP,
            AxisType.REDUCE,
        ):
            yield Opt(OptOp.SWAP, first, second)
    if not scheduler.applied_opts:
        yield from _iter_cores(scheduler)


def _iter_cores(scheduler: Scheduler) -> Iterator[Opt]:
    """The ways to give a product to a tensor core."""
    for number, core in enumerate(scheduler.target.tensor_cores):
        layouts = get_layouts(scheduler.sink, core)
        if not isinstance(layouts, str):
            yield from (Opt(OptOp.TC, way, number) for way in range(min(len(layouts), _WAYS)))


def _iter_tiles(position: int, axis: UOp, amounts: list[int], max_upcast: int) -> Iterator[Opt]:
    """Ways to take several outputs along an axis; the last tile overlaps where the amount does not
    divide the size.
    """
    size = exact_trips(axis)
    for amount in amounts:
        if not isinstance(size, int) or amount < size:
            is_even = isinstance(size, int) and size % amount == 0
            yield Opt(OptOp.UPCAST if is_even else OptOp.OVERLAP, position, amount)
    if isinstance(size, int) and size <= max_upcast:
        yield Opt(OptOp.UPCAST, position, 0)


def _iter_shares(position: int, axis: UOp, target: Target) -> Iterator[Opt]:
    """Ways to share an axis out to threads or work-items, and to copy what a thread reads again and
    again.
    """
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
    """Ways to take several reduced elements at a time, or to share them out to work-items."""
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
    cores = 1 if target.has_local else target.cores
    return sorted({n for n in (cores, cores // 2, cores // 4) if n > 1}, reverse=True)


def iter_neighbours(
    opts: tuple[Opt, ...],
    apply: Callable[[tuple[Opt, ...]], Scheduler | None],
    *,
    can_pad: bool = False,
) -> Iterator[tuple[Opt, ...]]:
    """The sequences one change away: with one Opt more, at the end or before those for threads;
    with one less; with another amount. `apply` gives the kernel with some Opts."""
    end = next((i for i, opt in enumerate(opts) if opt.op in _LAST), len(opts))
    for place in sorted({len(opts), end}, reverse=True):
        scheduler = apply(opts[:place])
        if scheduler is not None:
            yield from (
                (*opts[:place], opt, *opts[place:])
                for opt in iter_actions(scheduler, can_pad=can_pad)
            )
    if opts and (bare := apply(())) is not None:
        # TC stands first, so that another core is another beginning.
        rest = opts[1:] if opts[0].op is OptOp.TC else ()
        yield from ((core, *rest) for core in _iter_cores(bare) if core != opts[0])
    for i, opt in enumerate(opts):
        yield (*opts[:i], *opts[i + 1 :])
        scheduler = apply(opts[:i])
        if scheduler is not None:
            yield from (
                (*opts[:i], other, *opts[i + 1 :]) for other in _iter_variants(opt, scheduler)
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
    kinds = (OptOp.UPCAST, OptOp.OVERLAP) if opt.op in (OptOp.UPCAST, OptOp.OVERLAP) else (opt.op,)
    for amount in sorted(amounts - {0, 1}):
        for kind in kinds:
            if (kind, amount) != (opt.op, opt.amount):
                yield Opt(kind, opt.axis, amount)
