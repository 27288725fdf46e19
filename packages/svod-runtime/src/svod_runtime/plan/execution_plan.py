"""`ExecutionPlan`: everything that one computation needs, prepared once and executed many times.

    builder = ExecutionPlanBuilder("CPU")
    out = builder.add_buffer(ast_id, buffer)              # -> index of the buffer in the plan
    builder.add_op(PreparedKernel(...))                   # in schedule order
    builder.add_op(op, instance_dependencies=(0, 3))      # which must run after ops 0 and 3 of the plan
    builder.set_output_buffers([out])
    builder.add_alias_ids([...])                          # ids to hand to release_*'s callback as well
    plan = builder.build()

    plan.execute()
    plan.execute_with_vars({"n": 7})
    for profile in plan.execute_profiled(): ...
    print(plan.profile())                                 # a table: time, rates, limits, lines of the program
    plan.output_buffer                                    # or output_buffer_at(1), output_buffers, num_outputs
    plan.buffer(ast_id).copyin(data)                      # new input data, in place
    plan.replace_buffer(index, buffer)                    # another buffer of equal size, dtype and device
    plan.execute_on({index: buffer}, {"n": 7})            # both at once, for several threads
    plan.execute_direct(Lending((0, 1)), buffers)         # on buffers that are others at each call, and are not kept
    plan.memory_report                                    # how intermediates share memory
    plan.kernels()                                        # name, source, device, sizes, buffers of each kernel
    plan.release_intermediate_buffers(registry.remove)

Ops need to declare only dependencies that their buffers do not show: two ops that touch the same
bytes keep their order in any case. Executing allocates nothing, and a run of kernels on a device
with a batch launcher is one foreign call. A plan keeps its buffers, and so their addresses, alive.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, TypeAlias

from svod_device import Buffer
from svod_runtime.errors import DonatedBufferError, ProfileError
from svod_runtime.plan.direct import DirectPlan
from svod_runtime.plan.execute import check_view
from svod_runtime.plan.interrupts import InterruptDelay
from svod_runtime.profile.kernel_profile import KernelProfile

if TYPE_CHECKING:
    from svod_ir.origins import Origin
    from svod_runtime.plan.plan_form import PlanForm
    from svod_runtime.plan.watch import Watched
    from svod_runtime.profile.report import ProfileReport

__all__ = ["ExecutionPlan", "Guard"]

Guard: TypeAlias = Callable[[Sequence[Buffer], Mapping[str, int]], None]
"""Looks at buffers that a plan filled, with the values of its variables, and raises if something is
wrong.
"""


class ExecutionPlan(DirectPlan):
    """Prepared ops and their buffers; made by `PlanTemplate.bind` or `ExecutionPlanBuilder.build`.

    Any thread may execute a plan; two that execute the same plan do so one after the other.
    """

    def __init__(
        self,
        template: PlanForm,
        buffers: Sequence[Buffer],
        values: Mapping[str, int],
        input_ids: Sequence[int] | None,
        origins: Mapping[int, tuple[Origin, ...]],
        guard: Guard | None = None,
        watched: Watched | None = None,
    ) -> None:
        super().__init__(template, buffers, values, input_ids, origins)
        self._guard = guard
        self._watched: Watched | None = watched
        self._forks: list[weakref.ref[ExecutionPlan]] = []
        self._is_checked = guard is not None or watched is not None
        self._is_watched = bool(template.views or template.donated_indices)

    def __repr__(self) -> str:
        counts = (
            f"{len(self._template.ops)} ops, {self.num_kernels} kernels, {len(self._buffers)}"
            " buffers"
        )
        return f"ExecutionPlan({counts}, {len(self._steps)} calls on {self.device})"

    def execute(self) -> None:
        """Run every op.

        Of a plan that writes memory that was there before, Ctrl-C is raised when all is written (a
        second one at once). Reading an output afterwards gives its result; a device that works
        asynchronously may still be busy when this returns.

        Raises:
            ExecutionError: if an op fails or a view is not what it must be.
            DeviceLostError: if a device is lost, or one of the buffers is of a device that was lost
                or closed.
            UnsupportedError: if a custom function has a kind that nothing implements.
            DonatedBufferError: if an input was donated, to this plan or elsewhere, and not replaced
                since.
            NonFiniteError: if the plan is watched, and a kernel makes a NaN of arguments without
                any.
        """
        with self._lock:
            self._take_back()
            self._run()

    def _run(self) -> None:
        was_at_work, self._is_at_work = self._is_at_work, True
        try:
            if self._is_watched or self._donated or self._is_stale:
                self._check()
            if not self._template.writes_inputs or self._is_one_call():
                self._run_steps()
            else:
                with InterruptDelay():
                    self._run_steps()
            if self._guard is not None:
                self._call_guard(self._guard)
        finally:
            self._is_at_work = was_at_work

    def _is_one_call(self) -> bool:
        """Whether Ctrl-C comes before all that is written, or after it, in any case."""
        return len(self._steps) == 1 and self._steps[0].is_whole and self._watched is None

    def _run_steps(self) -> None:
        if self._watched is None:
            for step in self._steps:
                step.run()
        else:
            self._run_watched(self._watched)

    def _run_watched(self, watched: Watched) -> None:
        from svod_runtime.plan.watch import run_watched

        for step in self._steps:
            step.run_each(lambda state: run_watched(state, watched))

    def _call_guard(self, guard: Guard) -> None:
        guard([self._buffers[index] for index in self._template.guarded_indices], self._variables)

    def execute_with_vars(self, values: Mapping[str, int]) -> None:
        """Set variables and run.

        Variables that are not named keep their last value; those that the schedule fixed, and
        `core_id`, are never touched. Names that no op uses have no effect.

        Raises:
            VariableBoundsError: if a value is outside its variable's bounds. Nothing has run or
                changed then.
        """
        with self._lock:
            self._take_back()
            self._set_variables(values)
            self._run()

    def execute_on(
        self,
        replacements: Mapping[int, Buffer],
        values: Mapping[str, int],
        *,
        may_wait: bool = True,
        lent: Collection[int] = (),
    ) -> bool:
        """`replace_buffers`, then `execute_with_vars`; what other threads do with the plan comes
        before or after both.

        Args:
            replacements: buffers by index.
            values: of variables.
            may_wait: whether to wait for another thread that is at work with the plan.
            lent: those of `replacements` that are the caller's alone afterwards. The plan forgets
                the results among them, and what is large; whatever it does next without getting
                others happens in memory of its own, filled with zeros.

        Returns:
            False if another thread is at work with the plan and `may_wait` does not hold: nothing
                was done then.

        Raises:
            PlanError: if a buffer cannot be replaced.
            VariableBoundsError: if a value is outside its variable's bounds.
        """
        # An interrupt may come between any two steps, so that only `with` gives a lock back for
        # certain. Who comes after this question and before the answer changes waits for a turn.
        if self._is_at_work and not may_wait:
            return False
        with self._lock:
            if lent is not self._lent:
                self._borrow(lent, replacements)
            try:
                self._replace(replacements)
                if values:
                    self._set_variables(values)
                self._run()
            finally:
                if lent:
                    self._let_go()
        return True

    @property
    def is_special(self) -> bool:
        """Whether it has something that other plans of its template may not have: a guard, values
        of variables, origins.
        """
        return bool(self._guard or self._watched or self._given or self._origins or self._forks)

    def retire(self) -> None:
        """Let the template use this plan, which nobody else has any more, for one that is bound
        later.
        """
        self._template.retire(self)

    def fork(self) -> ExecutionPlan:
        """Another plan on the same inputs, with memory of its own for everything else: both can run
        at once.

        Nobody waits: a fork that is made while another thread changes this plan has some inputs
        from before and some from after.

        Raises:
            OutOfMemoryError: if there is no memory for it.
        """
        template = self._template
        buffers = template.copy_buffers(
            [buffer.ensure_allocated() for buffer in list(self._buffers)]
        )
        fork = ExecutionPlan(
            template,
            buffers,
            dict(self._given),
            self._input_ids,
            self._origins,
            self._guard,
            self._watched,
        )
        levels = template.dependencies.get_levels(buffers)
        if levels != fork._levels:
            fork._levels = levels
            fork._make_steps()
        fork._donated.update(
            dict.fromkeys(template.donated_indices, "the plan that it was forked from took it")
        )
        # A thread that takes content marks this plan first and its forks then, so that no mark is
        # lost on the way.
        self._forks.append(weakref.ref(fork, self._forks.remove))
        fork._donated.update(self._donated)
        return fork

    def execute_profiled(self) -> list[KernelProfile]:
        """Run every op, each kernel by itself, and return one profile for each kernel in the order
        of execution.
        """
        return self._run_profiled([])

    def _run_profiled(self, transfer_times: list[int]) -> list[KernelProfile]:
        """`execute_profiled`, with the nanoseconds that each copy and custom function took appended
        to a list.
        """
        with self._lock:
            self._take_back()
            was_at_work, self._is_at_work = self._is_at_work, True
            try:
                self._check()
                profiles: list[KernelProfile] = []
                with InterruptDelay() if self._template.writes_inputs else nullcontext():
                    for step in self._steps:
                        started = time.perf_counter_ns()
                        found = list(step.run_profiled())
                        if not found:
                            transfer_times.append(time.perf_counter_ns() - started)
                        profiles += found
                if self._guard is not None:
                    self._call_guard(self._guard)
                return profiles
            finally:
                self._is_at_work = was_at_work

    def execute_with_vars_profiled(self, values: Mapping[str, int]) -> list[KernelProfile]:
        """`execute_with_vars` with profiles."""
        with self._lock:
            self._set_variables(values)
            return self.execute_profiled()

    def profile(self, values: Mapping[str, int] | None = None, *, n_runs: int = 5) -> ProfileReport:
        """Run once to warm up, then `n_runs` times with profiles, and report what each kernel took
        on average.

        Copies and custom functions are reported together.

        Args:
            values: of variables, set before.

        Raises:
            ProfileError: if `n_runs` is less than 1.
        """
        from svod_runtime.profile.report import ProfileReport

        if n_runs < 1:
            raise ProfileError(n_runs=n_runs)
        transfer_times: list[int] = []
        with self._lock:
            self._is_at_work = True
            try:
                self.execute_with_vars(values or {})
                profiles = [
                    profile for _ in range(n_runs) for profile in self._run_profiled(transfer_times)
                ]
            finally:
                self._is_at_work = False
        return ProfileReport(profiles, n_runs=n_runs, transfer_times=transfer_times)

    def _check(self) -> None:
        for index, taker in self._donated.items():
            raise DonatedBufferError(index=index, buffer=self._buffers[index], taker=taker)
        if self._is_stale:
            self._renew()
        for view in self._template.views:
            check_view(view, self._buffers)
        for index in self._template.donated_indices:
            self._donated[index] = "the last execution took it"

    def forget_content(self, buffer: Buffer, taker: str) -> None:
        """Refuse to run until everything on the memory of `buffer` is replaced, as all forks do;
        `taker` says who took it.
        """
        with self._lock:
            for index, own in enumerate(self._buffers):
                if own.storage_id == buffer.storage_id:
                    self._donated[index] = taker
        for ref in list(self._forks):
            fork = ref()
            if fork is not None:
                fork.forget_content(buffer, taker)
