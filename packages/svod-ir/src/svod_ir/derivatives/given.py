"""The derivative of values whose cotangents a user's function makes, which stand beside the
operands as a graph.

    GRADIENT(v, part, placeholder, x; given)        part: the cotangent of x where that of v is the placeholder

So that graph reads what the values were made of when they were made, whatever is written before a
derivative is taken.

Example:
    >>> import numpy as np
    >>> from svod_ir import make_constant_like
    >>> from svod_ir.derivatives import make_cotangents, make_given_gradients, make_placeholder_like
    >>> from svod_ir.evaluate import evaluate
    >>> from svod_ir.testing.nodes import buffer
    >>> x = buffer(1, 2)
    >>> cotangent = make_placeholder_like(x)
    >>> (clipped,) = make_given_gradients([x * 9.0], [cotangent], [x], [(cotangent * 9.0).minimum(1.0)])
    >>> (gradient,) = make_cotangents([clipped], [make_constant_like(x, 1)], [x])
    >>> evaluate(gradient).tolist()
    [1.0, 1.0]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from svod_ir.args import GradientRule
from svod_ir.derivatives.joint import list_operands, make_gradients, split_parts
from svod_ir.derivatives.marks import make_traced
from svod_ir.derivatives.rule import Wanted, make_zeros, spread
from svod_ir.ops import Op
from svod_ir.uop import UOp

__all__ = ["make_given_gradients", "make_placeholder_like"]


def make_given_gradients(
    values: Sequence[UOp],
    placeholders: Sequence[UOp],
    operands: Sequence[UOp],
    parts: Sequence[UOp | None],
) -> tuple[UOp, ...]:
    """`values`, whose cotangents, put in the place of placeholders, make `parts` the cotangents of
    `operands`.
    """
    known = tuple(n for n, part in enumerate(parts) if part is not None)
    given = [part for part in parts if part is not None]
    return make_gradients(values, [*given, *placeholders, *operands], _GIVEN, known)


def make_placeholder_like(value: UOp) -> UOp:
    """What stands for a cotangent that is not known yet: nothing is folded by what it is."""
    unknown = UOp(Op.SIN, value.dtype, (UOp.const(value.dtype, 1),))
    return make_traced(spread(unknown, value.shape))


def _backward(node: UOp, cotangent: UOp, wanted: Wanted) -> tuple[UOp | None, ...]:
    values, known = node.src[: node.arg.n_values], node.arg.parameters
    others = list_operands(node)
    parts, placeholders = others[: len(known)], others[len(known) : len(known) + len(values)]
    pairs = zip(values, split_parts(node, cotangent), strict=True)
    cotangents = [make_zeros(value) if c is None else c for value, c in pairs]
    found = UOp.sink(*parts).substitute(dict(zip(placeholders, cotangents, strict=True))).src
    n_operands = len(others) - len(parts) - len(placeholders)
    of_operands: list[UOp | None] = [None] * n_operands
    for n, part in zip(known, found, strict=True):
        of_operands[n] = part
    return (*[None] * (len(wanted) - n_operands), *of_operands)


_GIVEN: Final = GradientRule("given", _backward)
