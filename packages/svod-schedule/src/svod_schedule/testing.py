"""What tests of compiled programs need of the compiler.

Example:
    >>> from svod_dtype import float32, void
    >>> from svod_ir import AxisType, KernelInfo, Op, ParamArg, Target, UOp
    >>> out, x = (UOp(Op.PARAM, float32, (), ParamArg(slot, 64)) for slot in range(2))
    >>> i = UOp.range(64, 0, AxisType.LOOP)
    >>> kernel = UOp(Op.SINK, void, (out.index(i).store(x.index(i) * 2.0).end(i),), KernelInfo("double"))
    >>> from svod_schedule.optimize import choose
    >>> from svod_schedule.testing import using_threads_from
    >>> two_cores = Target.generic(cores=2)
    >>> [opt.op.name for opt in choose(kernel, two_cores).opts]
    ['UPCAST']
    >>> with using_threads_from(1):
    ...     [opt.op.name for opt in choose(kernel, two_cores).opts]
    ['UPCAST', 'THREAD']
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from svod_schedule.optimize.heuristics import constants

__all__ = ["using_threads_from"]


@contextmanager
def using_threads_from(least_work: int) -> Generator[None]:
    """Let kernels of so many steps or more be split over threads, in this process, whether it pays
    or not.
    """
    before, constants.MIN_THREADED_WORK = constants.MIN_THREADED_WORK, least_work
    try:
        yield
    finally:
        constants.MIN_THREADED_WORK = before
