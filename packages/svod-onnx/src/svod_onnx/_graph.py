"""A model as Python objects: nodes and named values, with the operator version that the model
imports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import onnx

from svod_onnx._types import get_type_name
from svod_tensor import Tensor

__all__ = [
    "DEFAULT_DOMAIN",
    "Attribute",
    "Constant",
    "Graph",
    "Node",
    "ValueInfo",
    "iter_reads",
    "list_free_names",
    "list_sources",
]

DEFAULT_DOMAIN: Final = ""

Constant = np.ndarray | Tensor
"""An initializer: an array on the host, or a tensor."""


@dataclass(frozen=True, slots=True)
class ValueInfo:
    """Declaration of an input or output.

    Attributes:
        name: name of the value.
        kind: "tensor", "map", "sequence" or "optional".
        element_type: element type as an `onnx.TensorProto.DataType`; 0 if undeclared. The type of
            the values of a map.
        shape: sizes, names of symbolic dimensions, and None for an undeclared size; None if the
            rank is undeclared.
        key_type: element type of the keys of a map, or of a sequence of maps; otherwise 0.
    """

    name: str
    kind: str
    element_type: int
    shape: tuple[int | str | None, ...] | None
    key_type: int = 0

    @property
    def dtype(self) -> str:
        """Name of the dtype, such as `float32`."""
        return get_type_name(self.element_type)

    def __str__(self) -> str:
        sizes = (
            "?"
            if self.shape is None
            else ", ".join("?" if size is None else str(size) for size in self.shape)
        )
        text = f"{self.dtype}({sizes})"
        if self.key_type:
            text = f"map({get_type_name(self.key_type)}, {self.dtype})"
        is_wrapped = self.kind in ("sequence", "optional")
        return f"{self.name}: {f'{self.kind} of {text}' if is_wrapped else text}"


# By identity: nodes are keys of caches, and attributes may be arrays, which are not hashable.
@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A call of an operator. Operands are names; "" is an omitted operand."""

    operator: str
    domain: str
    # opset version that last changed the operator, up to the version that the model imports
    version: int
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]
    message: bytes | None = None  # serialized NodeProto, if small

    @property
    def title(self) -> str:
        """Name of the node, or of its first output if the node has none."""
        return self.name or next(filter(None, self.outputs), "")

    @property
    def qualified(self) -> str:
        """Operator with its domain, unless that is the default domain."""
        return f"{self.domain}.{self.operator}" if self.domain else self.operator

    @property
    def scope(self) -> str:
        """Name of the node's scope in profiles. Dots would nest scopes, so slashes replace them."""
        return self.title.replace(".", "/") or self.operator

    def subgraphs(self) -> list[Graph]:
        """Graphs among the attributes, such as loop bodies and branches."""
        return [value for value in self.attributes.values() if isinstance(value, Graph)]


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Nodes in topological order, with the graph's inputs, outputs and initializers.

    Attributes:
        name: name of the graph.
        nodes: nodes, each after the nodes that it reads.
        inputs: inputs without an initializer.
        outputs: outputs.
        constants: initializers by name.
        overridable: inputs whose initializer is their default.
    """

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[ValueInfo, ...]
    outputs: tuple[ValueInfo, ...]
    constants: Mapping[str, Constant] = field(default_factory=dict[str, Constant])
    overridable: tuple[ValueInfo, ...] = ()

    def select(self, outputs: Sequence[ValueInfo]) -> Graph:
        """The graph with these outputs, without the nodes that none of them needs."""
        needed = {info.name for info in outputs}
        nodes: list[Node] = []
        for node in reversed(self.nodes):
            if not needed.isdisjoint(node.outputs):
                nodes.append(node)
                needed |= iter_reads(node)
        return replace(self, nodes=tuple(reversed(nodes)), outputs=tuple(outputs))

    def override(self, names: Iterable[str]) -> Graph:
        """The graph with overridable inputs as inputs without a default."""
        chosen = set(names)
        return replace(
            self,
            inputs=(*self.inputs, *(info for info in self.overridable if info.name in chosen)),
            constants={name: value for name, value in self.constants.items() if name not in chosen},
            overridable=tuple(info for info in self.overridable if info.name not in chosen),
        )


Attribute = (
    int
    | float
    | str
    | bytes
    | np.ndarray
    | Graph
    | onnx.TypeProto
    | onnx.SparseTensorProto
    | Sequence[int]
    | Sequence[float]
    | Sequence[str]
    | Sequence[np.ndarray]
    | Sequence[Graph]
)


def list_free_names(graph: Graph) -> set[str]:
    """Free variables of `graph`: names that it reads from enclosing graphs."""
    bound = {info.name for info in graph.inputs} | set(graph.constants)
    free: set[str] = set()
    for node in graph.nodes:
        reads = set(node.inputs).union(*map(list_free_names, node.subgraphs()))
        free |= reads - bound
        # After the reads: a node may not read its own output, but an outer value of the same name.
        bound |= set(node.outputs)
    free |= {info.name for info in graph.outputs} - bound
    return free - {""}


def iter_reads(node: Node) -> set[str]:
    """Names that a node reads, including free variables of its subgraphs."""
    return set(node.inputs).union(*map(list_free_names, node.subgraphs())) - {""}


def list_sources(name: str, producers: Mapping[str, Node]) -> set[str]:
    """Names that a value depends on and that none of `producers`, nodes by output, computes."""
    sources: set[str] = set()
    names, seen = [name], {name}
    while names:
        current = names.pop()
        producer = producers.get(current)
        if producer is None:
            sources.add(current)
            continue
        reads = iter_reads(producer) - seen
        names += reads
        seen |= reads
    return sources
