"""The plan of a captured function, and its forks for concurrent calls."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from threading import get_ident
from typing import TYPE_CHECKING

from svod_codegen import count_usable_cores
from svod_device import OutOfMemoryError, copy_buffer
from svod_ir.forks import make_lock

if TYPE_CHECKING:
    from svod_device import Buffer
    from svod_runtime import ExecutionPlan

__all__ = ["PlanForks"]


class PlanForks:
    """A plan, and forks of it with intermediates of their own, one for each thread that calls.

    Attributes:
        plan: the plan.
    """

    __slots__ = ("_lock", "_max_plans", "_outputs", "_plans", "plan")

    def __init__(self, plan: ExecutionPlan, outputs: Collection[int]) -> None:
        """Start with the plan alone; `outputs` are the indices of its results."""
        self.plan = plan
        self._plans = [plan]
        self._outputs = frozenset(outputs)
        # Counted when a second plan is first needed.
        self._max_plans = 0
        self._lock = make_lock()

    def execute(
        self,
        buffers: Mapping[int, Buffer],
        values: Mapping[str, int],
        *,
        is_sized: bool,
        lent: Collection[int] = (),
    ) -> None:
        """Execute an idle plan; if there are as many as allowed, wait for one.

        Args:
            buffers: the memory of this call, by index in the plan.
            values: values of variables.
            is_sized: whether buffers may be smaller than the plan's.
            lent: indices of buffers that the plan gives back after the call.
        """
        if is_sized and self.plan.template.spare_bytes is None:
            self.execute_first(buffers, values, is_sized=True)
            return
        for candidate in self._plans:
            if candidate.execute_on(
                buffers, values, may_wait=False, lent=lent, may_be_smaller=is_sized
            ):
                return
        self._get_fork().execute_on(buffers, values, lent=lent, may_be_smaller=is_sized)

    def execute_first(
        self, buffers: Mapping[int, Buffer], values: Mapping[str, int], *, is_sized: bool
    ) -> None:
        """Execute the plan itself, and not a fork of it.

        Where a plan needs buffers of their largest sizes, smaller arguments are copied into them, and
        smaller results out of them: plans with loops, host functions, or copies between devices.
        """
        plan = self.plan
        if not is_sized or plan.template.spare_bytes is not None:
            plan.execute_on(buffers, values, may_be_smaller=is_sized)
            return
        planned = plan.template.planned_bytes
        whole = {i: buffer for i, buffer in buffers.items() if buffer.nbytes == planned[i]}
        smaller = {
            i: (buffer, plan.buffers[i].view(0, buffer.nbytes, buffer.dtype))
            for i, buffer in buffers.items()
            if i not in whole
        }
        with self._lock:
            for i, (buffer, staged) in smaller.items():
                if i not in self._outputs:
                    copy_buffer(staged, buffer)
            plan.execute_on(whole, values)
            for i, (buffer, staged) in smaller.items():
                if i in self._outputs:
                    copy_buffer(buffer, staged)

    def _get_fork(self) -> ExecutionPlan:
        """A new fork for a thread that found no idle plan, or, at the maximum, one to wait for."""
        with self._lock:
            # Each running plan occupies a core: more plans would take memory and save no time.
            self._max_plans = self._max_plans or count_usable_cores()
            if len(self._plans) < self._max_plans:
                try:
                    self._plans.append(self.plan.fork())
                    return self._plans[-1]
                # A fork allocates all intermediates again. Without room for them, threads share the
                # plans that exist.
                except OutOfMemoryError:
                    self._max_plans = len(self._plans)
        # Spreads the waiting threads over the plans without a shared counter.
        return self._plans[get_ident() % len(self._plans)]
