"""`ExecutionPlanBuilder`: collects buffers and ops, validates them, and builds plans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from svod_device import Buffer, canonical_device
from svod_runtime.errors import PlanError
from svod_runtime.memory.bodies import Savings, place_bodies
from svod_runtime.memory.plan_draft import PlanDraft
from svod_runtime.memory.planner import plan_memory
from svod_runtime.ops.check_ops import check_indices, check_op
from svod_runtime.ops.dependencies import Dependencies, resolve_dependencies
from svod_runtime.ops.native_functions import use_native_functions
from svod_runtime.ops.prepared import PreparedOp
from svod_runtime.plan.template import PlanTemplate

if TYPE_CHECKING:
    from svod_runtime.memory.memory_report import PlannerMode
    from svod_runtime.plan.execution_plan import ExecutionPlan

__all__ = ["ExecutionPlanBuilder"]


class ExecutionPlanBuilder:
    """Builder of an execution plan: buffers and ops in schedule order, validated when the plan is
    built.

    Example:
        The plan increments the first input in place, which it is given, and copies the second into a
        view of a block that is added later:

        >>> import numpy as np
        >>> from svod_device import Buffer, get_allocator
        >>> from svod_dtype import float32
        >>> from svod_runtime import ExecutionPlanBuilder, PlannerMode, PreparedCopy, PreparedCustomFunction, register_custom_function
        >>> register_custom_function("increment", lambda buffers, values, attrs: buffers[0].copyin(buffers[0].as_numpy() + np.float32(1)))
        >>> def make_buffer(*values: float) -> Buffer:
        ...     buffer = Buffer(get_allocator("CPU"), float32, 2)
        ...     if values:
        ...         buffer.copyin(np.array(values, "float32"))
        ...     return buffer
        >>> inputs = [make_buffer(1, 2), make_buffer(3, 4)]
        >>> builder = ExecutionPlanBuilder("CPU")
        >>> taken, source = (builder.add_buffer(ast_id, buffer) for ast_id, buffer in enumerate(inputs))
        >>> result = builder.add_buffer(2, make_buffer())
        >>> block = Buffer(get_allocator("CPU"), float32, 8)
        >>> builder.replace_buffer(result, block.view(0, 8))
        >>> _ = builder.add_buffer(3, block)
        >>> _ = builder.add_op(PreparedCustomFunction(id=0, kind="increment", buffer_indices=(taken,)))
        >>> _ = builder.add_op(PreparedCopy(id=1, buffer_indices=(result, source)))
        >>> builder.set_output_buffers([taken, result])
        >>> builder.set_donated_buffers([taken])
        >>> builder.set_guarded_buffers([source])
        >>> builder.add_alias_ids([9])  # another name of an intermediate

        A template makes plans for other inputs, with other memory:

        >>> planner: PlannerMode = "remap"
        >>> template = builder.build_template(inputs, planner=planner)
        >>> plans = [template.bind([make_buffer(k, k), make_buffer(k, 0)]) for k in (5, 6)]
        >>> for plan in plans:
        ...     plan.execute()
        >>> [[buffer.as_numpy().tolist() for buffer in plan.output_buffers] for plan in plans]
        [[[6.0, 6.0], [5.0, 0.0]], [[7.0, 7.0], [6.0, 0.0]]]
    """

    def __init__(self, device: str) -> None:
        self._draft = PlanDraft(canonical_device(device))
        self._instance_dependencies: list[tuple[int, ...]] = []

    @property
    def device(self) -> str:
        """Device of the plan."""
        return self._draft.device

    @property
    def ops(self) -> tuple[PreparedOp, ...]:
        """Ops added so far."""
        return tuple(self._draft.ops)

    def add_buffer(self, ast_id: int, buffer: Buffer) -> int:
        """Add a buffer under an AST id and return its index."""
        self._draft.buffers.append(buffer)
        # An id that is added again names its latest buffer.
        self._draft.ast_to_buffer[ast_id] = len(self._draft.buffers) - 1
        return len(self._draft.buffers) - 1

    def replace_buffer(self, index: int, buffer: Buffer) -> None:
        """Replace the buffer at `index`, for example by a view whose base was added later."""
        self._draft.buffers[index] = buffer

    def add_op(self, op: PreparedOp, instance_dependencies: Iterable[int] = ()) -> int:
        """Add an op and return its index.

        `instance_dependencies` are indices of ops that must run before it.
        """
        self._draft.ops.append(op)
        self._instance_dependencies.append(tuple(instance_dependencies))
        return len(self._draft.ops) - 1

    def set_output_buffers(self, indices: Iterable[int]) -> None:
        """Set the outputs, in order."""
        self._draft.output_indices = list(indices)

    def set_output_buffer(self, index: int) -> None:
        """Set the only output."""
        self._draft.output_indices = [index]

    def add_alias_ids(self, ids: Iterable[int]) -> None:
        """Add AST ids without a buffer, which `release_intermediate_buffers` and
        `release_all_buffers` report too.
        """
        self._draft.alias_ids.extend(ids)

    def set_donated_buffers(
        self, indices: Iterable[int], owners: Mapping[int, int] | None = None
    ) -> None:
        """Set the inputs that an execution may overwrite; the caller replaces each before the next
        one.

        Args:
            indices: buffer indices of the donated inputs.
            owners: output index -> index of the donated input whose memory the output takes.
        """
        self._draft.donated_indices = list(indices)
        self._draft.owners = dict(owners or {})

    def set_guarded_buffers(self, indices: Iterable[int]) -> None:
        """Set the buffers that the guard of a plan reads after each execution.

        They are not outputs, but like outputs they share no memory.
        """
        self._draft.guarded_indices = list(indices)

    def build(self) -> ExecutionPlan:
        """Validate the plan, allocate every buffer, and build the plan.

        Raises:
            PlanError: if an index, a size or a device does not match, or outputs were not set.
            DependencyError: if dependencies are unknown or cyclic.
            OutOfMemoryError: if a buffer cannot be allocated.
        """
        return self.build_template(self._draft.buffers).bind(self._draft.buffers)

    def build_template(
        self,
        inputs: Sequence[Buffer],
        input_ids: Sequence[int] | None = None,
        planner: PlannerMode | None = None,
    ) -> PlanTemplate:
        """Validate the plan and build a template.

        Plans of the template take other inputs and allocate all other buffers.

        Args:
            inputs: inputs of the first plan.
            input_ids: AST ids of the inputs, if plans are bound with other ids: alias ids among
                them are replaced accordingly.
            planner: how intermediates share memory; the planner reorders ops and buffers, and equal
                buffers get one index. Without it, the order of ops and buffers is kept.

        Raises:
            PlanError: if an index, a size or a device does not match, outputs were not set, or a
                buffer that is not an input has memory already, since a new plan would lack its
                data.
            DependencyError: if dependencies are unknown or cyclic.
        """
        self._check_outputs()
        native_ops, declared = use_native_functions(
            self._draft.ops, self._instance_dependencies, self._draft.buffers
        )
        # Before planning: the planner and all executions rely on these facts and check none.
        for op in native_ops:
            check_op(op, self._draft.buffers)
        storages = {buffer.storage_id for buffer in inputs}
        for index, buffer in enumerate(self._draft.buffers):
            if buffer.is_allocated and buffer.storage_id not in storages:
                raise PlanError(
                    op="plan", problem=f"buffer {index}, {buffer}, has memory but is not an input"
                )
        saved = Savings()
        # Loop bodies first: they add operands, which the dependencies must include.
        ops, buffers = place_bodies(native_ops, self._draft.buffers, planner or "disabled", saved)
        # A changed copy, so that a builder can build again, with another planner.
        draft = replace(self._draft, ops=ops, buffers=buffers)
        dependencies = Dependencies(ops, resolve_dependencies(ops, declared))
        # Without a planner, buffers keep the indices that `add_buffer` returned.
        if planner is None:
            return PlanTemplate(draft, dependencies, inputs, input_ids)
        return PlanTemplate(
            *plan_memory(draft, dependencies, inputs, planner, saved), inputs, input_ids
        )

    def _check_outputs(self) -> None:
        # A plan without buffers has no outputs to name.
        if not self._draft.output_indices and self._draft.buffers:
            raise PlanError(op="plan", problem="has no outputs: call set_output_buffers")
        n, owners = len(self._draft.buffers), self._draft.owners
        check_indices("outputs", self._draft.output_indices, n)
        check_indices(
            "donated inputs", (*self._draft.donated_indices, *owners, *owners.values()), n
        )
        check_indices("guarded buffers", self._draft.guarded_indices, n)
