"""Joining: a value that a loop changes in place begins in the memory where it ends, if nobody else
needs what it began with.

    fill(a); b = loop(a); read(b)          fill(b); b = loop(b); read(b)

Without it the loop copies `a` to `b` when it begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from svod_device import Buffer
from svod_runtime.memory.lives import is_fresh, list_lives
from svod_runtime.ops.prepared import PreparedLoop, PreparedOp

__all__ = ["join_initials"]


def join_initials(
    ops: Sequence[PreparedOp],
    order: Sequence[int],
    buffers: Sequence[Buffer],
    fixed: Collection[int],
) -> tuple[list[PreparedOp], list[Buffer]]:
    """The ops and the buffers, with one for the initial value and the result of what loops change
    in place, where that can be.

    Args:
        ops: of a plan, or of the body of a loop.
        order: one in which they may run.
        buffers: theirs.
        fixed: the buffers that are no intermediates: none of them goes.
    """
    joined = _collect_joined(ops, order, buffers, fixed)
    if not joined:
        return list(ops), list(buffers)

    def follow(index: int) -> int:
        while index in joined:
            index = joined[index]
        return index

    moved = [
        replace(op, buffer_indices=tuple([follow(index) for index in op.buffer_indices]))
        for op in ops
    ]
    return moved, [buffers[follow(index)] for index in range(len(buffers))]


def _collect_joined(
    ops: Sequence[PreparedOp],
    order: Sequence[int],
    buffers: Sequence[Buffer],
    fixed: Collection[int],
) -> Mapping[int, int]:
    """For each initial value that goes the result that it is in."""
    loops = [
        (number, op)
        for number, op in enumerate(ops)
        if isinstance(op, PreparedLoop) and op.body.carried
    ]
    if not loops:
        return {}
    place_of = {number: place for place, number in enumerate(order)}
    users: dict[int, list[int]] = {}
    for number, op in enumerate(ops):
        for index in op.buffer_indices:
            users.setdefault(index, []).append(place_of[number])
    lives = {life.index for life in list_lives(ops, order, buffers, fixed)}
    n_handles = Counter(buffer.storage_id for buffer in buffers)
    joined: dict[int, int] = {}
    for number, op in loops:
        place = place_of[number]
        for carried in op.body.carried:
            first, last = op.buffer_indices[carried.initial], op.buffer_indices[carried.result]
            one, other = buffers[first], buffers[last]
            is_alike = (one.nbytes, one.dtype, one.device) == (
                other.nbytes,
                other.dtype,
                other.device,
            )
            is_alone = n_handles[one.storage_id] == n_handles[other.storage_id] == 1
            # The loop is the last to touch the initial value, and the first to touch the result.
            is_handed_on = (
                max(users[first]) == min(users[last]) == place and users[first].count(place) == 1
            )
            if (
                carried.spare is None
                and first in lives
                and is_fresh(other)
                and first not in joined
                and is_alike
                and is_alone
                and is_handed_on
                and users[last].count(place) == 1
            ):
                joined[first] = last
    return joined
