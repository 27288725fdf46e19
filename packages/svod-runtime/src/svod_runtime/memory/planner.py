"""The memory planner: intermediates whose lives do not meet share memory, in an order that leaves
few alive at once.

Lives are counted in the levels of that order (`order`), so that sharing takes no parallelism away.
Inputs that nobody donated and outputs are left alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter

from svod_device import Buffer
from svod_ir import get_logger
from svod_runtime.memory.bodies import Saved
from svod_runtime.memory.joining import join_initials
from svod_runtime.memory.lives import Life, is_fresh, list_lives
from svod_runtime.memory.memory_report import MemoryReport, PlannerMode
from svod_runtime.memory.order import declare_units, order_in_units
from svod_runtime.memory.packing import Block, get_most_live
from svod_runtime.memory.placing import date_lives, place_lives
from svod_runtime.memory.plan_parts import PlanParts
from svod_runtime.ops.dependencies import Dependencies
from svod_runtime.ops.prepared import PreparedBufferView, PreparedKernel, PreparedOp

__all__ = ["plan_memory"]

_log = get_logger("runtime")


def plan_memory(
    parts: PlanParts,
    dependencies: Dependencies,
    inputs: Collection[Buffer],
    mode: PlannerMode,
    saved: Saved,
) -> tuple[PlanParts, Dependencies]:
    """The ops of `parts` in the order in which they run, on memory that all but `inputs` share as
    `mode` says.

    Equal buffers have one index then. The report counts what was `saved` in loops, too.
    """
    started = perf_counter()
    ops, buffers = parts.ops, parts.buffers
    results = {*parts.output_indices, *parts.guarded_indices}
    given = set(inputs)
    own = {i for op in ops for i in op.buffer_indices if buffers[i] not in given} - results
    if not parts.owners and (mode == "disabled" or len(own) + saved.n_buffers < 2):
        return _merge(replace(parts, memory_report=MemoryReport(mode)), dependencies.declared)
    fixed = [i for i, buffer in enumerate(buffers) if i not in own or not is_fresh(buffer)]
    if mode != "disabled":
        ops, buffers = join_initials(ops, dependencies.order, buffers, fixed)
        parts, dependencies = (
            replace(parts, ops=ops, buffers=buffers),
            Dependencies(ops, dependencies.declared),
        )
    predecessors = dependencies.get_predecessors(buffers)
    lives = list_lives(ops, dependencies.order, buffers, fixed)
    units = order_in_units(ops, dependencies.order, predecessors, buffers, lives)
    time_of = date_lives(lives, units)
    placed = _fill_donated(parts, lives, time_of) if mode != "disabled" else {}
    groups: dict[str, list[Life]] = defaultdict(list)
    for life in lives:
        if life.index not in placed:
            groups[life.buffer.device].append(life)
    own_memory = {
        index: buffer
        for group in groups.values()
        for index, buffer in place_lives(group, mode).items()
    }
    report = MemoryReport(
        mode,
        len(lives) + saved.n_buffers,
        sum(life.buffer.nbytes for life in lives) + saved.n_bytes,
        _count_bytes(own_memory.values()),
        sum(_get_bound(group) for group in groups.values()),
        len(parts.owners),
        sum(buffers[output].nbytes for output in parts.owners),
    )
    ordered, declared = declare_units(ops, predecessors, units)
    placed |= own_memory
    new = [placed.get(i, b) for i, b in enumerate(buffers)]
    planned = _merge(replace(parts, ops=ordered, buffers=new, memory_report=report), declared)
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


def _get_bound(lives: Iterable[Life]) -> int:
    return get_most_live([Block(life.buffer.nbytes, life.first, life.last) for life in lives])


def _fill_donated(
    parts: PlanParts, lives: Sequence[Life], time_of: Mapping[int, int]
) -> dict[int, Buffer]:
    """Intermediates in donated memory, after its content was last read and before the output is
    written there.
    """
    users: dict[int, list[int]] = defaultdict(list)
    for number, op in enumerate(parts.ops):
        for index in op.buffer_indices:
            users[index].append(number)
    placed: dict[int, Buffer] = {}
    for output, given in parts.owners.items():
        writer = min(users[output], key=time_of.__getitem__)
        if _reads(parts.ops[writer], output):
            # It reads the donated content where it writes.
            continue
        buffer, limit = parts.buffers[given], time_of[writer]
        # A kernel may leave out what its call names.
        end = max((time_of[number] for number in users[given]), default=-1)
        for life in lives:
            is_free = end < life.first and life.last < limit and life.index not in placed
            if is_free and (life.buffer.nbytes, life.buffer.dtype, life.buffer.device) == (
                buffer.nbytes,
                buffer.dtype,
                buffer.device,
            ):
                placed[life.index], end = buffer, life.last
    return placed


def _reads(op: PreparedOp, index: int) -> bool:
    if not isinstance(op, PreparedKernel):
        return True
    spec = op.kernel.spec
    return any(
        i == index and slot in spec.ins
        for i, slot in zip(op.buffer_indices, spec.globals, strict=True)
    )


def _merge(parts: PlanParts, declared: Sequence[set[int]]) -> tuple[PlanParts, Dependencies]:
    """`parts` with one index for equal buffers, in the order of their use; what a view op makes
    stays apart.
    """
    views = {op.buffer_indices[0] for op in parts.ops if isinstance(op, PreparedBufferView)}
    new: dict[int, int] = {}
    index_of: dict[tuple[int, int, int, object], int] = {}
    buffers: list[Buffer] = []
    for index in dict.fromkeys(
        (*(i for op in parts.ops for i in op.buffer_indices), *range(len(parts.buffers)))
    ):
        buffer = parts.buffers[index]
        key = (buffer.storage_id, buffer.offset, buffer.nbytes, buffer.dtype)
        if index in views:
            new[index] = len(buffers)
        else:
            new[index] = index_of.setdefault(key, len(buffers))
        if new[index] == len(buffers):
            buffers.append(buffer)
    merged = replace(
        parts,
        ops=[
            replace(op, buffer_indices=tuple([new[i] for i in op.buffer_indices]))
            for op in parts.ops
        ],
        buffers=buffers,
        ast_to_buffer={ast_id: new[i] for ast_id, i in parts.ast_to_buffer.items()},
        output_indices=[new[i] for i in parts.output_indices],
        donated_indices=[new[i] for i in parts.donated_indices],
        guarded_indices=[new[i] for i in parts.guarded_indices],
        owners={},
    )
    return merged, Dependencies(merged.ops, declared)
