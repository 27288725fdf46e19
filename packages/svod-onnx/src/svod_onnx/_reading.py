"""Reading of a model: from a file or message to a `Graph`."""

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

__all__ = ["ModelDescription", "ModelFile", "make_graph", "read_model"]

_A: Final = AttributeProto

_MAX_MESSAGE: Final = 1 << 16
"""Largest size in bytes of a node whose message is kept. onnx computes a node on the host from its
message.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDescription:
    """Texts and versions of a model file, as in the specification of `ModelProto`."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int


@dataclass(frozen=True, slots=True, eq=False)
class ModelFile:
    """Content of a model file.

    Attributes:
        title: path, or a name for bytes.
        graph: main graph, with local functions inlined.
        opsets: imported opset version of each domain.
        metadata: metadata properties.
        description: texts and versions.
    """

    title: str
    graph: Graph
    opsets: Mapping[str, int]
    metadata: Mapping[str, str]
    description: ModelDescription


def read_model(source: str | os.PathLike[str] | bytes | onnx.ModelProto) -> ModelFile:
    """Read a model. Large weights become arrays over the memory-mapped file.

    Raises:
        ModelFileError: if the source is not a model, or is inconsistent.
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
            raise ModelFileError(
                path=title, problem=f"cannot read the file: {error.strerror}"
            ) from error
    try:
        message, spans = strip_weights(data)
        model = onnx.ModelProto.FromString(message)
    except DecodeError as error:
        raise ModelFileError(
            path=title, problem=f"not an ONNX model: cannot parse the message ({error})"
        ) from error
    weights = {index: data[start : start + size] for index, (start, size) in spans.items()}
    return _convert(model, WeightReader(title, folder), weights)


def _convert(
    model: onnx.ModelProto, tensors: WeightReader, weights: Mapping[int, memoryview]
) -> ModelFile:
    title = tensors.title
    if not model.HasField("graph"):
        raise ModelFileError(path=title, problem="the model has no graph")
    _check_versions(model, title)
    description = ModelDescription(
        producer_name=model.producer_name,
        graph_name=model.graph.name,
        domain=model.domain,
        description=model.doc_string,
        graph_description=model.graph.doc_string,
        version=model.model_version,
    )
    model = inline_functions(model, title)
    opsets = _read_opsets(model)
    graph = _Reader(tensors, opsets).make_graph(model.graph, weights)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    return ModelFile(title, sort_topologically(graph, title), opsets, metadata, description)


def _check_versions(model: onnx.ModelProto, title: str) -> None:
    """Refuse versions of the format, and of onnx's own operators, that are newer than the installed
    onnx.

    Without their schemas, an operator that a newer version changes would run by its old meaning.
    """
    if model.ir_version > onnx.IR_VERSION:
        problem = f"IR version {model.ir_version} is unknown; the newest supported version is {onnx.IR_VERSION}"
        raise ModelFileError(path=title, problem=problem, hint=_HINT)
    for domain, version in _read_opsets(model).items():
        newest = _NEWEST.get(domain, version)
        if version > newest:
            name = domain or "ai.onnx"
            problem = f"opset {version} of domain {name!r} is unknown; the newest supported opset is {newest}"
            raise ModelFileError(path=title, problem=problem, hint=_HINT)


_HINT: Final = (
    "export the model for an older version, or convert it by onnx.version_converter in an"
    " environment with a newer onnx"
)

_NEWEST: Final[Mapping[str, int]] = {
    DEFAULT_DOMAIN: onnx.defs.onnx_opset_version(),
    "ai.onnx.ml": max(row[3] for row in onnx.helper.VERSION_TABLE),
}
"""Newest opset version of the domains whose operators onnx defines."""


def _read_opsets(model: onnx.ModelProto) -> dict[str, int]:
    return {_normalize_domain(entry.domain): entry.version for entry in model.opset_import} or {
        DEFAULT_DOMAIN: 1
    }


def make_graph(graph: onnx.GraphProto, opsets: Mapping[str, int], title: str) -> Graph:
    """Convert a protobuf graph to a `Graph`, with operator versions from `opsets`."""
    return _Reader(WeightReader(title, None), opsets).make_graph(graph)


def _normalize_domain(domain: str) -> str:
    return DEFAULT_DOMAIN if domain == "ai.onnx" else domain


@dataclass(frozen=True, slots=True)
class _Reader:
    """Conversion of protobuf messages to nodes and graphs."""

    tensors: WeightReader
    opsets: Mapping[str, int]
    _versions: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])

    def make_graph(
        self, graph: onnx.GraphProto, weights: Mapping[int, memoryview] | None = None
    ) -> Graph:
        constants: dict[str, Constant] = {
            tensor.name: self.tensors.read(tensor, (weights or {}).get(index))
            for index, tensor in enumerate(graph.initializer)
        }
        for sparse in graph.sparse_initializer:
            constants[sparse.values.name] = self.tensors.read_sparse(sparse)
        self.check_names(*constants, *(info.name for info in [*graph.input, *graph.output]))
        declared = [_make_info(info) for info in graph.input]
        # An initializer among the inputs is a default. Models before IR version 4 must list all
        # their initializers there.
        inputs = tuple(info for info in declared if info.name not in constants)
        overridable = tuple(info for info in declared if info.name in constants)
        outputs = tuple(_make_info(info) for info in graph.output)
        nodes = tuple(self.make_node(node) for node in graph.node)
        return Graph(graph.name, nodes, inputs, outputs, constants, overridable)

    def check_names(self, *names: object) -> None:
        """Check that names are strings. protobuf returns bytes for invalid UTF-8.

        Raises:
            ModelFileError: if a name is not a string.
        """
        for name in names:
            if not isinstance(name, str):
                raise ModelFileError(
                    path=self.tensors.title, problem=f"name is not valid UTF-8: {name!r}"
                )

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
            # Serialized, since a submessage would keep the whole model alive.
            node.SerializeToString() if node.ByteSize() <= _MAX_MESSAGE else None,
        )

    def get_version(self, operator: str, domain: str) -> int:
        """Version of an operator in the imported opset."""
        key = operator, domain
        if key not in self._versions:
            opset = self.opsets.get(domain, 1)
            try:
                self._versions[key] = onnx.defs.get_schema(operator, opset, domain).since_version
            except (
                onnx.defs.SchemaError,
                TypeError,
            ):  # TypeError: the version does not fit into 32 bits
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
                problem = (
                    f"attribute {entry.name!r} of node {title!r} has the unknown type {entry.type}"
                )
                raise ModelFileError(path=self.tensors.title, problem=problem)


def _decode(text: bytes) -> str | bytes:
    """Decode a UTF-8 string. Other bytes, such as an encoded image, stay bytes."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text


def _make_info(info: onnx.ValueInfoProto) -> ValueInfo:
    kind, element = "tensor", info.type
    while (which := element.WhichOneof("value")) in ("sequence_type", "optional_type"):
        kind = "sequence" if which == "sequence_type" else "optional"
        element = (
            element.sequence_type.elem_type
            if which == "sequence_type"
            else element.optional_type.elem_type
        )
    if element.HasField("map_type"):
        value_type = element.map_type.value_type.tensor_type.elem_type
        kind = "map" if kind == "tensor" else kind
        return ValueInfo(info.name, kind, value_type, None, element.map_type.key_type)
    tensor = element.tensor_type
    shape = tuple(map(_make_size, tensor.shape.dim)) if tensor.HasField("shape") else None
    return ValueInfo(info.name, kind, tensor.elem_type, shape)


def _make_size(size: Any) -> int | str | None:
    # Exporters write "?" or "-1" for an unknown size. These are not names, since two such sizes may
    # differ. Names in invalid UTF-8, which protobuf returns as bytes, are unknown sizes too.
    name = size.dim_param
    if isinstance(name, str) and any(map(str.isalnum, name)) and not name.startswith("-"):
        return name
    return size.dim_value if size.HasField("dim_value") and size.dim_value >= 0 else None
