"""The process-wide tables of live tensors and of plans, and the buffers behind BUFFER nodes.

The tables hold their entries weakly: a tensor that nobody refers to leaves its table. A buffer is attached to its BUFFER
node and lives as long as that does, that is, as long as some graph mentions it.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, cast

from svod_ir.args import BufferArg
from svod_ir.forks import hold_across_fork
from svod_ir.ops import Op
from svod_ir.uop import UOp

if TYPE_CHECKING:
    from svod_device import Buffer
    from svod_dtype import DType
    from svod_runtime import ExecutionPlan
    from svod_tensor.ops.base import TensorBase

__all__ = [
    "add_plan",
    "add_plan_values",
    "add_tensor",
    "clear",
    "find_base",
    "find_buffer",
    "find_plan_values",
    "is_buffer_identity",
    "iter_plans",
    "iter_tensors",
    "lock",
    "make_memory",
    "note_new_node",
    "remove_buffer",
    "remove_tensor",
    "replace_nodes",
]

lock = hold_across_fork(threading.RLock())
"""Held while a tensor's node is replaced."""

_tensors: dict[int, weakref.ref[TensorBase]] = {}
# Those of them that need computing, and new ones that nobody looked at: a process has thousands of tensors that need none.
_pending: dict[int, weakref.ref[TensorBase]] = {}
_plans: weakref.WeakSet[ExecutionPlan] = weakref.WeakSet()
_ids = itertools.count(1)
_RESHAPE, _SHRINK, _BUFFER = Op.RESHAPE, Op.SHRINK, Op.BUFFER


def make_memory(dtype: DType, size: int, device: str, buffer: Buffer | None = None) -> UOp:
    """A new BUFFER of `size` elements, with `buffer` as its storage; without, it only stands for memory."""
    node = UOp(Op.BUFFER, dtype, (), BufferArg(next(_ids), size, device))
    node.attached = buffer
    return node


def add_tensor(tensor: TensorBase) -> None:
    """Let `tensor` see later realizations of nodes in its graph."""
    # Who is looked up is alive, so that its id is nobody else's.
    key = id(tensor)
    _tensors[key] = _pending[key] = weakref.ref(tensor, partial(_forget, key))


def _forget(key: int, _: object = None) -> None:
    _tensors.pop(key, None)
    _pending.pop(key, None)


def remove_tensor(tensor: TensorBase) -> None:
    """Let `tensor` be none of the live ones any more."""
    _forget(id(tensor))


def note_new_node(tensor: TensorBase) -> None:
    """Look at `tensor` again, which stands for another node now; the caller holds `lock`."""
    ref = _tensors.get(id(tensor))
    if ref is not None:
        _pending[id(tensor)] = ref


def remove_buffer(node: UOp) -> None:
    """Let the BUFFER `node` have no storage any more."""
    node.attached = None


def find_buffer(node: UOp) -> Buffer | None:
    """The storage of a BUFFER node, or None."""
    return cast("Buffer | None", node.attached)


def iter_tensors() -> Iterator[TensorBase]:
    """The live tensors, as they were when the iteration began."""
    for ref in list(_tensors.values()):
        tensor = ref()
        if tensor is not None:
            yield tensor


def add_plan(plan: ExecutionPlan) -> None:
    """Let `plan` be told when memory that it uses is given away."""
    _plans.add(plan)


def add_plan_values(place: UOp, values: Mapping[str, int]) -> None:
    """Say that `place` stands for what `values`, the changing values of a plan, say at any time."""
    place.attached = values


def find_plan_values(place: UOp) -> Mapping[str, int] | None:
    """The values that a node stands for one of, or None."""
    return cast("Mapping[str, int] | None", place.attached)


def iter_plans() -> Iterator[ExecutionPlan]:
    """The plans that are kept by somebody, as they were when the iteration began."""
    yield from list(_plans)


def replace_nodes(replacements: Mapping[UOp, UOp]) -> None:
    """Put each value in the place of its key in the graphs of all live tensors, in one walk over them."""
    if not replacements:
        return
    with lock:
        pending = _find_pending()
        if not pending:
            return
        roots = list(dict.fromkeys(t.uop for t in pending))
        replaced = UOp.sink(*roots).substitute(replacements)
        new_of = {old: new for old, new in zip(roots, replaced.src, strict=True) if old is not new}
        for tensor in pending:
            new = new_of.get(tensor.uop)
            if new is not None:
                tensor.set_node(new)


def _find_pending() -> list[TensorBase]:
    """The live tensors that need computing."""
    found: list[TensorBase] = []
    for key, ref in list(_pending.items()):
        tensor = ref()
        if tensor is None or is_buffer_identity(tensor.uop):
            _pending.pop(key, None)
        else:
            found.append(tensor)
    return found


def is_buffer_identity(node: UOp) -> bool:
    """Whether `node` is a whole buffer under another shape, or consists of such shards, so that it needs no computation."""
    if node.op is Op.MULTI:
        return all(find_base(shard) is not None or 0 in shard.shape for shard in node.src[0].src)
    return find_base(node) is not None


def find_base(node: UOp) -> UOp | None:
    """The BUFFER whose elements, from the first on, are those of `node` in order; None if there is none.

    A tensor with symbolic sizes is the first part of a buffer that has room for the largest ones.
    """
    # Members of an enum are looked up once: every argument of every call of a captured function comes through here.
    while node.op is _RESHAPE:
        node = node.src[0]
    op = node.op
    if op is _BUFFER:
        return node
    return node.src[0] if op is _SHRINK and node.arg == (0, None) and node.src[0].op is _BUFFER else None


def clear() -> None:
    """Forget every tensor and plan, for tests."""
    with lock:
        _tensors.clear()
        _pending.clear()
        _plans.clear()
