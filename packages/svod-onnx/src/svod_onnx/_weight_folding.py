"""Constants of a program: the nodes that depend on weights only are computed when it is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import numpy as np

from svod_onnx._diagnosis import find_largest_result
from svod_onnx._folding import FOLDED_SIZE
from svod_onnx._graph import Node, iter_reads
from svod_onnx._registry import Value, find_operator
from svod_onnx._trace import Trace
from svod_onnx._types import HOST_TYPES, get_element_type
from svod_onnx._values import is_large, to_tensor
from svod_onnx._weight_blocks import store_weights_in_blocks
from svod_tensor import Tensor

__all__ = ["fold_constants", "list_element_types"]


def fold_constants(
    nodes: Sequence[Node],
    constants: Mapping[str, Value],
    outputs: Iterable[str],
    device: str | None,
    element_types: dict[str, int],
) -> tuple[tuple[Node, ...], dict[str, Value]]:
    """Return the nodes that depend on inputs, and the values of all other nodes.

    Results much larger than their operands are not folded: a fused kernel may never store them.
    """
    values: dict[str, Value] = {
        name: to_tensor(cast("np.ndarray", value), device) if is_large(value) else value
        for name, value in constants.items()
    }
    trace = Trace(values, device, can_read=True, element_types=element_types)
    remaining: list[Node] = []
    for node in nodes:
        if not trace.values.keys() >= iter_reads(node) or not _is_pure(node):
            remaining.append(node)
            continue
        # Nodes that replace it are computed when the program runs.
        if trace.compute(node):
            remaining.append(node)
            continue
        n_read = sum(_count_elements(trace.values[name]) for name in node.inputs if name)
        if (
            sum(_count_elements(trace.values[name]) for name in node.outputs if name)
            > 2 * n_read + FOLDED_SIZE
        ):
            for name in node.outputs:
                trace.values.pop(name, None)
            remaining.append(node)
    results = set(outputs)
    required = results.union(*map(iter_reads, remaining))
    folded = {name: value for name, value in trace.values.items() if name in required}
    lazy = [
        value for value in folded.values() if isinstance(value, Tensor) and not value.is_realized
    ]
    try:
        Tensor.realize_batch(lazy)
    except MemoryError as error:
        explanation = find_largest_result(nodes, folded, error)
        if explanation is None:
            raise
        raise explanation from error
    store_weights_in_blocks(remaining, folded, results, device)
    return tuple(remaining), folded


def list_element_types(constants: Mapping[str, Value]) -> dict[str, int]:
    """Element types of the constants that a wider dtype carries."""
    dtypes = set(HOST_TYPES.values())
    return {
        name: get_element_type(value.dtype)
        for name, value in constants.items()
        if isinstance(value, np.ndarray) and value.dtype in dtypes
    }


def _is_pure(node: Node) -> bool:
    """Whether a node has an operator function that returns equal results for equal operands."""
    operator = find_operator(node.operator, node.domain, node.version)
    return operator is not None and not operator.is_random and not node.subgraphs()


def _count_elements(value: Value) -> int:
    if isinstance(value, list):
        return sum(map(_count_elements, value))
    if isinstance(value, dict):
        return len(value)
    return 0 if value is None else cast("int", value.size)
