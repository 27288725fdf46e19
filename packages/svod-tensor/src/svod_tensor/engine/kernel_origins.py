"""Which lines of a program each kernel comes from.

A compilation labels each node of a normalised graph with its number there, and so learns which
nodes each kernel computes. That is cached with the schedule, and equal graphs that other lines
built find their own."""

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
        for body in get_bodies(node):
            # Nothing in a body is replaced.
            lines.update(
                {inner: found for inner in _list_nodes(body) if (found := get_origins(inner))}
            )
    return lines


def number_nodes(graph: UOp) -> Labels:
    """Labels that say which nodes of `graph` something was made from, for `preschedule`, which
    notes them.
    """
    return {
        node: frozenset((number,)) for number, node in enumerate(_list_nodes(graph)) if node.src
    }


def get_kernel_origins(
    pre: PreSchedule, graph: UOp, lines: Mapping[UOp, frozenset[Origin]]
) -> dict[int, tuple[Origin, ...]]:
    """For each item of a schedule the lines that built what it computes, in the order of
    the graph.
    """
    if not lines:
        return {}
    nodes = _list_nodes(graph)
    return {
        number: _get_lines([nodes[computed] for computed in item.computed], lines)
        for number, item in pre.iter_numbered()
    }


def _list_nodes(graph: UOp) -> list[UOp]:
    """The nodes of a graph, and then those of the bodies of its loops, each once."""
    nodes = graph.toposort()
    known = set(nodes)
    for node in nodes:
        for body in get_bodies(node):
            # The list grows while it is walked: loops may stand in loops.
            new = [n for n in body.toposort() if n not in known]
            known.update(new)
            nodes.extend(new)
    return nodes


def _get_lines(nodes: Sequence[UOp], lines: Mapping[UOp, frozenset[Origin]]) -> tuple[Origin, ...]:
    """The lines of what is computed; those of movement and constants only where there is nothing
    else.
    """
    return _join(filter(_is_computed, nodes), lines) or _join(nodes, lines)


def _join(nodes: Iterable[UOp], lines: Mapping[UOp, frozenset[Origin]]) -> tuple[Origin, ...]:
    return tuple(dict.fromkeys(origin for node in nodes for origin in sorted(lines.get(node, ()))))


def _is_computed(node: UOp) -> bool:
    """Whether a node is more than a view.

    A view may be shared by many lines, as the constants are that they write.
    """
    if node.op in _CONVERSIONS:
        while node.op in MOVEMENT or node.op in _CONVERSIONS:
            node = node.source
        return node.op is not Op.CONST
    return node.op is Op.PAD or node.op not in MOVEMENT
