"""Buffers that a kernel reads and writes, according to its body."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from svod_ir import Op

if TYPE_CHECKING:
    from svod_device import Buffer
    from svod_ir import RepeatArg, UOp
    from svod_tensor.engine.schedule import ScheduleItem

__all__ = ["BufferUse", "has_partial_store", "iter_arguments", "list_slots"]


class BufferUse(NamedTuple):
    """Buffer that a schedule item accesses."""

    slot: int
    id: int
    buffer: Buffer
    is_written: bool


def list_slots(kernel: UOp) -> list[int]:
    """Slots of a CALL that are memory; bound variables take slots too."""
    return [slot for slot, argument in enumerate(kernel.arguments) if argument.op is not Op.BIND]


def iter_arguments(item: ScheduleItem) -> Iterator[BufferUse]:
    """Yield the buffers that an item accesses."""
    written = _written_slots(item.ast) if item.body is None else _list_filled(item.kernel.arg)
    for slot, buffer_id, buffer in zip(
        list_slots(item.kernel), item.buffer_ids, item.buffers, strict=True
    ):
        yield BufferUse(slot, buffer_id, buffer, slot in written)


# Bodies are interned, and the same bodies return in many schedules.
@lru_cache(maxsize=4096)
def _written_slots(ast: UOp) -> frozenset[int]:
    """Slots that a body writes; the first slot, if the body is not a kernel."""
    # A copy, view or custom function has its result as the first argument.
    if ast.op is not Op.SINK:
        return frozenset({0})
    return frozenset(t.memory.arg.slot for t in _iter_targets(ast) if t.memory.op is Op.PARAM)


def _list_filled(repeat: RepeatArg) -> frozenset[int]:
    """Slots of a repeated call that it writes: results and spares."""
    return frozenset(range(repeat.n_carried + repeat.n_stacked + len(repeat.spares)))


@lru_cache(maxsize=4096)
def has_partial_store(ast: UOp) -> bool:
    """True if a body stores under a gate, and so may leave old elements in its output."""
    return any(target.gate is not None for target in _iter_targets(ast))


def _iter_targets(ast: UOp) -> Iterator[UOp]:
    return (store.location for store in ast.iter_ops(Op.STORE) if store.location.op is Op.INDEX)
