"""Memory accesses: INDEX, LOAD, STORE, ASSIGN, BUFFER_VIEW and BUFFERIZE."""

# Numpy arrays of any dtype and shape leave lambdas without declared types.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from svod_dtype import DType
from svod_ir._arithmetic import Values
from svod_ir.errors import EvaluationError
from svod_ir.evaluate.memory import (
    MEMORY_BASES,
    Poison,
    checked,
    find_poison,
    memory_of,
    new_memory,
)
from svod_ir.evaluate.movement import MOVES, fill_sizes
from svod_ir.ops import MOVEMENT, Op
from svod_ir.uop import UOp

__all__ = [
    "assigned_before",
    "dependencies",
    "fill",
    "fill_whole",
    "is_effect",
    "make_allocate",
    "make_assign",
    "make_load",
    "make_read",
    "make_store",
    "ranges_of",
    "view_bytes",
    "view_chain",
]

_EFFECTS: Final = frozenset(
    {
        Op.STORE,
        Op.END,
        Op.SINK,
        Op.GROUP,
        Op.BARRIER,
        Op.NOOP,
        Op.CALL,
        Op.CUSTOM_FUNCTION,
        Op.ADVANCE,
        Op.LEAVE,
    }
)


def is_effect(node: UOp) -> bool:
    return node.op in _EFFECTS


def ranges_of(node: UOp) -> tuple[UOp, ...]:
    return tuple(r for r in node.src[1:] if r.op is Op.RANGE)


def make_read(node: UOp) -> Callable[..., Any]:
    """Read a location where a value is expected. Out of bounds it is poison, which a WHERE may
    discard.
    """
    has_gate = node.gate is not None
    n_indices = len(node.src) - 1 - has_gate

    def run(memory: Values, *operands: Any) -> Any:
        gate = operands[n_indices] if has_gate else None
        if gate is not None and not np.ndim(gate) and not gate:
            return _zero(node.dtype)
        return _access(node, memory, operands[:n_indices], gate, is_strict=False)

    return run


def make_load(node: UOp) -> Callable[..., Any]:
    location = node.location.unordered
    if location.op is not Op.INDEX:
        # A copy, since a later store must not change a value that was read.
        return lambda memory, *_: memory.copy() if memory.size > 1 else memory.reshape(-1)[0]
    has_gate, has_alternative = location.gate is not None, len(node.src) > 1
    n_indices = len(location.src) - 1 - has_gate

    def run(memory: Values, *operands: Any) -> Any:
        # Poison decides nothing: a gate that depends on an invalid read is an error.
        gate = checked(operands[n_indices]) if has_gate else None
        alternative = operands[-1] if has_alternative else None
        # Before the access: where the gate is false, the location may be out of bounds.
        if gate is not None and not np.any(gate):
            return _zero(node.dtype) if alternative is None else alternative
        return _access(
            location,
            memory,
            operands[:n_indices],
            gate if gate is not None and np.ndim(gate) else None,
            is_strict=True,
            alternative=alternative,
        )

    return run


def make_store(node: UOp) -> Callable[..., Any]:
    location = node.location.unordered
    if location.op is not Op.INDEX:
        raise EvaluationError(problem="STORE expects an INDEX as location", node=node)
    has_gate = location.gate is not None
    n_indices = len(location.src) - 1 - has_gate

    def run(memory: Values, *operands: Any) -> None:
        gate = checked(operands[n_indices]) if has_gate else None
        if gate is not None and not np.any(gate):
            return
        value = checked(operands[-1])
        index = checked(_flat_index(location, memory, operands[:n_indices]))
        flat = _flat(location, memory)
        mask = (
            np.broadcast_to(np.asarray(gate), np.shape(index))
            if gate is not None
            else np.ones(np.shape(index), bool)
        )
        if not np.all(((index >= 0) & (index < len(flat))) | ~mask):
            raise EvaluationError(
                problem=f"index {index} is out of bounds for {len(flat)} elements",
                node=memory_of(location),
            )
        if not np.ndim(index):
            flat[index] = value
        else:
            flat[index[mask]] = value if not np.ndim(value) else value[mask]

    return run


def make_assign(node: UOp) -> Callable[..., Any]:
    chain = view_chain(node.src[0])
    is_memory = memory_of(node.src[0]).op in MEMORY_BASES

    def run(memory: Values, value: Values, *sizes: Any) -> Values:
        # The views move indices as they would move elements, so any chain of views can be written.
        index, remaining = np.arange(memory.size).reshape(memory.shape) + 1, list(sizes)
        for view in chain:
            own_sizes, remaining = remaining[: len(view.src) - 1], remaining[len(view.src) - 1 :]
            index = MOVES[view.op](index, fill_sizes(view.arg, own_sizes))
        full = np.broadcast_to(value, index.shape)
        if is_memory:
            # Index 0 marks padding, which corresponds to no element.
            memory.reshape(-1)[index[index > 0] - 1] = full[index > 0]
        return full

    return run


