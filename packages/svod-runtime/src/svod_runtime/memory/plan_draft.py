"""`PlanDraft`: data that an `ExecutionPlanBuilder` collects for a `PlanTemplate`."""

from __future__ import annotations

from dataclasses import dataclass, field

from svod_device import Buffer
from svod_runtime.memory.memory_report import MemoryReport
from svod_runtime.ops.prepared import PreparedOp

__all__ = ["PlanDraft"]


@dataclass(slots=True)
class PlanDraft:
    """Ops and buffers of a plan with their properties.

    Attributes:
        device: device of the plan.
        ops: in schedule order.
        buffers: every buffer, including the inputs.
        ast_to_buffer: AST id -> index of the buffer.
        output_indices: buffer index of each output.
        alias_ids: additional ids that `release_*` reports.
        memory_report: result of memory planning.
        donated_indices: inputs that an execution may overwrite.
        guarded_indices: buffers that the guard of a plan reads.
        owners: output index -> index of the donated input whose memory the output takes.
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
