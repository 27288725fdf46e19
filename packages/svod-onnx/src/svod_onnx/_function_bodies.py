"""Function bodies of the ONNX standard: a node without an operator function here is replaced by its
body.
"""

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
"""Domain of the function during inlining.

It keeps the inliner from taking the call for a standard operator.
"""


def _find_schema(node: Node) -> Any | None:
    try:
        return onnx.defs.get_schema(node.operator, node.version, node.domain)
    except (onnx.defs.SchemaError, TypeError):  # TypeError: the version does not fit into 32 bits
        return None


def has_body(node: Node) -> bool:
    """Whether the standard defines the operator of `node` by a function body."""
    schema = _find_schema(node)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def is_supported(node: Node) -> bool:
    """Whether the operator of `node` has an operator function or a function body."""
    return find_operator(node.operator, node.domain, node.version) is not None or has_body(node)


def make_body(node: Node, types: Sequence[onnx.TypeProto | None]) -> Graph:
    """Function body of `node` as a graph, whose inputs are the present operands in order.

    Args:
        node: a node with a body and a message.
        types: operand types, on which some bodies depend; None for a missing operand.

    Raises:
        ValueError: if the standard has no body for these types and attributes.
        ModelFileError: if the body is inconsistent.
    """
    if node.message is None:
        raise ValueError("cannot be inlined: its attributes are too large")
    call = onnx.NodeProto.FromString(node.message)
    del call.input[:], call.output[:]
    call.input.extend("" if type_ is None else f"x{index}" for index, type_ in enumerate(types))
    call.output.extend(f"y{index}" for index in range(len(node.outputs)))
    body = _make_function(node, call, types)
    # The inliner would fail too, with an assertion of its C++ code.
    if len(node.outputs) > len(body.output):
        raise ValueError(
            f"declares {len(node.outputs)} outputs, but has at most {len(body.output)}"
        )
    body.domain = call.domain = _DOMAIN
    opsets = [*body.opset_import, onnx.OperatorSetIdProto(domain=_DOMAIN, version=1)]
    graph = onnx.GraphProto(node=[call], name=node.operator)
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in filter(None, call.input))
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in call.output)
    model = onnx.ModelProto(
        ir_version=onnx.IR_VERSION, graph=graph, functions=[body], opset_import=opsets
    )
    try:
        expanded = inline_local_functions(model)
    except (RuntimeError, onnx.checker.ValidationError) as error:
        raise ValueError(f"cannot be inlined: {error}") from error
    versions = {entry.domain: entry.version for entry in opsets}
    # Context-dependent bodies do not always import an opset. They are written for the newest one.
    versions.setdefault(DEFAULT_DOMAIN, onnx.defs.onnx_opset_version())
    # With inconsistent attributes a body may read undefined names, which the sort rejects.
    title = f"the definition of {node.qualified}"
    return sort_topologically(make_graph(expanded.graph, versions, title), title)


def _make_function(
    node: Node, call: onnx.NodeProto, types: Sequence[onnx.TypeProto | None]
) -> onnx.FunctionProto:
    """Newest function body of the schema."""
    schema = _find_schema(node)
    assert schema is not None
    if schema.has_function:
        version = max(schema.function_opset_versions)
        message = schema.get_function_with_opset_version(version)
    else:
        version = max(schema.context_dependent_function_opset_versions)
        kinds = [(kind or onnx.TypeProto()).SerializeToString() for kind in types]
        message = schema.get_context_dependent_function_with_opset_version(
            version, call.SerializeToString(), kinds
        )
    if not message:
        raise ValueError(
            "the ONNX standard has no function body for these operand types and attributes"
        )
    return onnx.FunctionProto.FromString(message)
