"""Replacement of a node by the nodes of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from svod_onnx._graph import DEFAULT_DOMAIN, Graph, Node
from svod_onnx._registry import Value

__all__ = ["Inline"]


@dataclass(frozen=True, slots=True)
class Inline:
    """Result of an operator function that requests that a graph replaces the node.

    Attributes:
        graph: graph to inline.
        arguments: values of the graph's inputs.
    """

    graph: Graph
    arguments: tuple[Value, ...] = ()

    def expand(self, node: Node, prefix: str) -> tuple[list[Node], dict[str, Value]]:
        """Return the nodes that replace `node`, and the initial values that they read.

        Args:
            node: node to replace; the new nodes compute its outputs.
            prefix: prefix of every new name, which makes the names unique.
        """
        graph = self.graph
        local = {info.name for info in graph.inputs} | set(graph.constants)
        # Names that are not local are free variables, and keep their outer names.
        local |= {name for inner in graph.nodes for name in inner.outputs if name}
        names = {name: prefix + name for name in local}
        values: dict[str, Value] = {names[name]: value for name, value in graph.constants.items()}
        values |= {
            names[info.name]: value
            for info, value in zip(graph.inputs, self.arguments, strict=False)
        }
        nodes = [_rename_node(inner, names, prefix) for inner in graph.nodes]
        # Identity nodes bind the graph's outputs to the node's output names.
        identities = [
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
        return [*nodes, *identities], values


def _rename_node(node: Node, names: Mapping[str, str], prefix: str) -> Node:
    """Return `node` with renamed values, including free variables of its subgraphs."""
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
    """Return `graph` with renamed free variables."""
    own = {info.name for info in graph.inputs} | set(graph.constants)
    own |= {name for node in graph.nodes for name in node.outputs}
    # A name that the subgraph defines shadows the outer name.
    outer = {name: new for name, new in names.items() if name not in own}
    outputs = tuple(replace(info, name=outer.get(info.name, info.name)) for info in graph.outputs)
    return replace(
        graph, nodes=tuple(_rename_node(node, outer, "") for node in graph.nodes), outputs=outputs
    )
