"""A model as Python objects: nodes and values by name, with the version of each operator that the
model asks for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
]

DEFAULT_DOMAIN: Final = ""

Constant = np.ndarray | Tensor
"""A weight: an array that is known on the host, or a tensor that lies where the file has it."""


@dataclass(frozen=True, slots=True)
class ValueInfo:
    """What a model says of an input or output.

    Attributes:
        name: of the value.
        kind: "tensor", "sequence" or "optional".
        element_type: of a tensor, or of the tensors in it, as a number of
            `onnx.TensorProto.DataType`; 0 where it is not said.
        shape: of a tensor: numbers, names of dimensions, and None where nothing is said; None where
            the rank is not.
    """

    name: str
    kind: str
    element_type: int
    shape: tuple[int | str | None, ...] | None

    @property
    def dtype(self) -> str:
        """The dtype's name: `float32`."""
        return get_type_name(self.element_type)

    def __str__(self) -> str:
        sizes = (
            "?"
            if self.shape is None
            else ", ".join("?" if size is None else str(size) for size in self.shape)
        )
        text = f"{self.dtype}({sizes})"
        return f"{self.name}: {text if self.kind == 'tensor' else f'{self.kind} of {text}'}"


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One operator with its operands, by name; "" is an operand that is left out."""

    operator: str
    domain: str
    version: int  # of the operator: that of the opset which defined it as this model means it
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]
    message: bytes | None = None  # what it was read from, where that is small

    @property
    def title(self) -> str:
        """The name of the node, or of its first output where it has none."""
        return self.name or next(filter(None, self.outputs), "")

    @property
    def qualified(self) -> str:
        """The operator, with its domain where that is not the default one."""
        return f"{self.domain}.{self.operator}" if self.domain else self.operator

    @property
    def scope(self) -> str:
        """Where its operations belong in profiles: dots would say that it lies inside of
        another.
        """
        return self.title.replace(".", "/") or self.operator

    def subgraphs(self) -> list[Graph]:
        return [value for value in self.attributes.values() if isinstance(value, Graph)]


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Nodes in an order in which each comes after those that it reads, and the values that come
    from outside.
    """

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[ValueInfo, ...]
    outputs: tuple[ValueInfo, ...]
    constants: Mapping[str, Constant] = field(default_factory=dict[str, Constant])


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
    """What the nodes of `graph` read that neither they nor the graph define: values of the graph
    around it.
    """
    known = {info.name for info in graph.inputs} | set(graph.constants)
    free: set[str] = set()
    for node in graph.nodes:
        wanted = set(node.inputs).union(*map(list_free_names, node.subgraphs()))
        free |= wanted - known
        known |= set(node.outputs)
    free |= {info.name for info in graph.outputs} - known
    return free - {""}


def iter_reads(node: Node) -> set[str]:
    """The names of the values that a node reads, in its subgraphs too."""
    return set(node.inputs).union(*map(list_free_names, node.subgraphs())) - {""}
