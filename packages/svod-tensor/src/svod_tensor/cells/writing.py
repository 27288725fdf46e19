"""Writes to a cell: a pending version if the cell owns memory, another node otherwise."""

from __future__ import annotations

import weakref
from threading import get_ident
from typing import TYPE_CHECKING

from svod_device import ReadOnlyError
from svod_dtype import void
from svod_ir import Op, Sharding, UOp, make_as_real
from svod_ir.build import make_copy
from svod_tensor._origins import add_line
from svod_tensor._shards import shards_of, spread
from svod_tensor.cells import registry
from svod_tensor.cells.tables import take_write_id
from svod_tensor.cells.views import Path, as_real_target, make_target, put
from svod_tensor.engine import memory_nodes, versions

if TYPE_CHECKING:
    from svod_tensor.cells.cell import Cell
    from svod_tensor.cells.recording import Capture

__all__ = ["make_own", "move", "write"]


def write(cell: Cell, path: Path, value: UOp) -> None:
    """Write `value` to the elements of `cell` that `path` selects. Memory is changed only when the
    new version is read.

    Raises:
        ReadOnlyError: if the memory is a file.
    """
    if 0 in value.shape:
        return
    with registry.lock:
        registry.wait_for_capture()
        cell.end_loan()
        capture = registry.find_capture()
        if capture is not None:
            _check_no_file(cell)
            capture.before_write(cell)
        shared = cell.node
        in_place = _can_overwrite(cell, path, capture)
        # Read again: `_can_overwrite` may have moved the cell to memory of its own.
        old = cell.node
        if capture is not None and old is not shared:
            capture.unshared.append((weakref.ref(cell), shared))
        if in_place:
            new = _overwrite(old, path, value)
            cell.is_assigned_in_place = True
        else:
            if capture is not None and capture.existed_before(cell):
                capture.without_memory.append((cell, old))
            new = put(path, old, value)
            cell.is_partly_written = bool(path)
        if new is old:
            return
        if capture is not None:
            capture.record_write(cell)
        add_line(new)
        cell.set_node(new)


def make_own(cell: Cell) -> bool:
    """Make a cell that is memory the owner of writable memory, by a copy if the memory is shared.

    Returns:
        whether it succeeded. While this thread waited for a writer of the memory, another thread may
            have set another node.
    """
    with registry.lock:
        cell.end_loan()
        if not memory_nodes.is_buffer_identity(cell.node) or (cell.owns and _is_writable(cell)):
            return cell.owns
        return move(cell)


def move(cell: Cell) -> bool:
    """Move a cell that is memory to a copy of that memory.

    Returns:
        whether it succeeded. While this thread waited for a writer of the memory, another thread may
            have set another node.
    """
    with registry.lock:
        from svod_device import copy_buffer
        from svod_tensor import _storage as storage

        shared = {
            memory: buffer
            for memory in versions.iter_memories(cell.node)
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
        # Makes plans that read or write the memory check where it is now.
        take_write_id()
        return True


def _can_overwrite(cell: Cell, path: Path, capture: Capture | None) -> bool:
    """True if a write changes memory, which the cell then owns."""
    permission = None if capture is None else capture.find_permission(cell, path)
    if permission is not None:
        return permission
    if not versions.is_memory(cell.node):
        return False
    _check_no_file(cell)
    if cell.owns and _is_writable(cell):
        return True
    is_plain = memory_nodes.is_buffer_identity(cell.node)
    # A copy made during a capture becomes a value in the plan, not memory.
    is_kept = capture is None or capture.existed_before(cell)
    if capture is None and not cell.owns and not path:
        # Copy on write would be wasted: all elements are replaced.
        return False
    if (
        not is_plain
        or not is_kept
        or any(_is_file(memory) for memory in versions.iter_memories(cell.node))
    ):
        return False
    return make_own(cell) or _can_overwrite(cell, path, capture)


def _overwrite(node: UOp, path: Path, value: UOp) -> UOp:
    """The new version of `node`, which is memory, after `value` is written to the elements that
    `path` selects.
    """
    placement = node.placement
    if isinstance(placement, Sharding):
        # Each device writes its own shard.
        updated = put(path, node, value)
        if updated is node:
            return node
        shards = shards_of(node)
        values = spread(updated, placement)
        # Each value may read other shards, so all are built on the old versions.
        written = [_make_version(s, s, v) for s, v in zip(shards, values, strict=True)]
        return node.with_src((node.source.with_src(tuple(written)),))
    if isinstance(placement, str) and isinstance(value.placement, Sharding):
        # Memory that is the same in all processes of a mesh takes the whole value.
        value = make_copy(value, placement)
    target = make_target(path, node)
    if versions.find_target_version(target) is None:
        # A step that does not divide the size needs padding, so the target is no plain view:
        # rewrite all.
        target, value = node, put(path, node, value)
    return node if value is target else _make_version(node, target, value)


def _make_version(node: UOp, target: UOp, value: UOp) -> UOp:
    """The new version of `node` after the write to `target`, which is `node` or a view of it."""
    version = versions.find_target_version(node)
    assert version is not None, node
    memory = versions.memory_of(version)
    # Nodes are interned: without a unique id, the same value written twice would be one version.
    write_id = UOp(Op.NOOP, void, (), take_write_id())
    write_id.attached = get_ident()
    if target.dtype.is_complex:
        target, value = as_real_target(target), make_as_real(value)
    new = UOp(
        Op.AFTER, memory.dtype, (memory, UOp(Op.ASSIGN, target.dtype, (target, value)), write_id)
    )
    add_line(new)
    capture = registry.find_capture()
    if capture is not None:
        capture.record_version(new, version)
    return node.substitute({version: new})


def _is_writable(cell: Cell) -> bool:
    buffers = map(memory_nodes.find_buffer, versions.iter_memories(cell.node))
    return all(buffer is None or buffer.is_writable for buffer in buffers)


def _check_no_file(cell: Cell) -> None:
    for memory in versions.iter_memories(cell.node):
        if cell.owns and _is_file(memory):
            raise ReadOnlyError(device=memory.arg.device)


def _is_file(memory: UOp) -> bool:
    buffer = memory_nodes.find_buffer(memory)
    return buffer is not None and not buffer.allocator.is_writable