def view_bytes(node: UOp, x: Values, offset: int, size: int) -> Values:
    raw = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
    end = offset + size * node.dtype.itemsize
    if offset < 0 or end > raw.size:
        raise EvaluationError(
            problem=f"bytes {offset} to {end} are out of bounds for {raw.size} bytes", node=node
        )
    return raw[offset:end].view(node.dtype.numpy)


def make_allocate(node: UOp) -> Callable[..., Any]:
    lanes = (node.dtype.lanes,) if node.dtype.lanes > 1 else ()

    def allocate(*extents: Any) -> Values:
        shape = (*map(int, extents), *lanes)
        return new_memory(node.dtype.scalar, math.prod(shape)).reshape(shape)

    return allocate


def fill(array: Values, value: Any, *indices: Any) -> Values:
    array[tuple(int(p) for p in indices)] = checked(value)
    return array


def fill_whole(array: Values, value: Values) -> Values:
    """Store a value that is computed as a whole, not by element: a COPY, a BUFFER_VIEW."""
    array.reshape(-1)[:] = value.reshape(-1)
    return array


def dependencies(location: UOp) -> tuple[UOp, ...]:
    """The effects that order a location: AFTERs around the INDEX (AFTERs below it are operands)."""
    effects: tuple[UOp, ...] = ()
    while location.op is Op.AFTER:
        effects += location.dependencies
        location = location.source
    return effects


def view_chain(node: UOp) -> list[UOp]:
    """The movement ops between an assignment's target and its memory, from the memory up."""
    chain: list[UOp] = []
    while True:
        if node.op in MOVEMENT:
            chain.append(node)
        elif node.op not in (Op.AFTER, Op.ASSIGN, Op.DETACH, Op.TRACED):
            return chain[::-1]
        node = node.src[0]


def assigned_before(node: UOp) -> tuple[UOp, ...]:
    """The nodes ordered before an assignment to this target: earlier assignments, and reads of the
    versions after them.
    """
    ordered: tuple[UOp, ...] = ()
    while node.op in MOVEMENT or node.op in (Op.AFTER, Op.ASSIGN, Op.DETACH, Op.TRACED):
        if node.op is Op.ASSIGN:
            ordered += (node,)
        elif node.op is Op.AFTER:
            # Readers of this version read the memory before the assignment.
            ordered += (*node.dependencies, node)
        node = node.src[0]
    return ordered


def _zero(dtype: DType) -> Values:
    return np.zeros(dtype.lanes, dtype.numpy) if dtype.lanes > 1 else dtype.numpy.type(0)


def _access(
    node: UOp,
    memory: Values,
    indices: Sequence[Any],
    gate: Any,
    *,
    is_strict: bool,
    alternative: Any = None,
) -> Any:
    index = _flat_index(node, memory, indices)
    if isinstance(index, Poison):
        if is_strict:
            raise index.fail()
        return index
    mask = np.broadcast_to(np.asarray(gate), np.shape(index)) if gate is not None else True
    flat = _flat(node, memory)
    is_inside = (index >= 0) & (index < len(flat))
    if not np.all(is_inside | ~np.asarray(mask)):
        poison = Poison(
            f"index {index} is out of bounds for {len(flat)} elements of {memory_of(node.src[0])}",
            node,
        )
        if is_strict:
            raise poison.fail()
        return poison
    if not np.ndim(index):
        # An element of a memory of vectors is a row, which a later write would change.
        return flat[index].copy()
    values = (
        flat[np.where(is_inside, index, 0)] if len(flat) else np.zeros(np.shape(index), flat.dtype)
    )
    default = _zero(node.dtype) if alternative is None else alternative
    return np.where(mask, values, default).astype(flat.dtype)


def _flat(node: UOp, memory: Values) -> Values:
    """Memory as a flat array of elements; an element of vector memory is a row."""
    base_lanes = node.memory.dtype.lanes
    return memory.reshape(-1, base_lanes) if base_lanes > 1 else memory.reshape(-1)


def _flat_index(node: UOp, memory: Values, indices: Sequence[Any]) -> Any:
    """Flat index of the element that INDEX `node` denotes, one for each lane."""
    poison = find_poison(indices)
    if poison is not None:
        return poison
    if len(indices) > 1:
        extents = memory.shape
        if len(extents) != len(indices):
            raise EvaluationError(
                problem=f"expected {len(extents)} indices for shape {extents}, got {len(indices)}",
                node=node,
            )
        # Checked by axis: an index beyond its axis may still be inside of the flat memory.
        if any(not 0 <= p < n for p, n in zip(indices, extents, strict=True)):
            return Poison(
                f"index {tuple(map(int, indices))} is out of bounds for shape {extents}", node
            )
        flat = np.int64(0)
        for index, extent in zip(indices, extents, strict=True):
            flat = flat * extent + index
    else:
        flat = indices[0].astype(np.int64) if indices else np.int64(0)
    lanes = node.dtype.lanes // node.memory.dtype.lanes
    return flat + np.arange(lanes) if lanes > 1 and not np.ndim(flat) else flat
