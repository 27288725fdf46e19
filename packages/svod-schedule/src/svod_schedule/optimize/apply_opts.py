"""apply-opts: a kernel computed several elements at a time, and by several threads.

before → after, for `UPCAST(0, 4)`:

    RANGE [20, LOOP]        MUL(RANGE [5, LOOP], 4) + RANGE [4, UPCAST]
"""

from __future__ import annotations

from svod_ir.args import Opt
from svod_ir.target import Target
from svod_ir.uop import UOp
from svod_schedule.optimize.heuristics import apply_heuristics
from svod_schedule.optimize.scheduler import Scheduler

__all__ = ["apply_opts"]


def apply_opts(sink: UOp, target: Target, opts: tuple[Opt, ...] | None = None) -> UOp:
    """The kernel with exactly these Opts applied; None lets the heuristics choose.

    Raises:
        OptError: if one does not apply.
    """
    scheduler = Scheduler(sink, target)
    if opts is None:
        apply_heuristics(scheduler)
    else:
        for opt in opts:
            scheduler.apply_opt(opt)
    return scheduler.finish()
