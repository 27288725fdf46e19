"""Functions that a model defines: each call becomes the nodes of its body, before anything else is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import onnx

from svod_onnx.errors import ModelFileError

__all__ = ["inline_functions"]

_Name = tuple[str, str, str]

_MAX_NODES: Final = 1 << 20
"""How many nodes the bodies may become: twenty functions of two calls each would be a million."""


def inline_functions(model: onnx.ModelProto, title: str) -> onnx.ModelProto:
    """`model` without functions of its own.

    Raises:
        ModelFileError: if a function calls itself, or the nodes are too many.
    """
    if not model.functions:
        return model
    bodies = {(body.domain, body.name, body.overload): body for body in model.functions}
    sizes: dict[_Name, int] = {}

    def count(nodes: Iterable[onnx.NodeProto], callers: tuple[_Name, ...]) -> int:
        total = 0
        for node in _walk(nodes):
            name = (node.domain, node.op_type, node.overload)
            if name in callers:
                raise ModelFileError(path=title, problem=f"the function {node.op_type!r} calls itself")
            if name in bodies and name not in sizes:
                sizes[name] = count(bodies[name].node, (*callers, name))
            total += sizes.get(name, 1)
        if total > _MAX_NODES:
            raise ModelFileError(path=title, problem=f"has functions whose bodies are {total} nodes")
        return total

    try:
        count(model.graph.node, ())
    except RecursionError as error:
        raise ModelFileError(path=title, problem="has functions that call each other too deeply") from error
    from onnx.inliner import inline_local_functions

    try:
        return inline_local_functions(model)
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
        raise ModelFileError(path=title, problem=f"has functions that cannot be expanded: {error}") from error


def _walk(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes, and those of their subgraphs."""
    for node in nodes:
        yield node
        for entry in node.attribute:
            if entry.type == onnx.AttributeProto.GRAPH:
                yield from _walk(entry.g.node)
            for graph in entry.graphs:
                yield from _walk(graph.node)
