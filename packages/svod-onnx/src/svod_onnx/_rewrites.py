"""What a graph is rewritten to before it is walked: rules on nodes, each a function that gives the nodes in place of one, or None.

    a = DequantizeLinear(p, s, zero); b = DequantizeLinear(w, t, none); y = MatMul(a, b)
    -> y = fused.MatMul(p, s, zero, w, t, none)

What the nodes in front of a rewritten one computed stays where something else reads it, and is dropped otherwise. A rule sees no dtypes and
no shapes: the operators of the domain "prepared" compute what was there before where integers do not allow more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from svod_onnx._graph import DEFAULT_DOMAIN, Constant, Node, iter_reads
from svod_tensor import Tensor

__all__ = ["FUSED", "RULES", "RewriteContext", "drop_unread", "fold_batch_normalization", "rewrite", "use_integers"]

FUSED: Final = "fused"
"""The domain of the operators that rules make."""


@dataclass(frozen=True, slots=True)
class RewriteContext:
    """What rules know of the values that a node reads.

    Attributes:
        makers: by name of a value, the node that computes it.
        constants: by name, those that the model holds; rules add to them.
        n_readers: how many nodes, and outputs of the graph, read a value.
    """

    makers: Mapping[str, Node]
    constants: dict[str, Constant]
    n_readers: Mapping[str, int]

    def find_maker(self, name: str, operator: str) -> Node | None:
        """The node that computes `name`, if it is an `operator` of the standard."""
        found = self.makers.get(name)
        return found if found is not None and found.operator == operator and found.domain == DEFAULT_DOMAIN else None

    def find_array(self, name: str) -> np.ndarray | None:
        """The numbers of a constant."""
        maker = self.find_maker(name, "Constant")
        found = self.constants.get(name) if maker is None else maker.attributes.get("value")
        return found.numpy() if isinstance(found, Tensor) else found if isinstance(found, np.ndarray) else None


Rule = Callable[[Node, RewriteContext], Node | None]


def use_integers(node: Node, known: RewriteContext) -> Node | None:
    """MatMul(DequantizeLinear(a, s, z), DequantizeLinear(b, t, u)) -> fused.MatMul(a, s, z, b, t, u), and Gemm likewise.

    When: the scales are not of blocks, and constants have 8 bits: others are dequantized once.
    """
    if node.domain != DEFAULT_DOMAIN or node.operator not in ("MatMul", "Gemm"):
        return None
    sources = [known.find_maker(name, "DequantizeLinear") for name in node.inputs[:2]]
    read: list[str] = []
    for source in sources:
        if source is None or source.attributes.get("block_size") or source.attributes.get("output_dtype"):
            return None
        constant = known.constants.get(source.inputs[0])
        if constant is not None and str(constant.dtype) not in ("int8", "uint8"):
            return None
        read += [*source.inputs, ""][:3]
    axes = {
        f"{label}_axis": source.attributes.get("axis", 1)
        for label, source in zip("ab", sources, strict=True)
        if source is not None
    }
    inputs = (*read, *node.inputs[2:])
    return replace(node, domain=FUSED, version=1, inputs=inputs, attributes={**node.attributes, **axes}, message=None)


def fold_batch_normalization(node: Node, known: RewriteContext) -> Node | None:
    """BatchNormalization(Conv(x, w, b), scale, bias, mean, variance) -> Conv(x, w * factor, (b - mean) * factor + bias)

    When: all but x are constants of float32, and nothing else reads the convolution.
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
    source = known.find_maker(node.inputs[0], "Conv")
    if source is None or known.n_readers[node.inputs[0]] != 1:
        return None
    arrays = [known.find_array(name) for name in (*source.inputs[1:3], *node.inputs[1:])]
    if any(array is None or array.dtype != np.float32 for array in arrays):
        return None
    weight, *biases, scale, shift, mean, variance = (np.asarray(array, np.float64) for array in arrays)
    factor = scale / np.sqrt(variance + float(node.attributes.get("epsilon", 1e-5)))  # pyright: ignore[reportArgumentType]
    bias = ((biases[0] if biases else 0) - mean) * factor + shift
    names = tuple(f"{node.outputs[0]}#{label}" for label in ("weight", "bias"))
    made = weight * factor.reshape(-1, *(1,) * (weight.ndim - 1)), bias
    known.constants.update((name, array.astype(np.float32)) for name, array in zip(names, made, strict=True))
    return replace(source, inputs=(source.inputs[0], *names), outputs=node.outputs[:1], message=None)


RULES: Final[tuple[Rule, ...]] = (fold_batch_normalization, use_integers)


def rewrite(
    nodes: Sequence[Node], constants: Mapping[str, Constant], outputs: Iterable[str], rules: Sequence[Rule] = RULES
) -> tuple[tuple[Node, ...], dict[str, Constant]]:
    """The nodes that outputs depend on, after the rules, and the constants, with those that rules made.

    Each comes after those that it reads, as before.
    """
    wanted = tuple(outputs)
    known_constants = dict(constants)
    kept = drop_unread(nodes, wanted)
    for rule in rules:
        known = RewriteContext(
            {name: node for node in kept for name in node.outputs}, known_constants, _count_readers(kept, wanted)
        )
        kept = drop_unread([rule(node, known) or node for node in kept], wanted)
    return kept, known_constants


def drop_unread(nodes: Sequence[Node], outputs: Iterable[str]) -> tuple[Node, ...]:
    """The nodes that the outputs depend on."""
    wanted = set(outputs)
    kept: list[Node] = []
    for node in reversed(nodes):
        if not wanted.isdisjoint(node.outputs):
            kept.append(node)
            wanted |= iter_reads(node)
    return tuple(reversed(kept))


def _count_readers(nodes: Iterable[Node], outputs: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in [*outputs, *(name for node in nodes for name in (*node.inputs, *(iter_reads(node) - {*node.inputs})))]:
        counts[name] = counts.get(name, 0) + 1
    return counts
