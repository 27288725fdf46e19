"""Declarations of a model's inputs and outputs, and its metadata."""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from svod_onnx._graph import ValueInfo
from svod_onnx._reading import ModelFile

__all__ = ["ModelMetadata", "NodeArg", "make_metadata", "make_node_arg", "name_tensor_type"]


@dataclass(frozen=True, slots=True)
class NodeArg:
    """Declaration of an input or output of an `InferenceSession`.

    Attributes:
        name: name of the value.
        type: such as "tensor(float)" or "seq(tensor(int64))".
        shape: sizes, names of symbolic dimensions, and None for an undeclared size; [] for a
            scalar, a sequence, or an undeclared rank.

    Example:
        >>> from svod_onnx import NodeArg
        >>> print(NodeArg("x", "tensor(float)", ["batch", 3]))
        NodeArg(name='x', type='tensor(float)', shape=['batch', 3])
    """

    name: str
    type: str
    shape: list[int | str | None]


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """Texts and versions of a model, as `InferenceSession.get_modelmeta` returns them.

    Attributes:
        producer_name: name of the exporting program.
        graph_name: name of the graph.
        domain: reverse domain name of the model.
        description: documentation of the model.
        graph_description: documentation of the graph.
        version: version of the model.
        custom_metadata_map: metadata properties.

    Example:
        >>> from svod_onnx import ModelMetadata
        >>> ModelMetadata("exporter", "classifier", "", "", "", 1, {"author": "me"}).version
        1
    """

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]


def name_tensor_type(element_type: int) -> str:
    """Name of a tensor type in onnxruntime, such as "tensor(float)"."""
    return f"tensor({onnx.TensorProto.DataType.Name(element_type).lower()})"


def make_node_arg(info: ValueInfo) -> NodeArg:
    """Declaration in the form of onnxruntime."""
    name = name_tensor_type(info.element_type)
    if info.kind != "tensor":
        name = f"{'seq' if info.kind == 'sequence' else 'optional'}({name})"
    return NodeArg(
        info.name, name, [] if info.kind == "sequence" or info.shape is None else list(info.shape)
    )


def make_metadata(file: ModelFile) -> ModelMetadata:
    """Metadata of a model file."""
    description = file.description
    return ModelMetadata(
        producer_name=description.producer_name,
        graph_name=description.graph_name,
        domain=description.domain,
        description=description.description,
        graph_description=description.graph_description,
        version=description.version,
        custom_metadata_map=dict(file.metadata),
    )
