"""From a file to a `Graph`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, numpy_helper

from svod_onnx._graph import DEFAULT_DOMAIN, Attribute, Constant, Graph, Node, ValueInfo
from svod_onnx.errors import ModelFileError

__all__ = ["ModelFile", "make_graph", "read_model"]

_A: Final = AttributeProto


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
    """Read a model.

    Raises:
        ModelFileError: if it is none, or contradicts itself.
    """
    if isinstance(source, onnx.ModelProto):
        return _convert(source, source.graph.name or "model", None)
    title = "model" if isinstance(source, bytes) else os.fspath(source)
    folder = None
    if not isinstance(source, bytes):
        folder = Path(source).parent
        try:
            source = Path(source).read_bytes()
        except OSError as error:
            raise ModelFileError(path=title, problem=f"cannot be read: {error.strerror}") from error
    try:
        model = onnx.ModelProto.FromString(source)
    except DecodeError as error:
        raise ModelFileError(path=title, problem="is no ONNX model: its bytes are no protobuf message") from error
    return _convert(model, title, folder)


def _convert(model: onnx.ModelProto, title: str, folder: Path | None) -> ModelFile:
    if not model.HasField("graph"):
        raise ModelFileError(path=title, problem="has no graph")
    if model.functions:
        from onnx.inliner import inline_local_functions

        model = inline_local_functions(model)
    opsets = {_normalize_domain(entry.domain): entry.version for entry in model.opset_import} or {DEFAULT_DOMAIN: 1}
    reader = _Reader(title, opsets, folder)
    return ModelFile(
        title, reader.make_graph(model.graph), opsets, {entry.key: entry.value for entry in model.metadata_props}
    )


def make_graph(graph: onnx.GraphProto, opsets: Mapping[str, int], title: str) -> Graph:
    """The `Graph` of a protobuf graph, whose operators have the versions of `opsets`."""
    return _Reader(title, opsets, None).make_graph(graph)


def _normalize_domain(domain: str) -> str:
    return DEFAULT_DOMAIN if domain == "ai.onnx" else domain


@dataclass(frozen=True, slots=True)
class _Reader:
    title: str
    opsets: Mapping[str, int]
    folder: Path | None

    def make_graph(self, graph: onnx.GraphProto) -> Graph:
        constants: dict[str, Constant] = {tensor.name: self.make_constant(tensor) for tensor in graph.initializer}
        for sparse in graph.sparse_initializer:
            constants[sparse.values.name] = _make_dense(sparse)
        # Old models list their weights among the inputs, whose values a caller might replace; nobody does.
        inputs = tuple(_make_info(info) for info in graph.input if info.name not in constants)
        outputs = tuple(_make_info(info) for info in graph.output)
        nodes = tuple(self.make_node(node) for node in graph.node)
        return Graph(graph.name, self.order(nodes), inputs, outputs, constants)

    def order(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        return tuple(nodes)

    def make_node(self, node: onnx.NodeProto) -> Node:
        domain = _normalize_domain(node.domain)
        version = _get_version(node.op_type, domain, self.opsets.get(domain, 1))
        attributes = {entry.name: self.make_attribute(entry) for entry in node.attribute}
        return Node(node.op_type, domain, version, node.name, tuple(node.input), tuple(node.output), attributes, node)

    def make_attribute(self, entry: onnx.AttributeProto) -> Attribute:
        match entry.type:
            case _A.FLOAT:
                return entry.f
            case _A.INT:
                return entry.i
            case _A.STRING:
                return _decode(entry.s)
            case _A.TENSOR:
                return numpy_helper.to_array(entry.t)
            case _A.GRAPH:
                return self.make_graph(entry.g)
            case _A.FLOATS:
                return list(entry.floats)
            case _A.INTS:
                return list(entry.ints)
            case _A.STRINGS:
                return cast("list[str]", [_decode(text) for text in entry.strings])
            case _A.TENSORS:
                return [numpy_helper.to_array(tensor) for tensor in entry.tensors]
            case _A.GRAPHS:
                return [self.make_graph(graph) for graph in entry.graphs]
            case _A.TYPE_PROTO:
                return entry.tp
            case _A.SPARSE_TENSOR:
                return _make_dense(entry.sparse_tensor)
            case _:
                raise ModelFileError(path=self.title, problem=f"attribute {entry.name!r} has no known type")

    def make_constant(self, tensor: onnx.TensorProto) -> Constant:
        return numpy_helper.to_array(tensor, base_dir=str(self.folder or ""))


def _decode(text: bytes) -> str | bytes:
    """Strings of ONNX are UTF-8; what is not, such as a packed image, stays bytes."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text


def _get_version(operator: str, domain: str, opset: int) -> int:
    try:
        return onnx.defs.get_schema(operator, opset, domain).since_version
    except onnx.defs.SchemaError:
        return opset


def _make_info(info: onnx.ValueInfoProto) -> ValueInfo:
    kind, element = "tensor", info.type
    while (which := element.WhichOneof("value")) in ("sequence_type", "optional_type"):
        kind = "sequence" if which == "sequence_type" else "optional"
        element = element.sequence_type.elem_type if which == "sequence_type" else element.optional_type.elem_type
    tensor = element.tensor_type
    shape = tuple(map(_make_size, tensor.shape.dim)) if tensor.HasField("shape") else None
    return ValueInfo(info.name, kind, tensor.elem_type, shape)


def _make_size(size: Any) -> int | str | None:
    if size.HasField("dim_param") and size.dim_param:
        return size.dim_param
    return size.dim_value if size.HasField("dim_value") and size.dim_value >= 0 else None


def _make_dense(sparse: onnx.SparseTensorProto) -> np.ndarray:
    values, indices = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    dense = np.zeros(tuple(sparse.dims), values.dtype)
    if indices.ndim == 1:
        dense.reshape(-1)[indices] = values
    else:
        dense[tuple(indices.T)] = values
    return dense
