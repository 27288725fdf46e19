"""The scopes of a graph: each name is defined once, before what reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from svod_onnx._graph import Graph, Node, list_free_names
from svod_onnx.errors import ModelFileError

__all__ = ["sort_topologically"]


def sort_topologically(graph: Graph, title: str, outer: frozenset[str] = frozenset()) -> Graph:
    """`graph` with each node behind those that it reads; nodes that are in order keep it.

    Args:
        graph: with subgraphs, which are put in order too.
        title: of the model, for errors.
        outer: the names that are defined around it.

    Raises:
        ModelFileError: if a name is defined twice or nowhere, or nodes read each other in a circle.
    """
    outside = outer.union((info.name for info in graph.inputs), graph.constants)
    makers = _map_makers(graph, outside - outer, title)
    known = outside | makers.keys()
    nodes = [_order_subgraphs(node, title, known) for node in graph.nodes]
    reads = [set(node.inputs).union(*map(list_free_names, node.subgraphs())) - {""} for node in nodes]
    for node, names in zip(nodes, reads, strict=True):
        for name in sorted(names - known):
            problem = f"{node.qualified} in node {node.title!r} reads {name!r}, which nothing defines"
            raise ModelFileError(path=title, problem=problem)
    for info in graph.outputs:
        if info.name not in known:
            raise ModelFileError(path=title, problem=f"its output {info.name!r} is defined by nothing")
    return replace(graph, nodes=tuple(_sort(nodes, reads, makers, title)))


def _order_subgraphs(node: Node, title: str, known: frozenset[str]) -> Node:
    if not node.subgraphs():
        return node
    attributes = {
        key: sort_topologically(value, title, known) if isinstance(value, Graph) else value
        for key, value in node.attributes.items()
    }
    return replace(node, attributes=attributes)


def _map_makers(graph: Graph, given: frozenset[str], title: str) -> dict[str, int]:
    """Which node makes each value."""
    makers: dict[str, int] = {}
    for name, count in Counter(info.name for info in graph.inputs).items():
        if count > 1:
            raise ModelFileError(path=title, problem=f"has two inputs {name!r}")
    for number, node in enumerate(graph.nodes):
        for name in filter(None, node.outputs):
            if name in makers or name in given:
                problem = f"{node.qualified} in node {node.title!r} defines {name!r}, which has a value already"
                raise ModelFileError(path=title, problem=problem)
            makers[name] = number
    return makers


def _sort(nodes: Sequence[Node], reads: Sequence[set[str]], makers: Mapping[str, int], title: str) -> list[Node]:
    """The nodes, depth first through what they read: those in order come out as they were."""
    done: set[int] = set()
    result: list[Node] = []
    for root in range(len(nodes)):
        path: dict[int, None] = {}  # a node on it is read by the one before
        waiting = [root]
        while waiting:
            number = waiting[-1]
            if number in done:
                waiting.pop()
                continue
            if path and next(reversed(path)) == number:
                path.popitem()
                done.add(number)
                result.append(nodes[waiting.pop()])
                continue
            path[number] = None
            wanted = sorted({makers[name] for name in reads[number] if name in makers} - done, reverse=True)
            circle = next((other for other in wanted if other in path), None)
            if circle is not None:
                problem = (
                    f"{nodes[circle].qualified} in node {nodes[circle].title!r} reads what is made of its own result"
                )
                raise ModelFileError(path=title, problem=problem)
            waiting += wanted
    return result
