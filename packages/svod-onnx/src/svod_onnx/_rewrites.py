"""Rewrites of a graph before it is traced. A rule is a function from a node to its replacement, or
None.

    a = DequantizeLinear(p, s, zero); b = DequantizeLinear(w, t, none); y = MatMul(a, b)
    -> y = fused.MatMul(p, s, zero, w, t, none)

Producers of a rewritten node's operands stay if other nodes read them, and are dropped otherwise. A
rule sees no dtypes or shapes. Operators of the domain "fused" fall back to the original computation
if the operands do not allow integers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from svod_onnx._graph import DEFAULT_DOMAIN, Constant, Node, iter_reads
from svod_tensor import Tensor

__all__ = [
    "FUSED",
    "RULES",
    "RewriteContext",
    "drop_unread",
    "fold_batch_normalization",
    "rewrite",
    "use_integers",
]

FUSED: Final = "fused"
"""Domain of the operators that rules create."""


@dataclass(frozen=True, slots=True)
class RewriteContext:
    """Facts about the values that a node reads.

    Attributes:
        producers: node that computes each value, by the value's name.
        constants: initializers by name; rules add to them.
        n_readers: number of nodes and graph outputs that read each value.
    """

    producers: Mapping[str, Node]
    constants: dict[str, Constant]
    n_readers: Mapping[str, int]

    def find_producer(self, name: str, operator: str) -> Node | None:
        """Node that computes `name`, if it is the standard operator `operator`."""
        node = self.producers.get(name)
        return (
            node
            if node is not None and node.operator == operator and node.domain == DEFAULT_DOMAIN
            else None
        )

    def find_array(self, name: str) -> np.ndarray | None:
        """Elements of a constant; None if the value is not constant."""
        producer = self.find_producer(name, "Constant")
        value = self.constants.get(name) if producer is None else producer.attributes.get("value")
        return (
            value.numpy()
            if isinstance(value, Tensor)
            else value
            if isinstance(value, np.ndarray)
            else None
        )


Rule = Callable[[Node, RewriteContext], Node | None]


def use_integers(node: Node, context: RewriteContext) -> Node | None:
    """MatMul(DequantizeLinear(a, s, z), DequantizeLinear(b, t, u)) -> fused.MatMul(a, s, z, b, t,
    u), and likewise for Gemm.

    When: the scales are not blocked, and constant operands have 8 bits. Other constants are
    dequantized once instead."""
    if node.domain != DEFAULT_DOMAIN or node.operator not in ("MatMul", "Gemm"):
        return None
    sources = [context.find_producer(name, "DequantizeLinear") for name in node.inputs[:2]]
    read: list[str] = []
    for source in sources:
        if (
            source is None
            or source.attributes.get("block_size")
            or source.attributes.get("output_dtype")
        ):
            return None
        constant = context.constants.get(source.inputs[0])
        if constant is not None and str(constant.dtype) not in ("int8", "uint8"):
            return None
        # The zero point may be missing; "" keeps the operands in position.
        read += [*source.inputs, ""][:3]
    # The scales keep their axes, which the fused operator needs to place them.
    axes = {
        f"{label}_axis": source.attributes.get("axis", 1)
        for label, source in zip("ab", sources, strict=True)
        if source is not None
    }
    inputs = (*read, *node.inputs[2:])
    return replace(
        node,
        domain=FUSED,
        version=1,
        inputs=inputs,
        attributes={**node.attributes, **axes},
        message=None,
    )


def fold_batch_normalization(node: Node, context: RewriteContext) -> Node | None:
    """BatchNormalization(Conv(x, w, b), scale, bias, mean, variance) -> Conv(x, w * factor, (b -
    mean) * factor + bias)

    When: all operands except x are float32 constants, and no other node reads the convolution.
    """
    if (
        node.operator != "BatchNormalization"
        or node.domain != DEFAULT_DOMAIN
        or node.version < 7
        or any(node.outputs[1:])
    ):
        return None
    if node.attributes.get("training_mode") or not node.attributes.get("spatial", 1):
        return None
    source = context.find_producer(node.inputs[0], "Conv")
    # Other readers need the convolution without the normalization.
    if source is None or context.n_readers[node.inputs[0]] != 1:
        return None
    arrays = [context.find_array(name) for name in (*source.inputs[1:3], *node.inputs[1:])]
    if any(array is None or array.dtype != np.float32 for array in arrays):
        return None
    # In float64, so that folding does not add a rounding error to each weight.
    weight, *biases, scale, shift, mean, variance = (
        np.asarray(array, np.float64) for array in arrays
    )
    factor = scale / np.sqrt(variance + float(node.attributes.get("epsilon", 1e-5)))  # pyright: ignore[reportArgumentType]
    bias = ((biases[0] if biases else 0) - mean) * factor + shift
    names = tuple(f"{node.outputs[0]}#{label}" for label in ("weight", "bias"))
    folded = weight * factor.reshape(-1, *(1,) * (weight.ndim - 1)), bias
    context.constants.update(
        (name, array.astype(np.float32)) for name, array in zip(names, folded, strict=True)
    )
    return replace(
        source, inputs=(source.inputs[0], *names), outputs=node.outputs[:1], message=None
    )


RULES: Final[tuple[Rule, ...]] = (fold_batch_normalization, use_integers)
"""Rules in the order of their application."""


def rewrite(
    nodes: Sequence[Node],
    constants: Mapping[str, Constant],
    outputs: Iterable[str],
    rules: Sequence[Rule] = RULES,
) -> tuple[tuple[Node, ...], dict[str, Constant]]:
    """Apply the rules, and return the nodes that the outputs depend on and the constants, including
    new ones.

    The nodes stay in topological order.
    """
    required = tuple(outputs)
    all_constants = dict(constants)
    live = drop_unread(nodes, required)
    for rule in rules:
        context = RewriteContext(
            {name: node for node in live for name in node.outputs},
            all_constants,
            _count_readers(live, required),
        )
        # Dropped after each rule, so that counts of readers are exact for the next one.
        live = drop_unread([rule(node, context) or node for node in live], required)
    return live, all_constants


def drop_unread(nodes: Sequence[Node], outputs: Iterable[str]) -> tuple[Node, ...]:
    """Nodes that the outputs depend on."""
    required = set(outputs)
    nodes_: list[Node] = []
    for node in reversed(nodes):
        if not required.isdisjoint(node.outputs):
            nodes_.append(node)
            required |= iter_reads(node)
    return tuple(reversed(nodes_))


def _count_readers(nodes: Iterable[Node], outputs: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in [
        *outputs,
        *(name for node in nodes for name in (*node.inputs, *(iter_reads(node) - {*node.inputs}))),
    ]:
        counts[name] = counts.get(name, 0) + 1
    return counts
