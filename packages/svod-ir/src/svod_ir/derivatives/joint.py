"""GRADIENTs of several values, whose rule is asked once, with the cotangents of all of them.

    joint = GRADIENT(v0, v1, x; rule, (), 2)        of the operands x, with all values in front
    y0 = GRADIENT(v0, joint; part, (0,))              one for each value; its cotangent is part of that of `joint`
    y1 = GRADIENT(v1, joint; part, (1,))

The cotangent, and the tangent, of `joint` is a NOOP of those of the values, which no other rule
sees.

Example:
    >>> import numpy as np
    >>> from svod_ir import Op, make_alu, make_constant_like
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
    """`values`, whose derivatives by `operands` the rule gives.

    Its backward reads its node by this module's functions.
    """
    first, *others = values
    return list_values(make_gradient(first, (*others, *operands), rule, parameters, len(values)))


def list_values(joint: UOp) -> tuple[UOp, ...]:
    """The values of the GRADIENT that a rule is asked about, with their derivatives: a rule may
    compute with them.
    """
    if joint.arg.n_values == 1:
        return (joint,)
    part = _PART_OF_NODES if joint.arg.rule.differentiates_value else _PART
    values = joint.src[: joint.arg.n_values]
    return tuple(
        make_gradient(value, (joint,), part, (number,)) for number, value in enumerate(values)
    )


def list_operands(node: UOp) -> tuple[UOp, ...]:
    """The operands behind the values."""
    return node.src[node.arg.n_values :]


def is_part(node: UOp) -> bool:
    """Whether a GRADIENT is one of several values, whose tangents are those of another node."""
    return node.arg.rule is _PART


def join_parts(parts: Sequence[UOp | None]) -> UOp:
    """The cotangent or tangent of several values."""
    return UOp(Op.NOOP, void, tuple(_NOTHING if part is None else part for part in parts))


def split_parts(node: UOp, joined: UOp) -> list[UOp | None]:
    """The cotangent or tangent of each value of a node; None is zero."""
    if node.arg.n_values == 1:
        return [joined]
    return [None if part is _NOTHING else part for part in joined.src]


def add_parts(left: UOp, right: UOp) -> UOp:
    """The sum of two cotangents, which may be those of several values."""
    if left.dtype is not void:
        return make_alu(Op.ADD, left, right)
    return join_parts([_add(a, b) for a, b in zip(left.src, right.src, strict=True)])


def _add(left: UOp, right: UOp) -> UOp | None:
    if left is _NOTHING or right is _NOTHING:
        return left if right is _NOTHING else right
    return make_alu(Op.ADD, left, right)


_NOTHING: Final = UOp(Op.NOOP, void, (), None)


def _backward_part(node: UOp, cotangent: UOp, _: Wanted) -> tuple[UOp]:
    (number,) = node.arg.parameters
    parts: list[Any] = [None] * node.src[1].arg.n_values
    parts[number] = cotangent
    return (join_parts(parts),)


_PART: Final = GradientRule("part", _backward_part)
_PART_OF_NODES: Final = GradientRule("part_of_nodes", _backward_part, differentiates_value=True)
