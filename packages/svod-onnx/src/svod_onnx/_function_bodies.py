"""Operators that the standard defines by others: a node without a function here becomes the nodes of that definition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import onnx
from onnx.inliner import inline_local_functions

from svod_onnx._graph import DEFAULT_DOMAIN, Graph, Node
from svod_onnx._reading import make_graph
from svod_onnx._registry import find_operator
from svod_onnx._topological_sort import sort_topologically

__all__ = ["has_body", "is_supported", "make_body"]

_DOMAIN: Final = "svod.body"
"""Of the function while it is expanded, so that it is no operator of the standard."""


def _find_schema(node: Node) -> Any | None:
    try:
        return onnx.defs.get_schema(node.operator, node.version, node.domain)
    except (onnx.defs.SchemaError, TypeError):  # a version that is no 32-bit number
        return None


def has_body(node: Node) -> bool:
    """Whether the standard defines the operator of `node` by others."""
    schema = _find_schema(node)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def is_supported(node: Node) -> bool:
    """Whether the operator of `node` has a function, or a definition by others."""
    return find_operator(node.operator, node.domain, node.version) is not None or has_body(node)


def make_body(node: Node, types: Sequence[onnx.TypeProto | None]) -> Graph:
    """The nodes that stand for `node`; the graph's inputs are the operands that are given, in their order.

    Args:
        node: which has a body, and has kept its message.
        types: of the operands, on which some bodies depend; None for one that is left out.

    Raises:
        ValueError: if the standard has no body for these types and attributes.
        ModelFileError: if the body contradicts itself.
    """
    if node.message is None:
        raise ValueError("is too large to be expanded")
    call = onnx.NodeProto.FromString(node.message)
    del call.input[:], call.output[:]
    call.input.extend("" if kind is None else f"x{number}" for number, kind in enumerate(types))
    call.output.extend(f"y{number}" for number in range(len(node.outputs)))
    body = _make_function(node, call, types)
    body.domain = call.domain = _DOMAIN
    opsets = [*body.opset_import, onnx.OperatorSetIdProto(domain=_DOMAIN, version=1)]
    graph = onnx.GraphProto(node=[call], name=node.operator)
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in filter(None, call.input))
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in call.output)
    model = onnx.ModelProto(ir_version=onnx.IR_VERSION, graph=graph, functions=[body], opset_import=opsets)
    try:
        expanded = inline_local_functions(model)
    except (RuntimeError, onnx.checker.ValidationError) as error:
        raise ValueError(f"cannot be expanded: {error}") from error
    versions = {entry.domain: entry.version for entry in opsets}
    # Bodies that a program makes do not always say which version of the other operators they mean: it is the newest.
    versions.setdefault(DEFAULT_DOMAIN, onnx.defs.onnx_opset_version())
    # For attributes that contradict each other a body may read what it does not define.
    title = f"the definition of {node.qualified}"
    return sort_topologically(make_graph(expanded.graph, versions, title), title)


def _make_function(node: Node, call: onnx.NodeProto, types: Sequence[onnx.TypeProto | None]) -> onnx.FunctionProto:
    """The newest body that the schema has."""
    schema = _find_schema(node)
    assert schema is not None
    if schema.has_function:
        version = max(schema.function_opset_versions)
        made = schema.get_function_with_opset_version(version)
    else:
        version = max(schema.context_dependent_function_opset_versions)
        kinds = [(kind or onnx.TypeProto()).SerializeToString() for kind in types]
        made = schema.get_context_dependent_function_with_opset_version(version, call.SerializeToString(), kinds)
    if not made:
        raise ValueError("is defined by other operators, but not for these operands and attributes")
    return onnx.FunctionProto.FromString(made)
