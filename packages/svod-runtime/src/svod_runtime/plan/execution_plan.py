"""`ExecutionPlan`: a computation that is prepared once and executed many times.

    builder = ExecutionPlanBuilder("CPU")
    out = builder.add_buffer(ast_id, buffer)              # -> index of the buffer in the plan
    builder.add_op(PreparedKernel(...))                   # in schedule order
    builder.add_op(op, instance_dependencies=(0, 3))      # which must run after ops 0 and 3 of the plan
    builder.set_output_buffers([out])
    builder.add_alias_ids([...])                          # additional ids for the callback of release_*
    plan = builder.build()

    plan.execute()
    plan.execute_with_vars({"n": 7})
    for profile in plan.execute_profiled(): ...
    print(plan.profile())                                 # a table: time, rates, limits, source lines
    plan.output_buffer                                    # or output_buffer_at(1), output_buffers, num_outputs
    plan.buffer(ast_id).copyin(data)                      # new input data, same buffer
    plan.replace_buffer(index, buffer)                    # another buffer of equal size, dtype and device
    plan.execute_on({index: buffer}, {"n": 7})            # both at once, for several threads
    plan.execute_direct(Lending((0, 1)), buffers)         # on lent buffers, which the plan does not keep
    plan.memory_report                                    # how intermediates share memory
    plan.kernels()                                        # name, source, device, sizes, buffers of each kernel
    plan.release_intermediate_buffers(registry.remove)

Ops declare only dependencies that do not follow from their buffers: two ops that access the same
bytes keep their order in any case. An execution allocates nothing, and a sequence of kernels on a
device with a batch launcher is one foreign call. A plan keeps its buffers, and so their addresses,
alive.
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
from svod_runtime.profile.kernel_profile import FunctionProfile, KernelProfile

if TYPE_CHECKING:
    from svod_ir.origins import Origin
    from svod_runtime.plan.plan_form import PlanForm
    from svod_runtime.plan.watch import Watched
    from svod_runtime.profile.report import ProfileReport

__all__ = ["ExecutionPlan", "Guard"]

Guard: TypeAlias = Callable[[Sequence[Buffer], Mapping[str, int]], None]
"""Check of guarded buffers and variable values after each execution; raises if results are invalid.
"""


class ExecutionPlan(DirectPlan):
    """Prepared ops and their buffers; built by `PlanTemplate.bind` or `ExecutionPlanBuilder.build`.

    Any thread may execute a plan; concurrent executions of one plan are serialized.

    Example:
        >>> import numpy as np
        >>> import svod_tensor as sv
        >>> from svod_device import Buffer, get_allocator
        >>> from svod_dtype import float32
        >>> from svod_runtime import ExecutionPlan, Guard
        >>> x = sv.asarray([1.0, 2.0])
        >>> plan: ExecutionPlan = (x * 3).prepare()
        >>> profiles = plan.execute_with_vars_profiled({})
        >>> len(profiles), plan.output_buffer.as_numpy().tolist()
        (1, [3.0, 6.0])

        A fork has the same inputs and memory of its own; `execute_on` replaces inputs in one step:

        >>> fork = plan.fork()
        >>> other = Buffer.from_host(np.array([10, 20], "float32"), float32, allocator=get_allocator("CPU"))
        >>> (source,) = (k for k in range(len(plan.buffers)) if k not in plan.output_indices)
        >>> fork.execute_on({source: other}, {})
        True
        >>> fork.output_buffer.as_numpy().tolist(), plan.output_buffer.as_numpy().tolist()
        ([30.0, 60.0], [3.0, 6.0])

        Memory that was given to another computation is not read any more:

        >>> fork.mark_donated(other, "taken by a step of training")
        >>> fork.execute()
        Traceback (most recent call last):
        svod_runtime.errors.DonatedBufferError: ...

        A guard is called after each execution; it raises if the results are invalid:

        >>> calls = []
        >>> guard: Guard = lambda buffers, variables: calls.append(variables)
        >>> checked = plan.template.bind([plan.buffers[source]], guard=guard)
        >>> checked.execute()
        >>> len(calls)
        1

        A plan that is not used any more goes back to its template, whose next plan reuses it:

        >>> spare = plan.template.bind([plan.buffers[source]])
        >>> spare.recycle()
        >>> del spare
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

        If a plan writes memory that existed before, Ctrl-C is raised after all writes (a second
        Ctrl-C immediately). Reading an output afterwards returns its result; an asynchronous device
        may still be busy when this method returns.

        Raises:
            ExecutionError: if an op fails, or a view does not lie in its base as declared.
            DeviceLostError: if a device is lost, or a buffer belongs to a device that was lost or
                closed.
            UnsupportedError: if a custom function has an unregistered kind.
            DonatedBufferError: if an input was donated, to this plan or elsewhere, and not replaced
                since.
            NonFiniteError: if the plan is watched, and a kernel with finite inputs produces a NaN.
        """
        with self._lock:
            self._restore_lent()
            self._run()

    def _run(self) -> None:
        # Restored rather than cleared afterwards: `profile` holds the plan over several runs.
        was_executing, self._is_executing = self._is_executing, True
        try:
            if self._is_watched or self._donated or self._is_stale:
                self._check()
            # Only writes to memory that outlives the execution are delayed: intermediates are
            # computed again.
            is_atomic = self._watched is None and self._is_one_call()
            if is_atomic or not self._template.writes_inputs:
                self._run_steps()
            else:
                with InterruptDelay():
                    self._run_steps()
            if self._guard is not None:
                self._call_guard(self._guard)
        finally:
            self._is_executing = was_executing

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

        Omitted variables keep their last value; variables fixed by the schedule, and `core_id`,
        never change. Names that no op uses have no effect.

        Raises:
            VariableBoundsError: if a value is outside its variable's bounds. The plan is then
                unchanged and did not run.
        """
        with self._lock:
            self._restore_lent()
            self._set_variables(values)
            self._run()

    def execute_on(
        self,
        replacements: Mapping[int, Buffer],
        values: Mapping[str, int],
        *,
        may_wait: bool = True,
        lent: Collection[int] = (),
        may_be_smaller: bool = False,
    ) -> bool:
        """Run `replace_buffers` and `execute_with_vars` as one atomic operation on the plan.

        Args:
            replacements: buffers by index.
            values: values of variables, by name.
            may_wait: whether to wait for another thread that uses the plan.
            lent: indices in `replacements` of buffers that remain the caller's. The plan drops
                results and large buffers among them; later operations without replacements use
                zero-filled memory of its own.
            may_be_smaller: whether buffers may be smaller than planned, since the values of
                variables make them so; only for plans whose template has `spare_bytes`.

        Returns:
            False if another thread uses the plan and `may_wait` is false: the plan is then
            unchanged and did not run.

        Raises:
            PlanError: if a buffer cannot be replaced.
            VariableBoundsError: if a value is outside its variable's bounds.
        """
        # An interrupt may come between any two statements, so only `with` releases a lock reliably,
        # and a non-blocking acquire is not an option. A thread that passes this test just before
        # another one starts waits for its turn instead, which is correct, only slower.
        if self._is_executing and not may_wait:
            return False
        with self._lock:
            if lent is not self._lent:
                self._borrow(lent, replacements, may_be_smaller=may_be_smaller)
            try:
                self._replace(replacements, may_be_smaller=may_be_smaller)
                if values:
                    self._set_variables(values)
                self._run()
            finally:
                if lent:
                    self._drop_lent()
        return True

    @property
    def is_special(self) -> bool:
        """True if the plan has a guard, a watch, variable values, origins or forks of its own,
        which other plans of its template may lack.
        """
        return bool(
            self._guard or self._watched or self._caller_values or self._origins or self._forks
        )

    def recycle(self) -> None:
        """Return this plan to its template for reuse by a later `bind`; the caller must hold the
        only reference.
        """
        self._template.recycle(self)

    def fork(self) -> ExecutionPlan:
        """Return another plan on the same inputs with its own memory for all other buffers.

        Both plans can run concurrently. A fork takes no lock: if another thread changes this plan
        meanwhile, the fork may have some inputs from before and some from after the change.

        Raises:
            OutOfMemoryError: if a buffer cannot be allocated.
        """
        template = self._template
        buffers = template.copy_buffers(
            [buffer.ensure_allocated() for buffer in list(self._buffers)]
        )
        fork = ExecutionPlan(
            template,
            buffers,
            dict(self._caller_values),
            self._input_ids,
            self._origins,
            self._guard,
            self._watched,
        )
        # Replaced inputs may share memory in ways that the template did not see.
        levels = template.dependencies.get_levels(buffers)
        if levels != fork._levels:
            fork._levels = levels
            fork._make_steps()
        fork._donated.update(
            dict.fromkeys(template.donated_indices, "taken by the plan that it was forked from")
        )
        # Order matters: `mark_donated` marks the plan first and its forks second. Registering the
        # fork before copying the marks means that no mark is lost.
        self._forks.append(weakref.ref(fork, self._forks.remove))
        fork._donated.update(self._donated)
        return fork

    def execute_profiled(self) -> list[KernelProfile]:
        """Run every op, each kernel on its own, and return one profile per kernel in execution
        order.
        """
        return self._run_profiled([], [])

    def _run_profiled(
        self, functions: list[FunctionProfile], transfer_times: list[int]
    ) -> list[KernelProfile]:
        """Run `execute_profiled`, and append the profile of each custom function to `functions`,
        and the nanoseconds of each copy to `transfer_times`.
        """
        with self._lock:
            self._restore_lent()
            was_executing, self._is_executing = self._is_executing, True
            try:
                self._check()
                profiles: list[KernelProfile] = []
                with InterruptDelay() if self._template.writes_inputs else nullcontext():
                    for step in self._steps:
                        started = time.perf_counter_ns()
                        measured = list(step.run_profiled())
                        if not measured:
                            transfer_times.append(time.perf_counter_ns() - started)
                        for profile in measured:
                            if isinstance(profile, KernelProfile):
                                profiles.append(profile)
                            else:
                                functions.append(profile)
                if self._guard is not None:
                    self._call_guard(self._guard)
                return profiles
            finally:
                self._is_executing = was_executing

    def execute_with_vars_profiled(self, values: Mapping[str, int]) -> list[KernelProfile]:
        """Set variables, run, and return one profile per kernel."""
        with self._lock:
            self._set_variables(values)
            return self.execute_profiled()

    def profile(self, values: Mapping[str, int] | None = None, *, n_runs: int = 5) -> ProfileReport:
        """Run once to warm up, then `n_runs` times with profiles, and report average times per
        kernel and custom function.

        Copies share one row.

        Args:
            values: values of variables, set before the first run.
            n_runs: number of profiled runs.

        Raises:
            ProfileError: if `n_runs` is less than 1.
        """
        from svod_runtime.profile.report import ProfileReport

        if n_runs < 1:
            raise ProfileError(n_runs=n_runs)
        functions: list[FunctionProfile] = []
        transfer_times: list[int] = []
        with self._lock:
            self._is_executing = True
            try:
                self.execute_with_vars(values or {})
                profiles = [
                    profile
                    for _ in range(n_runs)
                    for profile in self._run_profiled(functions, transfer_times)
                ]
            finally:
                self._is_executing = False
        return ProfileReport(
            profiles, n_runs=n_runs, transfer_times=transfer_times, functions=functions
        )

    def _check(self) -> None:
        for index, taker in self._donated.items():
            raise DonatedBufferError(index=index, buffer=self._buffers[index], taker=taker)
        if self._is_stale:
            self._rebuild()
        for view in self._template.views:
            check_view(view, self._buffers)
        # Marked before the run: an execution that fails may have overwritten its inputs.
        for index in self._template.donated_indices:
            self._donated[index] = "taken by the last execution"

    def mark_donated(self, buffer: Buffer, taker: str) -> None:
        """Refuse to run, in this plan and its forks, until every buffer on the storage of `buffer`
        is replaced.

        `taker` names the recipient, for the error message.
        """
        with self._lock:
            for index, own in enumerate(self._buffers):
                if own.storage_id == buffer.storage_id:
                    self._donated[index] = taker
        # Outside of the lock: locks of a plan and of its forks are never held together.
        for ref in list(self._forks):
            fork = ref()
            if fork is not None:
                fork.mark_donated(buffer, taker)
