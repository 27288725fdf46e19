"""`ExecutionPlanBuilder`: collects buffers and ops, checks that they fit, and makes plans and
templates of plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from svod_device import Buffer, canonical_device
from svod_runtime.errors import PlanError
from svod_runtime.memory.bodies import Saved, place_bodies
from svod_runtime.memory.plan_parts import PlanParts
from svod_runtime.memory.planner import plan_memory
from svod_runtime.ops.check_ops import check_indices, check_op
from svod_runtime.ops.dependencies import Dependencies, resolve_dependencies
from svod_runtime.ops.prepared import PreparedOp
from svod_runtime.plan.template import PlanTemplate

if TYPE_CHECKING:
    from svod_runtime.memory.memory_report import PlannerMode
    from svod_runtime.plan.execution_plan import ExecutionPlan

__all__ = ["ExecutionPlanBuilder"]


class ExecutionPlanBuilder:
    """Collects buffers and ops, in schedule order, and checks them all when the plan is built."""

    def __init__(self, device: str) -> None:
        self._parts = PlanParts(canonical_device(device))
        self._instance_dependencies: list[tuple[int, ...]] = []

    @property
    def device(self) -> str:
        """The plan's own."""
        return self._parts.device

    @property
    def ops(self) -> tuple[PreparedOp, ...]:
        """What was added so far."""
        return tuple(self._parts.ops)

    def add_buffer(self, ast_id: int, buffer: Buffer) -> int:
        """Add a buffer under an AST id and return its index."""
        self._parts.buffers.append(buffer)
        self._parts.ast_to_buffer[ast_id] = len(self._parts.buffers) - 1
        return len(self._parts.buffers) - 1

    def replace_buffer(self, index: int, buffer: Buffer) -> None:
        """Use another buffer at `index`, as for a view whose base came later."""
        self._parts.buffers[index] = buffer

    def add_op(self, op: PreparedOp, instance_dependencies: Iterable[int] = ()) -> int:
        """Add an op and return its index; `instance_dependencies` are indices of ops that must run
        before it.
        """
        self._parts.ops.append(op)
        self._instance_dependencies.append(tuple(instance_dependencies))
        return len(self._parts.ops) - 1

    def set_output_buffers(self, indices: Iterable[int]) -> None:
        """Say which buffers are the outputs, in order."""
        self._parts.output_indices = list(indices)

    def set_output_buffer(self, index: int) -> None:
        """Say which buffer is the only output."""
        self._parts.output_indices = [index]

    def add_alias_ids(self, ids: Iterable[int]) -> None:
        """Add ids that releasing reports besides the buffers' own."""
        self._parts.alias_ids.extend(ids)

    def set_donated_buffers(
        self, indices: Iterable[int], owners: Mapping[int, int] | None = None
    ) -> None:
        """Say which inputs an execution may overwrite, so that they must be replaced before the
        next one.

        Args:
            indices: of the inputs.
            owners: by the index of each output that is in the memory of one of them, the index of
                that one.
        """
        self._parts.donated_indices = list(indices)
        self._parts.owners = dict(owners or {})

    def set_guarded_buffers(self, indices: Iterable[int]) -> None:
        """Say which buffers a plan's guard looks at after each execution; they are no outputs, but
        kept like these.
        """
        self._parts.guarded_indices = list(indices)

    def build(self) -> ExecutionPlan:
        """Check everything, get the memory of every buffer, and make the plan.

        Raises:
            PlanError: if an index, a size or a device does not fit, or outputs were not set.
            DependencyError: if dependencies are unknown or circular.
            OutOfMemoryError: if a buffer gets no memory.
        """
        return self.build_template(self._parts.buffers).bind(self._parts.buffers)

    def build_template(
        self,
        inputs: Sequence[Buffer],
        input_ids: Sequence[int] | None = None,
        planner: PlannerMode | None = None,
    ) -> PlanTemplate:
        """Check everything and make a template, whose plans get other inputs, and new memory for
        all other buffers.

        Args:
            inputs: the first ones.
            input_ids: their AST ids, where plans are bound with others: alias ids among them become
                those.
            planner: how buffers that are no inputs and no outputs share memory; a plan's ops and
                buffers are in an order of its own then, and equal buffers have one index. Without
                it, all stays as it was added.

        Raises:
            PlanError: if an index, a size or a device does not fit, outputs were not set, or a
                buffer that is no input has memory already, the content of which a new plan would
                not have.
            DependencyError: if dependencies are unknown or circular.
        """
        self._check_outputs()
        for op in self._parts.ops:
            check_op(op, self._parts.buffers)
        storages = {buffer.storage_id for buffer in inputs}
        for index, buffer in enumerate(self._parts.buffers):
            if buffer.is_allocated and buffer.storage_id not in storages:
                raise PlanError(
                    op="plan", problem=f"buffer {index}, {buffer}, has memory but is no input"
                )
        saved = Saved()
        ops, buffers = place_bodies(
            self._parts.ops, self._parts.buffers, planner or "disabled", saved
        )
        parts = replace(self._parts, ops=ops, buffers=buffers)
        dependencies = Dependencies(ops, resolve_dependencies(ops, self._instance_dependencies))
        if planner is None:
            return PlanTemplate(parts, dependencies, inputs, input_ids)
        return PlanTemplate(
            *plan_memory(parts, dependencies, inputs, planner, saved), inputs, input_ids
        )

    def _check_outputs(self) -> None:
        if not self._parts.output_indices and self._parts.buffers:
            raise PlanError(op="plan", problem="output buffers must be set explicitly")
        n, owners = len(self._parts.buffers), self._parts.owners
        check_indices("outputs", self._parts.output_indices, n)
        check_indices(
            "donated inputs", (*self._parts.donated_indices, *owners, *owners.values()), n
        )
        check_indices("guarded buffers", self._parts.guarded_indices, n)
