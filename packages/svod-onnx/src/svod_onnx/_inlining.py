"""A node that is replaced by the nodes of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from svod_onnx._graph import DEFAULT_DOMAIN, Graph, Node
from svod_onnx._registry import Value

__all__ = ["Inline"]


class Inline(Exception):
    """What an operator raises to be replaced by the nodes of a graph.

    Attributes:
        graph: whose nodes come in the place of the node.
        arguments: what its inputs stand for, as values.
    """

    def __init__(self, graph: Graph, arguments: tuple[Value, ...] = ()) -> None:
        super().__init__(graph.name)
        self.graph, self.arguments = graph, arguments

    def expand(self, node: Node, prefix: str) -> tuple[list[Node], dict[str, Value]]:
        """The nodes that stand for `node`, and the values that they begin with.

        Args:
            node: whose outputs they compute.
            prefix: of the names that they and their results get, which are theirs alone.
        """
        graph = self.graph
        local = {info.name for info in graph.inputs} | set(graph.constants)
        local |= {name for inner in graph.nodes for name in inner.outputs if name}
        names = {name: prefix + name for name in local}
        values: dict[str, Value] = {names[name]: value for name, value in graph.constants.items()}
        values |= {
            names[info.name]: value
            for info, value in zip(graph.inputs, self.arguments, strict=False)
        }
        nodes = [_rename_node(inner, names, prefix) for inner in graph.nodes]
        ends = [
            Node(
                "Identity",
                DEFAULT_DOMAIN,
                1,
                f"{prefix}end",
                (names.get(info.name, info.name),),
                (name,),
                {},
            )
            for info, name in zip(graph.outputs, node.outputs, strict=False)
            if name
        ]
        return [*nodes, *ends], values


def _rename_node(node: Node, names: Mapping[str, str], prefix: str) -> Node:
    """`node` with other names of values, in its subgraphs too."""
    attributes = {
        key: _rename_graph(value, names, prefix) if isinstance(value, Graph) else value
        for key, value in node.attributes.items()
    }
    return replace(
        node,
        name=prefix + node.title,
        inputs=tuple(names.get(name, name) for name in node.inputs),
        outputs=tuple(names.get(name, name) for name in node.outputs),
        attributes=attributes,
    )


def _rename_graph(graph: Graph, names: Mapping[str, str], prefix: str) -> Graph:
    """`graph` with other names of the values that it reads from around it."""
    own = {info.name for info in graph.inputs} | set(graph.constants)
    own |= {name for node in graph.nodes for name in node.outputs}
    outer = {name: new for name, new in names.items() if name not in own}
    outputs = tuple(replace(info, name=outer.get(info.name, info.name)) for info in graph.outputs)
    return replace(
        graph, nodes=tuple(_rename_node(node, outer, "") for node in graph.nodes), outputs=outputs
    )
