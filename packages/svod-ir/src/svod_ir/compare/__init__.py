"""Whether two graphs mean the same: both are evaluated on the same inputs, which is bounded by the steps that it takes.

`find_change` compares what whole graphs of any stage compute and leave in memory, within the rounding of their floats;
`find_difference` compares expressions, at many values of their variables, to the last bit or within some roundings.
"""

from __future__ import annotations

from svod_ir.compare.effort import count_steps
from svod_ir.compare.expressions import differ_at, find_difference, list_special
from svod_ir.compare.graphs import (
    Change,
    assert_close,
    assert_same,
    find_change,
    random_array,
    random_inputs,
    tolerance,
)
from svod_ir.compare.reads import hide_reads

__all__ = [
    "Change", "assert_close", "assert_same", "count_steps", "differ_at", "find_change", "find_difference", "hide_reads",
    "list_special", "random_array", "random_inputs", "tolerance",
]  # fmt: skip
