"""apply-opts: tile, vectorize, unroll and parallelize the loops of a kernel.

before → after, for `UPCAST(0, 4)`:

    RANGE [20, LOOP]        MUL(RANGE [5, LOOP], 4) + RANGE [4, UPCAST]
"""

from __future__ import annotations

from collections.abc import Callable

from svod_ir import Opt, Target, UOp
from svod_schedule.optimize.heuristics.choose import choose
from svod_schedule.optimize.heuristics.proposals import Reason
from svod_schedule.optimize.opts.scheduler import Scheduler

__all__ = ["apply_opts"]

_GIVEN = "given by the configuration, or found by a search"


def apply_opts(
    sink: UOp,
    target: Target,
    opts: tuple[Opt, ...] | None = None,
    note: Callable[[tuple[Reason, ...]], None] | None = None,
) -> UOp:
    """Apply Opts to a kernel.

    Args:
        sink: the kernel.
        target: properties of the device.
        opts: Opts to apply, in order; with None, the heuristics choose.
        note: function that is called with the reasons of the Opts.

    Raises:
        OptError: if an Opt does not apply.
    """
    if opts is None:
        scheduler, reasons = choose(sink, target)
    else:
        scheduler, reasons = (
            Scheduler(sink, target),
            (Reason(_GIVEN if opts else f"no opts: {_GIVEN}", opts),),
        )
        for opt in opts:
            scheduler.apply_opt(opt)
    if note is not None:
        note(reasons)
    return scheduler.finish()
