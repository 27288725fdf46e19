"""`PlanParts`: what an `ExecutionPlanBuilder` collects, and a `PlanTemplate` is made of."""

from __future__ import annotations

from dataclasses import dataclass, field

from svod_device import Buffer
from svod_runtime.memory.memory_report import MemoryReport
from svod_runtime.ops.prepared import PreparedOp

__all__ = ["PlanParts"]


@dataclass(slots=True)
class PlanParts:
    """Ops and buffers of a plan, and what is known about them.

    Attributes:
        device: the plan's own.
        ops: in schedule order.
        buffers: every buffer, the inputs included.
        ast_to_buffer: AST id -> index of the buffer.
        output_indices: the index of each output among the buffers.
        alias_ids: ids that releasing reports besides the buffers' own.
        memory_report: what the memory planner made of the intermediates.
        donated_indices: the inputs that an execution may overwrite.
        guarded_indices: the buffers that a plan's guard looks at.
        owners: the donated input that an output is in the memory of, for each such output.
    """

    device: str
    ops: list[PreparedOp] = field(default_factory=list[PreparedOp])
    buffers: list[Buffer] = field(default_factory=list[Buffer])
    ast_to_buffer: dict[int, int] = field(default_factory=dict[int, int])
    output_indices: list[int] = field(default_factory=list[int])
    alias_ids: list[int] = field(default_factory=list[int])
    memory_report: MemoryReport = field(default_factory=lambda: MemoryReport("disabled"))
    donated_indices: list[int] = field(default_factory=list[int])
    guarded_indices: list[int] = field(default_factory=list[int])
    owners: dict[int, int] = field(default_factory=dict[int, int])
