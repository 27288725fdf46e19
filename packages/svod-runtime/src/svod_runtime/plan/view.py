"""Inspection of a plan: outputs, buffers by id, levels and kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from svod_device import Buffer, Dims
from svod_ir.forks import make_lock
from svod_runtime.kernels.kernel_state import KernelState
from svod_runtime.loops.loop_state import LoopState
from svod_runtime.ops.prepared import CachedKernel, PreparedKernel, PreparedOp
from svod_runtime.plan.execute import Step

if TYPE_CHECKING:
    from svod_ir.origins import Origin
    from svod_runtime.memory.memory_report import MemoryReport
    from svod_runtime.plan.plan_form import PlanForm

__all__ = ["PlanView", "PlannedKernel"]


@dataclass(frozen=True, slots=True)
class PlannedKernel:
    """Kernel of a plan with its current launch arguments, for inspection.

    Attributes:
        op: the launch.
        buffers: its arguments; in a loop, the arguments of the first or the latest iteration.
        values: values of the kernel's variables, by name.
        global_size: grid size: workgroups if `local_size` is set, else work-items.
        local_size: work-items of a workgroup, or None.
        origins: source lines of the kernel.
        n_runs: number of launches per execution; None if it is known only at run time.
    """

    op: PreparedKernel
    buffers: tuple[Buffer, ...]
    values: Mapping[str, int]
    global_size: Dims
    local_size: Dims | None
    origins: tuple[Origin, ...] = ()
    n_runs: int | None = 1

    @property
    def kernel(self) -> CachedKernel:
        return self.op.kernel

    @property
    def name(self) -> str:
        return self.op.kernel.name

    @property
    def source(self) -> str:
        return self.op.kernel.source

    @property
    def device(self) -> str:
        return self.op.device


class PlanView:
    """Read-only part of an `ExecutionPlan`."""

    def __init__(
        self,
        template: PlanForm,
        buffers: Sequence[Buffer],
        input_ids: Sequence[int] | None,
        origins: Mapping[int, tuple[Origin, ...]],
    ) -> None:
        self._template, self._input_ids, self._origins = template, input_ids, origins
        # A list of its own, which states and steps read at each use: replacing an entry reaches all
        # of them.
        self._buffers = list(buffers)
        self._variables = dict(template.values)
        self._states = [
            KernelState(op, self._buffers, sizes, origins.get(op.id, ()))
            for _, op, sizes in template.kernels
        ]
        self._loops = [
            LoopState(form, self._buffers, self._variables, origins) for _, form in template.loops
        ]
        # Listed once, so that setting a variable visits only loops and kernels that may depend on
        # it.
        inner = (loop for outer in self._loops for loop in outer.iter_loops())
        self._counted_loops = [loop for loop in inner if loop.form.count_variables]
        self._states_in_loops = [state for loop in self._loops for state in loop.iter_kernels()]
        # The template's object itself: `PlanForm.arrange` shares its result with plans that have
        # it.
        self._levels = template.levels
        self._steps: list[Step] = []
        # Free in the child of a fork, where no thread is left to release it.
        self._lock = make_lock()

    @property
    def device(self) -> str:
        return self._template.device

    @property
    def template(self) -> PlanForm:
        """Template that this plan shares with plans of other buffers and variables."""
        return self._template

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Every buffer of the plan: inputs, intermediates and outputs."""
        return tuple(self._buffers)

    @property
    def variables(self) -> Mapping[str, int]:
        """Current value of each variable, as a live view."""
        return self._variables

    @property
    def num_outputs(self) -> int:
        return len(self._template.output_indices)

    @property
    def output_indices(self) -> tuple[int, ...]:
        """Index of each output in `buffers`."""
        return self._template.output_indices

    @property
    def donated_indices(self) -> tuple[int, ...]:
        """Indices in `buffers` of the inputs that an execution may overwrite."""
        return self._template.donated_indices

    @property
    def output_buffer(self) -> Buffer | None:
        """First output, or None if the plan has none."""
        return self.output_buffer_at(0)

    def output_buffer_at(self, position: int) -> Buffer | None:
        """Return the output at a position, in the order of the SINK; None if it is out of range."""
        indices = self._template.output_indices
        return self._buffers[indices[position]] if 0 <= position < len(indices) else None

    @property
    def output_buffers(self) -> tuple[Buffer, ...]:
        return tuple(self._buffers[index] for index in self._template.output_indices)

    def buffer(self, ast_id: int) -> Buffer | None:
        """Return the buffer of an AST id, to read it or to copy new data in; None for an unknown
        id.
        """
        index = self.ast_to_buffer.get(ast_id)
        return None if index is None else self._buffers[index]

    @property
    def ast_to_buffer(self) -> Mapping[int, int]:
        """AST id -> index in `buffers`."""
        return self._template.map_ids(self._input_ids)

    def release_intermediate_buffers(self, remove: Callable[[int], None]) -> None:
        """Call `remove` with the AST id of each buffer that is not an output, and with each alias
        id.

        The plan keeps its buffers: it can be executed again.
        """
        # Compared by storage: an id may belong to a view of an output.
        self._release(remove, {self._buffers[index].storage_id for index in self.output_indices})

    def release_all_buffers(self, remove: Callable[[int], None]) -> None:
        """Call `remove` with each AST id and each alias id."""
        self._release(remove, set())

    def _release(self, remove: Callable[[int], None], kept_storages: set[int]) -> None:
        for ast_id, index in self.ast_to_buffer.items():
            if self._buffers[index].storage_id not in kept_storages:
                remove(ast_id)
        for alias_id in self._template.map_aliases(self._input_ids):
            remove(alias_id)

    @property
    def memory_report(self) -> MemoryReport:
        """Memory of the intermediates with and without sharing."""
        return self._template.memory_report

    @property
    def prepared_ops(self) -> tuple[PreparedOp, ...]:
        """Every op in schedule order."""
        return self._template.ops

    @property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """Indices into `prepared_ops` by level: ops of one level are independent."""
        return tuple(map(tuple, self._levels))

    @property
    def num_kernels(self) -> int:
        """Number of kernels; a kernel in a loop counts once."""
        return len(self._states) + len(self._states_in_loops)

    @property
    def num_calls(self) -> int:
        """Number of calls per execution: a batch of kernels is one call."""
        return len(self._steps)

    def kernels(self) -> list[PlannedKernel]:
        """Return every kernel in schedule order, kernels outside of loops first."""
        with self._lock:
            kernels = [_describe(state, 1) for state in self._states]
            for loop in self._loops:
                kernels += _describe_loop(loop, 1)
            return kernels


def _describe(state: KernelState, n_runs: int | None) -> PlannedKernel:
    return PlannedKernel(
        state.op,
        state.buffers,
        state.variables,
        state.global_size,
        state.local_size,
        state.origins,
        n_runs,
    )


def _describe_loop(loop: LoopState, n_runs: int | None) -> list[PlannedKernel]:
    # Outside of a run, local buffers have no memory to show.
    loop.begin()
    # One unknown count makes the launches of all inner loops unknown.
    known = loop.known_count
    n_inside = None if n_runs is None or known is None else n_runs * known
    kernels = [_describe(state, n_inside) for state in loop.kernels]
    kernels += [kernel for inner in loop.loops for kernel in _describe_loop(inner, n_inside)]
    loop.end()
    return kernels
