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
    plan.memory_report                                    # how intermediates share memory
    plan.kernels()                                        # name, source, device, sizes, buffers of each kernel
    plan.release_intermediate_buffers(registry.remove)

Ops need to declare only dependencies that their buffers do not show: two ops that touch the same
bytes keep their order in any case. Executing allocates nothing, and a run of kernels on a device
with a batch launcher is one foreign call. A plan keeps its buffers, and so their addresses, alive.
"""

from __future__ import annotations

import operator
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from svod_device import CORE_ID, Buffer
from svod_runtime._execute import Step, check_view, make_steps
from svod_runtime._plan_view import PlanView
from svod_runtime._profile import KernelProfile
from svod_runtime._sharing import Pattern, Sharing
from svod_runtime.errors import DonatedBufferError, PlanError, ProfileError, VariableBoundsError

if TYPE_CHECKING:
    from svod_ir.origins import Origin
    from svod_runtime._plan_form import PlanForm
    from svod_runtime._report import ProfileReport
    from svod_runtime._watch import Watched

__all__ = ["MAX_PATTERNS", "ExecutionPlan", "Guard"]

MAX_PATTERNS: Final = 16
"""For how many ways in which buffers share memory a plan keeps its levels and steps; the oldest leave first."""

Guard: TypeAlias = Callable[[Sequence[Buffer], Mapping[str, int]], None]
"""Looks at buffers that a plan filled, with the values of its variables, and raises if something is wrong."""


class ExecutionPlan(PlanView):
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
        super().__init__(template, buffers, input_ids, origins)
        self._guard = guard
        self._watched: Watched | None = watched
        self._given: dict[str, int] = {}
        self._sharing: Sharing | None = None
        self._arranged: dict[Pattern, tuple[list[list[int]], list[Step]]] = {}
        self._is_stale = False
        self._donated: dict[int, str] = {}
        self._forks: list[weakref.ref[ExecutionPlan]] = []
        self._is_at_work = False
        self._is_watched = bool(template.views or template.donated_indices)
        if values:
            self._change_variables(values)
        self._make_steps()
        self._is_stale = False

    def __repr__(self) -> str:
        counts = f"{len(self._template.ops)} ops, {len(self._states)} kernels, {len(self._buffers)} buffers"
        return f"ExecutionPlan({counts}, {len(self._steps)} calls on {self.device})"

    def execute(self) -> None:
        """Run every op.

        Reading an output afterwards gives its result; a device that works asynchronously may still be
        busy when this returns.

        Raises:
            ExecutionError: if an op fails or a view is not what it must be.
            DeviceLostError: if a device is lost, or one of the buffers is of a device that was lost or closed.
            UnsupportedError: if a custom function has a kind that nothing implements.
            DonatedBufferError: if an input was donated, to this plan or elsewhere, and not replaced since.
            NonFiniteError: if the plan is watched, and a kernel makes a NaN of arguments without any.
        """
        with self._lock:
            self._run()

    def _run(self) -> None:
        was_at_work, self._is_at_work = self._is_at_work, True
        try:
            if self._is_watched or self._donated or self._is_stale:
                self._check()
            if self._watched is None:
                for step in self._steps:
                    step.run()
            else:
                self._run_watched(self._watched)
            if self._guard is not None:
                self._call_guard(self._guard)
        finally:
            self._is_at_work = was_at_work

    def _run_watched(self, watched: Watched) -> None:
        from svod_runtime._watch import run_watched

        for step in self._steps:
            step.run_each(lambda state: run_watched(state, watched))

    def _call_guard(self, guard: Guard) -> None:
        guard([self._buffers[index] for index in self._template.guarded_indices], self._variables)

    def execute_with_vars(self, values: Mapping[str, int]) -> None:
        """Set variables and run.

        Variables that are not named keep their last value; those that the schedule fixed, and
        `core_id`, are never touched. Names that no op uses have no effect.

        Raises:
            VariableBoundsError: if a value is outside its variable's bounds. Nothing has run or changed then.
        """
        with self._lock:
            self._set_variables(values)
            self._run()

    def execute_on(
        self, replacements: Mapping[int, Buffer], values: Mapping[str, int], *, may_wait: bool = True
    ) -> bool:
        """`replace_buffers`, then `execute_with_vars`; what other threads do with the plan comes before or after both.

        Returns:
            False if another thread is at work with the plan and `may_wait` does not hold: nothing was done then.

        Raises:
            PlanError: if a buffer cannot be replaced.
            VariableBoundsError: if a value is outside its variable's bounds.
        """
        # An interrupt may come between any two steps, so that only `with` gives a lock back for certain. Who comes after this
        # question and before the answer changes waits for a turn.
        if self._is_at_work and not may_wait:
            return False
        with self._lock:
            self._replace(replacements)
            if values:
                self._set_variables(values)
            self._run()
        return True

    def fork(self) -> ExecutionPlan:
        """Another plan on the same inputs, with memory of its own for everything else: both can run at once.

        Nobody waits: a fork that is made while another thread changes this plan has some inputs from before and some from after.

        Raises:
            OutOfMemoryError: if there is no memory for it.
        """
        template = self._template
        buffers = template.copy_buffers(list(self._buffers))
        origins = {state.op.id: state.origins for state in self._states}
        fork = ExecutionPlan(template, buffers, dict(self._given), self._input_ids, origins, self._guard, self._watched)
        levels = template.dependencies.get_levels(buffers)
        if levels != fork._levels:
            fork._levels = levels
            fork._make_steps()
        fork._donated.update(dict.fromkeys(template.donated_indices, "the plan that it was forked from took it"))
        # A thread that takes content marks this plan first and its forks then, so that no mark is lost on the way.
        self._forks.append(weakref.ref(fork, self._forks.remove))
        fork._donated.update(self._donated)
        return fork

    def execute_profiled(self) -> list[KernelProfile]:
        """Run every op, each kernel by itself, and return one profile for each kernel in the order of execution."""
        return self._run_profiled([])

    def _run_profiled(self, transfer_times: list[int]) -> list[KernelProfile]:
        """`execute_profiled`, with the nanoseconds that each copy and custom function took appended to a list."""
        with self._lock:
            was_at_work, self._is_at_work = self._is_at_work, True
            try:
                self._check()
                profiles: list[KernelProfile] = []
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
        """Run once to warm up, then `n_runs` times with profiles, and report what each kernel took on average.

        Copies and custom functions are reported together.

        Args:
            values: of variables, set before.

        Raises:
            ProfileError: if `n_runs` is less than 1.
        """
        from svod_runtime._report import ProfileReport

        if n_runs < 1:
            raise ProfileError(n_runs=n_runs)
        transfer_times: list[int] = []
        with self._lock:
            self._is_at_work = True
            try:
                self.execute_with_vars(values or {})
                profiles = [profile for _ in range(n_runs) for profile in self._run_profiled(transfer_times)]
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

    def _set_variables(self, values: Mapping[str, int]) -> None:
        if self._is_stale:
            self._renew()
        if self._change_variables(values):
            self._make_steps()
        self._is_stale = False

    def _change_variables(self, values: Mapping[str, int]) -> bool:
        """Give variables values, and say whether launch sizes changed."""
        given = {name: operator.index(value) for name, value in values.items() if name != CORE_ID}
        for name, value in given.items():
            for bounds in self._template.bounds.get(name, ()):
                if not bounds.min <= value <= bounds.max:
                    raise VariableBoundsError(name=name, value=value, min=bounds.min, max=bounds.max)
        known, uneven = self._variables, self._template.uneven_names
        changes = {name: value for name, value in given.items() if name in uneven or known.get(name) != value}
        if not changes:
            return False
        for state in self._states:
            if not state.has_constant_sizes:
                state.resolve_sizes(changes)
        # Everything that can fail is behind us.
        self._is_stale = True
        self._given.update(changes)
        self._variables.update(changes)
        has_new_sizes = False
        for state in self._states:
            state.set_values(changes)
            if not state.has_constant_sizes:
                has_new_sizes = state.renew_sizes() or has_new_sizes
        return has_new_sizes

    def _make_steps(self) -> None:
        arrangement = self._template.arrange(self._levels, self._states)
        self._steps = make_steps(arrangement, self._states, self._buffers, self._variables)
        # Those of other patterns have the launch sizes of before.
        self._arranged = {} if self._sharing is None else {self._sharing.pattern: (self._levels, self._steps)}

    def _rearrange(self, pattern: Pattern) -> None:
        """Take the levels and the steps for another pattern of sharing; steps read through what buffers and states hold."""
        known = self._arranged
        found = known.get(pattern)
        if found is None:
            levels = self._template.dependencies.get_levels(self._buffers)
            found = next((one for one in known.values() if one[0] == levels), None)
            if found is None:
                arrangement = self._template.arrange(levels, self._states)
                found = levels, make_steps(arrangement, self._states, self._buffers, self._variables)
            while len(known) >= MAX_PATTERNS:
                del known[next(iter(known))]
            known[pattern] = found
        self._levels, self._steps = found

    def _renew(self) -> None:
        """Derive everything from buffers and variables again: an interrupt came while one of them changed."""
        bases = {i: buffer for i, buffer in enumerate(self._buffers) if i not in self._template.view_indices}
        for index, view in self._view_parts(bases).items():
            self._buffers[index] = view
        for state in self._states:
            state.set_buffers(self._buffers)
            state.set_values(self._variables)
            if not state.has_constant_sizes:
                state.renew_sizes()
        self._sharing = None
        self._levels = self._template.dependencies.get_levels(self._buffers)
        self._make_steps()
        self._is_stale = False

    def replace_buffer(self, index: int, buffer: Buffer) -> None:
        """Let the plan use another buffer from now on: new inputs without a copy.

        A donated input is replaced before each execution, be it by the same buffer with new content.

        Raises:
            PlanError: if there is no such index, or the buffer differs in size, dtype or device.
        """
        self.replace_buffers({index: buffer})

    def replace_buffers(self, replacements: Mapping[int, Buffer]) -> None:
        """`replace_buffer` for several buffers by index; none is replaced if one cannot be."""
        with self._lock:
            self._replace(replacements)

    def _replace(self, replacements: Mapping[int, Buffer]) -> None:
        buffers = self._buffers
        changes: dict[int, Buffer] = {}
        for index, buffer in replacements.items():
            if not 0 <= index < len(buffers) or buffer is not buffers[index]:
                self._check_replacement(index, buffer)
                changes[index] = buffer.ensure_allocated()
        if changes and self._template.views:
            changes |= self._view_parts(changes)
        if self._donated:
            renewed = {*replacements, *self._view_parts(replacements)}
            self._donated = {i: taker for i, taker in self._donated.items() if i not in renewed}
        if not changes:
            return
        if self._is_stale:
            self._renew()
        self._is_stale = True
        sharing = self._sharing
        if sharing is None or not changes.keys() <= sharing.moving:
            moving = changes.keys() if sharing is None else changes.keys() | sharing.moving
            sharing = self._sharing = Sharing(buffers, moving)
            self._arranged = {sharing.pattern: (self._levels, self._steps)}
        before, pattern = sharing.pattern, sharing.follow(buffers, changes)
        users, states = self._template.users, self._states
        for index, buffer in changes.items():
            buffers[index] = buffer
            address = buffer.address
            for number, position in users.get(index, ()):
                state = states[number]
                state.buffers[position], state.addresses[position] = buffer, address
        if pattern is not before and pattern != before:
            self._rearrange(pattern)
        self._is_stale = False

    def _view_parts(self, bases: Mapping[int, Buffer]) -> dict[int, Buffer]:
        """The views of `bases`, and the views of these."""
        parts: dict[int, Buffer] = {}
        for op in self._template.views:
            view, base = op.buffer_indices
            new = parts.get(base) or bases.get(base)
            if new is not None and view not in bases:
                parts[view] = new.view(op.byte_offset, op.byte_size, self._buffers[view].dtype)
        return parts

    def forget_content(self, buffer: Buffer, taker: str) -> None:
        """Refuse to run until everything on the memory of `buffer` is replaced, as all forks do; `taker` says who took it."""
        with self._lock:
            for index, own in enumerate(self._buffers):
                if own.storage_id == buffer.storage_id:
                    self._donated[index] = taker
        for ref in list(self._forks):
            fork = ref()
            if fork is not None:
                fork.forget_content(buffer, taker)

    def _check_replacement(self, index: int, buffer: Buffer) -> None:
        if not 0 <= index < len(self._buffers):
            raise PlanError(op="plan", problem=f"no buffer {index}, there are {len(self._buffers)}")
        old = self._buffers[index]
        if buffer.nbytes != old.nbytes or buffer.dtype is not old.dtype or buffer.device != old.device:
            raise PlanError(op="plan", problem=f"buffer {index} is {old}, which {buffer} cannot replace")
        if not buffer.is_writable and old.is_writable and index in self._template.written:
            raise PlanError(op="plan", problem=f"buffer {index} is written, but {buffer} is read-only")
