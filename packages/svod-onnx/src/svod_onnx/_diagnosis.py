"""Explanation of failed executions: the node that a failure of a whole program belongs to.

A plan computes many nodes at once, so its error names none. These functions run only after an
error, and may be slow."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

import numpy as np

from svod_onnx._graph import Node
from svod_onnx._registry import Value
from svod_onnx._trace import Trace
from svod_onnx.errors import NodeError
from svod_tensor import PrepareConfig, Tensor
from svod_tensor.errors import IndexTensorError, IntegerDivisionError, UserError

__all__ = ["CHECK_ERRORS", "find_failed_check", "find_largest_result"]

CHECK_ERRORS: Final = (IndexTensorError, IntegerDivisionError)
"""Errors of plans that check their operands."""


def find_failed_check(
    trace: Trace, nodes: Sequence[Node], config: PrepareConfig
) -> NodeError | None:
    """Error of the first node whose operands violate a check; None if all nodes succeed.

    Args:
        trace: inputs and constants of the program that failed. It may read tensors.
        nodes: nodes of the program, which are computed one by one.
        config: options that enable checks.
    """
    queue = deque(nodes)
    while queue:
        node = queue.popleft()
        try:
            replacement = trace.compute(node)
            for tensor in _iter_tensors(trace.values.get(name) for name in node.outputs if name):
                tensor.realize_with(config)
        except CHECK_ERRORS as error:
            return _make_error(node, error.headline)
        queue.extendleft(reversed(replacement))
    return None


def _iter_tensors(values: Iterable[object]) -> Iterable[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list):
            yield from _iter_tensors(cast("list[object]", value))


def find_largest_result(
    nodes: Sequence[Node], values: Mapping[str, Value], error: MemoryError
) -> NodeError | None:
    """Error of the node with the largest result, for an allocation that failed; None if no node has
    a result.
    """
    producers = {name: node for node in nodes for name in node.outputs if name}
    sizes = {name: _count_bytes(values.get(name)) for name in producers}
    if not any(sizes.values()):
        return None
    name = max(sizes, key=lambda name: sizes[name])
    headline = error.headline if isinstance(error, UserError) else str(error) or "out of memory"
    problem = f"{headline}; its output {name!r} is the largest value, with {sizes[name]} bytes"
    return _make_error(producers[name], problem)


def _count_bytes(value: Value) -> int:
    if isinstance(value, list):
        return sum(map(_count_bytes, value))
    if isinstance(value, Tensor):
        known = all(isinstance(size, int) for size in value.shape)
        return cast("int", value.size) * value.dtype.itemsize if known else 0
    return value.nbytes if isinstance(value, np.ndarray) else 0


def _make_error(node: Node, problem: str) -> NodeError:
    return NodeError(node=node.title, operator=node.qualified, problem=problem)
