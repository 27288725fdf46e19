"""Fast path of realize: compute a cell by the plan of an earlier graph of the same structure.

Unlike `work`, this registers no computation: it holds the registry's lock while the plan runs,
which takes microseconds. Everything unusual is left to `work`, above all when another thread
computes or captures a function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_device import Buffer
from svod_tensor.cells import registry, tables
from svod_tensor.cells.cell import Cell
from svod_tensor.engine.known_plans import (
    KNOWN_PLANS,
    GraphStructure,
    KnownPlan,
    can_be_known,
    find_structure,
)

if TYPE_CHECKING:
    from svod_tensor.cells.cell import Live
    from svod_tensor.options import PrepareConfig

__all__ = ["compute_known"]


def compute_known(tensor: Live, config: PrepareConfig) -> KnownPlan | None:
    """Compute a cell by a known plan and return the plan; None if nothing was done."""
    if not isinstance(tensor, Cell) or tensor.memory is not None or not can_be_known(config):
        return None
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
            or tensor.memory is not None
            or tensor.node is not node
        ):
            return None
        result = _execute(known, structure)
        if result is None:
            return None
        tensor.set_memory(result, known.make_node)
        registry.replace_computed(node, tensor)
    return known


def _execute(known: KnownPlan, structure: GraphStructure) -> Buffer | None:
    """The result on the memory of this graph; None if some of it was overwritten meanwhile, or
    another thread is executing the plan.
    """
    buffers: list[Buffer] = []
    for memory in structure.memories:
        buffer = memory.attached
        if not isinstance(buffer, Buffer):
            return None
        buffers.append(buffer)
    buffers.append(known.make())
    return buffers[-1] if known.plan.execute_direct(known.lending, buffers) else None
