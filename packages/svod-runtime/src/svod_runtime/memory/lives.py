"""How long each intermediate of a plan is needed.

Ops of one level may run at the same time, so that a life is counted in levels and not in positions: two
buffers may share memory only if every op that touches the first is on an earlier level than every op that
touches the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from svod_device import Buffer
from svod_runtime._prepared import PreparedKernel, PreparedOp, get_written

__all__ = ["Life", "is_fresh", "list_lives"]


@dataclass(slots=True)
class Life:
    """One intermediate.

    Attributes:
        index: of the buffer.
        buffer: as long as it shares no memory.
        users: the indices of the ops that touch it.
        first: the level of the first of them, once there are levels.
        last: that of the last one.
    """

    index: int
    buffer: Buffer
    users: list[int]
    first: int = 0
    last: int = 0


def list_lives(
    ops: Sequence[PreparedOp], order: Iterable[int], buffers: Sequence[Buffer], fixed: Iterable[int]
) -> list[Life]:
    """The intermediates that may share memory, in the order of their first use; those in `fixed` never do.

    What copies, views and custom functions touch is left alone, and so is what a kernel touches that stores in part.
    """
    fixed = set(fixed)
    lives: dict[int, Life] = {}
    for number in order:
        op = ops[number]
        written = get_written(op)
        is_whole_store = isinstance(op, PreparedKernel) and not op.is_partial
        for index in dict.fromkeys(op.buffer_indices):
            is_read_first = index not in lives and index not in written
            if is_read_first or not is_whole_store:
                fixed.add(index)
            lives.setdefault(index, Life(index, buffers[index], [])).users.append(number)
    return [life for life in lives.values() if life.index not in fixed]


def is_fresh(buffer: Buffer) -> bool:
    """Whether a buffer has storage of its own without content."""
    return buffer.nbytes == buffer.storage_nbytes and not buffer.is_allocated
