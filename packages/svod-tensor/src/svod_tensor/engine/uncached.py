"""Schedules and plans without the caches of `compute.py`, for tests and benchmarks that inspect
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_tensor.engine.build import build_sink
from svod_tensor.engine.compute import make_kernels, make_pre_schedule
from svod_tensor.engine.donated_memory import reuse_donated_memory
from svod_tensor.engine.instantiate import instantiate
from svod_tensor.engine.job import Inputs, Job
from svod_tensor.engine.memory_nodes import get_buffer
from svod_tensor.engine.prepare import prepare

if TYPE_CHECKING:
    from svod_ir import UOp
    from svod_runtime import ExecutionPlan
    from svod_tensor.engine.schedule import Schedule
    from svod_tensor.options import PrepareConfig

__all__ = ["make_schedule", "plan_schedule"]


def make_schedule(sink: UOp, config: PrepareConfig) -> Schedule:
    """Schedule of the results of `sink`, with variables at their bound values."""
    graph = build_sink(sink)
    inputs = Inputs(graph.params, tuple(map(get_buffer, graph.params)), None)
    return instantiate(make_pre_schedule(graph, config), Job(graph, inputs), graph.values)


def plan_schedule(schedule: Schedule, config: PrepareConfig) -> ExecutionPlan:
    """Plan that runs `schedule` on its own buffers, which are tensors' or already allocated."""
    owned = {
        n: b for item in schedule.items for n, b in zip(item.buffer_ids, item.buffers, strict=True)
    }
    inputs = [buffer for buffer_id, buffer in owned.items() if buffer_id > 0 or buffer.is_allocated]
    origins = {item.kernel_id: item.origins for item in schedule.items}
    placed = reuse_donated_memory(schedule)
    builder = prepare(placed, make_kernels(placed, config))
    return builder.build_template(inputs, planner=config.memory_planner).bind(
        inputs, origins=origins
    )
