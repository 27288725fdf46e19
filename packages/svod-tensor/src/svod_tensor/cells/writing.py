"""Writing to a cell: in its memory if that is its own, once something reads it, else by another
node.
"""

from __future__ import annotations

import weakref
from threading import get_ident
from typing import TYPE_CHECKING

from svod_device import ReadOnlyError
from svod_dtype import void
from svod_ir import Op, Sharding, UOp, make_as_real
from svod_tensor._origins import add_line
from svod_tensor._shards import parts_of, spread
from svod_tensor.cells import registry
from svod_tensor.cells.tables import take_number
from svod_tensor.cells.views import Path, make_target, put, view_parts
from svod_tensor.engine import memory_nodes, states

if TYPE_CHECKING:
    from svod_tensor.cells.cell import Cell
    from svod_tensor.cells.recording import Capture

__all__ = ["make_own", "move", "write"]


def write(cell: Cell, path: Path, value: UOp) -> None:
    """Let `cell` have `value` where `path` leads to: in its memory if it has some, once something
    reads that.

    Raises:
        ReadOnlyError: if it is a file.
    """
    if 0 in value.shape:
        return
    with registry.lock:
        registry.wait_for_capture()
        cell.end_loan()
        capture = registry.find_capture()
        if capture is not None:
            _check_no_file(cell)
            capture.prepare_write(cell)
        shared = cell.node
        in_place = _can_overwrite(cell, path, capture)
        old = cell.node
        if capture is not None and old is not shared:
            capture.moved.append((weakref.ref(cell), shared))
        if in_place:
            new = _overwrite(old, path, value)
            cell.is_rewritten = True
        else:
            if capture is not None and capture.is_known(cell):
                capture.lacking.append((cell, old))
            new = put(path, old, value)
            cell.is_patched = bool(path)
        if new is old:
            return
        if capture is not None:
            capture.record_write(cell)
        add_line(new)
        cell.set_node(new)


def make_own(cell: Cell) -> bool:
    """Let a cell that is memory have it for itself: what is another's, or belongs to somebody else,
    is copied.

    Returns:
        whether it has; another thread may have given it something else while this one waited for
        who writes the memory.
    """
    with registry.lock:
        cell.end_loan()
        if not memory_nodes.is_buffer_identity(cell.node) or (cell.owns and _is_writable(cell)):
            return cell.owns
        return move(cell)


def move(cell: Cell) -> bool:
    """Let a cell that is memory have a copy of it for itself.

    Returns:
        whether it has; another thread may have given it something else while this one waited for
        who writes the memory.
    """
    with registry.lock:
        from svod_device import copy_buffer
        from svod_tensor import _storage as storage

        shared = {
            memory: buffer
            for memory in states.iter_memories(cell.node)
            if (buffer := memory_nodes.find_buffer(memory))
        }
        computation = registry.start_computation(
            [buffer.storage_id for buffer in shared.values()], [], {}
        )
        if computation is None:
            registry.wait_if_refused()
            return False
        copies: dict[UOp, UOp] = {}
        try:
            for memory, buffer in shared.items():
                own = storage.allocate(buffer.device, buffer.dtype, buffer.size)
                copy_buffer(own, buffer)
                copies[memory] = memory_nodes.make_memory(
                    memory.dtype, buffer.size, buffer.device, own
                )
        finally:
            registry.end_computation(computation)
        cell.set_node(cell.node.substitute(copies))
        cell.owns = True
        # Plans that read or write the memory must know.
        take_number()
        return True


def _can_overwrite(cell: Cell, path: Path, capture: Capture | None) -> bool:
    """Whether a write changes memory; the cell has it for itself then."""
    right = None if capture is None else capture.find_right(cell, path)
    if right is not None:
        return right
    if not states.is_memory(cell.node):
        return False
    _check_no_file(cell)
    if cell.owns and _is_writable(cell):
        return True
    is_plain = memory_nodes.is_buffer_identity(cell.node)
    # A copy that a captured function makes is a value in its plan.
    is_kept = capture is None or capture.is_known(cell)
    if capture is None and not cell.owns and not path:
        # All of it is replaced.
        return False
    if (
        not is_plain
        or not is_kept
        or any(_is_file(memory) for memory in states.iter_memories(cell.node))
    ):
        return False
    return make_own(cell) or _can_overwrite(cell, path, capture)


def _overwrite(node: UOp, path: Path, value: UOp) -> UOp:
    """`node`, which is memory, after `value` was written where `path` leads to."""
    placement = node.placement
    if isinstance(placement, Sharding):
        # Each device writes its own shard.
        whole = put(path, node, value)
        if whole is node:
            return node
        shards = parts_of(node)
        values = spread(whole, placement)
        # What other shards are assigned may be made from the old state.
        written = [_assign(s, s, v) for s, v in zip(shards, values, strict=True)]
        return node.with_src((node.source.with_src(tuple(written)),))
    target = make_target(path, node)
    if states.find_target_state(target) is None:
        # Every n-th element where n does not divide the size is no plain view.
        target, value = node, put(path, node, value)
    return node if value is target else _assign(node, target, value)


def _assign(node: UOp, target: UOp, value: UOp) -> UOp:
    """`node` after the assignment to `target`, which is a view of it or it itself."""
    state = states.find_target_state(node)
    assert state is not None, node
    memory = states.memory_of(state)
    number = UOp(Op.NOOP, void, (), take_number())
    number.attached = get_ident()
    if target.dtype.is_complex:
        target, value = view_parts(target), make_as_real(value)
    new = UOp(
        Op.AFTER, memory.dtype, (memory, UOp(Op.ASSIGN, target.dtype, (target, value)), number)
    )
    add_line(new)
    capture = registry.find_capture()
    if capture is not None:
        capture.record_state(new, state)
    return node.substitute({state: new})


def _is_writable(cell: Cell) -> bool:
    buffers = map(memory_nodes.find_buffer, states.iter_memories(cell.node))
    return all(buffer is None or buffer.is_writable for buffer in buffers)


def _check_no_file(cell: Cell) -> None:
    for memory in states.iter_memories(cell.node):
        if cell.owns and _is_file(memory):
            raise ReadOnlyError(device=memory.arg.device)


def _is_file(memory: UOp) -> bool:
    buffer = memory_nodes.find_buffer(memory)
    return buffer is not None and not buffer.allocator.is_writable
