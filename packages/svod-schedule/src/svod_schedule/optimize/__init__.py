"""optimize: kernel → kernel with the chosen `Opt`s applied.

Example:
    >>> from svod_ir import AxisType, KernelInfo, Op, ParamArg, Target, UOp
    >>> from svod_dtype import float32, void
    >>> from svod_schedule.optimize import Chosen, Reason, Scheduler, apply_opts, choose
    >>> out, x = (UOp(Op.PARAM, float32, (), ParamArg(slot, 64)) for slot in range(2))
    >>> i = UOp.range(64, 0, AxisType.LOOP)
    >>> kernel = UOp(Op.SINK, void, (out.index(i).store(x.index(i) * 2.0).end(i),), KernelInfo("double"))
    >>> target = Target.generic(cores=1)
    >>> chosen = choose(kernel, target)
    >>> isinstance(chosen, Chosen), all(isinstance(reason, Reason) for reason in chosen.reasons)
    (True, True)
    >>> apply_opts(kernel, target, chosen.opts).arg.applied_opts == chosen.opts
    True

    A `Scheduler` applies opts one by one, and reports which ones are not allowed:

    >>> from svod_ir import parse_opts
    >>> scheduler = Scheduler(kernel, target)
    >>> upcast, unroll = parse_opts("UPCAST(0, 4) UNROLL(0, 4)")
    >>> scheduler.try_opt(upcast), scheduler.try_opt(unroll)
    (True, False)
    >>> scheduler.shape, scheduler.applied_opts == [upcast]
    ([16, 4], True)
    >>> earlier = scheduler.copy()
    >>> scheduler.apply_opt(*parse_opts("UPCAST(0, 2)"))
    >>> scheduler.shape, scheduler.kernel_name()
    ([8, 2, 4], 'E_L8_u2_u4')
    >>> scheduler.restore(earlier)
    >>> scheduler.kernel_name()
    'E_L16_u4'
"""

from __future__ import annotations

from svod_schedule.optimize.apply_opts import apply_opts
from svod_schedule.optimize.heuristics.choose import Chosen, choose
from svod_schedule.optimize.heuristics.proposals import Reason
from svod_schedule.optimize.opts.scheduler import Scheduler

__all__ = ["Chosen", "Reason", "Scheduler", "apply_opts", "choose"]
