"""Constant folding: nodes with small operands that are known on the host run there, in onnx's
reference implementation.

Models compute shapes by dozens of nodes on a few integers. Without folding, each node would be a
kernel."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final, cast

import numpy as np
import onnx

from svod_onnx._graph import DEFAULT_DOMAIN, Node
from svod_onnx._types import HOST_TYPES
from svod_onnx.errors import NodeError

__all__ = ["FOLDED_SIZE", "can_fold", "compute_on_host"]

FOLDED_SIZE: Final = 4096
"""Largest number of elements of an array that the host computes with.

For larger arrays kernels are faster.
"""

_BOUNDED: Final = frozenset(
    {
        "Abs",
        "Add",
        "And",
        "ArgMax",
        "ArgMin",
        "BitShift",
        "BitwiseAnd",
        "BitwiseNot",
        "BitwiseOr",
        "BitwiseXor",
        "Cast",
        "CastLike",
        "Ceil",
        "Clip",
        "Compress",
        "Concat",
        "Constant",
        "Cos",
        "CumSum",
        "Div",
        "Equal",
        "Erf",
        "Exp",
        "Flatten",
        "Floor",
        "Gather",
        "GatherND",
        "Greater",
        "GreaterOrEqual",
        "Identity",
        "IsInf",
        "IsNaN",
        "Less",
        "LessOrEqual",
        "Log",
        "Max",
        "Mean",
        "Min",
        "Mod",
        "Mul",
        "Neg",
        "NonZero",
        "Not",
        "Or",
        "Pow",
        "Reciprocal",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "ReduceSumSquare",
        "Relu",
        "Reshape",
        "Round",
        "ScatterElements",
        "ScatterND",
        "Shape",
        "Sigmoid",
        "Sign",
        "Sin",
        "Size",
        "Slice",
        "Softmax",
        "Split",
        "Sqrt",
        "Squeeze",
        "Sub",
        "Sum",
        "Tan",
        "Tanh",
        "TopK",
        "Transpose",
        "Trilu",
        "Unique",
        "Unsqueeze",
        "Where",
        "Xor",
    }
)
"""Operators with results no larger than the product of two operand sizes, so small operands mean
little work.
"""

_BROADCAST_ALL: Final = frozenset({"Max", "Mean", "Min", "Sum", "Where"})
_MAX_FOLDED: Final = 1 << 22
"""Largest number of elements that a folded node may produce."""


def can_fold(node: Node, operands: Sequence[np.ndarray]) -> bool:
    """Whether the reference implementation computes a node of small operands with little work and
    memory.

    A model of a hundred bytes may ask for an array of any size. Kernels compute nodes whose results
    may be large."""
    if (
        node.domain != DEFAULT_DOMAIN
        or node.message is None
        or any(array.size > FOLDED_SIZE for array in operands)
    ):
        return False
    match node.operator:
        case "Cast" | "CastLike" if any(array.dtype in HOST_TYPES.values() for array in operands):
            return False  # the reference implementation does not convert between four-bit types
        case "ConstantOfShape":
            size = _multiply(operands[0])
        case "Expand" | "Tile":
            size = _multiply(operands[-1]) * operands[0].size
        case "Range" if len(operands) == 3:
            # NaN fails the comparison below, so malformed operands are left to the operator
            # function, which reports them.
            start, limit, step = (
                float(array.item()) if array.size == 1 else np.nan for array in operands
            )
            size = abs(limit - start) / abs(step) if step else np.nan
        case _ if node.operator in _BOUNDED:
            # Broadcasting gives at most the product of the two largest operands, except for
            # operators that broadcast all operands.
            sizes = sorted(max(array.size, 1) for array in operands)
            return prod(sizes if node.operator in _BROADCAST_ALL else sizes[-2:]) <= _MAX_FOLDED
        case _:
            return False
    return bool(size <= FOLDED_SIZE)


def _multiply(sizes: np.ndarray) -> float:
    return prod(abs(float(size)) for size in sizes.flat)


def compute_on_host(node: Node, operands: Sequence[object]) -> tuple[object, ...]:
    """Results of a node, computed by onnx with numpy.

    Args:
        node: a node without subgraphs.
        operands: for each input an array, a list of arrays, or None.

    Raises:
        NodeError: if onnx cannot compute the node.
    """
    from onnx.reference import ReferenceEvaluator

    proto = _make_message(node) if node.message is None else onnx.NodeProto.FromString(node.message)
    del proto.input[:], proto.output[:]
    proto.input.extend(name and f"x{index}" for index, name in enumerate(node.inputs))
    proto.output.extend(name and f"y{index}" for index, name in enumerate(node.outputs))
    # Given a bare node, the evaluator would use the operator's newest version. A model pins the
    # version.
    opset = onnx.OperatorSetIdProto(domain=node.domain, version=node.version)
    graph = onnx.GraphProto(node=[proto])
    graph.input.extend(
        onnx.ValueInfoProto(name=name) for name in dict.fromkeys(filter(None, proto.input))
    )
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in filter(None, proto.output))
    feeds = {name: value for name, value in zip(proto.input, operands, strict=True) if name}
    try:
        evaluator: Any = ReferenceEvaluator(onnx.ModelProto(graph=graph, opset_import=[opset]))
        with np.errstate(all="ignore"):
            values = evaluator.run(None, feeds)
    except (
        Exception
    ) as error:  # a wrong attribute or operand may raise anything in the reference implementation
        problem = str(error) or ("out of memory" if isinstance(error, MemoryError) else repr(error))
        raise NodeError(node=node.title, operator=node.qualified, problem=problem) from error
    results = iter(cast("list[object]", values))
    return tuple(next(results) if name else None for name in node.outputs)


def _make_message(node: Node) -> onnx.NodeProto:
    """Message of a node by its attributes, without names of values."""
    attributes: dict[str, Any] = {
        name: onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for name, value in node.attributes.items()
        if not (isinstance(value, list) and not value)  # onnx does not make an attribute of no type
    }
    return onnx.helper.make_node(node.operator, [], [], domain=node.domain, **attributes)
