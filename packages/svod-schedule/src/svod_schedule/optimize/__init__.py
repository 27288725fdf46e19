"""optimize: kernel → kernel with the chosen `Opt`s applied."""

from __future__ import annotations

from svod_ir.args import Opt
from svod_ir.target import Target
from svod_ir.uop import UOp
from svod_schedule.optimize.heuristics import apply_heuristics
from svod_schedule.optimize.merge_loops import merge_loops
from svod_schedule.optimize.scheduler import Scheduler

__all__ = ["Scheduler", "apply_heuristics", "apply_opts", "choose_and_apply", "merge_loops"]


def choose_and_apply(sink: UOp, target: Target) -> UOp:
    """The kernel with the heuristics' Opts applied."""
    scheduler = Scheduler(sink, target)
    apply_heuristics(scheduler)
    return scheduler.finish()


def apply_opts(sink: UOp, target: Target, opts: tuple[Opt, ...]) -> UOp:
    """The kernel with exactly these Opts applied.

    Raises:
        OptError: if one does not apply.
    """
    scheduler = Scheduler(sink, target)
    for opt in opts:
        scheduler.apply_opt(opt)
    return scheduler.finish()
