"""Limits of a workgroup: work-items, work-items in each dimension of a launch, and shared
memory.
"""

from __future__ import annotations

from svod_ir import Op, Target, UOp, max_trips
from svod_schedule._launch_grid import arrange_axes
from svod_schedule.lower.group_reduce import count_shared
from svod_schedule.lower.place_launch_axes import get_work_items

__all__ = ["describe_excess"]


def describe_excess(sink: UOp, target: Target) -> str:
    """Describe the limit of the target that a kernel's workgroups exceed; empty if there is none."""
    work_items = get_work_items(sink)
    n_work_items = max_trips(*work_items)
    if work_items and n_work_items > target.max_local:
        return f"a workgroup of {n_work_items} exceeds {target.max_local}"
    if work_items and any(
        group.exceeds_limit for group in arrange_axes(work_items, target.max_local_dims)
    ):
        return (
            f"a workgroup of {n_work_items} does not fit into dimensions of {target.max_local_dims}"
        )
    n_bytes = _count_shared_bytes(sink)
    if n_bytes > target.shared_bytes:
        return f"it needs {n_bytes} bytes of shared memory, more than {target.shared_bytes}"
    return ""


def _count_shared_bytes(sink: UOp) -> int:
    sizes = {
        # Reductions over work-items get their shared memory only when they are lowered: it is
        # counted now, while the Opt can still be refused.
        n: n.arg.size if n.op is Op.DEFINE_LOCAL else count_shared(n)
        for n in sink.iter_ops(Op.DEFINE_LOCAL, Op.REDUCE)
    }
    return sum(size * n.dtype.itemsize for n, size in sizes.items())
