"""Workgroups: what their members share, where the target runs them in step.

A core that runs members one after the other keeps what is private to each of them, and gains nothing. Where they
run in step, few results of long reductions leave most of the machine idle: members take parts of a reduction and meet in
shared memory. Otherwise members take neighbouring results, so that what they read lies side by side.
"""

from __future__ import annotations

from math import prod

from svod_ir.args import Opt, OptOp
from svod_ir.ops import AxisType, Op
from svod_ir.uop import UOp
from svod_schedule.loops import extent
from svod_schedule.optimize.scheduler import Scheduler

__all__ = ["take_members"]

FEW_RESULTS = 2048
"""Up to this many places in the grid, a reduction is worth sharing."""

N_STEPS = 2
"""How many times as many members as run in step a workgroup has that takes results."""

_GROUPS = (256, 128, 64, 32, 16)


def take_members(scheduler: Scheduler) -> None:
    """Share out the kernel of `scheduler`, whose axes are tiled already, to the members of workgroups."""
    if scheduler.target.lockstep == 1:
        return
    n_results = prod(int(r.vmax) + 1 for r in _result_loops(scheduler))
    if n_results > FEW_RESULTS or not _share_reduction(scheduler):
        _share_results(scheduler, n_results)


def _result_loops(scheduler: Scheduler) -> list[UOp]:
    """The loops over results, from outer to inner."""
    nests = [node.src[1:] for node in scheduler.sink.src if node.op is Op.END]
    return [r for nest in nests for r in nest if r.arg[1] is AxisType.LOOP]


def _share_reduction(scheduler: Scheduler) -> bool:
    """Split the first reduction that can be; neighbouring members take neighbouring elements."""
    for position, axis in enumerate(scheduler.reduced_axes):
        size = extent(axis)
        for amount in _GROUPS if isinstance(size, int) else ():
            if size % amount == 0 and scheduler.try_opt(Opt(OptOp.GROUP, position, amount)):
                return True
    return False


def _share_results(scheduler: Scheduler, n_results: int) -> None:
    """Give the innermost loops to members, as long as there are workgroups for all cores."""
    left = min(N_STEPS * scheduler.target.lockstep, scheduler.target.max_local, n_results // scheduler.target.cores)
    for loop in reversed(_result_loops(scheduler)[-3:]):
        size = extent(loop)
        amount = 1 << max(left.bit_length() - 1, 0)
        while isinstance(size, int) and amount > 1 and size % amount:
            amount //= 2
        if isinstance(size, int) and amount > 1:
            position = next(i for i, r in enumerate(scheduler.axes) if r is loop)
            left //= amount if scheduler.try_opt(Opt(OptOp.LOCAL, position, amount)) else 1
