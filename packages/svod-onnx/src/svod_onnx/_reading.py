"""From a file to a `Graph`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto

from svod_onnx._graph import DEFAULT_DOMAIN, Attribute, Constant, Graph, Node, ValueInfo
from svod_onnx._local_functions import inline_functions
from svod_onnx._topological_sort import sort_topologically
from svod_onnx._weights import WeightReader, map_file
from svod_onnx._wire import strip_weights
from svod_onnx.errors import ModelFileError

__all__ = ["ModelFile", "make_graph", "read_model"]

_A: Final = AttributeProto

_KEPT_MESSAGE: Final = 1 << 16
"""The bytes up to which a node keeps its message, from which onnx computes it on the host."""


@dataclass(frozen=True, slots=True, eq=False)
class ModelFile:
    """What a file says.

    Attributes:
        title: the path, or a name for bytes.
        graph: its graph, with the functions of the model expanded.
        opsets: the version of the operators of each domain.
        metadata: what those who made it say of it.
    """

    title: str
    graph: Graph
    opsets: Mapping[str, int]
    metadata: Mapping[str, str]


def read_model(source: str | os.PathLike[str] | bytes | onnx.ModelProto) -> ModelFile:
    """Read a model. Large weights are left where they are: arrays over a map of the file.

    Raises:
        ModelFileError: if it is none, or contradicts itself.
    """
    if isinstance(source, onnx.ModelProto):
        return _convert(source, WeightReader(str(source.graph.name or "model"), None), {})
    if isinstance(source, bytes | bytearray | memoryview):
        title, folder, data = "model", None, memoryview(source).cast("B")
    else:
        title, folder = os.fspath(source), Path(source).parent
        try:
            data = map_file(source)
        except OSError as error:
            raise ModelFileError(path=title, problem=f"cannot be read: {error.strerror}") from error
    try:
        message, places = strip_weights(data)
        model = onnx.ModelProto.FromString(message)
    except DecodeError as error:
        raise ModelFileError(path=title, problem=f"is no ONNX model: its bytes are no message ({error})") from error
    weights = {number: data[start : start + size] for number, (start, size) in places.items()}
    return _convert(model, WeightReader(title, folder), weights)


def _convert(model: onnx.ModelProto, tensors: WeightReader, weights: Mapping[int, memoryview]) -> ModelFile:
    title = tensors.title
    if not model.HasField("graph"):
        raise ModelFileError(path=title, problem="has no graph")
    model = inline_functions(model, title)
    opsets = _read_opsets(model)
    graph = _Reader(tensors, opsets).make_graph(model.graph, weights)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    return ModelFile(title, sort_topologically(graph, title), opsets, metadata)


def _read_opsets(model: onnx.ModelProto) -> dict[str, int]:
    return {_normalize_domain(entry.domain): entry.version for entry in model.opset_import} or {DEFAULT_DOMAIN: 1}


def make_graph(graph: onnx.GraphProto, opsets: Mapping[str, int], title: str) -> Graph:
    """The `Graph` of a protobuf graph, whose operators have the versions of `opsets`."""
    return _Reader(WeightReader(title, None), opsets).make_graph(graph)


def _normalize_domain(domain: str) -> str:
    return DEFAULT_DOMAIN if domain == "ai.onnx" else domain


@dataclass(frozen=True, slots=True)
class _Reader:
    tensors: WeightReader
    opsets: Mapping[str, int]
    _versions: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])

    def make_graph(self, graph: onnx.GraphProto, weights: Mapping[int, memoryview] | None = None) -> Graph:
        constants: dict[str, Constant] = {
            tensor.name: self.tensors.read(tensor, (weights or {}).get(number))
            for number, tensor in enumerate(graph.initializer)
        }
        for sparse in graph.sparse_initializer:
            constants[sparse.values.name] = self.tensors.read_sparse(sparse)
        # Old models list their weights among the inputs, whose values a caller might replace; nobody does.
        self.check_names(*constants, *(info.name for info in [*graph.input, *graph.output]))
        inputs = tuple(_make_info(info) for info in graph.input if info.name not in constants)
        outputs = tuple(_make_info(info) for info in graph.output)
        nodes = tuple(self.make_node(node) for node in graph.node)
        return Graph(graph.name, nodes, inputs, outputs, constants)

    def check_names(self, *names: object) -> None:
        """See that names are text: protobuf gives bytes that are no UTF-8 as they are.

        Raises:
            ModelFileError: if one is not.
        """
        for name in names:
            if not isinstance(name, str):
                raise ModelFileError(path=self.tensors.title, problem=f"has a name that is no text: {name!r}")

    def make_node(self, node: onnx.NodeProto) -> Node:
        names = (entry.name for entry in node.attribute)
        self.check_names(node.name, node.op_type, node.domain, *node.input, *node.output, *names)
        domain = _normalize_domain(node.domain)
        attributes = {entry.name: self.make_attribute(node, entry) for entry in node.attribute}
        return Node(
            node.op_type,
            domain,
            self.get_version(node.op_type, domain),
            node.name,
            tuple(node.input),
            tuple(node.output),
            attributes,
            # A message of its own: a part of the model's would keep the whole of it in memory.
            node.SerializeToString() if node.ByteSize() <= _KEPT_MESSAGE else None,
        )

    def get_version(self, operator: str, domain: str) -> int:
        """The version of an operator that the opset of the model means."""
        key = operator, domain
        if key not in self._versions:
            opset = self.opsets.get(domain, 1)
            try:
                self._versions[key] = onnx.defs.get_schema(operator, opset, domain).since_version
            except (onnx.defs.SchemaError, TypeError):  # a version that is no 32-bit number
                self._versions[key] = opset
        return self._versions[key]

    def make_attribute(self, node: onnx.NodeProto, entry: onnx.AttributeProto) -> Attribute:
        match entry.type:
            case _A.FLOAT:
                return entry.f
            case _A.INT:
                return entry.i
            case _A.STRING:
                return _decode(entry.s)
            case _A.TENSOR:
                return self.tensors.read(entry.t)
            case _A.GRAPH:
                return self.make_graph(entry.g)
            case _A.FLOATS:
                return list(entry.floats)
            case _A.INTS:
                return list(entry.ints)
            case _A.STRINGS:
                return cast("list[str]", [_decode(text) for text in entry.strings])
            case _A.TENSORS:
                return [self.tensors.read(tensor) for tensor in entry.tensors]
            case _A.GRAPHS:
                return [self.make_graph(graph) for graph in entry.graphs]
            case _A.TYPE_PROTO:
                return onnx.TypeProto.FromString(entry.tp.SerializeToString())
            case _A.SPARSE_TENSOR:
                return self.tensors.read_sparse(entry.sparse_tensor)
            case _:
                title = node.name or next(iter(node.output), "")
                problem = f"attribute {entry.name!r} of node {title!r} has no known type"
                raise ModelFileError(path=self.tensors.title, problem=problem)


def _decode(text: bytes) -> str | bytes:
    """Strings of ONNX are UTF-8; what is not, such as a packed image, stays bytes."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text


def _make_info(info: onnx.ValueInfoProto) -> ValueInfo:
    kind, element = "tensor", info.type
    while (which := element.WhichOneof("value")) in ("sequence_type", "optional_type"):
        kind = "sequence" if which == "sequence_type" else "optional"
        element = element.sequence_type.elem_type if which == "sequence_type" else element.optional_type.elem_type
    tensor = element.tensor_type
    shape = tuple(map(_make_size, tensor.shape.dim)) if tensor.HasField("shape") else None
    return ValueInfo(info.name, kind, tensor.elem_type, shape)


def _make_size(size: Any) -> int | str | None:
    # Exporters that know nothing of a size write "?" or "-1", which is no name: two such sizes may differ. Nor are bytes one that are
    # no UTF-8, which protobuf gives as they are.
    name = size.dim_param
    if isinstance(name, str) and any(map(str.isalnum, name)) and not name.startswith("-"):
        return name
    return size.dim_value if size.HasField("dim_value") and size.dim_value >= 0 else None
