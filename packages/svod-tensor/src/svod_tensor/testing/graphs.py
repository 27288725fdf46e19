"""Random graphs as tensors.

Example:
    >>> from svod_dtype import float32
    >>> from svod_ir import BufferArg, Op
    >>> from svod_tensor.testing import place_graph
    >>> x = UOp(Op.BUFFER, float32, (), BufferArg(1, 3, "CPU"))
    >>> place_graph(x * 2.0, {x: np.array([1, 2, 3], "float32")}).tolist()
    [2.0, 4.0, 6.0]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from svod_device import Buffer, get_allocator
from svod_ir import UOp
from svod_tensor.engine import memory_nodes
from svod_tensor.tensor import Tensor

__all__ = ["place_graph"]


def place_graph(graph: UOp, inputs: Mapping[UOp, Any], device: str = "CPU") -> Tensor:
    """A tensor with this graph, on new buffers of `device` that hold the inputs: an array for each BUFFER."""
    replacements: dict[UOp, UOp] = {}
    for node, array in inputs.items():
        buffer = Buffer(get_allocator(device), node.dtype, node.arg.size)
        buffer.copyin(np.ascontiguousarray(array).view(np.uint8).data)
        replacements[node] = memory_nodes.make_memory(node.dtype, node.arg.size, device, buffer)
    return Tensor.from_uop(graph.substitute(replacements))
