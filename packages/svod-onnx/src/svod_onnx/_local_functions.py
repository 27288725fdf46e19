"""Model-local functions: each call is replaced by the nodes of its body before the graph is
read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import onnx

from svod_onnx.errors import ModelFileError

__all__ = ["inline_functions"]

_Name = tuple[str, str, str]

_MAX_NODES: Final = 1 << 20
"""Largest number of nodes after inlining.

Twenty nested functions with two calls each would be a million nodes.
"""


def inline_functions(model: onnx.ModelProto, title: str) -> onnx.ModelProto:
    """Return `model` with its local functions inlined.

    Raises:
        ModelFileError: if a function calls itself, or inlining yields too many nodes.
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
                raise ModelFileError(
                    path=title,
                    problem=f"function {node.op_type!r} calls itself; ONNX functions must not be recursive",
                )
            # Memoized, since the count itself would otherwise take exponential time.
            if name in bodies and name not in sizes:
                sizes[name] = count(bodies[name].node, (*callers, name))
            total += sizes.get(name, 1)
        if total > _MAX_NODES:
            raise ModelFileError(
                path=title,
                problem=f"inlining its functions yields {total} nodes, over the limit of {_MAX_NODES}",
            )
        return total

    # Counted before inlining, which would otherwise exhaust the memory.
    try:
        count(model.graph.node, ())
    except RecursionError as error:
        raise ModelFileError(path=title, problem="its functions are nested too deeply") from error
    # Imported here, since few models have local functions.
    from onnx.inliner import inline_local_functions

    try:
        return inline_local_functions(model)
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
        raise ModelFileError(
            path=title, problem=f"its functions cannot be inlined: {error}"
        ) from error


def _walk(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield the nodes, and recursively the nodes of their subgraphs."""
    for node in nodes:
        yield node
        for entry in node.attribute:
            if entry.type == onnx.AttributeProto.GRAPH:
                yield from _walk(entry.g.node)
            for graph in entry.graphs:
                yield from _walk(graph.node)
