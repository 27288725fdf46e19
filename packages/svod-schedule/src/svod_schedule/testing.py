"""Support for tests of compiled programs.

Example:
    >>> from svod_dtype import float32, void
    >>> from svod_ir import AxisType, KernelInfo, Op, ParamArg, Target, UOp
    >>> out, x = (UOp(Op.PARAM, float32, (), ParamArg(slot, 64)) for slot in range(2))
    >>> i = UOp.range(64, 0, AxisType.LOOP)
    >>> kernel = UOp(Op.SINK, void, (out.index(i).store(x.index(i) * 2.0).end(i),), KernelInfo("double"))
    >>> from svod_schedule.optimize import choose
    >>> from svod_schedule.testing import force_threads
    >>> two_cores = Target.generic(cores=2)
    >>> [opt.op.name for opt in choose(kernel, two_cores).opts]
    ['UPCAST']
    >>> with force_threads(1):
    ...     [opt.op.name for opt in choose(kernel, two_cores).opts]
    ['UPCAST', 'THREAD']
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from svod_schedule.optimize.heuristics import constants

__all__ = ["force_threads"]


@contextmanager
def force_threads(min_work: int) -> Generator[None]:
    """Split kernels of at least `min_work` steps over threads in this process, even if that does
    not pay.
    """
    before, constants.MIN_THREADED_WORK = constants.MIN_THREADED_WORK, min_work
    try:
        yield
    finally:
        constants.MIN_THREADED_WORK = before
