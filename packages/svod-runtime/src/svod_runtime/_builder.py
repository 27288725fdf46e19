"""`ExecutionPlanBuilder`: collects buffers and ops, checks that they fit, and makes plans and templates of plans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from svod_device import Buffer, canonical_device
from svod_runtime._dependencies import Dependencies, resolve_dependencies
from svod_runtime._parts import PlanParts
from svod_runtime._prepared import (
    PreparedBufferView,
    PreparedCopy,
    PreparedCustomFunction,
    PreparedKernel,
    PreparedOp,
    describe_op,
)
from svod_runtime._prepared_loop import PreparedLoop
from svod_runtime._template import PlanTemplate
from svod_runtime.errors import PlanError
from svod_runtime.memory.planner import plan_memory

if TYPE_CHECKING:
    from svod_runtime._memory_report import PlannerMode
    from svod_runtime._plan import ExecutionPlan

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
        """Add an op and return its index; `instance_dependencies` are indices of ops that must run before it."""
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

    def set_donated_buffers(self, indices: Iterable[int], owners: Mapping[int, int] | None = None) -> None:
        """Say which inputs an execution may overwrite, so that they must be replaced before the next one.

        Args:
            indices: of the inputs.
            owners: by the index of each output that is in the memory of one of them, the index of that one.
        """
        self._parts.donated_indices = list(indices)
        self._parts.owners = dict(owners or {})

    def set_guarded_buffers(self, indices: Iterable[int]) -> None:
        """Say which buffers a plan's guard looks at after each execution; they are no outputs, but kept like these."""
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
        self, inputs: Sequence[Buffer], input_ids: Sequence[int] | None = None, planner: PlannerMode | None = None
    ) -> PlanTemplate:
        """Check everything and make a template, whose plans get other inputs, and new memory for all other buffers.

        Args:
            inputs: the first ones.
            input_ids: their AST ids, where plans are bound with others: alias ids among them become those.
            planner: how buffers that are no inputs and no outputs share memory; a plan's ops and buffers are in an order of
                its own then, and equal buffers have one index. Without it, all stays as it was added.

        Raises:
            PlanError: if an index, a size or a device does not fit, outputs were not set, or a buffer that is
                no input has memory already, the content of which a new plan would not have.
            DependencyError: if dependencies are unknown or circular.
        """
        self._check_outputs()
        for op in self._parts.ops:
            self._check_op(op)
        storages = {buffer.storage_id for buffer in inputs}
        for index, buffer in enumerate(self._parts.buffers):
            if buffer.is_allocated and buffer.storage_id not in storages:
                raise PlanError(op="plan", problem=f"buffer {index}, {buffer}, has memory but is no input")
        ops = self._parts.ops
        dependencies = Dependencies(ops, resolve_dependencies(ops, self._instance_dependencies))
        if planner is None:
            return PlanTemplate(self._parts, dependencies, inputs, input_ids)
        return PlanTemplate(*plan_memory(self._parts, dependencies, inputs, planner), inputs, input_ids)

    def _check_outputs(self) -> None:
        if not self._parts.output_indices and self._parts.buffers:
            raise PlanError(op="plan", problem="output buffers must be set explicitly")
        self._check_indices("outputs", self._parts.output_indices)
        owners = self._parts.owners
        self._check_indices("donated inputs", (*self._parts.donated_indices, *owners, *owners.values()))
        self._check_indices("guarded buffers", self._parts.guarded_indices)

    def _check_indices(self, what: str, indices: Iterable[int]) -> None:
        for index in indices:
            if not 0 <= index < len(self._parts.buffers):
                raise PlanError(op=what, problem=f"no buffer {index}, there are {len(self._parts.buffers)}")

    def _check_op(self, op: PreparedOp) -> None:
        name = describe_op(op)
        self._check_indices(name, op.buffer_indices)
        match op:
            case PreparedKernel():
                self._check_kernel(name, op)
            case PreparedCopy():
                self._check_pair(name, op, "destination and source")
                self._check_copy(name, op)
            case PreparedBufferView():
                self._check_pair(name, op, "view and base")
            case PreparedLoop():
                raise PlanError(op=name, problem="no plan runs loops yet")
            case PreparedCustomFunction():
                pass

    def _check_kernel(self, name: str, op: PreparedKernel) -> None:
        spec = op.kernel.spec
        if not op.output_indices:
            raise PlanError(op=name, problem="has no output")
        for position in op.output_indices:
            if not 0 <= position < len(op.buffer_indices):
                problem = f"output position {position} is out of range: it has {len(op.buffer_indices)} buffers"
                raise PlanError(op=name, problem=problem)
        if len(op.buffer_indices) != spec.n_buffers:
            problem = f"takes {spec.n_buffers} buffers (slots {spec.globals}), got {len(op.buffer_indices)}"
            raise PlanError(op=name, problem=problem)
        if len(op.values) != len(spec.var_names):
            problem = f"has {len(spec.var_names)} variables {spec.var_names}, but {len(op.values)} values {op.values}"
            raise PlanError(op=name, problem=problem)
        self._check_devices(name, op)

    def _check_devices(self, name: str, op: PreparedKernel) -> None:
        outputs = [self._parts.buffers[op.buffer_indices[position]] for position in op.output_indices]
        for buffer in outputs:
            if not buffer.is_writable:
                raise PlanError(op=name, problem=f"writes {buffer}, which is read-only")
        is_on_host = outputs[0].is_host_addressable
        for index in op.buffer_indices:
            buffer = self._parts.buffers[index]
            if buffer.device != canonical_device(op.device) and not (is_on_host and buffer.is_host_addressable):
                raise PlanError(op=name, problem=f"runs on {op.device}, which cannot address {buffer}")

    def _check_pair(self, name: str, op: PreparedCopy | PreparedBufferView, roles: str) -> None:
        if len(op.buffer_indices) != 2:
            raise PlanError(op=name, problem=f"takes two buffers, {roles}, got {len(op.buffer_indices)}")

    def _check_copy(self, name: str, op: PreparedCopy) -> None:
        destination, source = (self._parts.buffers[index] for index in op.buffer_indices)
        if destination.nbytes != source.nbytes:
            raise PlanError(op=name, problem=f"copies {source.nbytes} bytes into {destination.nbytes}")
        if not destination.is_writable:
            raise PlanError(op=name, problem=f"writes {destination}, which is read-only")
