"""GRADIENTs of several values, whose rule is called once, with the cotangents of all of them.

    joint = GRADIENT(v0, v1, x; rule, (), 2)        of the operands x, after all values
    y0 = GRADIENT(v0, joint; part, (0,))            one per value; its cotangent is one element of that of `joint`
    y1 = GRADIENT(v1, joint; part, (1,))

The cotangent and the tangent of `joint` are NOOPs of the values' cotangents or tangents; no other
rule sees them.

Example:
    >>> import numpy as np
    >>> from svod_ir import Op, make_alu, make_constant_like
    >>> from svod_ir.args import GradientRule
    >>> from svod_ir.derivatives import list_operands, list_values, make_cotangents, make_gradients, split_parts
    >>> from svod_ir.evaluate import evaluate
    >>> from svod_ir.testing.nodes import buffer
    >>> def backward(node, cotangent, wanted):
    ...     sine, cosine = list_values(node)
    ...     of_sine, of_cosine = split_parts(node, cotangent)
    ...     assert list_operands(node) == (x,) and of_cosine is None
    ...     return None, of_sine * cosine
    >>> x = buffer(1, 2)
    >>> values = make_alu(Op.SIN, x), make_alu(Op.COS, x)
    >>> sine, cosine = make_gradients(values, (x,), GradientRule("turn", backward))
    >>> (gradient,) = make_cotangents([sine], [make_constant_like(x, 1)], [x])
    >>> evaluate(gradient, {x: np.zeros(2, np.float32)}).tolist()
    [1.0, 1.0]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from svod_dtype import void
from svod_ir.args import GradientRule
from svod_ir.build import make_alu
from svod_ir.derivatives.marks import make_gradient
from svod_ir.derivatives.rule import Wanted
from svod_ir.ops import Op
from svod_ir.uop import UOp

__all__ = [
    "add_parts",
    "is_part",
    "join_parts",
    "list_operands",
    "list_values",
    "make_gradients",
    "split_parts",
]


def make_gradients(
    values: Sequence[UOp],
    operands: Sequence[UOp],
    rule: GradientRule,
    parameters: tuple[object, ...] = (),
) -> tuple[UOp, ...]:
    """Attach one derivative rule to several values: it defines their derivatives by `operands`.

    Args:
        values: the results, computed as usual.
        operands: tensors by which the values are differentiated.
        rule: rule of the derivatives. Its `backward` takes the joint GRADIENT, which `list_values`,
            `list_operands` and `split_parts` read.
        parameters: constants that the rule gets.

    Returns:
        the values with their derivatives.
    """
    first, *remaining = values
    return list_values(make_gradient(first, (*remaining, *operands), rule, parameters, len(values)))


def list_values(joint: UOp) -> tuple[UOp, ...]:
    """The values of a rule's GRADIENT, with derivatives, so that a rule may compute with them."""
    if joint.arg.n_values == 1:
        return (joint,)
    # Two rules, since forward mode asks the rule of each value whether to use the nodes below it.
    rule = _ELEMENT_OF_NODES if joint.arg.rule.differentiates_value else _ELEMENT
    values = joint.src[: joint.arg.n_values]
    return tuple(
        make_gradient(value, (joint,), rule, (index,)) for index, value in enumerate(values)
    )


def list_operands(node: UOp) -> tuple[UOp, ...]:
    """The operands of a rule's GRADIENT, which follow its values."""
    return node.src[node.arg.n_values :]


def is_part(node: UOp) -> bool:
    """True if a GRADIENT is one of several values of a joint GRADIENT, which has its tangent."""
    return node.arg.rule is _ELEMENT


def join_parts(parts: Sequence[UOp | None]) -> UOp:
    """Join the cotangents or tangents of several values into one node."""
    # A node, because cotangents are stored and added as nodes; `None` cannot be an operand.
    return UOp(Op.NOOP, void, tuple(_ZERO if part is None else part for part in parts))


def split_parts(node: UOp, joined: UOp) -> list[UOp | None]:
    """Split a joined cotangent or tangent into one for each value of a node; None means zero."""
    if node.arg.n_values == 1:
        return [joined]
    return [None if part is _ZERO else part for part in joined.src]


def add_parts(left: UOp, right: UOp) -> UOp:
    """The sum of two cotangents, which may be joined ones."""
    # Only a joined cotangent has dtype void.
    if left.dtype is not void:
        return make_alu(Op.ADD, left, right)
    return join_parts([_add(a, b) for a, b in zip(left.src, right.src, strict=True)])


def _add(left: UOp, right: UOp) -> UOp | None:
    if left is _ZERO or right is _ZERO:
        return left if right is _ZERO else right
    return make_alu(Op.ADD, left, right)


# Compared by identity: nodes are interned, so there is one NOOP without operands.
_ZERO: Final = UOp(Op.NOOP, void, (), None)


def _backward_part(node: UOp, cotangent: UOp, _: Wanted) -> tuple[UOp]:
    (index,) = node.arg.parameters
    cotangents: list[Any] = [None] * node.src[1].arg.n_values
    cotangents[index] = cotangent
    return (join_parts(cotangents),)


_ELEMENT: Final = GradientRule("part", _backward_part)
_ELEMENT_OF_NODES: Final = GradientRule("part_of_nodes", _backward_part, differentiates_value=True)
