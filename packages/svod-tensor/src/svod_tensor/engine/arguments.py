"""Which memory a kernel reads and writes, as its body says."""

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
    """A buffer that an item touches."""

    slot: int
    id: int
    buffer: Buffer
    is_written: bool


def list_slots(kernel: UOp) -> list[int]:
    """The slots of a CALL that are memory; bound variables take slots too."""
    return [slot for slot, argument in enumerate(kernel.arguments) if argument.op is not Op.BIND]


def iter_arguments(item: ScheduleItem) -> Iterator[BufferUse]:
    """What an item touches."""
    written = _written_slots(item.ast) if item.body is None else _list_filled(item.kernel.arg)
    for slot, number, buffer in zip(
        list_slots(item.kernel), item.buffer_ids, item.buffers, strict=True
    ):
        yield BufferUse(slot, number, buffer, slot in written)


@lru_cache(maxsize=4096)
def _written_slots(ast: UOp) -> frozenset[int]:
    """The arguments that a body writes; of what is no kernel, the first."""
    if ast.op is not Op.SINK:
        return frozenset({0})
    return frozenset(t.memory.arg.slot for t in _iter_targets(ast) if t.memory.op is Op.PARAM)


def _list_filled(repeat: RepeatArg) -> frozenset[int]:
    """The arguments of a repeated call that it writes: results and spares."""
    return frozenset(range(repeat.n_carried + repeat.n_stacked + len(repeat.spares)))


@lru_cache(maxsize=4096)
def has_partial_store(ast: UOp) -> bool:
    """Whether a body stores under a gate, and so may leave old content in place."""
    return any(target.gate is not None for target in _iter_targets(ast))


def _iter_targets(ast: UOp) -> Iterator[UOp]:
    return (store.location for store in ast.iter_ops(Op.STORE) if store.location.op is Op.INDEX)
