"""Memory planner: intermediates with disjoint live ranges share memory, in an order that keeps few
of them live.

Live ranges are counted in levels of that order (`order`), so sharing costs no concurrency. Outputs
and inputs that are not donated keep their memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter

from svod_device import Buffer
from svod_ir import get_logger
from svod_runtime.memory.bodies import Savings
from svod_runtime.memory.coalescing import coalesce_carries
from svod_runtime.memory.live_ranges import LiveRange, is_fresh, list_live_ranges
from svod_runtime.memory.memory_report import MemoryReport, PlannerMode
from svod_runtime.memory.order import declare_units, order_in_units
from svod_runtime.memory.packing import Block, get_peak_bytes
from svod_runtime.memory.placing import place_live_ranges, set_levels
from svod_runtime.memory.plan_draft import PlanDraft
from svod_runtime.ops.dependencies import Dependencies, list_waits
from svod_runtime.ops.prepared import PreparedBufferView, PreparedKernel, PreparedOp

__all__ = ["plan_memory"]

_log = get_logger("runtime")


def plan_memory(
    draft: PlanDraft,
    dependencies: Dependencies,
    inputs: Collection[Buffer],
    mode: PlannerMode,
    saved: Savings,
) -> tuple[PlanDraft, Dependencies]:
    """Reorder the ops of `draft`, and let all buffers except `inputs` share memory.

    Args:
        draft: draft of the plan.
        dependencies: dependencies of its ops.
        inputs: buffers that keep their memory.
        mode: how the planner shares memory.
        saved: savings within loop bodies, included in the report.

    Returns:
        Draft with one index for equal buffers, and their dependencies.
    """
    started = perf_counter()
    ops, buffers = draft.ops, draft.buffers
    # Read after the execution, so no other buffer may overwrite them.
    results = {*draft.output_indices, *draft.guarded_indices}
    input_buffers = set(inputs)
    own = {i for op in ops for i in op.buffer_indices if buffers[i] not in input_buffers} - results
    # A single intermediate has no other to share memory with; but work beside the plan needs an order.
    is_alone = mode == "disabled" or len(own) + saved.n_buffers < 2
    if is_alone and not draft.owners and not list_waits(ops):
        return _merge(replace(draft, memory_report=MemoryReport(mode)), dependencies.declared)
    # A buffer that is a view or already has memory keeps it.
    fixed = [i for i, buffer in enumerate(buffers) if i not in own or not is_fresh(buffer)]
    if mode != "disabled":
        # First, since it changes live ranges: the pair becomes one buffer that lives longer.
        ops, buffers = coalesce_carries(ops, dependencies.order, buffers, fixed)
        draft, dependencies = (
            replace(draft, ops=ops, buffers=buffers),
            Dependencies(ops, dependencies.declared),
        )
    predecessors = dependencies.get_predecessors(buffers)
    ranges = list_live_ranges(ops, dependencies.order, buffers, fixed)
    units = order_in_units(ops, predecessors, buffers, ranges)
    time_of = set_levels(ranges, units)
    # Donated inputs before the arena: their memory exists anyway, so what fits there costs nothing.
    placed = _fill_donated(draft, ranges, time_of) if mode != "disabled" else {}
    groups: dict[str, list[LiveRange]] = defaultdict(list)
    for live_range in ranges:
        if live_range.index not in placed:
            groups[live_range.buffer.device].append(live_range)
    own_memory = {
        index: buffer
        for group in groups.values()
        for index, buffer in place_live_ranges(group, mode).items()
    }
    report = MemoryReport(
        mode,
        len(ranges) + saved.n_buffers,
        sum(live_range.buffer.nbytes for live_range in ranges) + saved.n_bytes,
        _count_bytes(own_memory.values()),
        sum(_get_bound(group) for group in groups.values()),
        len(draft.owners),
        sum(buffers[output].nbytes for output in draft.owners),
    )
    ordered, declared = declare_units(ops, predecessors, units)
    placed |= own_memory
    new = [placed.get(i, b) for i, b in enumerate(buffers)]
    planned = _merge(replace(draft, ops=ordered, buffers=new, memory_report=report), declared)
    _log_report(report, perf_counter() - started)
    return planned


def _log_report(report: MemoryReport, elapsed: float) -> None:
    _log.info(
        "memory.planned",
        mode=report.mode,
        buffers=report.n_buffers,
        bytes_before=report.bytes_before,
        bytes_after=report.bytes_after,
        bytes_saved=report.bytes_saved,
        lower_bound=report.lower_bound,
        donated=report.n_donated,
        elapsed_us=round(elapsed * 1e6),
    )


def _count_bytes(buffers: Iterable[Buffer]) -> int:
    return sum({b.storage_id: b.storage_nbytes for b in buffers}.values())


def _get_bound(ranges: Iterable[LiveRange]) -> int:
    return get_peak_bytes(
        [
            Block(live_range.buffer.nbytes, live_range.first, live_range.last)
            for live_range in ranges
        ]
    )


def _fill_donated(
    draft: PlanDraft, ranges: Sequence[LiveRange], time_of: Mapping[int, int]
) -> dict[int, Buffer]:
    """Assign intermediates to donated inputs, between the last read of the input and the write of
    the output.
    """
    users: dict[int, list[int]] = defaultdict(list)
    for op_index, op in enumerate(draft.ops):
        for index in op.buffer_indices:
            users[index].append(op_index)
    placed: dict[int, Buffer] = {}
    for output, donated in draft.owners.items():
        writer = min(users[output], key=time_of.__getitem__)
        if _reads(draft.ops[writer], output):
            # The writer reads the donated data in the memory that it overwrites.
            continue
        buffer, limit = draft.buffers[donated], time_of[writer]
        # An input without any reader is free from the start: kernels may drop unused arguments.
        end = max((time_of[op_index] for op_index in users[donated]), default=-1)
        # Ranges are sorted by first use, so a greedy choice fits several in sequence.
        for live_range in ranges:
            is_free = (
                end < live_range.first
                and live_range.last < limit
                and live_range.index not in placed
            )
            if is_free and (
                live_range.buffer.nbytes,
                live_range.buffer.dtype,
                live_range.buffer.device,
            ) == (
                buffer.nbytes,
                buffer.dtype,
                buffer.device,
            ):
                placed[live_range.index], end = buffer, live_range.last
    return placed


def _reads(op: PreparedOp, index: int) -> bool:
    # Only kernels list the buffers that they read.
    if not isinstance(op, PreparedKernel):
        return True
    spec = op.kernel.spec
    return any(
        i == index and slot in spec.ins
        for i, slot in zip(op.buffer_indices, spec.globals, strict=True)
    )


def _merge(draft: PlanDraft, declared: Sequence[set[int]]) -> tuple[PlanDraft, Dependencies]:
    """Merge equal buffers into one index, in the order of their use.

    Buffers of view ops keep an index of their own.
    """
    # A view is checked against its base at each run, by its own index.
    views = {op.buffer_indices[0] for op in draft.ops if isinstance(op, PreparedBufferView)}
    new: dict[int, int] = {}
    index_of: dict[tuple[int, int, int, object], int] = {}
    buffers: list[Buffer] = []
    for index in dict.fromkeys(
        (*(i for op in draft.ops for i in op.buffer_indices), *range(len(draft.buffers)))
    ):
        buffer = draft.buffers[index]
        key = (buffer.storage_id, buffer.offset, buffer.nbytes, buffer.dtype)
        if index in views:
            new[index] = len(buffers)
        else:
            new[index] = index_of.setdefault(key, len(buffers))
        if new[index] == len(buffers):
            buffers.append(buffer)
    merged = replace(
        draft,
        ops=[
            replace(op, buffer_indices=tuple([new[i] for i in op.buffer_indices]))
            for op in draft.ops
        ],
        buffers=buffers,
        ast_to_buffer={ast_id: new[i] for ast_id, i in draft.ast_to_buffer.items()},
        output_indices=[new[i] for i in draft.output_indices],
        donated_indices=[new[i] for i in draft.donated_indices],
        guarded_indices=[new[i] for i in draft.guarded_indices],
        owners={},
    )
    return merged, Dependencies(merged.ops, declared)
