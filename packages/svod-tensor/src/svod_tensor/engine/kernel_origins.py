"""Origins of kernels: the source lines of the program that each kernel computes.

A compilation labels each node of a normalized graph with its index, and so learns which nodes each
kernel computes. This is cached with the schedule; equal graphs from other lines look up their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from svod_ir import Op
from svod_ir.loops import get_bodies
from svod_ir.ops import MOVEMENT
from svod_ir.origins import Labels, Origin, get_origins, has_origins

if TYPE_CHECKING:
    from svod_ir import UOp
    from svod_tensor.engine.preschedule import PreSchedule

__all__ = ["collect_lines", "get_kernel_origins", "list_nodes", "number_nodes"]

_CONVERSIONS: Final = frozenset({Op.CAST, Op.BITCAST, Op.COPY})


def collect_lines(images: Mapping[UOp, UOp]) -> dict[UOp, frozenset[Origin]]:
    """The origins of each key, by value; empty if no node has origins."""
    # Off by default; otherwise every realize would pay for this walk.
    if not has_origins():
        return {}
    lines: dict[UOp, frozenset[Origin]] = {}
    for node, image in images.items():
        origins = get_origins(node)
        if origins:
            lines[image] = lines[image] | origins if image in lines else origins
        for body in get_bodies(node):
            # Bodies of loops are not rewritten, so their nodes are their own images.
            lines.update(
                {inner: origins for inner in list_nodes(body) if (origins := get_origins(inner))}
            )
    return lines


def number_nodes(graph: UOp) -> Labels:
    """Labels with the index of each node of `graph`, which `preschedule` reads from kernels."""
    return {node: frozenset((index,)) for index, node in enumerate(list_nodes(graph)) if node.src}


def get_kernel_origins(
    pre: PreSchedule, graph: UOp, lines: Mapping[UOp, frozenset[Origin]]
) -> dict[int, tuple[Origin, ...]]:
    """For each item of a schedule, the lines that built the nodes it computes, in topological
    order.
    """
    if not lines:
        return {}
    nodes = list_nodes(graph)
    return {
        item_number: _get_lines([nodes[computed] for computed in item.computed], lines)
        for item_number, item in pre.iter_numbered()
    }


def list_nodes(graph: UOp) -> list[UOp]:
    """The nodes of a graph, followed by the nodes of loop bodies, each once."""
    nodes = graph.toposort()
    known = set(nodes)
    for node in nodes:
        for body in get_bodies(node):
            # The list grows while it is walked, since loops may be nested.
            new = [n for n in body.toposort() if n not in known]
            known.update(new)
            nodes.extend(new)
    return nodes


def _get_lines(nodes: Sequence[UOp], lines: Mapping[UOp, frozenset[Origin]]) -> tuple[Origin, ...]:
    """The lines of computing nodes; lines of movement and constants only if there are no others."""
    return _join(filter(_is_computed, nodes), lines) or _join(nodes, lines)


def _join(nodes: Iterable[UOp], lines: Mapping[UOp, frozenset[Origin]]) -> tuple[Origin, ...]:
    return tuple(dict.fromkeys(origin for node in nodes for origin in sorted(lines.get(node, ()))))


def _is_computed(node: UOp) -> bool:
    """True if a node is more than a view.

    A view may be shared by many lines, as the constants in them are."""
    if node.op in _CONVERSIONS:
        while node.op in MOVEMENT or node.op in _CONVERSIONS:
            node = node.source
        return node.op is not Op.CONST
    return node.op is Op.PAD or node.op not in MOVEMENT
