"""Write-after-read hazards: readers of a version that is about to be overwritten, and rebinding of
graphs once the write is committed.

A BUFFER node is one version of memory. When a write is committed, its owner gets another BUFFER for
the same buffer, so no node ever changes its meaning. Graphs that read the old version are computed
together with the write or get a copy of the old elements. Another thread may build a graph on an
old node just then; `resolve_stale_nodes` finds such graphs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from svod_ir import Op, UOp
from svod_ir.origins import make_images
from svod_tensor.cells import registry
from svod_tensor.engine import memory_nodes, versions

if TYPE_CHECKING:
    from svod_tensor.cells.cell import Cell

__all__ = [
    "commit_writes",
    "get_committed",
    "list_readers",
    "list_readers_of_overwritten",
    "make_new_buffers",
    "rebind_owners",
    "resolve_stale_nodes",
]


def list_readers(memories: set[UOp]) -> list[Cell]:
    """The pending cells that read `memories`, except the owners of `memories`."""
    with registry.lock:
        registry.wait_for_capture()
        # Before the search: a stale graph reads an invalidated BUFFER, and would not be found as a
        # reader of the present one.
        resolve_stale_nodes()
        pending = [cell for cell in registry.iter_pending_cells() if 0 not in cell.node.shape]
        return [
            cell
            for cell in pending
            if not _owns(cell, memories) and memories & _list_read_versions(cell.node, {})
        ]


def _owns(cell: Cell, memories: set[UOp]) -> bool:
    return cell.owns and not memories.isdisjoint(versions.iter_memories(cell.node))


def list_readers_of_overwritten(nodes: Sequence[UOp]) -> list[Cell]:
    """The pending cells that must be computed together with `nodes`: they read a version that
    `nodes` overwrite.

    The caller holds `registry.lock`."""
    resolve_stale_nodes()
    readers: dict[int, Cell] = {}
    known = set(nodes)
    while True:
        # Repeated until no reader is added: the graph of a reader may contain writes, which
        # overwrite versions that have readers too.
        written = versions.get_pending_versions(*known)
        if not written:
            return []
        overwritten = _get_overwritten_versions(written)
        new = [
            cell
            for cell in registry.iter_pending_cells()
            # Each view of the old version gets a copy of its own.
            if (cell.node not in known or versions.find_version(cell.node) is not None)
            and id(cell) not in readers
        ]
        # Graphs share most of their nodes, and usually none reads the old version: one walk over
        # all of them finds that out.
        if new and overwritten & _list_read_versions(
            UOp.sink(*[cell.node for cell in new]), written
        ):
            new = [cell for cell in new if overwritten & _list_read_versions(cell.node, written)]
        else:
            new = []
        if not new:
            return list(readers.values())
        readers.update((id(cell), cell) for cell in new)
        known.update(cell.node for cell in new)


def _get_overwritten_versions(written: Iterable[UOp]) -> set[UOp | None]:
    """The versions that the writes of `written` overwrite."""
    return {versions.find_target_version(versions.write_of(version).target) for version in written}


def _list_read_versions(root: UOp, written: dict[UOp, UOp]) -> set[UOp]:
    """The versions that the graph of `root` reads, besides the versions that computing `written`
    provides.
    """
    read: set[UOp] = set()
    seen: set[UOp] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op is Op.BUFFER:
            read.add(node)
        elif versions.is_pending_version(node):
            read.add(node)
            stack.extend(_list_values_for(node, written))
        else:
            stack.extend(node.src)
    return read


def _list_values_for(version: UOp, written: dict[UOp, UOp]) -> list[UOp]:
    """Operands needed to reach a version: the values of the writes up to it that are not among
    `written`.
    """
    values: list[UOp] = []
    while versions.is_pending_version(version) and version not in written:
        target, value = versions.write_of(version).src
        values.append(value)
        previous = versions.find_target_version(target)
        assert previous is not None, target
        version = previous
    return values


def commit_writes(
    written: Mapping[UOp, UOp],
    values: Mapping[UOp, UOp] | None = None,
    new_buffers: Mapping[UOp, UOp] | None = None,
    copies: Mapping[UOp, UOp] | None = None,
) -> None:
    """Commit the pending writes in `written`, which were computed or are part of a plan: rebind all
    graphs to the memory.

    Args:
        written: the pending versions, and their memory.
        values: new nodes of other computed nodes.
        new_buffers: of written memory, another BUFFER for the new version, if a graph may still be
            built on the old one.
        copies: of such memory or versions of it, a BUFFER with the old elements.
    """
    if not written and not new_buffers:
        registry.replace_nodes(values or {})
        return
    new_buffers = new_buffers or {}
    with registry.lock:
        committed = {
            version: new_buffers.get(memory, memory) for version, memory in written.items()
        }
        overwritten = {*new_buffers, *_get_overwritten_versions(written)}
        kept = {version: copy for version, copy in (copies or {}).items() if version in overwritten}
        for version, memory in committed.items():
            # Marked on the write id: every rebuilt version of this write has the same id, so that
            # another thread recognizes it as committed (`get_committed`). A version between two
            # writes is its copy, since the memory has the elements of the last write.
            versions.write_id_of(version).attached = kept.get(version, memory)
        replacements = {**committed, **(values or {})}
        if new_buffers:
            # `kept` last: a graph on the old version reads a copy of the old elements if there is
            # one.
            replacements = {**new_buffers, **replacements, **kept}
            replacements.update(_rebase(replacements))
            # Successors are kept only for users of this memory: an equal node over other memory may
            # be built again with another meaning.
            readers = _list_users(new_buffers, replacements)
            registry.invalidate(
                new_buffers,
                {
                    n: new
                    for n, new in replacements.items()
                    if n in readers and new_buffers.get(n) is not new
                },
            )
        registry.replace_nodes(replacements)


def make_new_buffers(memories: Iterable[UOp]) -> dict[UOp, UOp]:
    """Another BUFFER node for each of `memories`, with the same buffer."""
    return {
        m: memory_nodes.make_memory(m.dtype, m.arg.size, m.arg.device, memory_nodes.find_buffer(m))
        for m in memories
    }


def rebind_owners(
    memories: Iterable[UOp], values: Mapping[UOp, UOp], copies: Mapping[UOp, UOp]
) -> dict[UOp, UOp]:
    """Rebind the owners of `memories`, whose elements change now, to another BUFFER; see
    `commit_writes` for the other arguments.

    The caller holds `registry.lock`."""
    new_buffers = make_new_buffers(memories)
    for cell in registry.iter_cells():
        if cell.is_realized and not new_buffers.keys().isdisjoint(
            versions.iter_memories(cell.node)
        ):
            cell.set_node(cell.node.substitute(new_buffers))
    commit_writes({}, values, new_buffers, copies)
    return new_buffers


def _rebase(replacements: Mapping[UOp, UOp]) -> dict[UOp, UOp]:
    """Rebuild pending versions that were made meanwhile on memory that is replaced."""
    rebased: dict[UOp, UOp] = {}
    pending = [tensor.node for tensor in registry.iter_pending()]
    # One walk for all versions: a graph may have thousands, each built on the previous one.
    done: dict[UOp, UOp] = make_images()
    done.update(replacements)
    for node in UOp.sink(*pending).toposort() if pending else ():
        if node in replacements or not node.src:
            continue
        operands = tuple([done.get(operand, operand) for operand in node.src])
        if versions.is_pending_version(node) and operands[1] is not node.dependency:
            previous = versions.find_target_version(operands[1].target)
            if previous is not None:
                done[node] = rebased[node] = node.with_src(
                    (versions.memory_of(previous), operands[1], versions.write_id_of(node))
                )
                continue
        done[node] = node.with_src(operands)
    return rebased


def _list_users(memories: Collection[UOp], nodes: Iterable[UOp]) -> set[UOp]:
    """The nodes in the graphs of `nodes` that depend on `memories`, and `memories` themselves."""
    users = set(memories)
    for node in UOp.sink(*nodes).toposort():
        if not users.isdisjoint(node.src):
            users.add(node)
    return users


def resolve_stale_nodes() -> bool:
    """Rebind graphs that were built too late: on committed versions, or on memory that was
    overwritten since.

    The caller holds `registry.lock`.

    Returns:
        whether there was such a graph.
    """
    nodes = [tensor.node for tensor in registry.iter_pending()]
    if not nodes:
        return False
    order = UOp.sink(*nodes).toposort()
    replacements = {
        **registry.get_successors(),
        **get_committed(filter(versions.is_pending_version, order)),
    }
    # Successors exist as long as any reference to an old version does, but usually no pending graph
    # reads one: one walk finds that out.
    if replacements.keys().isdisjoint(order):
        return False
    replacements.update(_rebase(replacements))
    registry.replace_nodes(replacements)
    return True


def get_committed(written: Iterable[UOp]) -> dict[UOp, UOp]:
    """The memory of those pending versions whose write is committed. A cell can get such a version
    while another thread is rebinding graphs.
    """
    return {
        version: memory
        for version in written
        if isinstance(memory := versions.write_id_of(version).attached, UOp)
    }
