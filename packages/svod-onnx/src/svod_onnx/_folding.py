"""Nodes whose operands are all known on the host: small ones are computed there, by the reference implementation of onnx.

Shapes are computed in models by dozens of nodes on a handful of integers, each of which would be a kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np
import onnx

from svod_onnx._graph import Node

__all__ = ["FOLDED_SIZE", "compute_on_host"]

FOLDED_SIZE: Final = 4096
"""The number of elements up to which an array is computed with on the host; beyond, kernels win."""


def compute_on_host(node: Node, operands: Sequence[object]) -> tuple[object, ...]:
    """The results of a node, computed by onnx with numpy.

    Args:
        node: which has no subgraph.
        operands: arrays, lists of them, or None, for each input.
    """
    from onnx.reference import ReferenceEvaluator

    proto = onnx.NodeProto()
    assert node.proto is not None
    proto.CopyFrom(node.proto)
    del proto.input[:], proto.output[:]
    proto.input.extend(name and f"x{number}" for number, name in enumerate(node.inputs))
    proto.output.extend(name and f"y{number}" for number, name in enumerate(node.outputs))
    evaluator: Any = ReferenceEvaluator(proto, opsets={node.domain: node.version})  # pyright: ignore[reportArgumentType]
    with np.errstate(all="ignore"):
        values = evaluator.run(None, {name: value for name, value in zip(proto.input, operands, strict=True) if name})
    results = iter(cast("list[object]", values))
    return tuple(next(results) if name else None for name in node.outputs)
