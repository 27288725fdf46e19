"""Which lines of a program each kernel comes from.

A compilation labels each node of a normalised graph with its number there, and so learns which nodes each kernel computes.
That is cached with the schedule, and equal graphs that other lines built find their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from svod_ir import Op
from svod_ir.ops import MOVEMENT
from svod_ir.origins import Labels, Origin, get_origins, has_origins

if TYPE_CHECKING:
    from svod_ir import UOp
    from svod_tensor.engine.preschedule import PreSchedule

__all__ = ["collect_lines", "get_kernel_origins", "number_nodes"]

_CONVERSIONS: Final = frozenset({Op.CAST, Op.BITCAST, Op.COPY})


def collect_lines(images: Mapping[UOp, UOp]) -> dict[UOp, frozenset[Origin]]:
    """The origins of the keys, by value; nothing at all where no node has any."""
    if not has_origins():
        return {}
    lines: dict[UOp, frozenset[Origin]] = {}
    for node, image in images.items():
        found = get_origins(node)
        if found:
            lines[image] = lines[image] | found if image in lines else found
    return lines


def number_nodes(graph: UOp) -> Labels:
    """Labels that say which nodes of `graph` something was made from, for `preschedule`, which notes them."""
    return {node: frozenset((number,)) for number, node in enumerate(graph.toposort()) if node.src}


def get_kernel_origins(
    pre: PreSchedule, graph: UOp, lines: Mapping[UOp, frozenset[Origin]]
) -> dict[int, tuple[Origin, ...]]:
    """For each item of a schedule the lines that built what it computes, in the order of the graph."""
    if not lines:
        return {}
    nodes = graph.toposort()
    return {item.id: _get_lines([nodes[number] for number in item.computed], lines) for item in pre.items}


def _get_lines(nodes: Sequence[UOp], lines: Mapping[UOp, frozenset[Origin]]) -> tuple[Origin, ...]:
    """The lines of what is computed; those of movement and constants only where there is nothing else."""
    return _join(filter(_is_computed, nodes), lines) or _join(nodes, lines)


def _join(nodes: Iterable[UOp], lines: Mapping[UOp, frozenset[Origin]]) -> tuple[Origin, ...]:
    return tuple(dict.fromkeys(origin for node in nodes for origin in sorted(lines.get(node, ()))))


def _is_computed(node: UOp) -> bool:
    """Whether a node is more than a view. A view may be shared by many lines, as the constants are that they write."""
    if node.op in _CONVERSIONS:
        while node.op in MOVEMENT or node.op in _CONVERSIONS:
            node = node.source
        return node.op is not Op.CONST
    return node.op is Op.PAD or node.op not in MOVEMENT
