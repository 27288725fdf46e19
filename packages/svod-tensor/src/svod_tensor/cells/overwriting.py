"""What becomes of graphs when the memory that they read is written: who is computed before, and
what reads what afterwards.

A BUFFER node is one version of memory. After a write that was computed, its owner holds another
BUFFER for the same buffer, so that no node ever changes its meaning. Graphs that read the old
content are computed together with the write, or get a copy of it; one that another thread builds on
an old node just then is found by `catch_up`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from svod_ir import Op, UOp
from svod_ir.origins import make_images
from svod_tensor.cells import registry
from svod_tensor.engine import memory_nodes, states

if TYPE_CHECKING:
    from svod_tensor.cells.cell import Cell

__all__ = [
    "catch_up",
    "get_done",
    "list_overtaken",
    "list_readers",
    "renew",
    "renew_owners",
    "settle",
]


def list_readers(memories: set[UOp]) -> list[Cell]:
    """The live cells whose content is read from `memories`, but for those that own them."""
    with registry.lock:
        registry.wait_for_capture()
        catch_up()
        cells = [cell for cell in registry.iter_pending_cells() if 0 not in cell.node.shape]
        return [c for c in cells if not _owns(c, memories) and memories & _read_states(c.node, {})]


def _owns(cell: Cell, memories: set[UOp]) -> bool:
    return cell.owns and not memories.isdisjoint(states.iter_memories(cell.node))


def list_overtaken(nodes: Sequence[UOp]) -> list[Cell]:
    """The live cells that must be computed together with `nodes`: they read content that `nodes`
    overwrite.

    The caller holds `registry.lock`.
    """
    catch_up()
    found: dict[int, Cell] = {}
    known = set(nodes)
    while True:
        written = states.get_written(*known)
        if not written:
            return []
        overwritten = _get_overwritten(written)
        new = [
            cell
            for cell in registry.iter_pending_cells()
            # What is a view of the old content gets a copy each time.
            if (cell.node not in known or states.find_state(cell.node) is not None)
            and id(cell) not in found
        ]
        # Graphs share most of their nodes: one walk over all of them tells that none reads the old
        # content, as is usual.
        if new and overwritten & _read_states(UOp.sink(*[cell.node for cell in new]), written):
            new = [cell for cell in new if overwritten & _read_states(cell.node, written)]
        else:
            new = []
        if not new:
            return list(found.values())
        found.update((id(cell), cell) for cell in new)
        known.update(cell.node for cell in new)


def _get_overwritten(written: Iterable[UOp]) -> set[UOp | None]:
    """The states that are followed by those in `written`."""
    return {states.find_target_state(states.effect_of_state(state).target) for state in written}


def _read_states(root: UOp, written: dict[UOp, UOp]) -> set[UOp]:
    """The states whose content the graph of `root` needs besides those that computing `written`
    gives.
    """
    found: set[UOp] = set()
    seen: set[UOp] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op is Op.BUFFER:
            found.add(node)
        elif states.is_later_state(node):
            found.add(node)
            stack.extend(_needed_for(node, written))
        else:
            stack.extend(node.src)
    return found


def _needed_for(state: UOp, written: dict[UOp, UOp]) -> list[UOp]:
    """What must be read to reach a state: the values of the assignments up to it that are not among
    `written`.
    """
    needed: list[UOp] = []
    while states.is_later_state(state) and state not in written:
        target, value = states.effect_of_state(state).src
        needed.append(value)
        below = states.find_target_state(target)
        assert below is not None, target
        state = below
    return needed


def settle(
    written: Mapping[UOp, UOp],
    values: Mapping[UOp, UOp] | None = None,
    versions: Mapping[UOp, UOp] | None = None,
    copies: Mapping[UOp, UOp] | None = None,
) -> None:
    """Let each pending state in `written`, which is done or left to a plan, be the content of its
    memory everywhere.

    Args:
        written: the states, and their memory.
        values: what other nodes are now.
        versions: of memory that is written, another BUFFER for the new content, if somebody may
            still build on the old one.
        copies: of such memory, or of states of it, what has the old content.
    """
    if not written and not versions:
        registry.replace_nodes(values or {})
        return
    versions = versions or {}
    with registry.lock:
        done = {state: versions.get(memory, memory) for state, memory in written.items()}
        for state, memory in done.items():
            states.mark_of(state).attached = memory
        replacements = {**done, **(values or {})}
        if versions:
            overwritten = {*versions, *_get_overwritten(written)}
            kept = {state: copy for state, copy in (copies or {}).items() if state in overwritten}
            replacements = {**versions, **replacements, **kept}
            replacements.update(_rebase(replacements))
            # What does not read this memory may be built again, when what it reads has changed.
            readers = _get_above(versions, replacements)
            registry.retire(
                versions,
                {
                    n: new
                    for n, new in replacements.items()
                    if n in readers and versions.get(n) is not new
                },
            )
        registry.replace_nodes(replacements)


def renew(memories: Iterable[UOp]) -> dict[UOp, UOp]:
    """Another BUFFER for each of these, with the same buffer."""
    return {
        m: memory_nodes.make_memory(m.dtype, m.arg.size, m.arg.device, memory_nodes.find_buffer(m))
        for m in memories
    }


def renew_owners(
    memories: Iterable[UOp], values: Mapping[UOp, UOp], copies: Mapping[UOp, UOp]
) -> dict[UOp, UOp]:
    """Let those who own `memories`, whose content changes now, have them by another BUFFER;
    `settle` says what the rest is.

    The caller holds `registry.lock`.
    """
    versions = renew(memories)
    for cell in registry.iter_cells():
        if cell.is_realized and not versions.keys().isdisjoint(states.iter_memories(cell.node)):
            cell.set_node(cell.node.substitute(versions))
    settle({}, values, versions, copies)
    return versions


def _rebase(replacements: Mapping[UOp, UOp]) -> dict[UOp, UOp]:
    """What becomes of pending states that were made meanwhile, on content that is replaced."""
    rebased: dict[UOp, UOp] = {}
    pending = [one.node for one in registry.iter_pending()]
    # One walk for all states: a graph may have thousands, each of which is built on the ones
    # before.
    done: dict[UOp, UOp] = make_images()
    done.update(replacements)
    for node in UOp.sink(*pending).toposort() if pending else ():
        if node in replacements or not node.src:
            continue
        operands = tuple([done.get(operand, operand) for operand in node.src])
        if states.is_later_state(node) and operands[1] is not node.dependency:
            below = states.find_target_state(operands[1].target)
            if below is not None:
                done[node] = rebased[node] = node.with_src(
                    (states.memory_of(below), operands[1], states.mark_of(node))
                )
                continue
        done[node] = node.with_src(operands)
    return rebased


def _get_above(memories: Collection[UOp], nodes: Iterable[UOp]) -> set[UOp]:
    """The nodes in the graphs of `nodes` that one of `memories` is below of, and these."""
    found = set(memories)
    for node in UOp.sink(*nodes).toposort():
        if not found.isdisjoint(node.src):
            found.add(node)
    return found


def catch_up() -> bool:
    """Let graphs that were built late read what became of states that are done and of memory that
    was written since.

    The caller holds `registry.lock`.

    Returns:
        whether there was such a graph.
    """
    nodes = [one.node for one in registry.iter_pending()]
    if not nodes:
        return False
    order = UOp.sink(*nodes).toposort()
    replacements = {**registry.get_successors(), **get_done(filter(states.is_later_state, order))}
    # There are successors as long as anybody holds a former version, and mostly no graph reads one:
    # one walk tells.
    if replacements.keys().isdisjoint(order):
        return False
    replacements.update(_rebase(replacements))
    registry.replace_nodes(replacements)
    return True


def get_done(written: Iterable[UOp]) -> dict[UOp, UOp]:
    """The memory of those pending states that are settled: a cell was made of one just when another
    thread replaced it.
    """
    return {
        state: memory
        for state in written
        if isinstance(memory := states.mark_of(state).attached, UOp)
    }
