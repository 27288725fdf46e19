"""Custom gradients: the derivative of values whose cotangents a user's function computes, kept as a
graph in the node's operands.

    GRADIENT(v, part, placeholder, x; given)        part: the cotangent of x if that of v is the placeholder

The graph is built with the values, so it reads the memory as it was then, whatever is written
before a derivative is taken.

Example:
    >>> import numpy as np
    >>> from svod_ir import make_constant_like
    >>> from svod_ir.derivatives import make_cotangents, make_custom_gradients, make_placeholder_like
    >>> from svod_ir.evaluate import evaluate
    >>> from svod_ir.testing.nodes import buffer
    >>> x = buffer(1, 2)
    >>> cotangent = make_placeholder_like(x)
    >>> (clipped,) = make_custom_gradients([x * 9.0], [cotangent], [x], [(cotangent * 9.0).minimum(1.0)])
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

__all__ = ["make_custom_gradients", "make_placeholder_like"]


def make_custom_gradients(
    values: Sequence[UOp],
    placeholders: Sequence[UOp],
    operands: Sequence[UOp],
    parts: Sequence[UOp | None],
) -> tuple[UOp, ...]:
    """Attach custom derivatives to `values`: the cotangents `parts` of `operands`, in which each
    placeholder stands for the cotangent of a value.
    """
    known = tuple(n for n, cotangent in enumerate(parts) if cotangent is not None)
    defined = [cotangent for cotangent in parts if cotangent is not None]
    return make_gradients(values, [*defined, *placeholders, *operands], _CUSTOM, known)


def make_placeholder_like(value: UOp) -> UOp:
    """Placeholder for a cotangent that is not known yet; no rewrite folds it by its value."""
    # A sine is not folded to a constant, since targets round it differently.
    unknown = UOp(Op.SIN, value.dtype, (UOp.const(value.dtype, 1),))
    return make_traced(spread(unknown, value.shape))


def _backward(node: UOp, cotangent: UOp, wanted: Wanted) -> tuple[UOp | None, ...]:
    values, known = node.src[: node.arg.n_values], node.arg.parameters
    inputs = list_operands(node)
    custom_cotangents, placeholders = (
        inputs[: len(known)],
        inputs[len(known) : len(known) + len(values)],
    )
    pairs = zip(values, split_parts(node, cotangent), strict=True)
    # The user's graph reads every placeholder, also of a value that no output depends on.
    cotangents = [make_zeros(value) if c is None else c for value, c in pairs]
    substituted = (
        UOp.sink(*custom_cotangents)
        .substitute(dict(zip(placeholders, cotangents, strict=True)))
        .src
    )
    n_operands = len(inputs) - len(custom_cotangents) - len(placeholders)
    of_operands: list[UOp | None] = [None] * n_operands
    for n, custom_cotangent in zip(known, substituted, strict=True):
        of_operands[n] = custom_cotangent
    return (*[None] * (len(wanted) - n_operands), *of_operands)


# The name is part of the text form.
_CUSTOM: Final = GradientRule("given", _backward)
