"""lower: an optimised kernel becomes what renderers accept."""

from __future__ import annotations

from svod_schedule.lower.accumulate import accumulate
from svod_schedule.lower.block_sums import block_sums
from svod_schedule.lower.expand import expand
from svod_schedule.lower.group_reduce import group_reduce
from svod_schedule.lower.index_dtype import lower_index_dtype
from svod_schedule.lower.launch import place_launch_axes
from svod_schedule.lower.loads import add_loads

__all__ = ["accumulate", "add_loads", "block_sums", "expand", "group_reduce", "lower_index_dtype", "place_launch_axes"]
