"""Fast path of realize: compute a tensor by the plan of an earlier graph of the same structure.

A short plan runs under the registry's lock, which takes microseconds and needs no registration. A
long one is registered as a computation and runs without the lock. Everything unusual is left to
`work`, above all when another thread computes or captures a function, and while a function is
differentiated: results need marks then, through which derivatives propagate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_device import Buffer
from svod_tensor.cells import derivatives, registry, tables
from svod_tensor.cells.cell import Cell
from svod_tensor.cells.work import get_result_owner
from svod_tensor.engine.known_plans import (
    KNOWN_PLANS,
    GraphStructure,
    KnownPlan,
    can_be_known,
    find_structure,
)

if TYPE_CHECKING:
    from svod_ir import UOp
    from svod_tensor.cells.cell import Live
    from svod_tensor.options import PrepareConfig

__all__ = ["compute_known"]


def compute_known(tensor: Live, config: PrepareConfig) -> KnownPlan | None:
    """Compute a cell or view by a known plan and return the plan; None if nothing was done."""
    if not can_be_known(config) or tensor.cell.memory is not None:
        return None
    tensor = get_result_owner(tensor)
    node = tensor.node
    structure = find_structure(node)
    known = (
        None
        if structure is None
        else KNOWN_PLANS.find(structure.key, lambda plan: plan.config is config)
    )
    if structure is None or known is None:
        return None
    with tables.lock:
        if (
            tables.captured
            or registry.is_computing()
            or derivatives.active
            or tensor.is_realized
            or tensor.node is not node
        ):
            return None
        operands = _list_buffers(structure)
        if operands is None:
            return None
        if known.is_short:
            result = _execute(known, operands)
            if result is None:
                return None
            _adopt(tensor, node, known, result)
            return known
        computation = registry.start_computation(
            [buffer.storage_id for buffer in operands], (), {id(tensor): node}
        )
        assert computation is not None, "no thread is computing"
    try:
        return known if _compute_registered(tensor, known, operands, computation) else None
    finally:
        registry.end_computation(computation)


def _compute_registered(
    tensor: Live, known: KnownPlan, operands: list[Buffer], computation: registry.Computation
) -> bool:
    """Compute a tensor without the lock; return False if it has no result from it."""
    result = _execute(known, operands)
    if result is None:
        return False
    with tables.lock:
        # Other threads may have written the cell, and replaced parts of its graph by their results.
        present = computation.nodes[id(tensor)]
        if tensor.cell.is_donated or tensor.is_realized or tensor.node is not present:
            return False
        _adopt(tensor, present, known, result)
    return True


def _adopt(tensor: Live, node: UOp, known: KnownPlan, result: Buffer) -> None:
    """Bind a tensor, and the graphs that were built on its node, to the memory of its value; the
    caller holds the registry's lock.
    """
    if isinstance(tensor, Cell):
        tensor.set_memory(result, known.make_node)
        registry.replace_computed(node, tensor)
    else:
        new = known.make_node(result)
        tensor.adopt(node, new)
        registry.replace_nodes({node: new})


def _list_buffers(structure: GraphStructure) -> list[Buffer] | None:
    """The memory of a graph; None if some of it was overwritten meanwhile."""
    buffers: list[Buffer] = []
    for memory in structure.memories:
        buffer = memory.attached
        if not isinstance(buffer, Buffer):
            return None
        buffers.append(buffer)
    return buffers


def _execute(known: KnownPlan, operands: list[Buffer]) -> Buffer | None:
    """The result of a plan in new memory; None if another thread is executing the plan."""
    result = known.make()
    return result if known.plan.execute_direct(known.lending, [*operands, result]) else None
