"""Random graphs as tensors.

Example:
    >>> import numpy as np
    >>> from svod_dtype import float32
    >>> from svod_ir import BufferArg, Op, UOp
    >>> from svod_testing import place_graph
    >>> x = UOp(Op.BUFFER, float32, (), BufferArg(1, 3, "CPU"))
    >>> place_graph(x * 2.0, {x: np.array([1, 2, 3], "float32")}).tolist()
    [2.0, 4.0, 6.0]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svod_ir import UOp
from svod_tensor import Tensor

__all__ = ["place_graph"]


def place_graph(graph: UOp, inputs: Mapping[UOp, Any], device: str = "CPU") -> Tensor:
    """Return a tensor with this graph, whose inputs are new buffers of a device.

    Args:
        graph: graph of the tensor.
        inputs: array of each BUFFER of the graph.
        device: device of the buffers.
    """
    memory = {
        n: Tensor(array, dtype=n.dtype, device=device).realize().uop for n, array in inputs.items()
    }
    return Tensor.from_uop(graph.substitute(memory))
