"""Topological sort of a graph, with a check that each name has exactly one definition before its
uses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from svod_onnx._graph import Graph, Node, list_free_names
from svod_onnx.errors import ModelFileError

__all__ = ["sort_topologically"]


def sort_topologically(graph: Graph, title: str, outer: frozenset[str] = frozenset()) -> Graph:
    """Return `graph` with each node after the nodes that it reads; sorted nodes keep their order.

    Args:
        graph: graph to sort, including its subgraphs.
        title: title of the model, for errors.
        outer: names defined in enclosing graphs.

    Raises:
        ModelFileError: if a name is undefined or defined twice, or if nodes form a cycle.
    """
    defined = outer.union((info.name for info in graph.inputs), graph.constants)
    producers = _map_producers(graph, defined - outer, title)
    visible = defined | producers.keys()
    # A subgraph sees all names of the enclosing graph, also of nodes that the file lists later.
    nodes = [_order_subgraphs(node, title, visible) for node in graph.nodes]
    reads = [
        set(node.inputs).union(*map(list_free_names, node.subgraphs())) - {""} for node in nodes
    ]
    for node, names in zip(nodes, reads, strict=True):
        # Sorted, so that the error is the same in every run.
        for name in sorted(names - visible):
            problem = f"{node.qualified} in node {node.title!r} reads {name!r}, which is undefined"
            raise ModelFileError(path=title, problem=problem)
    for info in graph.outputs:
        if info.name not in visible:
            raise ModelFileError(path=title, problem=f"output {info.name!r} is undefined")
    return replace(graph, nodes=tuple(_sort(nodes, reads, producers, title)))


def _order_subgraphs(node: Node, title: str, known: frozenset[str]) -> Node:
    if not node.subgraphs():
        return node
    attributes = {
        key: sort_topologically(value, title, known) if isinstance(value, Graph) else value
        for key, value in node.attributes.items()
    }
    return replace(node, attributes=attributes)


def _map_producers(graph: Graph, defined: frozenset[str], title: str) -> dict[str, int]:
    """Index of the node that produces each value."""
    producers: dict[str, int] = {}
    for name, count in Counter(info.name for info in graph.inputs).items():
        if count > 1:
            raise ModelFileError(path=title, problem=f"input {name!r} is declared twice")
    for index, node in enumerate(graph.nodes):
        for name in filter(None, node.outputs):
            if name in producers or name in defined:
                problem = f"{node.qualified} in node {node.title!r} defines {name!r} a second time"
                raise ModelFileError(path=title, problem=problem)
            producers[name] = index
    return producers


def _sort(
    nodes: Sequence[Node], reads: Sequence[set[str]], producers: Mapping[str, int], title: str
) -> list[Node]:
    """Sort depth-first along operands, which keeps nodes that are already sorted."""
    visited: set[int] = set()
    result: list[Node] = []
    for root in range(len(nodes)):
        path: dict[
            int, None
        ] = {}  # each node on the path is an operand of its predecessor; a repetition is a cycle
        stack = [root]
        while stack:
            index = stack[-1]
            if index in visited:
                stack.pop()
                continue
            # Seen a second time, at the end of the path: all operands have been emitted.
            if path and next(reversed(path)) == index:
                path.popitem()
                visited.add(index)
                result.append(nodes[stack.pop()])
                continue
            path[index] = None
            pending = sorted(
                {producers[name] for name in reads[index] if name in producers} - visited,
                reverse=True,
            )
            cycle = next((producer for producer in pending if producer in path), None)
            if cycle is not None:
                problem = (
                    f"{nodes[cycle].qualified} in node {nodes[cycle].title!r} depends on its own output: "
                    "the graph has a cycle"
                )
                raise ModelFileError(path=title, problem=problem)
            stack += pending
    return result
