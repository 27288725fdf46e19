"""Coalescing of a loop's initial value and result: one buffer if the initial value has no other
reader.

    fill(a); b = loop(a); read(b)          fill(b); b = loop(b); read(b)

Otherwise a loop that updates its carry starts with a copy of `a` to `b`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from svod_device import Buffer
from svod_runtime.memory.live_ranges import is_fresh, list_live_ranges
from svod_runtime.ops.prepared import PreparedLoop, PreparedOp

__all__ = ["coalesce_carries"]


def coalesce_carries(
    ops: Sequence[PreparedOp],
    order: Sequence[int],
    buffers: Sequence[Buffer],
    fixed: Collection[int],
) -> tuple[list[PreparedOp], list[Buffer]]:
    """Coalesce the initial value and the result of carries without a spare, where possible.

    Args:
        ops: ops of a plan or of a loop body.
        order: a topological order of the ops.
        buffers: buffers that the ops index.
        fixed: buffers that are not intermediates: none of them is replaced.

    Returns:
        Ops and buffers after coalescing.
    """
    coalesced = _collect_coalesced(ops, order, buffers, fixed)
    if not coalesced:
        return list(ops), list(buffers)

    def follow(index: int) -> int:
        # Loops in sequence form chains: the result of one is the initial value of the next.
        while index in coalesced:
            index = coalesced[index]
        return index

    new_ops = [
        replace(op, buffer_indices=tuple([follow(index) for index in op.buffer_indices]))
        for op in ops
    ]
    return new_ops, [buffers[follow(index)] for index in range(len(buffers))]


def _collect_coalesced(
    ops: Sequence[PreparedOp],
    order: Sequence[int],
    buffers: Sequence[Buffer],
    fixed: Collection[int],
) -> Mapping[int, int]:
    """Map each removable initial value to its result."""
    loops = [
        (op_index, op)
        for op_index, op in enumerate(ops)
        if isinstance(op, PreparedLoop) and op.body.carried
    ]
    if not loops:
        return {}
    position_of = {op_index: position for position, op_index in enumerate(order)}
    users: dict[int, list[int]] = {}
    for op_index, op in enumerate(ops):
        for index in op.buffer_indices:
            users.setdefault(index, []).append(position_of[op_index])
    # A buffer without a live range may hold data from before the execution.
    ranges = {live_range.index for live_range in list_live_ranges(ops, order, buffers, fixed)}
    n_handles = Counter(buffer.storage_id for buffer in buffers)
    coalesced: dict[int, int] = {}
    for op_index, op in loops:
        position = position_of[op_index]
        for carried in op.body.carried:
            first, last = op.buffer_indices[carried.initial], op.buffer_indices[carried.result]
            initial, result = buffers[first], buffers[last]
            has_same_spec = (initial.nbytes, initial.dtype, initial.device) == (
                result.nbytes,
                result.dtype,
                result.device,
            )
            has_own_storage = n_handles[initial.storage_id] == n_handles[result.storage_id] == 1
            # The loop must be the last user of the initial value and the first user of the result:
            # their live ranges then meet at the loop and nowhere else.
            is_adjacent = (
                max(users[first]) == min(users[last]) == position
                and users[first].count(position) == 1
            )
            if (
                # A carry with a spare reads its initial value while it writes the result, so both
                # need memory.
                carried.spare is None
                and first in ranges
                and is_fresh(result)
                and first not in coalesced
                and has_same_spec
                and has_own_storage
                and is_adjacent
                and users[last].count(position) == 1
            ):
                coalesced[first] = last
    return coalesced
